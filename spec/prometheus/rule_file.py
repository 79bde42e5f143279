"""Prometheus rules of a stack: recordings, alerts and SLOs, as plain data."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from spec.names import TRITON_NAMESPACE
from spec.prometheus.alerts import alert_group
from spec.prometheus.gateway import gateway_group
from spec.prometheus.gateway_slo import gateway_slo_groups
from spec.prometheus.infrastructure import infrastructure_group
from spec.prometheus.language_models import language_model_groups
from spec.prometheus.parity import parity_group
from spec.prometheus.recording import recording_group
from spec.prometheus.rule import Group
from spec.prometheus.slo import slo_alert_group, slo_recording_group
from spec.settings.model import Settings

__all__ = ["groups", "prometheus_rules"]

RUNBOOKS = "docs/runbooks"
"""The folder of the alerts' pages in this repository."""
LARGEST_BYTES = 256 * 1024
"""The size limit for the rules of one object, as JSON. The operator refuses an object with a rule file above 512 KiB:
https://github.com/prometheus-operator/prometheus-operator/blob/v0.93.1/pkg/operator/rules.go#L230
"""


def groups(settings: Settings, runbooks: str = RUNBOOKS) -> list[Group]:
    """Return the rule groups of a stack, as the `groups` of a Prometheus rule file.

    Each alert's `runbook_url` is `<runbooks>/<alert>.md`. Pass the URL at which on-call engineers read docs/runbooks. A
    query or fragment (`?` or `#`) of that URL is kept.
    """
    made = [
        recording_group(settings),
        slo_recording_group(settings),
        alert_group(settings),
        slo_alert_group(settings),
        parity_group(settings),
        infrastructure_group(settings),
        gateway_group(settings),
        *gateway_slo_groups(settings),
        *language_model_groups(settings),
    ]
    pages = urlsplit(runbooks)
    for rule in (rule for group in made for rule in group["rules"] if "alert" in rule):
        rule["annotations"]["runbook_url"] = urlunsplit(pages._replace(path=f"{pages.path.rstrip('/')}/{rule['alert']}.md"))
    return [group for group in made if group["rules"]]


def prometheus_rules(settings: Settings, runbooks: str = RUNBOOKS) -> list[dict[str, Any]]:
    """Return the rules as objects of prometheus-operator: one, or several if many models' rules exceed its size.

    Their labels are the platform's. A Prometheus with a non-empty `ruleSelector` has to select them.
    """
    return [
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "PrometheusRule",
            "metadata": {
                "name": "triton" if number == 1 else f"triton-{number}",
                "namespace": TRITON_NAMESPACE,
                "labels": {"app.kubernetes.io/name": "triton", "app.kubernetes.io/component": "rules"},
            },
            "spec": {"groups": portion},
        }
        for number, portion in enumerate(_portions(groups(settings, runbooks)), start=1)
    ]


def _portions(whole: list[Group]) -> list[list[Group]]:
    """Return the groups in portions of at most LARGEST_BYTES. A group that does not fit continues in the next portion.

    The continuation has the same name. Its rules may read values from the first part one evaluation late.
    """
    portions: list[list[Group]] = [[]]
    size = 0
    for group in whole:
        part: Group = {**group, "rules": []}
        for rule in group["rules"]:
            more = len(json.dumps(rule))
            if size + more > LARGEST_BYTES:
                portions[-1] += [part] if part["rules"] else []
                portions.append([])
                part, size = {**group, "rules": []}, 0
            part["rules"].append(rule)
            size += more
        portions[-1].append(part)
    return portions
