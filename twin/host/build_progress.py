"""Show the progress of builds: live on a terminal, else as lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from twin.host.go_build import Builds, Phase, Programs, Progress

if TYPE_CHECKING:
    from rich.console import Console

_LINES = 5
"""How many progress lines are printed for a set of programs without a terminal."""


def say(text: str, console: Console | None) -> None:
    """Print lines; without a console, on standard error, which needs no package."""
    if console is None:
        print(text, file=sys.stderr, flush=True)
    else:
        console.print(text, markup=False, highlight=False, soft_wrap=True)


def show(builds: Builds, names: Sequence[str], console: Console | None) -> None:
    """Wait until `names` are built, and show the progress of all of `builds`. Raises BuildFailed."""
    is_live = console is not None and console.is_terminal
    steps = _live(builds, names, console) if is_live and console is not None else builds.until_there(names)
    told: dict[str, Phase] = {}
    parts: dict[str, int] = {}
    for _ in steps:
        for name in names:
            programs, progress = builds.programs[name], builds.progress[name]
            if told.get(name) is not progress.phase:
                told[name] = progress.phase
                line = _line(programs, progress)
                if line:
                    say(line, console)
            part = int(progress.share() * _LINES)
            if not is_live and progress.phase is Phase.COMPILING and part > parts.get(name, 0):
                parts[name] = part
                say(", ".join(filter(None, (f"{name}: {_detail(progress)}", _left(builds.left())))), console)


def _line(programs: Programs, progress: Progress) -> str:
    """Return the line to print when the programs enter a new phase; empty if there is none."""
    label = f"{programs.name} {programs.version}"
    match progress.phase:
        case Phase.ELSEWHERE:
            return f"waiting for another command that builds {label}"
        case Phase.COMPILING:
            return f"building {label} ({', '.join(programs.packages)}) ..."
        case Phase.BUILT if progress.took is not None:
            return f"built {label} in {progress.took:.0f} s"
    return ""


def _live(builds: Builds, names: Sequence[str], console: Console) -> Iterator[None]:
    """Run `builds.until_there` and show a bar for each set, and the remaining time of all, below other output."""
    from rich import progress as rich_progress  # a package that may not be installed

    columns = (
        rich_progress.TextColumn("{task.description}"),
        rich_progress.BarColumn(),
        rich_progress.TextColumn("{task.fields[detail]}"),
    )
    with rich_progress.Progress(*columns, console=console, transient=True) as bars:
        rows = {name: bars.add_task(f"{name} {one.version}", total=1.0, detail="") for name, one in builds.programs.items()}
        together = bars.add_task("all", total=1.0, detail="")
        for _ in builds.until_there(names):
            for name, row in rows.items():
                progress = builds.progress[name]
                bars.update(row, completed=progress.share(), detail=_detail(progress))
            bars.update(together, completed=builds.share(), detail=_left(builds.left()))
            yield


def _detail(progress: Progress) -> str:
    if progress.phase is Phase.COMPILING:
        return f"{progress.compiled} of {progress.packages} packages"
    return progress.phase.value


def _left(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return "less than a minute left" if seconds < 60 else f"about {seconds / 60:.0f} min left"
