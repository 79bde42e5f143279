"""The AWS Load Balancer Controller: makes a network load balancer of a Service that asks for one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from infra.aws.account import Account
from infra.aws.identity import OidcProvider, WorkloadRole, WorkloadRoleArgs, irsa_annotations, irsa_trust
from infra.platform import charts
from infra.platform.third_party import release
from spec.names import LOAD_BALANCER_CONTROLLER
from spec.versions import AWS_LOAD_BALANCER_CONTROLLER

LOAD_BALANCER_CLASS = "service.k8s.aws/nlb"
"""What a Service asks for that shall get a network load balancer. It cannot be changed later."""
_POLICY = Path(__file__).with_name("aws_load_balancer_controller.json")


@dataclass(frozen=True)
class LoadBalancerControllerArgs:
    """`cluster_name` and `vpc_id`: where it looks, and what it tags with.

    IMDS is unreachable from pods, so region and VPC are passed explicitly.
    """

    kubernetes: k8s.Provider
    account: Account
    oidc: OidcProvider
    cluster_name: str
    vpc_id: pulumi.Input[str]
    tags: Mapping[str, str]


class LoadBalancerController(pulumi.ComponentResource):
    """The pinned chart and the identity of the controller."""

    def __init__(self, name: str, args: LoadBalancerControllerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("triton:platform:LoadBalancerController", name, None, opts)
        namespace = k8s.core.v1.Namespace(
            f"{name}-namespace",
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name=LOAD_BALANCER_CONTROLLER.namespace, labels={"pod-security.kubernetes.io/enforce": "baseline"}
            ),
            opts=pulumi.ResourceOptions(parent=self, provider=args.kubernetes),
        )
        role = WorkloadRole(
            name,
            WorkloadRoleArgs(
                description=f"Load balancers of {args.cluster_name}",
                service_account=LOAD_BALANCER_CONTROLLER,
                trust=irsa_trust(args.oidc, LOAD_BALANCER_CONTROLLER),
                policy=policy(args.account, args.cluster_name),
                tags=args.tags,
            ),
            pulumi.ResourceOptions(parent=self),
        )
        release(
            f"{name}-release",
            AWS_LOAD_BALANCER_CONTROLLER,
            LOAD_BALANCER_CONTROLLER.namespace,
            values(args.cluster_name, args.account.region, args.vpc_id, role.arn),
            pulumi.ResourceOptions(parent=self, provider=args.kubernetes, depends_on=[namespace]),
        )
        self.register_outputs({})


def values(cluster_name: str, region: str, vpc_id: pulumi.Input[str], role_arn: pulumi.Input[str]) -> dict[str, Any]:
    """The chart's values: `helm-values/aws-load-balancer-controller/base.yaml` and what follows from the stack."""
    computed = {
        "clusterName": cluster_name,
        "region": region,
        "vpcId": vpc_id,
        "serviceAccount": {
            "create": True,
            "name": LOAD_BALANCER_CONTROLLER.name,
            "annotations": irsa_annotations(role_arn),
        },
    }
    return charts.merge(charts.base_values(AWS_LOAD_BALANCER_CONTROLLER.name), computed)


def policy(account: Account, cluster_name: str) -> str:
    """What the controller may do, as JSON text: network load balancers of this cluster, in this account and region.

    Made after the policy that the controller's documentation asks for (`iam_policy.json` of
    kubernetes-sigs/aws-load-balancer-controller), and narrower. There, "its own" is whatever has the tag
    `elbv2.k8s.aws/cluster` with any value, of each cluster of the account; ingress rules and targets of every group may
    be changed. Here the tag has to name this cluster, and the only other security group is the one that EKS made for
    it. What belongs to Ingresses is left out: rules of listeners, application load balancers, WAF, Shield and Cognito;
    the values switch them off.

    The actions are those of the pinned version's file: tests/charts/test_load_balancer_controller_chart.py compares them.
    """
    text = Template(_POLICY.read_text(encoding="utf-8")).substitute(
        partition=account.partition, region=account.region, account=account.id, cluster=cluster_name
    )
    return json.dumps(json.loads(text), sort_keys=True)
