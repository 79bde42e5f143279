"""Prometheus rules of a stack: numbers, alerts and SLOs, as plain data."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit, urlunsplit

from spec.names import TRITON_NAMESPACE
from spec.prometheus.alerts import alert_group
from spec.prometheus.gateway import gateway_group
from spec.prometheus.language_models import language_model_groups
from spec.prometheus.parity import parity_group
from spec.prometheus.recording import recording_group
from spec.prometheus.rule import Group
from spec.prometheus.slo import slo_alert_group, slo_recording_group
from spec.settings.model import Settings

__all__ = ["groups", "prometheus_rule"]

RUNBOOKS = "docs/runbooks"
"""Where the page of each alert is, in this repository."""


def groups(settings: Settings, runbooks: str = RUNBOOKS) -> list[Group]:
    """The rule groups of a stack, as the `groups` of a Prometheus rule file.

    Each alert's `runbook_url` is `<runbooks>/<alert>.md`; give the URL at which people on call read docs/runbooks. What
    follows a `?` or `#` there follows the page too.
    """
    made = [
        recording_group(),
        slo_recording_group(settings),
        alert_group(settings),
        slo_alert_group(settings),
        parity_group(settings),
        gateway_group(settings),
        *language_model_groups(settings),
    ]
    pages = urlsplit(runbooks)
    for rule in (rule for group in made for rule in group["rules"] if "alert" in rule):
        rule["annotations"]["runbook_url"] = urlunsplit(pages._replace(path=f"{pages.path.rstrip('/')}/{rule['alert']}.md"))
    return [group for group in made if group["rules"]]


def prometheus_rule(settings: Settings, runbooks: str = RUNBOOKS) -> dict[str, Any]:
    """The same as the object that prometheus-operator reads. Its labels are those of the platform: a Prometheus whose
    `ruleSelector` is not empty has to select them.
    """
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {
            "name": "triton",
            "namespace": TRITON_NAMESPACE,
            "labels": {"app.kubernetes.io/name": "triton", "app.kubernetes.io/component": "rules"},
        },
        "spec": {"groups": groups(settings, runbooks)},
    }
