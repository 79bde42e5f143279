"""Twins for the end-to-end tests: each has its own home, and is shut down after its tests."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from twin.engine import stack_files
from twin.host import claim, environment, processes
from twin.host.home import REPOSITORY, TwinHome
from twin.services.servers import Servers

if TYPE_CHECKING:
    from tests.system.e2e.gateway_twin import Gateway
    from tests.system.e2e.karpenter_nodes import Nodes

UP_SECONDS = 1800
"""The first `up` on a machine builds the Go programs; every later one takes about a minute."""
COMMAND_SECONDS = 900
"""A preview or a destroy takes less than a minute on an idle machine; this machine may be slow and busy."""


@dataclass(frozen=True)
class Twin:
    """A twin, driven through its command line as a person does."""

    home: TwinHome
    checkout: Path = REPOSITORY
    variables: Mapping[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        """Return a person's environment, without this machine's settings for AWS, Pulumi or kubectl."""
        mine = {name: value for name, value in os.environ.items() if name not in environment.foreign(os.environ)}
        return {**mine, "TWIN_HOME": str(self.home.path), "NO_COLOR": "1", **self.variables}

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start `python3 -m twin <arguments>` in the background and discard its output."""
        command = [sys.executable, "-m", "twin", *arguments]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen(command, cwd=self.checkout, env=self.environment(), **quiet)

    def run(self, *arguments: str, seconds: float = COMMAND_SECONDS) -> subprocess.CompletedProcess[str]:
        """Run `python3 -m twin <arguments>`, and return its output and exit code, also after an error."""
        return subprocess.run(
            [sys.executable, "-m", "twin", *arguments],
            cwd=self.checkout,
            env=self.environment(),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if "--json" not in arguments else None,
            timeout=seconds,
            check=False,
        )

    def pin(self, key: str, value: Any) -> None:
        """Set a key of this twin's `local` stack, also before the first `up`."""
        claim.claim(self.home.path)
        stack_files.pin(self.home, "local", key, value)

    def up(self) -> str:
        """Run `python3 -m twin up`, which must succeed, and return its output."""
        done = self.run("up", seconds=UP_SECONDS)
        assert done.returncode == 0, done.stdout[-4000:]  # the cause is at the end, and CI's record is short
        return done.stdout

    def shell(self, command: str, seconds: float = COMMAND_SECONDS) -> subprocess.CompletedProcess[str]:
        """Run a command line in the shell that `eval "$(python3 -m twin env)"` sets up."""
        script = f'eval "$({sys.executable} -m twin env)" && {command}'
        return subprocess.run(
            ["bash", "-c", script],
            cwd=self.checkout,
            env=self.environment(),
            text=True,
            capture_output=True,
            timeout=seconds,
            check=False,
        )

    def servers(self) -> Servers:
        """Return the running servers, for checks without the command line."""
        return Servers.running(self.home)

    def down(self) -> None:
        """Run `python3 -m twin down`, which must leave nothing of this twin."""
        # To a file, not a pipe: it continues if pytest does not wait for its end (pytest-xdist gives it 10 s).
        with tempfile.TemporaryFile("w+") as said:
            command = [sys.executable, "-m", "twin", "down"]
            done = subprocess.run(
                command, cwd=self.checkout, env=self.environment(), stdout=said, stderr=said, timeout=COMMAND_SECONDS
            )
            said.seek(0)
            assert done.returncode == 0, said.read()
        assert processes.marked(self.home) == {}
        assert not self.home.path.exists()


T = TypeVar("T", bound=Twin)


@contextmanager
def taken_down(twin: T) -> Iterator[T]:
    """Take a twin down at the end of the block, also after an `up` that fails or is interrupted."""
    try:
        yield twin
    finally:
        twin.down()


@pytest.fixture(scope="session")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twin]:
    """A twin that is up. Tests must leave it unchanged."""
    with taken_down(Twin(TwinHome(tmp_path_factory.mktemp("twin") / "home"))) as twin:
        twin.up()
        yield twin


@pytest.fixture
def own_twin(tmp_path: Path) -> Iterator[Twin]:
    """A twin for one test, not up yet."""
    with taken_down(Twin(TwinHome(tmp_path / "home"))) as twin:
        yield twin


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Gateway"]:
    """A twin that is up with a gateway and Prometheus. Tests must leave it unchanged."""
    from tests.system.e2e import gateway_twin, pinned  # only the gateway's tests need the program for it

    with gateway_twin.up(tmp_path_factory.mktemp("gateway") / "home", pinned.GATEWAY) as found:
        yield found


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Nodes"]:
    """A twin whose nodes Karpenter starts. Tests must leave it so: Triton on a GPU node, the worker on another node."""
    from tests.system.e2e.karpenter_nodes import karpenter_twin  # it imports this module

    with karpenter_twin(TwinHome(tmp_path_factory.mktemp("nodes") / "home")) as found:
        yield found


def clone(tmp_path: Path) -> Path:
    """Return a separate checkout whose files a test may change. Uncommitted changes of this checkout are not in it."""
    checkout = tmp_path / "checkout"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(REPOSITORY), str(checkout)], check=True)
    (checkout / "policies" / "venv").symlink_to(sys.prefix)  # as `make venv` does
    return checkout


def change(file: Path, old: str, new: str) -> None:
    """Replace `old` with `new`; the file must contain `old` exactly once."""
    text = file.read_text()
    assert text.count(old) == 1, f"{file}: {old!r} stands in it {text.count(old)} times"
    file.write_text(text.replace(old, new))
