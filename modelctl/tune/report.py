"""Show the progress and the results of a tuning run."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from console.terminal import table
from modelctl.tune.gpu_memory import MemoryUse
from modelctl.tune.study import Trial, Watch, in_short

_GPU_MEMORY = "GPU MiB"
_NUMERIC = frozenset({"#", "batch", "delay µs", "instances", "requests/s", "p95 ms", "lone p95 ms", "loads", _GPU_MEMORY})


class Lines(Watch):
    """Prints a line per trial, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def measured(self, trial: Trial) -> None:
        self._console.print(sentence(trial), markup=False, soft_wrap=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        pass


class Bar(Lines):
    """Shows a bar that fills with the budget, and the current measurement. Above it a line per trial."""

    def __init__(self, console: Console, budget_seconds: float) -> None:
        super().__init__(console)
        self._budget = budget_seconds
        self._progress = Progress(
            TextColumn("tuning"),
            BarColumn(),
            TimeElapsedColumn(),
            TextColumn("of {task.total:.0f} s, {task.fields[now]}", markup=False),
            console=console,
        )
        self._task = self._progress.add_task("tuning", total=budget_seconds, now="loading the model")
        self._start = time.monotonic()

    def probing(self, trial: Trial, rate: float) -> None:
        self._update(f"trial {trial.number}: {trial.candidate} at {in_short(rate)} requests/s")

    def measured(self, trial: Trial) -> None:
        super().measured(trial)
        self._update("loading the next configuration")

    def _update(self, now: str) -> None:
        done = min(time.monotonic() - self._start, self._budget)
        self._progress.update(self._task, completed=done, now=now)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._progress.stop()


def watch_on(console: Console, budget_seconds: float) -> Bar | Lines:
    """Return the watch that fits the console."""
    return Bar(console, budget_seconds) if console.is_terminal else Lines(console)


def sentence(trial: Trial) -> str:
    """Return one trial in a line."""
    held = f"{_rate(trial)} requests/s" if trial.rate else f"misses the SLO (lone p95 {trial.lone_p95_ms:.1f} ms)"
    return f"trial {trial.number} ({trial.origin}): {trial.candidate}: {held}"


def _rate(trial: Trial) -> str:
    return f"{trial.rate:.1f}" if trial.rate >= 1 or not trial.rate else f"{trial.rate:.2g}"


def table_of(trials: Sequence[Trial]) -> Table:
    """Return the trials, best first, with the maximum GPU memory if it was measured."""
    columns = ["#", "batch", "delay µs", "instances", "requests/s", "p95 ms", "lone p95 ms", "loads"]
    on_gpu = any(trial.gpu_memory is not None for trial in trials)
    made = table(*columns, *[_GPU_MEMORY] * on_gpu, "why", right=_NUMERIC)
    for trial in sorted(trials, key=lambda trial: -trial.rate):
        candidate = trial.candidate
        best = max((probe for probe in trial.probes if probe.held), key=lambda probe: probe.rate, default=None)
        p95 = f"{best.summary.p95_ms:.1f}" if best is not None and best.summary.p95_ms is not None else "-"
        values = (trial.number, candidate.max_batch_size, candidate.max_queue_delay_us, candidate.instances)
        measured = [_rate(trial), p95, f"{trial.lone_p95_ms:.1f}", str(len(trial.probes))]
        if on_gpu:
            measured.append("-" if trial.gpu_memory is None else str(trial.gpu_memory.taken_mib))
        made.add_row(*map(str, values), *measured, trial.origin)
    return made


def memory_in_words(
    use: MemoryUse, instances: Mapping[str, int], instance_mib: Mapping[str, int], stack: Path | None
) -> str:
    """Return the GPU memory that was taken. If the stack's total for `instances` of its models is less, it is added."""
    said = (
        f"GPU memory: {use.taken_mib} MiB taken at the highest "
        f"({use.before_mib} in use before, {use.loaded_mib} when loaded, {use.highest_mib} then)"
    )
    counted = sum(count * instance_mib[name] for name, count in instances.items())
    if not instances or counted >= use.taken_mib:
        return said
    terms = " + ".join(f"{name} {count} x {instance_mib[name]}" for name, count in instances.items())
    what, mend = f"gpuMemoryMiB of {stack} counts {counted} MiB ({terms})", "give more to the model that takes it"
    if len(instances) == 1:
        ((name, count),) = instances.items()
        mend = f"give models.serving.{name}.gpuMemoryMiB {math.ceil(use.taken_mib / count)} or more"
    return f"{said}\n{what}, which is less: pods would run out of GPU memory; {mend}"


def busy_in_words(load: float, most: float) -> str:
    """Return the warning for figures that were measured while other work ran."""
    return (
        f"the machine was busy: its load average was {load:g} before the first measurement, and is {most:g} at most where "
        "other work changes no figure; tune again on a machine that does nothing else before you keep these values"
    )
