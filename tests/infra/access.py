"""A stack and the access to its cluster, as components get them, without a cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from infra.aws.account import Account
from infra.aws.cluster_access import ClusterAccess, OidcProvider
from infra.aws.network_access import NetworkAccess
from infra.aws.stack import Stack
from spec.versions import PROJECT

ACCOUNT = Account(
    id="123456789012", partition="aws", region="us-west-2", caller_arn="arn:aws:iam::123456789012:role/deployer"
)
ISSUER = "oidc.eks.us-west-2.amazonaws.com/id/EXAMPLE"
SUBNETS = {"us-west-2a": "subnet-0a", "us-west-2b": "subnet-0b", "us-west-2c": "subnet-0c"}
NETWORK = NetworkAccess("vpc-0", ["10.40.0.0/16"], {}, list(SUBNETS.values()), internet=True, load_balancer_subnet_ids={})
SECURITY_GROUP = "sg-0123456789abcdef0"


def stack(environment: str = "staging", **changes: Any) -> Stack:
    """Return the stack of an environment. All except `local` are protected."""
    tags = {"owner": "me", "project": PROJECT, "environment": environment}
    return replace(Stack(environment, environment, ACCOUNT, tags, protected=environment != "local"), **changes)


def access(
    of: Stack | None = None, *, version: str = "1.35", provider: k8s.Provider | None = None, **network: Any
) -> ClusterAccess:
    """Return access with plain-text ids, which is enough for functions. Components also need a `provider`."""
    of = of or stack()
    output: Any = pulumi.Output.from_input if provider is not None else lambda value: value
    return ClusterAccess(
        stack=of,
        kubernetes_version=version,
        name=output(of.cluster_name),
        known_name=of.cluster_name,
        arn=of.account.arn("eks", f"cluster/{of.cluster_name}"),
        oidc=OidcProvider(
            arn=output(f"arn:aws:iam::{of.account.id}:oidc-provider/{ISSUER}"),
            issuer=output(ISSUER),
        ),
        network=replace(NETWORK, private_subnet_ids={zone: output(subnet) for zone, subnet in SUBNETS.items()}, **network),
        security_group_id=output(SECURITY_GROUP),
        ready=[],
        kubernetes=provider,  # type: ignore[arg-type]
    )
