"""Kills, stops, removes and breaks parts of a twin: accepted requests are answered, and it recovers in time."""

from __future__ import annotations

import itertools
import json
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import typer

from benchmarks import results_page
from modelctl.loadgen import Account
from spec.names import GATEWAY_NAMESPACE, TRITON_NAMESPACE
from tests.paths import ROOT
from tests.system.e2e import soak
from tests.system.e2e.conftest import Twin
from tests.system.e2e.faulty import STACK, WORKER_NAMESPACE, Site, until
from tests.system.e2e.steady_load import RATE, Load
from twin.cluster.kube_api import Object, object_path
from twin.host import processes
from twin.host.home import TwinHome

# KEDA, Envoy Gateway and Prometheus may have to be built first.
pytestmark = pytest.mark.timeout(5400)
AGENT_STARTS_IT = 60.0
PODS_MOVE = 300.0
NOBODYS_LABEL = "tests/nobody"
NEEDS_UP = 600.0
MESSAGES = 100
"""Enough messages to occupy several workers for seconds."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return a twin that each test must leave healthy."""
    home = TwinHome(tmp_path_factory.mktemp("faults") / "home")
    try:
        yield Site.bring_up(home)
    finally:
        Twin(home).down()


@contextmanager
def under_load(site: Site, fault: str) -> Iterator[Load]:
    """Send requests during the block; all of them must be answered."""
    load = site.load()
    load.start()
    begun = time.monotonic()
    try:
        yield load
        before = load.answered
        until(lambda: load.answered >= before + RATE, "a second of load after it", 30)
    finally:
        account = load.end()
    # `pytest -rP` shows these figures of docs/faults.md.
    print(f"{fault}: {time.monotonic() - begun:.0f} s under load, {account}, {load.retried} of them tried again")
    assert account == Account(sent=account.sent, answered=account.sent, failed=0, shed=0), load.errors


def left(seconds: float, begun: float, fault: str) -> float:
    """Return the remaining part of `seconds` since `begun`."""
    rest = begun + seconds - time.monotonic()
    assert rest > 0, f"{fault}: its {seconds:g} s have passed before anybody could ask whether all is well"
    return rest


def well_again(site: Site, fault: str, seconds: float, begun: float) -> None:
    """Wait until the twin is healthy, at most this number of seconds since `begun`."""
    site.wait_until_well(left(seconds, begun, fault))
    print(f"{fault}: well again after {time.monotonic() - begun:.0f} s")


OF_PODS = {
    "Triton": (TRITON_NAMESPACE, "triton"),
    "Envoy": (GATEWAY_NAMESPACE, "envoy"),
    "the worker": (WORKER_NAMESPACE, "worker"),
    "Prometheus": ("monitoring", "prometheus"),
}


@pytest.mark.parametrize("fault", OF_PODS)
def test_a_killed_process_of_a_pod_costs_no_request_and_is_started_again(site: Site, fault: str) -> None:
    with under_load(site, fault):
        begun = time.monotonic()
        killed = site.kill(site.process_of(*OF_PODS[fault]))
        until(lambda: site.started_again(killed), f"{fault} to be started again", AGENT_STARTS_IT)
        well_again(site, fault, AGENT_STARTS_IT, begun)


STARTED_WITH = {"keda-operator": ("keda-adapter",)}
"""The processes that the agent restarts after another one (twin/releases/programs.py)."""


@pytest.mark.parametrize("name", ["keda-operator", "keda-adapter", "prometheus-operator"])
def test_a_killed_controller_costs_no_request_and_no_pod_and_is_started_again(site: Site, name: str) -> None:
    with under_load(site, name):
        before = {pod["metadata"]["uid"] for pod in site.pods(TRITON_NAMESPACE)}
        begun = time.monotonic()
        ended = [site.record(one) for one in (name, *STARTED_WITH.get(name, ()))]
        site.kill(name)
        until(lambda: all(map(site.started_again, ended)), f"{name} to be started again", AGENT_STARTS_IT)
        well_again(site, name, AGENT_STARTS_IT, begun)
        assert before <= {pod["metadata"]["uid"] for pod in site.pods(TRITON_NAMESPACE)}


