"""Show the progress of a command on standard error. On a terminal it is a bar, else a line per object."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn


class Observer(Protocol):
    """Gets the progress of a command; several threads may call it."""

    def begin(self, phase: str, total_bytes: int) -> None:
        """Start a phase (`hashing`, `uploading`, `reading`)."""

    def advance(self, size: int) -> None:
        """Add `size` bytes to the finished part of the phase."""

    def finished(self, key: str, size: int, how: str) -> None:
        """Report one finished object; `how` is a past participle such as `uploaded`."""


class Silent:
    """Shows no progress, for callers that are programs."""

    def begin(self, phase: str, total_bytes: int) -> None:
        pass

    def advance(self, size: int) -> None:
        pass

    def finished(self, key: str, size: int, how: str) -> None:
        pass


class Lines:
    """Prints a line per object, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def begin(self, phase: str, total_bytes: int) -> None:
        self._console.print(f"{phase} {decimal(total_bytes)}", highlight=False, soft_wrap=True)

    def advance(self, size: int) -> None:
        pass

    def finished(self, key: str, size: int, how: str) -> None:
        self._console.print(f"  {how} {key} ({decimal(size)})", highlight=False, markup=False, soft_wrap=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Bar:
    """Shows one bar per phase."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description:>9}"),
            BarColumn(),
            DownloadColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[key]}", markup=False),
            console=console,
        )
        self._task: TaskID | None = None

    def begin(self, phase: str, total_bytes: int) -> None:
        self._task = self._progress.add_task(phase, total=total_bytes, key="")

    def advance(self, size: int) -> None:
        if self._task is not None:
            self._progress.advance(self._task, size)

    def finished(self, key: str, size: int, how: str) -> None:
        if self._task is not None:
            self._progress.update(self._task, key=f"{how} {key} ({decimal(size)})")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._progress.stop()


def observer(console: Console) -> Bar | Lines:
    """Return the observer that fits the console."""
    return Bar(console) if console.is_terminal else Lines(console)
