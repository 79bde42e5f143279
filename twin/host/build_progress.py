"""Shows how far programs are that are being built: live on a terminal, as lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from twin.host.go_build import Builds, Phase, Programs, Progress

if TYPE_CHECKING:
    from rich.console import Console


def say(text: str, console: Console | None) -> None:
    """Prints lines; without a console, on standard error, for which no package is needed."""
    if console is None:
        print(text, file=sys.stderr, flush=True)
    else:
        console.print(text, markup=False, highlight=False, soft_wrap=True)


def show(builds: Builds, names: Sequence[str], console: Console | None) -> None:
    """Waits until `names` are there, and shows how far all of `builds` are. Raises BuildFailed."""
    steps = _live(builds, names, console) if console is not None and console.is_terminal else builds.until_there(names)
    told: dict[str, Phase] = {}
    for _ in steps:
        for name in names:
            phase = builds.progress[name].phase
            if told.get(name) is not phase:
                told[name] = phase
                line = _line(builds.programs[name], builds.progress[name])
                if line:
                    say(line, console)


def _line(programs: Programs, progress: Progress) -> str:
    """What there is to say of programs whose phase is another one now."""
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
    """`builds.until_there`, below what is printed meanwhile: a bar for each of them, and the time that is left for all."""
    from rich import progress as rich_progress  # a package, and not always there

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