def test_a_killed_envoy_gateway_costs_no_request_and_tells_the_envoys_of_the_next_pod(site: Site) -> None:
    with under_load(site, "envoy-gateway"):
        begun = time.monotonic()
        killed = site.kill("envoy-gateway")
        gone = site.pods(TRITON_NAMESPACE)[0]["metadata"]
        site.kube.delete(object_path("v1", "pods", TRITON_NAMESPACE, gone["name"]))
        until(lambda: site.started_again(killed), "Envoy Gateway to be started again", AGENT_STARTS_IT)
        well_again(site, "envoy-gateway", PODS_MOVE, begun)
        until(lambda: site.asked(newest(site)) > 0, "the new pod to be asked", AGENT_STARTS_IT)
    assert gone["uid"] not in {pod["metadata"]["uid"] for pod in site.pods(TRITON_NAMESPACE)}


def test_metrics_that_are_gone_cost_no_request_and_no_pod(site: Site) -> None:
    """Prometheus answers, but has no metrics of Triton's pods, because none of them is a target any more."""
    fault = "metrics of Triton, gone"
    before = {pod["metadata"]["uid"] for pod in site.pods(TRITON_NAMESPACE)}
    monitor = object_path("monitoring.coreos.com/v1", "podmonitors", "monitoring", "triton")
    with under_load(site, fault):
        select(site, monitor, {NOBODYS_LABEL: "true"})
        try:
            until(lambda: falls_back(site), "KEDA to fall back", PODS_MOVE)
            assert before <= {pod["metadata"]["uid"] for pod in site.pods(TRITON_NAMESPACE)}
        finally:
            select(site, monitor, {NOBODYS_LABEL: None})
        begun = time.monotonic()
        well_again(site, fault, PODS_MOVE, begun)
    assert before <= {pod["metadata"]["uid"] for pod in site.pods(TRITON_NAMESPACE)}


def select(site: Site, monitor: str, labels: dict[str, str | None]) -> None:
    site.kube.patch(monitor, {"spec": {"selector": {"matchLabels": labels}}}, kind="merge")


def falls_back(site: Site) -> bool:
    scaled = site.kube.get(object_path("keda.sh/v1alpha1", "scaledobjects", TRITON_NAMESPACE, "triton"))
    return ("Fallback", "True") in {(one["type"], one["status"]) for one in scaled["status"]["conditions"]}


@pytest.mark.parametrize("name", ["kube-apiserver", "etcd"])
def test_without_its_control_plane_the_platform_answers_and_the_next_up_repairs_it(site: Site, name: str) -> None:
    before = {pod["metadata"]["uid"]: restarts(pod) for pod in site.pods(TRITON_NAMESPACE)}
    with under_load(site, name):
        site.kill(name)
        begun = time.monotonic()
        site.up()
        well_again(site, name, NEEDS_UP, begun)
    after = {pod["metadata"]["uid"]: restarts(pod) for pod in site.pods(TRITON_NAMESPACE)}
    assert after.items() >= before.items(), "no server was restarted or replaced"


def restarts(pod: Object) -> int:
    return sum(one["restartCount"] for one in pod["status"].get("containerStatuses", []))


def test_messages_of_a_killed_worker_are_answered_by_another_and_none_twice(site: Site) -> None:
    with under_load(site, "the worker, in the middle of its messages"):
        sent = site.send(MESSAGES)
        until(lambda: site.under_way() >= 5, "a worker to have messages", 30)
        assert len(site.results(sent)) < len(sent)
        begun = time.monotonic()
        killed = site.kill(site.process_of(WORKER_NAMESPACE, "worker"))
        until(lambda: site.started_again(killed), "the worker to be started again", AGENT_STARTS_IT)
        answered_once(site, sent, begun)


def answered_once(site: Site, sent: set[str], begun: float) -> None:
    """Wait until each message has its result. Each result is written once, and neither queue has a message left."""
    seconds = left(PODS_MOVE, begun, "messages")
    until(lambda: len(site.results(sent)) == len(sent), "each message to have its result", seconds)
    print(f"{len(sent)} messages: all answered after {time.monotonic() - begun:.0f} s")
    until(lambda: site.queue().waiting() == 0, "the queue to be empty", left(PODS_MOVE, begun, "messages"))
    assert site.results(sent) == dict.fromkeys(sent, 1)
    assert site.given_up() == 0


def test_an_aws_that_does_not_answer_costs_no_request_and_no_message(site: Site) -> None:
    with under_load(site, "AWS, silent for 20 s"):
        sent = site.send(MESSAGES)
        until(lambda: site.under_way() >= 5, "a worker to have messages", 30)
        with site.stopped("moto"):
            time.sleep(20)  # the fault's name
        begun = time.monotonic()
        answered_once(site, sent, begun)
        well_again(site, "AWS, silent for 20 s", PODS_MOVE, begun)


