"""The AWS Load Balancer Controller: creates network load balancers for Services."""

from __future__ import annotations

import json
from pathlib import Path
from string import Template
from typing import Any

import pulumi

from infra.aws.account import Account
from infra.aws.cluster_access import ClusterAccess
from infra.aws.identity import WorkloadRoleArgs
from infra.platform import pod_identity
from infra.platform.installed_chart import InstalledChart, chart_values
from spec import reading
from spec.charts import AWS_LOAD_BALANCER_CONTROLLER
from spec.names import LOAD_BALANCER_CONTROLLER

LOAD_BALANCER_CLASS = "service.k8s.aws/nlb"
"""The class of Services that get a network load balancer. It cannot be changed later."""
_POLICY = Path(__file__).with_name("aws_load_balancer_controller.json")


class LoadBalancerController(InstalledChart):
    """The pinned chart and the identity of the controller."""

    def __init__(self, name: str, cluster: ClusterAccess, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("triton:platform:LoadBalancerController", name, cluster, opts)
        stack = cluster.stack
        namespace = self._namespace(LOAD_BALANCER_CONTROLLER.namespace, "baseline")
        role = self._role(
            name,
            WorkloadRoleArgs(
                description=f"Load balancers of {stack.cluster_name}",
                service_account=LOAD_BALANCER_CONTROLLER,
                policy=policy(stack.account, cluster.known_name),
            ),
        )
        chart = values(cluster.known_name, stack.region, cluster.vpc_id)
        self._install(AWS_LOAD_BALANCER_CONTROLLER, LOAD_BALANCER_CONTROLLER.namespace, chart, namespace, role)
        self.register_outputs({})


def values(cluster_name: str, region: str, vpc_id: pulumi.Input[str]) -> dict[str, Any]:
    """Return the chart's values. Region and VPC are passed explicitly, because pods cannot reach IMDS."""
    return chart_values(
        AWS_LOAD_BALANCER_CONTROLLER,
        {
            "clusterName": cluster_name,
            "region": region,
            "vpcId": vpc_id,
            "serviceAccount": {"create": True, "name": LOAD_BALANCER_CONTROLLER.name},
            "env": dict(pod_identity.VARIABLES),
            **pod_identity.extra(),
        },
    )


def policy(account: Account, cluster_name: str) -> str:
    """Return the controller's permissions as JSON text: network load balancers of this cluster, in this account and region.

    They are based on the policy in the controller's documentation (`iam_policy.json` of
    kubernetes-sigs/aws-load-balancer-controller), but narrower. That policy covers resources with any value of the tag
    `elbv2.k8s.aws/cluster`, of all clusters in the account, and allows changes to ingress rules and targets of every group.
    Here the tag has to name this cluster, and the only other security group is the one that EKS created for it. Permissions
    for Ingresses are left out: listener rules, application load balancers, WAF, Shield and Cognito; the values turn them
    off.

    The actions are from the pinned version's file: tests/charts/test_load_balancer_controller_chart.py compares them.
    """
    text = Template(_POLICY.read_text(encoding="utf-8")).substitute(
        partition=account.partition, region=account.region, account=account.id, cluster=cluster_name
    )
    return json.dumps(reading.json_object(text), sort_keys=True)
