"""`make down` leaves nothing in any place that the twin's programs may write to."""

import dataclasses
import signal
from pathlib import Path

from tests.system.e2e.conftest import Twin
from twin.host import processes, tools
from twin.services import leftovers


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_killed_server_and_a_used_shell_leave_nothing(own_twin: Twin, tmp_path: Path) -> None:
    person, temporary = tmp_path / "person", tmp_path / "tmp"
    person.mkdir()
    temporary.mkdir()
    # Built programs and chart sources may stay; all other files in the home are findings.
    variables = {
        "HOME": str(person),
        "TMPDIR": str(temporary),
        "XDG_CACHE_HOME": str(tools.cache_directory().parent.parent),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    twin = dataclasses.replace(own_twin, variables=variables)
    twin.up()
    for command in ("kubectl get pods -A", "helm list -A", "aws s3 ls", "pulumi preview --stack local --non-interactive"):
        done = twin.shell(command)
        assert done.returncode == 0, done.stderr
    pods = [record for record in processes.records(twin.home) if record.name.startswith("pod-")]
    (server,) = [record for record in pods if record.name.endswith("-triton")]
    agent = processes.find(twin.home, "agent")
    assert agent is not None
    processes.signal_record(agent, signal.SIGKILL)
    processes.signal_record(server, signal.SIGKILL)
    processes.wait_until(lambda: not server.alive(), "the killed server to be gone", 60)
    prefix = twin.home.shared_memory_prefix
    assert list(Path("/dev/shm").glob(f"{prefix}*"))
    begun = twin.home.path.stat().st_mtime

    twin.down()

    assert files(person) == []
    assert files(temporary) == []
    assert list(Path("/dev/shm").glob(f"{prefix}*")) == []
    assert leftovers.abandoned_environments(since=begun) == []