@pytest.mark.parametrize("answers", [0.0, 0.2], ids=["not at all", "a fifth of the time"])
def test_a_pod_that_starts_while_the_bucket_does_not_answer_waits_for_it(site: Site, answers: float) -> None:
    fault = f"the bucket, which answers {answers:.0%} of the time while a pod starts"
    with under_load(site, fault):
        gone = site.pods(TRITON_NAMESPACE)[0]["metadata"]
        begun = time.monotonic()
        site.kube.delete(object_path("v1", "pods", TRITON_NAMESPACE, gone["name"]))
        until(lambda: newest(site)["status"].get("podIP"), "another pod to have begun", 60)
        until_ = time.monotonic() + 20
        while time.monotonic() < until_:
            with site.stopped("moto"):
                time.sleep(1 - answers)
            time.sleep(answers)
        well_again(site, fault, PODS_MOVE, begun)
    assert gone["uid"] not in {pod["metadata"]["uid"] for pod in site.pods(TRITON_NAMESPACE)}


def newest(site: Site) -> Object:
    return site.pods(TRITON_NAMESPACE)[-1]


def test_a_lost_account_is_made_again_and_no_request_is_lost(site: Site) -> None:
    """On AWS no account is lost. On the twin its loss also removes all nodes: they belong to another account."""
    with under_load(site, "moto"):
        site.kill("moto")
        begun = time.monotonic()
        site.up()
        well_again(site, "moto", NEEDS_UP, begun)


def test_a_machine_that_is_gone_at_once_costs_no_request(site: Site) -> None:
    with under_load(site, "a machine"):
        node = site.pods(TRITON_NAMESPACE)[0]["spec"]["nodeName"]
        begun = time.monotonic()
        lost = site.lose(node)
        assert any(name.startswith("triton-") for name in lost)
        well_again(site, f"a machine with {', '.join(lost)}", PODS_MOVE, begun)


def test_a_release_that_does_not_load_stops_at_its_first_pod_and_the_one_before_goes_on(site: Site) -> None:
    pins = site.pinned().read_bytes()
    before = {pod["metadata"]["uid"]: restarts(pod) for pod in site.pods(TRITON_NAMESPACE)}
    with under_load(site, "a release that does not load"):
        site.release("normalize/1/model.py", "raise RuntimeError('the weights are missing')\n")
        assert site.pulumi_up().returncode == 0
        until(lambda: restarts(newest(site)) >= 1, "the first pod of the release to end", 120)
        staying = {pod["metadata"]["uid"] for pod in site.pods(TRITON_NAMESPACE)} & before.keys()
        assert len(staying) >= len(before) - 1, "one pod at a time"
        begun = time.monotonic()
        site.pinned().write_bytes(pins)
        assert site.pulumi_up().returncode == 0
        well_again(site, "a release that does not load", NEEDS_UP, begun)


UPDATES = {
    "triton-eks:network.flowLogRetentionDays": 3,
    "triton-eks:cluster.logRetentionDays": 3,
    "triton-eks:models.oldReleaseDays": 8,
    "triton-eks:worker.resultDays": 2,
    "triton-eks:triton.memoryGiB": 10,
}
"""Several changes, so the engine works on one for long enough to see it; the last one replaces all Triton pods."""


def test_of_two_updates_at_once_one_is_refused_and_a_killed_one_is_finished_by_the_next(site: Site) -> None:
    with under_load(site, "the engine, while it updates"):
        begun = time.monotonic()
        for key, value in UPDATES.items():
            site.twin.pin(key, value)
        with site.twin.start("pulumi", "up", "--yes", "--skip-preview", "--non-interactive", "--stack", STACK) as first:
            processes.wait_until(lambda: site.engine_is("updating"), "the engine to be updating resources", 120, poll=0.01)
            site.signal_engine(signal.SIGSTOP)  # or it would be done before the second starts
            refused = site.pulumi_up()
            assert refused.returncode != 0
            assert "locked" in refused.stdout, refused.stdout
            first.kill()
            site.signal_engine(signal.SIGKILL)
        site.up()
        well_again(site, "the engine, while it updates", NEEDS_UP, begun)
    assert "no changes" in site.up()


