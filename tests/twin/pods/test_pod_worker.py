"""The life of a pod as processes, as the API server sees it. No process is started."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from tests.waiting import until
from twin.cluster.kube_api import KubeApi, Object
from twin.cluster.kube_errors import ApiError, Unreachable
from twin.cluster.pod_addresses import Addresses
from twin.host import processes
from twin.host.home import TwinHome
from twin.identity.exchange import IdentityExchange
from twin.pods import pod_worker
from twin.pods.events import Events
from twin.pods.pod_process import ContainerProcess
from twin.pods.pod_status import terminated
from twin.pods.pod_worker import PodContext, PodWorker
from twin.pods.program import LocalCommand, PodProgram, PodPrograms

SECONDS = 60.0
PATH = "/api/v1/namespaces/triton/pods/triton-1"


class Api:
    """An API server that keeps one pod. Each method in `failures` raises its exceptions first."""

    def __init__(self) -> None:
        self.pod = pod()
        self.statuses: list[Object] = []
        self.deleted = False
        self.failures: dict[str, list[Exception]] = {"patch": [], "delete": []}

    async def patch(self, path: str, body: Object, kind: str = "") -> Object:
        assert path == f"{PATH}/status"
        self._fail("patch")
        self.statuses.append(body["status"])
        self.pod = {**self.pod, "status": body["status"]}
        return self.pod

    async def delete(self, path: str, body: Object) -> None:
        assert (path, body["preconditions"], body["gracePeriodSeconds"]) == (PATH, {"uid": "u"}, 0)
        self._fail("delete")
        self.deleted = True

    def _fail(self, method: str) -> None:
        if self.failures[method]:
            raise self.failures[method].pop(0)


class Given:
    """The addresses of a twin, none of them used by this pod."""

    def __init__(self) -> None:
        self.released: list[str] = []

    def release(self, uid: str) -> None:
        self.released.append(uid)


def pod(ready: bool | None = None, **metadata: Any) -> Object:
    conditions = [] if ready is None else [{"type": "Ready", "status": str(ready)}]
    return {
        "metadata": {"uid": "u", "name": "triton-1", "namespace": "triton", **metadata},
        "spec": {"containers": [{"name": "beside", "image": "registry.example/beside:1"}]},
        "status": {"phase": "Running", "conditions": conditions},
    }


def ready(status: Object) -> str:
    (said,) = [condition["status"] for condition in status["conditions"] if condition["type"] == "Ready"]
    return str(said)


def live(tmp_path: Path, api: Api, act: Callable[[PodWorker], Awaitable[None]]) -> Given:
    """Run a pod from its first status until `act` has ended and the pod is deleted; return its twin's addresses."""
    home, given = TwinHome(tmp_path), Given()
    home.pods.mkdir()
    triton = PodProgram("triton", "tritonserver", lambda launch: LocalCommand((), {}))
    modelctl = PodProgram("modelctl", "modelctl", lambda launch: LocalCommand((), {}), sidecar=True)
    nobody, unheard = cast(IdentityExchange, None), cast(Events, None)
    programs = PodPrograms([triton, modelctl])
    shared = PodContext(home, cast(KubeApi, api), nobody, cast(Addresses, given), unheard, programs, 53, 80, "")

    async def life() -> None:
        worker = PodWorker(api.pod, shared)
        running = asyncio.create_task(worker.run())
        await until(lambda: api.statuses, "the first status")
        await act(worker)
        await asyncio.wait_for(running, SECONDS)

    asyncio.run(life())
    return given


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_worker, "_RETRY_SECONDS", 0.001)


async def end(worker: PodWorker) -> None:
    worker.update(pod(deletionTimestamp="2026-01-01T00:00:00Z", deletionGracePeriodSeconds=0))


def test_a_deleted_pod_leaves_the_api_and_gives_its_address_back(tmp_path: Path) -> None:
    api = Api()
    assert live(tmp_path, api, end).released == ["u"]
    assert api.deleted


