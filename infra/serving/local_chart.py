"""Installation of a chart of this repository in a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from infra.aws.cluster_access import ClusterAccess
from spec import helm_values
from spec.names import ServiceAccount


def install_local_chart(
    name: str,
    cluster: ClusterAccess,
    chart: str,
    release: str,
    account: ServiceAccount,
    values: Mapping[str, Any],
    opts: pulumi.ResourceOptions,
) -> pulumi.Resource:
    """Register the objects of `charts/<chart>`, named after `release`, in the namespace of the pods' service account.

    `values` override the users' values (`helm-values/<chart>`). They have to be plain text, not outputs, because
    `helm.v4.Chart` renders only known values in a preview.
    """
    files = helm_values.value_files(chart, cluster.stack.environment)
    if values.get("autoscaling", {}).get("owner") == "external":
        opts = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(transforms=[_replicas_of_an_autoscaler]))
    return k8s.helm.v4.Chart(
        name,
        name=release,
        chart=helm_values.local_chart(chart),
        namespace=account.namespace,
        value_yaml_files=[pulumi.FileAsset(path) for path in files],
        values=values,
        opts=opts,
    )


def _replicas_of_an_autoscaler(args: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
    """Leave the number of pods to the autoscaler from the first update on (docs/facts/scaling.md#one-owner-of-replicas).

    Without it, a stack that had `replicas: 8` would have one pod until its new autoscaler adds more. Kubernetes resets a
    field to its default if its only owner no longer applies it.
    """
    if args.type_ != "kubernetes:apps/v1:Deployment":
        return None
    ignoring = pulumi.ResourceOptions(ignore_changes=["spec.replicas"])
    return pulumi.ResourceTransformResult(props=args.props, opts=pulumi.ResourceOptions.merge(args.opts, ignoring))