def test_three_minutes_of_faults_and_rollouts_lose_nothing_and_leak_nothing(site: Site) -> None:
    made = soak.soak(site, 180, seed=1, say=print, pace=3)
    assert soak.judged(made) == []
    assert {what for _, what, _ in made.done} > {"rollout"}


class Counting:
    """A load that has one more answer at each look."""

    retried, errors = 0, {}

    def __init__(self) -> None:
        self._answered = itertools.count(100)

    def start(self) -> None:
        pass

    @property
    def answered(self) -> int:
        return next(self._answered)

    def end(self) -> Account:
        return Account(sent=self.answered, answered=0, failed=0, shed=0)


def test_the_load_goes_on_after_the_fault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    load = Counting()
    monkeypatch.setattr(Site, "load", lambda _: load)
    with pytest.raises(AssertionError), under_load(Site(Twin(TwinHome(tmp_path))), "nothing"):  # from the account
        pass
    assert load.answered > 108


def pod(name: str, uid: str, kind: str = "ReplicaSet", ready: str = "True") -> Object:
    owner = {"kind": kind, "uid": f"of {name}", "controller": True}
    return {
        "metadata": {"name": name, "namespace": "triton", "uid": uid, "ownerReferences": [owner]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
    }


class Cluster:
    """The API with these pods, all on one machine. From the third look on, another pod replaces `triton`."""

    def __init__(self) -> None:
        self.pods = [pod("triton", "1"), pod("agent", "2", "DaemonSet")]
        self.looks = 0

    def delete(self, path: str, _: object = None) -> None:
        self.pods = [one for one in self.pods if not path.endswith(f"/{one['metadata']['name']}")]

    def get(self, _: str, **selected: str) -> Object:
        self.looks += not selected
        if self.looks == 3:
            self.pods = [pod("triton", "3", ready="False")]
        return {"items": self.pods}


def test_a_machine_is_lost_when_others_stand_in_the_place_of_its_pods(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster = Cluster()
    monkeypatch.setattr(Site, "kube", cluster)
    site = Site(Twin(TwinHome(tmp_path)))
    assert site.lose("node") == ["agent", "triton"]
    assert [one["metadata"]["uid"] for one in cluster.pods] == ["3"]
    assert site.unready() == ["triton is not ready"]


def test_the_time_in_which_all_must_be_well_begins_with_the_fault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    waits: list[float] = []
    monkeypatch.setattr(Site, "wait_until_well", lambda _, seconds: waits.append(seconds))
    site = Site(Twin(TwinHome(tmp_path)))
    well_again(site, "moto", 300, time.monotonic() - 200)
    with pytest.raises(AssertionError, match="moto: its 300 s have passed before"):
        well_again(site, "moto", 300, time.monotonic() - 301)
    (seconds,) = waits
    assert 0 < seconds <= 100


def seen(at: float, **more: int) -> soak.Look:
    """Return a look at two servers with 40 descriptors and 20 threads each, or with `more` of them.

    `strays`: servers of deleted pods, with the same resources each.
    """
    strays = more.pop("strays", 0)
    servers = 2 + strays
    usage = soak.Usage(
        servers, 100.0 * servers, 40 * servers + more.pop("descriptors", 0), 20 * servers + more.pop("threads", 0)
    )
    rest = {"shared_memory": 6, "temporary_files": 10, "pod_directories": 20}
    found = soak.Look(at, {"triton": usage}, **{key: value + more.get(key, 0) for key, value in rest.items()})
    return replace(found, without_pod={"triton": strays} if strays else {})


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ({}, []),
        ({"strays": 38}, ["triton: 38 processes of pods that are gone"]),
        ({"descriptors": 98}, []),
        ({"descriptors": 102}, ["triton: 40 descriptors became 91"]),
        ({"threads": 62}, ["triton: 20 threads became 51"]),
        ({"shared_memory": 8}, ["/dev/shm: 6 files became 14"]),
        ({"temporary_files": 31}, ["temporary_files: 10 became 41"]),
        ({"pod_directories": 31}, ["pod_directories: 20 became 51"]),
    ],
)
def test_what_leaks_is_named(more: dict[str, int], found: list[str]) -> None:
    assert soak.Soak(looks=[seen(15), seen(600, **more)]).leaks() == found


