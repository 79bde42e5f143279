"""Measured throughput of a stack's models: the evidence of `modelctl tune` that its file names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from infra.settings import Settings

RESULTS = Path(__file__).resolve().parents[1] / "benchmarks" / "results"


class EvidenceError(RuntimeError):
    """Evidence that a stack file names and that cannot be read; the message says which."""


def measured_rates(settings: Settings) -> dict[str, float]:
    """Requests per second that one server held within the SLO, by model; of the models that were tuned.

    The measurement was on the machine that the evidence names: other GPUs answer more or less. Raises EvidenceError.
    """
    found = {}
    for model, wants in sorted(settings.models.serving.items()):
        if wants.tuned is not None:
            rate = _rate(RESULTS / Path(wants.tuned).name)
            if rate > 0:
                found[model] = rate
    return found


def _rate(file: Path) -> float:
    try:
        evidence: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return float(evidence["winner"]["rate"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EvidenceError(
            f"{file.name}: evidence that a stack file names cannot be read from {file.parent}: {error!r}"
        ) from None