@pytest.mark.parametrize("method", ["patch", "delete"])
def test_an_api_server_that_does_not_answer_in_time_keeps_no_ending_pod(tmp_path: Path, method: str) -> None:
    """Its last change was its deletion, so the runner would never be called again."""
    api = Api()

    async def act(worker: PodWorker) -> None:
        api.failures[method] = [Unreachable("busy"), Unreachable("busy")]
        await end(worker)

    assert live(tmp_path, api, act).released == ["u"]
    assert api.deleted


def test_a_final_status_that_is_refused_does_not_keep_it_either(tmp_path: Path) -> None:
    api = Api()

    async def act(worker: PodWorker) -> None:
        api.failures["patch"] = [ApiError(409, "Conflict", "another uid")]
        await end(worker)

    live(tmp_path, api, act)
    assert api.deleted


def test_a_pod_that_is_gone_already_is_not_deleted_again(tmp_path: Path) -> None:
    api = Api()

    async def act(worker: PodWorker) -> None:
        worker.remove()

    assert live(tmp_path, api, act).released == ["u"]
    assert not api.deleted


def test_a_container_that_the_runner_failed_to_start_is_taken_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = [processes.DeadlinePassed("pod-u-triton: the processes [1] do not end")]
    runs = []

    async def run(process: ContainerProcess) -> None:
        runs.append(process.name)
        if faults:
            raise faults.pop()

    monkeypatch.setattr(ContainerProcess, "run", run)
    monkeypatch.setattr(pod_worker, "backoff", lambda failures: 0.001)
    api = Api()
    api.pod["spec"]["containers"] = [{"name": "triton", "image": "nvcr.io/nvidia/tritonserver:1"}]

    async def act(worker: PodWorker) -> None:
        await until(lambda: len(runs) == 2, "the second try")
        await end(worker)

    live(tmp_path, api, act)
    assert runs == ["pod-u-triton"] * 2


def test_a_sidecar_runs_before_the_server_and_ends_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    ended: dict[str, asyncio.Event] = {}

    async def run(process: ContainerProcess) -> None:
        seen.append(f"{process.name.removeprefix('pod-u-')} runs")
        process.status.started = True
        if process.name.endswith("fetch"):
            process.status.state = terminated(0, "Completed", "2026-01-01T00:00:00Z")
            return
        await ended.setdefault(process.name, asyncio.Event()).wait()

    async def stop(process: ContainerProcess, grace: float) -> None:
        seen.append(f"{process.name.removeprefix('pod-u-')} ends")
        if process.name in ended:
            ended[process.name].set()

    monkeypatch.setattr(ContainerProcess, "run", run)
    monkeypatch.setattr(ContainerProcess, "stop", stop)
    api = Api()
    image = "nvcr.io/nvidia/tritonserver:1"
    api.pod["spec"] = {
        "initContainers": [
            {"name": "fetch", "image": "mirror/modelctl:1"},
            {"name": "follow", "image": "mirror/modelctl:1", "restartPolicy": "Always"},
        ],
        "containers": [{"name": "triton", "image": image}],
    }

    async def act(worker: PodWorker) -> None:
        await until(lambda: "triton runs" in seen, "the server")
        await end(worker)

    live(tmp_path, api, act)
    assert seen[:3] == ["fetch runs", "follow runs", "triton runs"]
    assert seen[-1] == "follow ends"
    assert seen.index("triton ends") < seen.index("follow ends")


def test_a_ready_pod_that_the_node_controller_calls_unready_says_that_it_is_ready(tmp_path: Path) -> None:
    """The controller does so once for every pod of a node that was silent for a while, and leaves the rest to the node."""
    api = Api()

    async def act(worker: PodWorker) -> None:
        assert [ready(status) for status in api.statuses] == ["True"]
        worker.update(pod(ready=True))
        worker.update(pod(ready=False))
        await until(lambda: len(api.statuses) == 2, "the status to be said again")
        assert ready(api.statuses[1]) == "True"
        await end(worker)

    live(tmp_path, api, act)
