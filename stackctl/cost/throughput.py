"""Read the measured throughput of a stack's models from its `modelctl tune` evidence."""

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
"""In the checkout, which is the working directory."""


class EvidenceError(Failure):
    """Evidence in a stack file cannot be used. The message names it and the reason."""

    exit_code = NOT_TRIED


@dataclass(frozen=True)
class Measured:
    """A measured throughput. `rate`: requests per second of one server within the SLO.

    `where`: the machine of the measurement. `lone_ms`: the 95th percentile latency of single requests, in milliseconds;
    None if the evidence does not have it. `server_on_loopback`: the server was on the load's machine, or behind a port
    forwarded to it.
    """

    rate: float
    where: str
    lone_ms: float | None = None
    server_on_loopback: bool = False


def measured(settings: Settings) -> dict[str, Measured]:
    """Return the throughput of each tuned model that met its SLO at some rate. Raises EvidenceError."""
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
    """Return the machine of a measurement, in words.

    The evidence describes the load's machine. It is also the server's machine if both were one (`server_on_loopback`).
    """
    if not machine["server_on_loopback"]:
        return "a server elsewhere, over a network"
    return f"{machine['cpus']} CPUs ({machine['cpu']})"
