"""The machine around a twin: a message if something is unavailable, and no deadline by a clock that jumps.

Proxies: tests/console/test_loopback.py. Directories that a twin never claims: test_claim.py.
"""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT
from twin.host import processes
from twin.host.processes import DeadlinePassed

WALL_CLOCK = {
    # the expiry of tokens, which depends on AWS's and Kubernetes' clock
    "twin/identity/account_tokens.py",
    "twin/cluster/certificates.py",
    "modelctl/rollout/lease.py",
    # times shown to users or compared with files' times
    "twin/aws/recorded.py",
    "twin/cluster/instances.py",
    "twin/cluster/kube_api.py",
    "twin/services/leftovers.py",
    "stackctl/certify/command.py",
    "stackctl/keys/command.py",
    "modelctl/tune/command.py",
    "modelctl/rollout/controller.py",
    "modelctl/release/publish.py",
    "stackctl/first_inference/nodes.py",
    "twin/aws/access/webhooks.py",
    "twin/aws/base/late.py",
    "twin/aws/base/records.py",
    "twin/aws/eks/clusters.py",
    "twin/identity/pod_identity.py",
    "twin/plugins/exec_credentials.py",
    "worker/store.py",
    "worker/processing.py",
}
"""Modules that may read the time of day."""


def test_no_deadline_is_by_the_time_of_day() -> None:
    found = {
        str(path.relative_to(ROOT))
        for folder in ("twin", "modelctl", "stackctl", "worker", "console")
        for path in Path(ROOT, folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("time.time", "datetime.now", "datetime.utcnow"))
    }
    assert found == WALL_CLOCK


def test_a_deadline_passes_whatever_the_clock_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 0.0)
    with pytest.raises(DeadlinePassed, match="nothing"):
        processes.wait_until(lambda: False, "nothing", 0.05)


@pytest.mark.parametrize(
    "environment",
    [
        {"LANG": "C", "LC_ALL": "C"},
        {"HOME": "/nonexistent"},
        {"HOME": "{tmp}/Jörg Müller", "TMPDIR": "{tmp}/Jörg Müller"},
        {"ALL_PROXY": "socks5://127.0.0.1:9", "HTTPS_PROXY": "nonsense://"},
    ],
    ids=str,
)
def test_a_command_finds_its_twin_in_any_surroundings(tmp_path: Path, environment: dict[str, str]) -> None:
    home = tmp_path / "Jörg Müller" / "twin"
    home.parent.mkdir()
    given = {name: value.format(tmp=tmp_path) for name, value in environment.items()}
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "TWIN_HOME": str(home), **given}
    command = [sys.executable, "-m", "twin", "status"]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, check=False, timeout=60)
    said = done.stderr.decode("utf-8", "backslashreplace").replace("\\xf6", "ö").replace("\\xfc", "ü")
    assert (done.returncode, said) == (
        2,
        f"error: no twin is up at {home}; start it with `make up`, or set TWIN_HOME to where one is\n",
    )


def test_a_path_that_this_python_cannot_read_is_refused(tmp_path: Path) -> None:
    home = tmp_path / "Jörg"
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "twin", "status"]
    done = subprocess.run(
        command, cwd=ROOT, env={**env, "TWIN_HOME": str(home)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.endswith(
        "/J\\udcc3\\udcb6rg', in which this Python, which reads paths as ascii, cannot read every character: set it to a "
        "directory in ASCII, or LC_ALL to C.UTF-8 and PYTHONUTF8 to 1\n"
    )
