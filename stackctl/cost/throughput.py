"""Measured throughput of a stack's models: the evidence of `modelctl tune` that its file names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spec import reading
from spec.failure import NOT_TRIED, Failure
from spec.reading import Unreadable
from spec.settings import Settings

RESULTS = Path("benchmarks") / "results"
"""Of the checkout, which is the working directory."""


class EvidenceError(Failure):
    """Evidence that a stack file names and that cannot be used; the message says which and why."""

    exit_code = NOT_TRIED


@dataclass(frozen=True)
class Measured:
    """`rate`: requests per second that one server held within the SLO. `where`: the machine that it was measured on.

    `lone_ms`: what a request took that came alone, 95 of 100 times; None where the evidence does not say it.
    `server_on_loopback`: the server was on the machine of the load, or behind a port forwarded to it.
    """

    rate: float
    where: str
    lone_ms: float | None = None
    server_on_loopback: bool = False


def measured(settings: Settings) -> dict[str, Measured]:
    """Return the measured throughput of each model that was tuned and held its SLO at some rate. Raises EvidenceError."""
    found = {}
    for model, wants in sorted(settings.models.serving.items()):
        if wants.tuned is not None:
            evidence = _read(RESULTS / Path(wants.tuned).name, model)
            if evidence.rate > 0:
                found[model] = evidence
    return found


def measured_rates(settings: Settings) -> dict[str, float]:
    """Return `Measured.rate` by model. Raises EvidenceError."""
    return {model: evidence.rate for model, evidence in measured(settings).items()}


def _read(file: Path, model: str) -> Measured:
    try:
        evidence = reading.json_file(file)
        of, rate, where = evidence["model"], float(evidence["winner"]["rate"]), _machine(evidence["machine"])
        on_loopback = bool(evidence["machine"]["server_on_loopback"])
        values = evidence["winner"].get("values")
        alone = [float(trial["lone_p95_ms"]) for trial in evidence.get("trials", []) if trial["values"] == values]
    except Unreadable as error:
        raise EvidenceError(f"{file.name}: evidence that a stack file names cannot be read: {error}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise EvidenceError(
            f"{file.name}: evidence that a stack file names cannot be read from {file.parent}: {error!r}"
        ) from None
    if of != model:
        raise EvidenceError(f"{file.name}: the stack file names it as evidence of {model}, and it is of {of}")
    return Measured(rate, where, alone[0] if alone else None, on_loopback)


def _machine(machine: Mapping[str, Any]) -> str:
    """Return where a rate was measured, in words.

    The evidence describes the machine of the load: the server's own where both were one (`server_on_loopback`).
    """
    if not machine["server_on_loopback"]:
        return "a server elsewhere, over a network"
    return f"{machine['cpus']} CPUs ({machine['cpu']})"