def test_memory_that_grows_while_caches_do_no_more_is_named_but_for_those_that_keep_all() -> None:
    def growing(name: str, mib: float, minutes: int = 40) -> list[soak.Look]:
        idle = {"triton": soak.Usage(2, 86.0, 80, 40)}
        usage = [{**idle, name: soak.Usage(1, 100 + mib * min(minute, 30), 9, 9)} for minute in range(minutes)]
        return [soak.Look(60.0 * minute, of, 6, 10, 20) for minute, of in enumerate(usage)]

    assert soak.Soak(looks=growing("agent", 1.0)).leaks() == []
    assert soak.Soak(looks=growing("agent", 3.0)).leaks() == ["agent: 144 MiB became 190"]
    assert soak.Soak(looks=growing("etcd", 3.0)).leaks() == []
    assert soak.Soak(looks=growing("agent", 9.0, 20)).leaks() == ["agent: 163 MiB became 253"]
    assert soak.Soak(looks=growing("agent", 9.0, 19)).leaks() == []


def test_a_process_that_was_killed_and_begins_again_has_not_grown() -> None:
    idle = {"triton": soak.Usage(2, 86.0, 80, 40)}
    looks = [soak.Look(30.0 * at, {**idle, "worker": soak.Usage(1, 100.0, 9, 9)}, 6, 10, 20) for at in range(40)]
    for at in (12, 15):
        looks[at] = replace(looks[at], usage={**idle, "worker": soak.Usage(1, 20.0, 9, 9)})
    assert soak.Soak(looks=looks).leaks() == []


def test_the_recorded_half_hours_have_no_leak_by_the_rules_of_now() -> None:
    files = sorted((ROOT / "benchmarks" / "results").glob("soak-*.json"))
    judged = []
    for file in files:
        looks = [
            soak.Look(**{**look, "usage": {name: soak.Usage(**of) for name, of in look["usage"].items()}})
            for look in json.loads(file.read_text())["looks"]
        ]
        assert soak.Soak(looks=looks).leaks() == [], file.name
        judged.append(len(looks) >= 4 * soak.FEWEST_LOOKS)
    assert any(judged), "one is long enough for memory to be judged"


def test_a_record_is_on_the_page_of_results_with_the_command_that_made_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = soak.Soak(1800.4, [(30.0, "rollout", 10.6)], [seen(15), seen(600)], {"sent": 9, "answered": 9})
    monkeypatch.setattr(soak, "soak", lambda *_: made)
    monkeypatch.setattr(Site, "bring_up", lambda home: Site(Twin(home)))
    monkeypatch.setattr(Twin, "down", lambda _: None)
    monkeypatch.setattr(soak.measurement, "RESULTS", tmp_path)
    with pytest.raises(typer.Exit) as end:
        soak.main(minutes=30, seed=2, record=True)
    assert end.value.exit_code == 0
    (file,) = tmp_path.iterdir()
    page = results_page.page(tmp_path)
    assert f"`results/{file.name}`: {file.name[5:15]}, revision " in page
    assert "; `python -m tests.system.e2e.soak --minutes 30 --seed 2 --record` with " in page
    assert "1800.4 s. Requests: 9 sent, 9 answered; 0 tried again." in page


def test_a_process_of_a_pod_that_is_gone_is_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    there, gone = (str(uuid.uuid4()) for _ in range(2))
    names = [f"pod-{there}-triton", f"pod-{gone}-triton", f"pod-{gone}-triton", "etcd", f"pod-{gone}-worker"]
    no_pid = 2**22  # the kernel gives smaller ones
    monkeypatch.setattr(soak.processes, "marked", lambda _: dict(enumerate(names, no_pid)))
    monkeypatch.setattr(Site, "uids", lambda _: {there})
    monkeypatch.setattr(soak, "ENDING_SECONDS", 0)
    home = TwinHome(tmp_path)
    home.pods.mkdir(parents=True)
    assert soak.look(Site(Twin(home)), 1.0).without_pod == {"triton": 2, "worker": 1}


def test_a_lost_request_and_a_result_that_was_written_twice_are_named() -> None:
    made = soak.Soak(looks=[seen(15), seen(600)], requests={"sent": 9, "answered": 8}, errors={"UNAVAILABLE": 1})
    made.messages, made.results = 2, {"written 1 times": 1, "written 2 times": 1}
    assert soak.judged(made) == [
        "{'sent': 9, 'answered': 8}: {'UNAVAILABLE': 1}",
        "of 2 messages: {'written 1 times': 1, 'written 2 times': 1}",
    ]
