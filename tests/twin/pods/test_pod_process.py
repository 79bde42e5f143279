"""One container, with small real processes in place of tritonserver."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import until
from twin.host import processes
from twin.host.home import TwinHome
from twin.host.processes import Service
from twin.pods import pod_process
from twin.pods.pod_process import ContainerProcess, backoff
from twin.pods.pod_spec import SpecError
from twin.pods.pod_volumes import PathRewriter

SLEEPER = "import time; time.sleep(600)"
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); open('up', 'w'); time.sleep(600)"


class Bench:
    """A container and its reports."""

    def __init__(self, home: TwinHome, code: str, restart: str = "Always", **container: Any) -> None:
        self.home = home
        self.events: list[tuple[str, str]] = []
        self.own_policy: str | None = None
        self.refusal: SpecError | None = None
        self.pod: dict[str, Any] = {
            "metadata": {"uid": "00000000-0000-0000-0000-000000000001", "name": "p", "namespace": "n"},
            "spec": {"restartPolicy": restart, "terminationGracePeriodSeconds": 5},
        }
        self.container = {"name": "c", "image": "x/tritonserver", **container}
        self.pod["spec"]["containers"] = [self.container]
        self.code = code
        self.process = self.make()

    def make(self) -> ContainerProcess:
        async def prepare() -> tuple[Service, PathRewriter]:
            if self.refusal:
                raise self.refusal
            argv = (sys.executable, "-c", self.code)
            env = {"PATH": os.defpath, "FLAG": "flag"}
            self.home.pods.mkdir(parents=True, exist_ok=True)
            service = Service(self.process.name, argv, env, self.home.pods)
            return service, PathRewriter({"/models": self.home.pods})

        async def report(reason: str, message: str, kind: str) -> None:
            self.events.append((reason, message))

        return ContainerProcess(
            self.home,
            self.pod,
            self.container,
            restart_policy=self.own_policy,
            address=lambda: "127.0.0.1",
            prepare=prepare,
            report=report,
            changed=lambda: None,
        )

    def reasons(self) -> list[str]:
        return [reason for reason, _ in self.events]

    @property
    def pid(self) -> int:
        record = processes.find(self.home, self.process.name)
        assert record is not None
        return record.pid


@pytest.fixture
def home(tmp_path: Path) -> Iterator[TwinHome]:
    home = TwinHome(tmp_path)
    yield home
    processes.stop_all(home, seconds=1)


def drive(bench: Bench, scenario: Callable[[], Any]) -> None:
    async def run() -> None:
        task = asyncio.create_task(bench.process.run())
        try:
            await scenario()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())


def running(bench: Bench) -> bool:
    return "running" in bench.process.status.state and processes.find(bench.home, bench.process.name) is not None


def probe(path: str, **more: Any) -> dict[str, Any]:
    return {"exec": {"command": ["test", "-e", path]}, "periodSeconds": 0.05, **more}


def test_back_off_doubles_up_to_its_limit() -> None:
    assert [backoff(n) for n in range(7)] == [1, 2, 4, 8, 16, 30, 30]


def test_a_container_without_probes_is_ready_when_it_runs(home: TwinHome) -> None:
    bench = Bench(home, SLEEPER)

    async def scenario() -> None:
        await until(lambda: running(bench) and bench.process.status.ready, "the container to be ready")
        assert bench.process.status.started
        assert bench.reasons() == ["Started"]

    drive(bench, scenario)


def test_the_startup_probe_gates_the_others(home: TwinHome) -> None:
    dead = {"exec": {"command": ["false"]}, "periodSeconds": 0.05, "failureThreshold": 1}
    bench = Bench(
        home,
        SLEEPER,
        startupProbe=probe("/models/started", failureThreshold=1000),
        readinessProbe=probe("/models/ready"),
        livenessProbe=dead,
    )

    async def scenario() -> None:
        await until(lambda: bench.reasons().count("Unhealthy") >= 3, "three failed startup probes")
        assert (bench.process.status.started, bench.process.status.ready) == (False, False)
        assert {m.split(":")[0] for r, m in bench.events if r == "Unhealthy"} == {"Startup probe failed"}
        (home.pods / "started").touch()
        await until(lambda: "Killing" in bench.reasons(), "the liveness probe to have its say")

    drive(bench, scenario)


def test_readiness_follows_its_probe_both_ways(home: TwinHome) -> None:
    bench = Bench(home, SLEEPER, readinessProbe=probe("/models/ready", failureThreshold=2))

    async def scenario() -> None:
        await until(lambda: bench.process.status.started, "the start")
        assert not bench.process.status.ready
        (home.pods / "ready").touch()
        await until(lambda: bench.process.status.ready, "readiness")
        (home.pods / "ready").unlink()
        await until(lambda: not bench.process.status.ready, "the loss of readiness")
        assert bench.process.status.restart_count == 0

    drive(bench, scenario)


def test_a_probe_command_has_the_containers_environment(home: TwinHome) -> None:
    command = {"exec": {"command": ["sh", "-c", 'test "$FLAG" = flag']}, "periodSeconds": 0.05}
    bench = Bench(home, SLEEPER, readinessProbe=command)
    drive(bench, lambda: until(lambda: bench.process.status.ready, "readiness"))


def test_a_probe_command_expands_literal_values_only_as_in_the_kubelet(home: TwinHome) -> None:
    env = [{"name": "A", "value": "a"}, {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
    command = {"exec": {"command": ["test", "$(A)-$(IP)-$(NO)", "=", "a--$(NO)"]}, "periodSeconds": 0.05}
    bench = Bench(home, SLEEPER, env=env, readinessProbe=command)
    drive(bench, lambda: until(lambda: bench.process.status.ready, "readiness"))


def test_a_probe_command_that_hangs_counts_as_failed_and_is_ended(home: TwinHome) -> None:
    hanging = {"exec": {"command": ["sleep", "600"]}, "periodSeconds": 0.05, "timeoutSeconds": 0.2}
    bench = Bench(home, SLEEPER, readinessProbe=hanging)

    async def scenario() -> None:
        await until(lambda: "Unhealthy" in bench.reasons(), "the probe to time out")
        assert "Readiness probe failed: command 'sleep' timed out after 0.2 s" in [m for _, m in bench.events]

    drive(bench, scenario)


def test_a_failed_liveness_probe_restarts_the_container(home: TwinHome) -> None:
    home.pods.mkdir()
    (home.pods / "alive").touch()
    bench = Bench(home, SLEEPER, livenessProbe=probe("/models/alive", failureThreshold=2))

    async def scenario() -> None:
        await until(lambda: running(bench), "the start")
        first = bench.pid
        (home.pods / "alive").unlink()
        await until(lambda: "CrashLoopBackOff" in str(bench.process.status.state), "the back-off")
        (home.pods / "alive").touch()
        await until(lambda: running(bench), "the restart")
        assert bench.pid != first
        assert bench.process.status.restart_count == 1
        assert bench.process.status.last_state["terminated"]["exitCode"] == 143
        assert ("Killing", "Container c failed liveness probe, will be restarted") in bench.events

    drive(bench, scenario)


def test_a_killed_process_is_restarted_and_counted(home: TwinHome) -> None:
    bench = Bench(home, SLEEPER)

    async def scenario() -> None:
        await until(lambda: running(bench), "the start")
        os.kill(bench.pid, signal.SIGKILL)
        await until(lambda: bench.process.status.restart_count == 1 and running(bench), "the restart")
        assert bench.process.status.last_state["terminated"]["exitCode"] == 137

    drive(bench, scenario)


@pytest.mark.parametrize(("restart", "code", "exit_code"), [("Never", "exit(3)", 3), ("OnFailure", "exit(0)", 0)])
def test_a_container_that_is_not_to_be_restarted_stays_ended(
    home: TwinHome, restart: str, code: str, exit_code: int
) -> None:
    bench = Bench(home, code, restart)
    asyncio.run(asyncio.wait_for(bench.process.run(), 60))
    assert bench.process.status.state["terminated"]["exitCode"] == exit_code
    assert bench.process.status.restart_count == 0


def test_a_specification_that_cannot_be_carried_out_is_tried_again(home: TwinHome) -> None:
    bench = Bench(home, SLEEPER)
    bench.refusal = SpecError("FailedMount", "configMap 'x' not found")

    async def scenario() -> None:
        await until(lambda: bench.events, "the refusal")
        assert bench.process.status.state == {"waiting": {"reason": "FailedMount", "message": "configMap 'x' not found"}}
        assert bench.events == [("FailedMount", "configMap 'x' not found")]
        bench.refusal = None
        await until(lambda: running(bench), "the start")
        assert bench.process.status.restart_count == 0

    drive(bench, scenario)


def test_stop_runs_the_hook_then_asks_the_process(home: TwinHome) -> None:
    code = (
        "import signal, sys, time\n"
        "def end(*_):\n    open('order', 'a').write('term '); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end); open('up', 'w'); time.sleep(600)"
    )
    hook = {"preStop": {"exec": {"command": ["sh", "-c", "printf 'hook ' >> /models/order"]}}}
    bench = Bench(home, code, lifecycle=hook)

    async def scenario() -> None:
        await until(lambda: running(bench) and (home.pods / "up").exists(), "the start")
        await bench.process.stop(20)
        assert (home.pods / "order").read_text() == "hook term "
        await until(lambda: "terminated" in bench.process.status.state, "the end")
        assert bench.process.status.state["terminated"]["exitCode"] == 0

    drive(bench, scenario)


def test_stop_kills_when_the_grace_period_is_over(home: TwinHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_process, "_LEAST_GRACE_SECONDS", 0.1)
    bench = Bench(home, STUBBORN)

    async def scenario() -> None:
        await until(lambda: running(bench) and (home.pods / "up").exists(), "the start")
        await bench.process.stop(0.3)
        await until(lambda: "terminated" in bench.process.status.state, "the end")
        assert bench.process.status.state["terminated"]["exitCode"] == 137

    drive(bench, scenario)


def test_a_sleeping_hook_is_cut_short_by_a_more_urgent_deletion(home: TwinHome) -> None:
    bench = Bench(home, STUBBORN, lifecycle={"preStop": {"sleep": {"seconds": 600}}})

    async def scenario() -> None:
        await until(lambda: running(bench) and (home.pods / "up").exists(), "the start")
        stopping = asyncio.create_task(bench.process.stop(600))
        await until(lambda: "Killing" in bench.reasons(), "the stop to begin")
        bench.process.hurry(0)
        await asyncio.wait_for(stopping, 60)
        await until(lambda: processes.find(home, bench.process.name) is None, "the end")

    drive(bench, scenario)


def test_a_new_agent_takes_over_a_running_process(home: TwinHome) -> None:
    bench = Bench(home, SLEEPER)
    drive(bench, lambda: until(lambda: running(bench), "the start"))
    pid = bench.pid
    bench.pod["status"] = {"containerStatuses": [bench.process.status.to_api()]}
    bench.events.clear()
    bench.process = bench.make()

    async def scenario() -> None:
        await until(lambda: bench.process.status.ready, "the take-over")
        assert bench.pid == pid
        assert bench.process.status.restart_count == 0
        assert bench.events == []

    drive(bench, scenario)


def test_a_new_agent_restarts_a_process_that_died_in_between(home: TwinHome) -> None:
    bench = Bench(home, SLEEPER)
    drive(bench, lambda: until(lambda: running(bench), "the start"))
    bench.pod["status"] = {"containerStatuses": [bench.process.status.to_api()]}
    os.kill(bench.pid, signal.SIGKILL)
    processes.wait_until(lambda: processes.find(home, bench.process.name) is None, "the process to die", 60)
    bench.process = bench.make()

    async def scenario() -> None:
        await until(lambda: running(bench) and bench.process.status.restart_count == 1, "the restart")

    drive(bench, scenario)


def test_an_init_container_is_started_again_until_it_succeeds_and_then_no_more(home: TwinHome) -> None:
    bench = Bench(home, "import pathlib; p = pathlib.Path('tried'); tried = p.exists(); p.touch(); exit(0 if tried else 3)")
    bench.own_policy = "OnFailure"
    bench.process = bench.make()

    async def scenario() -> None:
        await until(lambda: bench.process.status.succeeded, "the second try to succeed")

    drive(bench, scenario)
    assert bench.reasons() == ["Started", "BackOff", "Started"]
    assert bench.process.status.restart_count == 1
