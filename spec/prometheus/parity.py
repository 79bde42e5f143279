"""Compare the pods of a fleet by the metrics of `modelctl parity --serve`.

`triton_model_config_info{namespace, fleet, pod, model, version, hash} 1` names the pod in its own labels, so its monitor
must honour them (`honorLabels: true`).
"""

from __future__ import annotations

from spec.prometheus.alerts import rolling
from spec.prometheus.rule import Group, alert, answering, group, series
from spec.settings.model import Settings

_INFO = series("triton_model_config_info")
_FLEET_UP = series("triton_model_config_fleet_up")


def parity_group(settings: Settings) -> Group:
    """Return the alerts about pods that differ and about pods that could not be compared."""
    return group(
        "triton.parity",
        [
            alert(
                "TritonConfigDiffers",
                "(count by (namespace, fleet, model, version) "
                f"(group by (namespace, fleet, model, version, hash) ({_INFO})) > 1)\n"
                f"unless on (namespace) {rolling([fleet.release for fleet in settings.each_fleet])}",
                lasting="10m",
                severity="warning",
                summary="Pods serve {{ $labels.model }} version {{ $labels.version }} with different configurations",
                description="There are {{ $value }} different configurations of the same version among the pods, and no "
                "rolling update is going on. Batching, queue limits or inputs depend on the pod that answers.",
            ),
            alert(
                "TritonParityUnknown",
                f"(max by (namespace, pod) ({answering(settings)})\n"
                f"unless on (namespace, pod) {_INFO})\n"
                # If the exporter reports no pod at all, the exporter is missing, not a pod.
                f"and on (namespace) {_INFO}",
                lasting="10m",
                severity="warning",
                summary="The configuration of {{ $labels.pod }} is not known",
                description="The pod answers Prometheus, but the parity check has not been able to read its models for "
                "10 minutes. It may differ from the other pods without anybody noticing.",
            ),
            alert(
                "TritonParityDown",
                f"max by (namespace) ({_FLEET_UP}) == 0",
                lasting="10m",
                severity="warning",
                summary="The parity check cannot list Triton's pods",
                description="For 10 minutes the parity check has not been able, or not been allowed, to ask the API server "
                "where the pods are. Pods may differ without anybody noticing.",
            ),
        ],
    )
