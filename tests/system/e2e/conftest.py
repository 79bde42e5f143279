"""Twins for the end-to-end tests: each has a home of its own, and each is down again when its tests are over."""

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
"""A preview or a destroy takes less than a minute on an idle machine, and this one may be slow and busy."""


@dataclass(frozen=True)
class Twin:
    """One twin, driven as a person drives it: by its command line."""

    home: TwinHome
    checkout: Path = REPOSITORY
    variables: Mapping[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        """A person's environment, without what this machine may have set for AWS, Pulumi or kubectl."""
        mine = {name: value for name, value in os.environ.items() if name not in environment.foreign(os.environ)}
        return {**mine, "TWIN_HOME": str(self.home.path), "NO_COLOR": "1", **self.variables}

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """`python3 -m twin <arguments>` in the background, its output thrown away."""
        command = [sys.executable, "-m", "twin", *arguments]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen(command, cwd=self.checkout, env=self.environment(), **quiet)

    def run(self, *arguments: str, seconds: float = COMMAND_SECONDS) -> subprocess.CompletedProcess[str]:
        """`python3 -m twin <arguments>`; its output and exit code, whatever they are."""
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
        """Give a key of this twin's `local` stack a value of its own, also before the first `up`."""
        claim.claim(self.home.path)
        stack_files.pin(self.home, "local", key, value)

    def up(self) -> str:
        """`python3 -m twin up`, which must succeed; what it printed."""
        done = self.run("up", seconds=UP_SECONDS)
        assert done.returncode == 0, done.stdout[-4000:]  # the cause stands at the end, and CI's record is short
        return done.stdout

    def shell(self, command: str, seconds: float = COMMAND_SECONDS) -> subprocess.CompletedProcess[str]:
        """A command line in the shell that `eval "$(python3 -m twin env)"` gives."""
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
        """The running servers, to look behind the command line."""
        return Servers.running(self.home)

    def down(self) -> None:
        """`python3 -m twin down`, after which nothing of this twin may be left."""
        # Into a file and not a pipe: it goes on where pytest does not wait for its end (pytest-xdist gives it 10 s).
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
    """Take a twin down at the end of the block, whatever ends it: an `up` that fails or is interrupted too."""
    try:
        yield twin
    finally:
        twin.down()


@pytest.fixture(scope="session")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twin]:
    """A twin that is up. Tests that use it leave it as they found it."""
    with taken_down(Twin(TwinHome(tmp_path_factory.mktemp("twin") / "home"))) as twin:
        twin.up()
        yield twin


@pytest.fixture
def own_twin(tmp_path: Path) -> Iterator[Twin]:
    """A twin of the test's own, not up yet."""
    with taken_down(Twin(TwinHome(tmp_path / "home"))) as twin:
        yield twin


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Gateway"]:
    """A twin that is up with a gateway and Prometheus. Tests leave it as they found it."""
    from tests.system.e2e import gateway_twin, pinned  # only the gateway's tests need the program for it

    with gateway_twin.up(tmp_path_factory.mktemp("gateway") / "home", pinned.GATEWAY) as found:
        yield found


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Nodes"]:
    """A twin that is up, whose nodes Karpenter starts. Tests leave it so: Triton on a GPU node, the worker on another."""
    from tests.system.e2e.karpenter_nodes import karpenter_twin  # which needs this module

    with karpenter_twin(TwinHome(tmp_path_factory.mktemp("nodes") / "home")) as found:
        yield found


def clone(tmp_path: Path) -> Path:
    """A checkout of its own, so that a test can change files; uncommitted changes of this one are not in it."""
    checkout = tmp_path / "checkout"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(REPOSITORY), str(checkout)], check=True)
    (checkout / "policies" / "venv").symlink_to(sys.prefix)  # as `make venv` does
    return checkout


def change(file: Path, old: str, new: str) -> None:
    """Puts `new` in the place of `old`, which the file must have once."""
    text = file.read_text()
    assert text.count(old) == 1, f"{file}: {old!r} stands in it {text.count(old)} times"
    file.write_text(text.replace(old, new))
