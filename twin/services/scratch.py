"""A twin that lives for one command: apply another revision's program to it, then preview or make a change."""

import contextlib
import io
import secrets
import subprocess
import tarfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from spec import stack_names
from spec.failure import NOT_TRIED, Failure
from twin.engine.engine import EngineError
from twin.host import claim, processes, tools
from twin.host.home import REPOSITORY, TwinHome
from twin.plugins import awaiting
from twin.services import leftovers, prerequisites
from twin.services.servers import PROGRAMS, Servers


class UnknownRevision(Failure):
    """git does not know the revision; the text is git's."""

    exit_code = NOT_TRIED


@contextlib.contextmanager
def twin(home: TwinHome, console: Console) -> Iterator[Servers]:
    """Start a twin below `home`, without pods, and remove it with its processes when the block ends. Raises NotATwin."""
    with _home(home) as own:
        yield Servers.start(own, tools.ensure(PROGRAMS, console), console, with_agent=False)


@contextlib.contextmanager
def platform(home: TwinHome, families: Sequence[str], console: Console, *, pictures: bool = True) -> Iterator[Servers]:
    """Start such a twin with nodes and pods, and the programs of `families`. Raises NotATwin or Lacking.

    `pictures`: models that read pictures are released to it.
    """
    with _home(home) as own:
        prerequisites.check(own, pictures=pictures)
        yield Servers.start(own, tools.ensure([*PROGRAMS, *families], console), console)


@contextlib.contextmanager
def account(home: TwinHome, account_id: str, console: Console) -> Iterator[Servers]:
    """Start such a twin of the AWS account `account_id`, without a cluster, which previews do not need. Raises NotATwin."""

    def say(line: str) -> None:
        console.print(line, markup=False, highlight=False)

    with _home(home) as own:
        yield Servers.without_cluster(own, tools.ensure(PROGRAMS[:1], console), say, account_id)


@contextlib.contextmanager
def _home(home: TwinHome) -> Iterator[TwinHome]:
    claim.claim(home.path)
    own = TwinHome(home.path / "scratch" / f"twin-{secrets.token_hex(4)}")
    claim.claim(own.path)
    try:
        yield own
    finally:
        processes.stop_all(own)
        leftovers.remove(own)
        claim.remove(own.path, keep_directory=False)


def check(revision: str, stacks: Collection[str] = ()) -> None:
    """Raise UnknownRevision unless git knows `revision` as a commit that has a file for each of `stacks`."""
    _git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}", revision=revision)
    files = {stack_names.stack_file(stack) for stack in stacks}
    there = _git("ls-tree", "-r", "--name-only", "-z", revision, revision=revision).decode().split("\0") if files else ()
    missing = sorted(files.difference(there))
    if missing:
        raise UnknownRevision(
            f"{revision}: it has no {' and no '.join(missing)}; give a revision of this program that has "
            f"{'it' if len(missing) == 1 else 'them'}"
        )


def stack_file(revision: str, stack: str) -> bytes:
    """Return a stack's file in a git revision. Raises UnknownRevision."""
    return _git("show", f"{revision}:{stack_names.stack_file(stack)}", revision=revision)


def of_revision(servers: Servers, revision: str) -> Servers:
    """Return the servers with the program of a git revision for their engine. Raises UnknownRevision."""
    program = servers.home.path / "program"
    _extract(revision, program)
    return replace(servers, program=program)


def apply(servers: Servers, stack: str, revision: str, console: Console) -> None:
    """Apply the program of a git revision to `stack`. Raises UnknownRevision, or EngineError if that program fails."""
    engine = of_revision(servers, revision).engine()
    console.print(f"applying {stack} as of {revision} to a scratch twin ...", markup=False)
    try:
        engine.read(stack, ["up", "--yes", "--skip-preview", "--non-interactive"], awaiting.WITHOUT)
    except EngineError as error:
        raise EngineError(
            f"the program of {revision} could not be applied, so there is nothing to compare with. {error}"
        ) from None


def _extract(revision: str, directory: Path) -> None:
    content = _git("archive", "--format=tar", revision, revision=revision)
    directory.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        archive.extractall(directory, filter="data")


def _git(*arguments: str, revision: str) -> bytes:
    done = subprocess.run(["git", *arguments], cwd=REPOSITORY, capture_output=True, check=False)
    if done.returncode != 0:
        said = done.stderr.decode().strip() or "git knows no commit of that name (branches, tags and hashes are names)"
        raise UnknownRevision(f"{revision}: {said}")
    return done.stdout
