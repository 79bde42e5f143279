"""The building blocks of Prometheus rules, as mappings for a rule file."""

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
"""`critical` pages: requests fail or wait now. `warning` can wait for the next working hour."""

JOB = TRITON_CHART
"""The `job` label of Triton's scrape targets. The monitor takes it from the pods' label `app.kubernetes.io/name`."""
SCRAPE_SECONDS = 15
"""The scrape interval of pods without scaling metrics. The rules' shortest window, a minute, has to hold four scrapes.

See docs/facts/triton-metrics.md#windows.
"""
TRITON_SCRAPE_SECONDS = 5
"""The scrape interval of Triton's pods. It delays scaling, because pods are scaled on these metrics."""
SCALING_WINDOW_SECONDS = 30
"""The shortest window of scaling metrics. It holds six scrapes."""
LONGEST_SCALING_WINDOW_SECONDS = 1800
"""The longest window. Two of them are the longest time that a HorizontalPodAutoscaler may look back."""
BATCHES_IN_A_SCALING_WINDOW = 20
"""The minimum of longest executions in a scaling window.

Triton counts an execution with its full duration when it ends. A window of half an execution therefore holds none, or twice
its time. With twenty, the random error of a window is a tenth of the load of a small fleet, which then keeps its number of
pods. With ten, the number changes every few hours (benchmarks/autoscaling.md#models-that-share-a-gpu).
"""

_MINUTE, _HOUR = 60, 3600


def scaling_window_seconds(wants: ModelServing) -> int:
    """Return the window of a model's scaling metrics, from its longest execution.

    A batch takes half of the SLO, as the alerts and the derived targets assume. A stream takes as long as the stack
    configures.
    """
    stream = wants.longest_stream_seconds if wants.decoupled else None
    longest = max(wants.slo_p95_ms / 2000, stream or 0)
    window = math.ceil(BATCHES_IN_A_SCALING_WINDOW * longest)
    return min(max(window, SCALING_WINDOW_SECONDS), LONGEST_SCALING_WINDOW_SECONDS)


def series(name: str, *matchers: str, **labels: str | Sequence[str]) -> str:
    """Return the series of a metric in Triton's namespace with these labels and matchers (`le=~"50"`).

    A label with several values matches any of them: `deployment=["triton-a", "triton-b"]`.
    """
    equal = (_is(label, value) for label, value in {"namespace": TRITON_NAMESPACE, **labels}.items())
    return f"{name}{{{','.join([*equal, *matchers])}}}"


def answering(settings: Settings, *matchers: str) -> str:
    """Return the scrape targets of Triton pods that match and answer.

    Pods that fetch their release answer on the same port and are excluded.
    """
    up = f"{series('up', *matchers, job=JOB)} == 1"
    if settings.models.access != "local":
        return up
    return f"{up} unless on (namespace, pod) {series(FETCH_METRIC)}"


def pods_of(deployments: Sequence[str]) -> str:
    """Return the matcher for the pods of Deployments in Triton's namespace, by Kubernetes' naming scheme."""
    return f'pod=~"{any_of(deployments)}-[0-9a-z]+-[0-9a-z]{{5}}"'


def _is(label: str, value: str | Sequence[str]) -> str:
    values = [value] if isinstance(value, str) else value
    return f'{label}="{values[0]}"' if len(values) == 1 else f'{label}=~"{any_of(values)}"'


def any_of(names: Sequence[str]) -> str:
    """Return a regular expression that matches any of these names."""
    each = [name.replace(".", "[.]") for name in names]
    return each[0] if len(each) == 1 else f"({'|'.join(each)})"


def record(name: str, expression: str, labels: dict[str, str] | None = None) -> Rule:
    """Return a rule that records the value of an expression under a name (`level:metric:operation`)."""
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
    """Return a rule that alerts once its expression has held for `lasting`. Each alert has a page in docs/runbooks."""
    return {
        "alert": name,
        "expr": expression,
        "for": lasting,
        "labels": {"severity": severity, **(labels or {})},
        "annotations": {"summary": summary, "description": description},
    }


def group(name: str, rules: list[Rule], interval: str | None = None) -> Group:
    """Return rules that are evaluated in order, every `interval` (None: Prometheus's default)."""
    return {"name": name, **({"interval": interval} if interval else {}), "rules": rules}


def duration(seconds: int) -> str:
    """Return a duration in Prometheus notation, in the largest unit that fits, rounded up to full minutes."""
    minutes = -(-seconds // _MINUTE)
    return f"{minutes // 60}h" if minutes % 60 == 0 and minutes else f"{minutes}m"
