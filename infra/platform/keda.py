"""KEDA: asks Prometheus and SQS how much there is to do, and scales with a HorizontalPodAutoscaler that it owns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from infra.aws.identity import OidcProvider, WorkloadRole, WorkloadRoleArgs, irsa_trust
from infra.platform import charts
from infra.platform.pod_security import RESTRICTED
from infra.platform.third_party import release
from spec.names import KEDA_OPERATOR
from spec.versions import KEDA


@dataclass(frozen=True)
class KedaArgs:
    """`monitored`: the cluster has the kinds ServiceMonitor and PrometheusRule, and somebody who reads them."""

    kubernetes: k8s.Provider
    oidc: OidcProvider
    monitored: bool
    tags: Mapping[str, str]


class Keda(pulumi.ComponentResource):
    """The pinned chart, with its CRDs, and the identity of its operator.

    The operator's role may do nothing: with it, the identity webhook gives the operator a token, with which a trigger
    takes the role that its own TriggerAuthentication names (docs/facts/scaling.md#identity-of-a-trigger). Each
    trigger's own role limits what it may do.
    """

    def __init__(self, name: str, args: KedaArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("triton:platform:Keda", name, None, opts)
        namespace = k8s.core.v1.Namespace(
            f"{name}-namespace",
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name=KEDA_OPERATOR.namespace,
                labels=RESTRICTED,
            ),
            opts=pulumi.ResourceOptions(parent=self, provider=args.kubernetes),
        )
        role = WorkloadRole(
            f"{name}-operator",
            WorkloadRoleArgs(
                description="KEDA takes the roles of its triggers",
                service_account=KEDA_OPERATOR,
                trust=irsa_trust(args.oidc, KEDA_OPERATOR),
                tags=args.tags,
            ),
            pulumi.ResourceOptions(parent=self),
        )
        release(
            f"{name}-release",
            KEDA,
            KEDA_OPERATOR.namespace,
            values(role.arn, monitored=args.monitored),
            pulumi.ResourceOptions(parent=self, provider=args.kubernetes, depends_on=[namespace]),
        )
        self.register_outputs({})


def values(role_arn: pulumi.Input[str], *, monitored: bool) -> dict[str, Any]:
    """The chart's values: `helm-values/keda/base.yaml` and what follows from the stack."""
    irsa = {"enabled": True, "roleArn": role_arn, "stsRegionalEndpoints": "true"}
    computed: dict[str, Any] = {"podIdentity": {"aws": {"irsa": irsa}}}
    if monitored:
        computed["prometheus"] = {
            part: {"enabled": True, "serviceMonitor": {"enabled": True}} for part in ("operator", "metricServer", "webhooks")
        }
    return charts.merge(charts.base_values(KEDA.name), computed)
