"""The parts that Prometheus rules are made of, as the mappings that a rule file holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from spec.names import FETCH_METRIC, TRITON_CHART, TRITON_NAMESPACE
from spec.settings.model import Settings
from spec.settings.serving import ModelServing

Rule = dict[str, Any]
Group = dict[str, Any]
Severity = Literal["critical", "warning"]
"""`critical` wakes somebody up: requests fail or wait now. `warning` is for the next working hour."""

JOB = TRITON_CHART
"""The `job` label of its scrape targets: the monitor takes it from the pods' label `app.kubernetes.io/name`."""
SCRAPE_SECONDS = 15
"""Between two scrapes of a pod that nothing is scaled on. The rules' shortest window, a minute, has to hold four of them.

See docs/facts/triton-metrics.md#windows.
"""
TRITON_SCRAPE_SECONDS = 5
"""The same of Triton's pods, which are scaled on what is scraped: it is a part of the time until another pod is wanted."""
SCALING_WINDOW_SECONDS = 30
"""Shortest window of the numbers that pods are scaled on. It holds six scrapes."""
LONGEST_SCALING_WINDOW_SECONDS = 1800
"""Two windows are the longest time that a HorizontalPodAutoscaler may look back."""
BATCHES_IN_A_SCALING_WINDOW = 20
"""Triton counts an execution when it ends, for as long as it took: a window of half of one holds none, or twice its time.

With twenty, what a window has by chance is a tenth of what a fleet of a few pods needs, and such a fleet keeps its number of
pods; with ten, it changes every few hours (benchmarks/autoscaling.md#models-that-share-a-gpu).
"""

_MINUTE, _HOUR = 60, 3600


def scaling_window_seconds(wants: ModelServing) -> int:
    """Return the window of the numbers that a model's pods are scaled on, by its longest execution.

    A batch takes half of the SLO, as the alerts and the derived targets assume; a stream, as long as the stack says.
    """
    stream = wants.longest_stream_seconds if wants.decoupled else None
    longest = max(wants.slo_p95_ms / 2000, stream or 0)
    window = math.ceil(BATCHES_IN_A_SCALING_WINDOW * longest)
    return min(max(window, SCALING_WINDOW_SECONDS), LONGEST_SCALING_WINDOW_SECONDS)


def series(name: str, *matchers: str, **labels: str | Sequence[str]) -> str:
    """Return the series of a metric in Triton's namespace that have these labels and fit these matchers (`le=~"50"`).

    A label with several values is any of them: `deployment=["triton-a", "triton-b"]`.
    """
    equal = (_is(label, value) for label, value in {"namespace": TRITON_NAMESPACE, **labels}.items())
    return f"{name}{{{','.join([*equal, *matchers])}}}"


def answering(settings: Settings, *matchers: str) -> str:
    """Return the targets of Triton's pods that fit the matchers and answer: not of those that fetch their release, which
    answer on the same port.
    """
    up = f"{series('up', *matchers, job=JOB)} == 1"
    if settings.models.access != "local":
        return up
    return f"{up} unless on (namespace, pod) {series(FETCH_METRIC)}"


def pods_of(deployments: Sequence[str]) -> str:
    """Return the matcher of the pods of Deployments in Triton's namespace, by the names that Kubernetes gives them."""
    return f'pod=~"{any_of(deployments)}-[0-9a-z]+-[0-9a-z]{{5}}"'


def _is(label: str, value: str | Sequence[str]) -> str:
    values = [value] if isinstance(value, str) else value
    return f'{label}="{values[0]}"' if len(values) == 1 else f'{label}=~"{any_of(values)}"'


def any_of(names: Sequence[str]) -> str:
    """Return the regular expression of these names."""
    each = [name.replace(".", "[.]") for name in names]
    return each[0] if len(each) == 1 else f"({'|'.join(each)})"


def record(name: str, expression: str, labels: dict[str, str] | None = None) -> Rule:
    """Return a rule that keeps the value of an expression under a name (`level:metric:operation`)."""
    return {"record": name, "expr": expression, **({"labels": labels} if labels else {})}


def alert(
    name: str,
    expression: str,
    *,
    lasting: str,
    severity: Severity,
    summary: str,
    description: str,
    labels: dict[str, str] | None = None,
) -> Rule:
    """Return a rule that tells somebody once its expression has held for `lasting`. Each has a page in docs/runbooks."""
    return {
        "alert": name,
        "expr": expression,
        "for": lasting,
        "labels": {"severity": severity, **(labels or {})},
        "annotations": {"summary": summary, "description": description},
    }


def group(name: str, rules: list[Rule], interval: str | None = None) -> Group:
    """Rules that are evaluated one after the other, every `interval` (None: as often as Prometheus does by default)."""
    return {"name": name, **({"interval": interval} if interval else {}), "rules": rules}


def duration(seconds: int) -> str:
    """Prometheus's notation of a time, in the largest unit that fits, rounded up to full minutes."""
    minutes = -(-seconds // _MINUTE)
    return f"{minutes // 60}h" if minutes % 60 == 0 and minutes else f"{minutes}m"
