"""Compile Go programs in the background, one set after the other, and report progress.

The modules and objects that Go caches are ten times as large as the programs. They are kept separately and deleted when the
programs are built. An interrupted or failed build leaves them, and the next run continues from there. They are deleted only
from a directory that a build created or found empty, as a CACHEDIR.TAG shows (https://bford.info/cachedir/).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from spec.files import write_whole
from twin.host import go_toolchain

_POLL_SECONDS = 0.2
_END_OF_OUTPUT = 15
_MAJOR_VERSION = re.compile(r"v[0-9]+")
_LARGE_ONES_LAST = 1.5
"""The exponent that converts the share of the packages into the share of the time. The largest packages are compiled last.

The first half took 28 % of the time for Pulumi and 44 % for Kubernetes (`go build -debug-actiongraph`).
"""


_LOCK = "lock"
_PARTIAL = ".new-"
"""The name of a file that is not completely written yet contains this (spec/files.py)."""
_REMOVED = "removed-"
"""The prefix of directories with content that is being removed."""
PATCH = "_patch"
"""The folder next to a go.mod that has the patch of a dependency. Go ignores folders with such a name as packages."""
_TAG = "CACHEDIR.TAG"
# The first line is the specification's; the second one names the owner.
_TAGGED = b"Signature: 8a477f597d28d172789f06886806bc55\n# What Go has cached while it compiled the programs of a twin.\n"


class BuildFailed(RuntimeError):
    """A build cannot start, or `go` failed; the text gives the reason, or ends with the output of `go`."""


class _Stopped(Exception):
    """The programs are no longer needed."""


class Phase(Enum):
    """The state of a set of programs."""

    WAITING = "waiting"
    DOWNLOADING = "downloading modules"
    ELSEWHERE = "being built by another command"
    COMPILING = "compiling"
    BUILT = "built"


class Programs(NamedTuple):
    """A set of programs that one `go build` creates.

    `packages` maps each program to its package, relative to `module`, the folder of a go.mod. `flags` are the build's
    options. The programs are put into `directory` all at once. `seconds` is the build time with nothing cached, relative to
    other sets. `patched` is the path of a dependency that is compiled with changes: the files and patches in the folder
    PATCH of `module`.
    """

    name: str
    version: str
    module: Path
    packages: Mapping[str, str]
    flags: Sequence[str]
    directory: Path
    seconds: float
    patched: str = ""

    def paths(self) -> dict[str, Path]:
        """Return the path of each program, once it has been built."""
        return {program: self.directory / program for program in self.packages}

    def there(self) -> bool:
        """Return whether all of them have been built."""
        return all(os.access(path, os.X_OK) for path in self.paths().values())


class Progress:
    """The progress of a set of programs. One thread writes it while others read.

    `took` is the build time in seconds; None until then, and if another command has built them.
    """

    def __init__(self) -> None:
        self.phase = Phase.WAITING
        self.packages = 0
        self.took: float | None = None
        self._imports: Mapping[str, Sequence[str]] = {}
        self._compiled: set[str] = set()

    @property
    def compiled(self) -> int:
        """Return how many of the packages have been compiled, now or earlier."""
        return len(self._compiled)

    def share(self) -> float:
        """Return the elapsed share of the time, from 0 to 1."""
        if self.phase is Phase.BUILT:
            return 1.0
        return (self.compiled / self.packages) ** _LARGE_ONES_LAST if self.packages else 0.0

    def consists_of(self, imports: Mapping[str, Sequence[str]]) -> None:
        """Set all packages of the programs, with their imports."""
        self._imports, self.packages = imports, len(imports)

    def compiles(self, package: str) -> bool:
        """Record that `package` is being compiled and its imports are done; return whether it is one of the packages."""
        needed = [package]
        while needed:
            one = needed.pop()
            if one in self._imports and one not in self._compiled:
                self._compiled.add(one)
                needed += self._imports[one]
        return package in self._imports


@contextlib.contextmanager
def building(go: Path, programs: Sequence[Programs], cache: Path) -> Iterator[Builds]:
    """Build `programs` in their order while the block runs. Unfinished builds are stopped if an error ends the block.

    Their caches are in `cache`. A failed or interrupted build leaves them, and the last build that succeeds deletes them.
    Raises BuildFailed if that directory belongs to something else.
    """
    _claim(cache)
    with (cache / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        builds = Builds(go, programs, cache)
        try:
            yield builds
        finally:
            builds.stop()
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(cache)


class Builds:
    """Programs being built: see `building`."""

    def __init__(self, go: Path, programs: Sequence[Programs], cache: Path) -> None:
        self.programs = {one.name: one for one in programs}
        self.progress = {one.name: Progress() for one in programs}
        self._go, self._environment = go, go_toolchain.environment(cache)
        self._began: tuple[float, float] | None = None
        """When the first package was compiled, and the progress at that time, in seconds of `Programs`."""
        self._running: set[subprocess.Popen[str]] = set()
        self._starting = threading.Lock()
        self._stopped = threading.Event()
        # Two executors, so that the modules of a set are downloaded while the set before it is compiled.
        self._reading, self._building = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
        imports = [self._reading.submit(self._list, one) for one in programs]
        self._ends = {
            one.name: self._building.submit(self._ensure, one, its) for one, its in zip(programs, imports, strict=True)
        }

    def until_there(self, names: Sequence[str]) -> Iterator[None]:
        """Yield several times a second until all of `names` are built, and once after that. Raises BuildFailed."""
        waiting = {self._ends[name] for name in names}
        while waiting:
            yield
            ended, waiting = wait(waiting, timeout=_POLL_SECONDS)
            for end in ended:
                end.result()
        yield

    def share(self) -> float:
        """Return the elapsed share of the time for all of them, from 0 to 1."""
        return self._done() / sum(one.seconds for one in self.programs.values())

    def left(self) -> float | None:
        """Return the remaining seconds at the current speed; None while too little is done for an estimate."""
        if self._began is None:
            return None
        at, before = self._began
        done = self._done() - before
        everything = sum(one.seconds for one in self.programs.values())
        return (time.monotonic() - at) * (everything - before - done) / done if done > 0.02 * everything else None

    def stop(self) -> None:
        """Stop running commands, and wait until they have cleaned up, even if Ctrl-C is pressed again."""
        try:
            with self._starting:
                self._stopped.set()
                for process in self._running:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGINT)
            for threads in (self._reading, self._building):
                threads.shutdown(cancel_futures=True)
        except KeyboardInterrupt:
            self.stop()

    def _done(self) -> float:
        return sum(self.progress[name].share() * one.seconds for name, one in self.programs.items())

    def _list(self, programs: Programs) -> dict[str, list[str]]:
        """Return every package of the programs with its imports. For this, `go` downloads the modules."""
        imports: dict[str, list[str]] = {}

        def take(line: str) -> bool:
            package, *needed = line.split(" ")
            if package == "go:":  # it downloads something
                return False
            imports[package] = needed
            return True

        with self._patched(programs) as patched:
            listed = "{{.ImportPath}}{{range .Imports}} {{.}}{{end}}"
            self._go_on(programs, ["list", *patched, "-deps", "-f", listed], take)
        return imports

    def _ensure(self, programs: Programs, imports: Future[dict[str, list[str]]]) -> None:
        if self._stopped.is_set():
            raise _Stopped
        progress = self.progress[programs.name]
        programs.directory.parent.mkdir(parents=True, exist_ok=True)
        with programs.directory.with_name(f"{programs.directory.name}.lock").open("w") as lock:
            while not _locked(lock.fileno()):
                progress.phase = Phase.ELSEWHERE
                if self._stopped.wait(_POLL_SECONDS):
                    raise _Stopped
            if not programs.there():
                progress.phase = Phase.DOWNLOADING
                progress.consists_of(imports.result())
                progress.phase = Phase.COMPILING
                progress.took = self._build(programs)
        progress.phase = Phase.BUILT

    def _build(self, programs: Programs) -> float:
        """Build the programs, move them to their directory in one step, and return the seconds it took."""
        began = time.monotonic()
        target = programs.directory
        for left in target.parent.glob(f".{target.name}-*"):  # left by a build that was killed
            shutil.rmtree(left, ignore_errors=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        try:
            with self._patched(programs) as patched:
                build = ["build", "-v", *patched, "-o", f"{partial}{os.sep}"]
                self._go_on(programs, build, lambda line: self._compiles(programs, line))
            for program, package in programs.packages.items():
                (partial / _name_by_go(programs.module, package)).rename(partial / program)
            partial.chmod(0o755)
            if target.exists():  # a broken one; a complete one would have been used
                shutil.rmtree(target)
            partial.rename(target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        return time.monotonic() - began

    @contextlib.contextmanager
    def _patched(self, programs: Programs) -> Iterator[list[str]]:
        """Create a patched copy of a dependency for the block, and yield the `go` flag that selects it.

        Without a patch there is no flag. Raises BuildFailed if the patch does not fit the pinned version. (Go refuses an
        overlay over its cache.)
        """
        if not programs.patched:
            yield []
            return
        asked = [str(self._go), "mod", "download", "-json", programs.patched]
        published = Path(json.loads(_output(asked, programs.module, self._environment))["Dir"])
        changes = programs.module / PATCH
        with tempfile.TemporaryDirectory(dir=self._environment["GOTMPDIR"]) as temporary:
            directory = Path(temporary)
            copy = directory / "module"
            shutil.copytree(published, copy, ignore=shutil.ignore_patterns("testdata", "*_test.go"))
            shutil.copytree(changes, copy, dirs_exist_ok=True)
            # Outside any git repository, because `git apply` would otherwise resolve paths relative to the repository.
            environment = {**self._environment, "GIT_CEILING_DIRECTORIES": str(directory)}
            for patch in sorted(changes.glob("*.patch")):
                _output(["git", "apply", str(patch)], copy, environment)
            shutil.copyfile(programs.module / "go.sum", directory / "go.sum")
            required = (programs.module / "go.mod").read_text()
            (directory / "go.mod").write_text(f"{required}\nreplace {programs.patched} => {copy}\n")
            yield ["-modfile", str(directory / "go.mod")]

    def _compiles(self, programs: Programs, line: str) -> bool:
        is_package = self.progress[programs.name].compiles(line)
        if is_package and self._began is None:
            self._began = (time.monotonic(), self._done())
        return is_package

    def _go_on(self, programs: Programs, command: Sequence[str], take: Callable[[str], bool]) -> None:
        """Run a `go` command on the programs. `take` gets each line and returns whether it understood it."""
        argv = [str(self._go), *command, *programs.flags, *programs.packages.values()]
        not_understood: deque[str] = deque(maxlen=_END_OF_OUTPUT)
        with self._starting:
            if self._stopped.is_set():
                raise _Stopped
            process = subprocess.Popen(
                argv,
                cwd=programs.module,
                env=self._environment,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                process_group=0,  # its compilers are stopped with it
            )
            self._running.add(process)
        with process:
            for line in process.stdout or ():
                if not take(line.rstrip("\n")):
                    not_understood.append(line)
        with self._starting:
            self._running.remove(process)
        if self._stopped.is_set():
            raise _Stopped
        if process.returncode != 0:
            raise BuildFailed(
                f"building {', '.join(programs.packages)} from {programs.module / 'go.mod'} failed "
                f"(`go {command[0]}` ended with {process.returncode}). The end of its output:\n"
                f"{''.join(not_understood).rstrip()}"
            )


def _claim(cache: Path) -> None:
    """Mark the directory as one that builds may empty. Raises BuildFailed if it belongs to something else."""
    tag = cache / _TAG
    cache.mkdir(parents=True, exist_ok=True)
    if tag.is_file() and tag.read_bytes() == _TAGGED:
        return
    names = sorted(entry.name for entry in cache.iterdir() if not entry.name.startswith(_PARTIAL))
    if names:
        raise BuildFailed(
            f"{cache} was not made by a build: it has {', '.join(names[:3])}, and no {_TAG} as a build writes it. "
            "Nothing in it was touched. Move it away, or set XDG_CACHE_HOME to another directory"
        )
    write_whole(tag, _TAGGED, mode=0o644)


def _remove(cache: Path) -> None:
    """Delete the caches in the background, with leftovers of a killed removal: a disk may take a minute for 150000 files."""
    done = Path(tempfile.mkdtemp(prefix=_REMOVED, dir=cache))
    for folder in go_toolchain.FOLDERS.values():
        (cache / folder).rename(done / folder)
    folders = [str(folder) for folder in cache.glob(f"{_REMOVED}*")]
    in_background = 'nice rm -rf -- "$@" </dev/null >/dev/null 2>&1 &'
    subprocess.run(["sh", "-c", in_background, "sh", *folders], start_new_session=True, check=True)


def _output(command: Sequence[str], directory: Path, environment: Mapping[str, str]) -> str:
    """Return the output of a short command. Raises BuildFailed with its error output if it fails."""
    done = subprocess.run(command, cwd=directory, env=environment, text=True, capture_output=True, check=False)
    if done.returncode != 0:
        raise BuildFailed(f"`{' '.join(command)}` ended with {done.returncode}:\n{done.stderr.rstrip()}")
    return done.stdout


def _locked(lock: int) -> bool:
    """Take the lock unless another process has it; return whether it was taken."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _name_by_go(module: Path, package: str) -> str:
    """Return the name that `go build` gives the program of a package: the last path part that is not a major version."""
    last = [part for part in package.split("/") if not _MAJOR_VERSION.fullmatch(part)][-1]
    return module.name if last == "." else last
