"""Real, small processes: they are cheap, and the kernel's behaviour is tested too."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from twin.host import processes
from twin.host.home import REPOSITORY, TwinHome, write_json
from twin.host.processes import DeadlinePassed, ProcessFailed, Service, wait_until

UP = "print('up', flush=True); time.sleep(600)"
SLEEPER = f"import time; {UP}"
STUBBORN = f"import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); {UP}"
PARENT = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); {UP}"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[TwinHome]:
    home = TwinHome(tmp_path)
    yield home
    processes.stop_all(home, seconds=1)


def service(tmp_path: Path, code: str = SLEEPER, name: str = "worker", **changes: object) -> Service:
    base = Service(name, (sys.executable, "-c", code), {"PATH": os.defpath}, tmp_path)
    return replace(base, **changes)  # type: ignore[arg-type]


def said_up(home: TwinHome, name: str = "worker") -> bool:
    return "up" in processes.tail(home.logs / f"{name}.log")


def ensure(home: TwinHome, wanted: Service) -> bool:
    return processes.ensure(home, wanted, ready=lambda: said_up(home, wanted.name), what="the word up", seconds=20)


def test_a_service_is_started_once_and_then_found(home: TwinHome, tmp_path: Path) -> None:
    assert ensure(home, service(tmp_path)) is True
    first = processes.find(home, "worker")
    assert first is not None
    assert ensure(home, service(tmp_path)) is False
    assert processes.find(home, "worker") == first


def test_it_runs_in_a_session_of_its_own(home: TwinHome, tmp_path: Path) -> None:
    record = processes.start(home, service(tmp_path))
    assert os.getsid(record.pid) == record.pid


def test_a_killed_process_is_noticed_and_replaced(home: TwinHome, tmp_path: Path) -> None:
    ensure(home, service(tmp_path))
    killed = processes.find(home, "worker")
    assert killed is not None
    os.kill(killed.pid, signal.SIGKILL)
    wait_until(lambda: processes.find(home, "worker") is None, "the killed process to count as dead", 60)
    assert killed.exit_code() == 137
    assert ensure(home, service(tmp_path)) is True
    again = processes.find(home, "worker")
    assert again is not None
    assert again.pid != killed.pid


def test_a_changed_command_restarts_it(home: TwinHome, tmp_path: Path) -> None:
    ensure(home, service(tmp_path))
    before = processes.find(home, "worker")
    assert before is not None
    assert ensure(home, service(tmp_path, depends_on="another kubeconfig")) is True
    assert not before.alive()


def test_a_pid_that_now_belongs_to_somebody_else_is_not_ours_and_is_left_alone(home: TwinHome, tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", SLEEPER], stdout=subprocess.DEVNULL) as stranger:
        try:
            started = processes.start_time(stranger.pid)
            assert started is not None
            stale = processes.Record("worker", stranger.pid, started - 1, [], "", "")
            write_json(home.run / "worker.json", asdict(stale))
            assert processes.find(home, "worker") is None
            processes.stop(home, stale, seconds=0)
            processes.stop_all(home)
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_a_process_that_ends_while_starting_is_an_error_with_its_last_words(home: TwinHome, tmp_path: Path) -> None:
    failing = service(tmp_path, "import sys; print('port 7 is taken'); sys.exit(3)")
    with pytest.raises(ProcessFailed) as error:
        processes.ensure(home, failing, ready=lambda: False, what="never", seconds=20)
    assert "worker ended with exit code 3 while starting" in str(error.value)
    assert str(error.value).endswith("port 7 is taken")


def test_a_process_that_never_gets_ready_is_named_with_what_was_awaited(home: TwinHome, tmp_path: Path) -> None:
    with pytest.raises(DeadlinePassed, match=r"waited 0\.2 s in vain for the API server to be ready"):
        processes.ensure(home, service(tmp_path), ready=lambda: False, what="the API server to be ready", seconds=0.2)


def test_stop_asks_first(home: TwinHome, tmp_path: Path) -> None:
    goodbye = "lambda *_: (print('bye', flush=True), sys.exit(0))"
    code = f"import signal, sys, time; signal.signal(signal.SIGTERM, {goodbye}); {UP}"
    ensure(home, service(tmp_path, code))
    record = processes.find(home, "worker")
    assert record is not None
    processes.stop(home, record, seconds=20)
    assert not record.alive()
    assert processes.tail(home.logs / "worker.log").splitlines() == ["up", "bye"]


def test_stop_kills_what_does_not_listen(home: TwinHome, tmp_path: Path) -> None:
    ensure(home, service(tmp_path, STUBBORN))
    record = processes.find(home, "worker")
    assert record is not None
    processes.stop(home, record, seconds=0.2)
    assert not record.alive()
    assert processes.records(home) == []


def test_the_children_of_a_stopped_process_end_with_it(home: TwinHome, tmp_path: Path) -> None:
    ensure(home, service(tmp_path, PARENT))
    # A new process has no readable environment yet.
    wait_until(lambda: len(processes.marked(home, "worker")) == 2, "the mark of both to be readable", 60)
    record = processes.find(home, "worker")
    assert record is not None
    processes.stop(home, record, seconds=5)
    assert processes.marked(home) == {}


@pytest.fixture
def shared_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "shm"
    folder.mkdir()
    monkeypatch.setattr(processes, "SHARED_MEMORY", str(folder))
    return folder


def test_what_a_killed_process_leaves_in_shared_memory_is_removed(
    home: TwinHome, tmp_path: Path, shared_memory: Path
) -> None:
    prefix = f"{home.shared_memory_prefix}pod-"
    (shared_memory / f"{prefix}region-1").touch()
    (shared_memory / f"{home.shared_memory_prefix}another-pod").touch()
    record = processes.start(home, service(tmp_path, shared_memory=prefix))
    processes.stop(home, record, seconds=0)
    assert [p.name for p in shared_memory.iterdir()] == [f"{home.shared_memory_prefix}another-pod"]


@pytest.mark.parametrize("prefix", ["", "a", "twin-", "../"])
def test_a_record_removes_nothing_that_is_not_named_after_the_twin(
    home: TwinHome, tmp_path: Path, shared_memory: Path, prefix: str
) -> None:
    (shared_memory / "a").touch()
    (shared_memory / "twin-12345678-region").touch()
    record = processes.start(home, service(tmp_path, shared_memory=prefix))
    processes.stop(home, record, seconds=0)
    assert sorted(p.name for p in shared_memory.iterdir()) == ["a", "twin-12345678-region"]


def test_a_process_whose_starter_was_killed_before_recording_it_is_found_again(home: TwinHome, tmp_path: Path) -> None:
    unrecorded = processes.start(home, service(tmp_path, STUBBORN))
    (home.run / "worker.json").unlink()
    # A new process has no readable environment yet.
    wait_until(lambda: bool(processes.marked(home, "worker")), "the mark of the process to be readable", 60)
    assert processes.find(home, "worker") is None
    assert ensure(home, service(tmp_path)) is True
    assert not unrecorded.alive()


def test_another_command_stops_what_this_one_started(home: TwinHome, tmp_path: Path) -> None:
    ensure(home, service(tmp_path, name="first"))
    ensure(home, service(tmp_path, name="second"))
    code = (
        "import pathlib; from twin.host import processes; from twin.host.home import TwinHome\n"
        f"print(processes.stop_all(TwinHome(pathlib.Path({str(tmp_path)!r})), seconds=5))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout == "['first', 'second']\n"
    assert processes.marked(home) == {}


def test_dependants_are_stopped_before_what_they_depend_on(home: TwinHome, tmp_path: Path) -> None:
    order = tmp_path / "order"
    code = (
        "import signal, sys, time\n"
        f"def end(*_):\n    open({str(order)!r}, 'a').write(sys.argv[1] + ' '); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end); print('up', flush=True); time.sleep(600)"
    )
    for name, stop_order in (("etcd", 1), ("agent", 9), ("api", 2)):
        ensure(home, service(tmp_path, name=name, argv=(sys.executable, "-c", code, name), stop_order=stop_order))
    processes.stop_all(home, seconds=20)
    assert order.read_text().split() == ["agent", "api", "etcd"]


def test_two_homes_do_not_see_each_others_processes(home: TwinHome, tmp_path: Path) -> None:
    other = TwinHome(tmp_path / "other")
    ensure(home, service(tmp_path))
    assert processes.stop_all(other) == []
    assert processes.find(home, "worker") is not None


def test_a_command_from_a_shell_with_another_path_leaves_the_process_alone(home: TwinHome, tmp_path: Path) -> None:
    ensure(home, service(tmp_path, env={**os.environ, "PATH": "/usr/bin:/bin"}))
    first = processes.find(home, "worker")
    assert ensure(home, service(tmp_path, env={**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin"})) is False
    assert processes.find(home, "worker") == first


def test_a_process_is_there_until_its_last_thread_is_gone() -> None:
    leave = "ctypes.CDLL(None).syscall(60, 0)"  # exits only the calling thread
    script = f"import ctypes, threading, time; threading.Thread(target=time.sleep, args=(60,)).start(); {leave}"
    with subprocess.Popen([sys.executable, "-c", script]) as process:
        stat = Path(f"/proc/{process.pid}/stat")
        wait_until(lambda: ") Z" in stat.read_text(), "the first thread to be gone", 60)
        assert processes.start_time(process.pid) is not None
        process.kill()
        wait_until(lambda: processes.start_time(process.pid) is None, "the process to be gone", 60)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda record: {**record, "namespace": "new", "leavings": ["/etc/*"]}, id="a key more"),
        pytest.param(lambda record: {key: record[key] for key in record if key != "fingerprint"}, id="a key less"),
        pytest.param(lambda record: {**record, "pid": {"number": record["pid"]}}, id="another type"),
        pytest.param(lambda record: {"version": 2, "processes": [record]}, id="another form"),
        pytest.param(lambda record: [record], id="a list"),
        pytest.param(lambda record: {**record, "name": "../../another"}, id="another name than its file"),
    ],
)
def test_a_process_is_stopped_whatever_another_version_wrote_into_its_record(
    home: TwinHome, tmp_path: Path, change: Callable[[dict[str, object]], object]
) -> None:
    ensure(home, service(tmp_path))
    started = processes.find(home, "worker")
    assert started is not None
    file = home.run / "worker.json"
    file.write_text(json.dumps(change(json.loads(file.read_text()))))
    assert processes.stop_all(home, seconds=5) == ["worker"]
    assert not started.alive()


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[" * 100_000, b"null", b'{"pid": 1'])
def test_a_record_that_cannot_be_read_keeps_no_command_from_its_work(home: TwinHome, content: bytes) -> None:
    home.run.mkdir(parents=True)
    (home.run / "worker.json").write_bytes(content)
    (home.run / "folder.json").mkdir()
    assert processes.records(home) == []
    assert processes.find(home, "worker") is None
    assert processes.stop_all(home) == []


def test_a_record_of_an_earlier_boot_is_nobodys(home: TwinHome, tmp_path: Path) -> None:
    """The same process id, and by chance the same ticks after the boot."""
    record = processes.start(home, service(tmp_path))
    assert record.alive()
    assert not replace(record, boot="11111111-2222-3333-4444-555555555555").alive()
