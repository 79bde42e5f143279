"""Look up where a tunnel leads: the API server as EKS describes it, and the nodes that a session can go through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from botocore.exceptions import BotoCoreError, ClientError

from console import aws_errors
from spec.settings import Settings
from spec.settings.nodes import SYSTEM_GROUP_NAME
from spec.versions import PROJECT
from stackctl.account.read_only import AwsUnusable, Readers
from stackctl.tunnel.ssm import TunnelUnusable


@dataclass(frozen=True)
class ApiServer:
    """The API server of a cluster: its address, and its certificate authority as base64."""

    endpoint: str
    authority: str

    @property
    def host(self) -> str:
        """The name that its certificate has, and that DNS knows."""
        return urlsplit(self.endpoint).hostname or ""


def api_server(settings: Settings, readers: Readers) -> ApiServer:
    """Ask EKS. Raises TunnelUnusable before there is a cluster, and AwsUnusable."""
    name, stack = settings.cluster_name, settings.environment
    try:
        cluster = readers("eks").describe_cluster(name=name)["cluster"]
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") == "ResourceNotFoundException":
            raise TunnelUnusable(
                f"there is no cluster {name} in {settings.region} yet: `pulumi up --stack {stack}` makes it and its nodes "
                "and ends at the API server, which it does not reach; then run it again through the tunnel"
            ) from None
        raise AwsUnusable(f"EKS does not describe {name}: {error}") from None
    except BotoCoreError as error:
        raise AwsUnusable(str(aws_errors.explain(error))) from None
    if "endpoint" not in cluster:
        raise TunnelUnusable(f"{name} has no API server yet: EKS says that it is {cluster.get('status')}; wait for ACTIVE")
    return ApiServer(cluster["endpoint"], cluster["certificateAuthority"]["data"])


def system_nodes(settings: Settings, readers: Readers) -> list[str]:
    """Return the ids of the system nodes that run, the oldest first. Raises TunnelUnusable without one, and AwsUnusable."""
    name = f"{settings.cluster_name}-{SYSTEM_GROUP_NAME}"  # as their launch template calls them
    filters = {"tag:Name": name, "tag:project": PROJECT, "instance-state-name": "running"}
    try:
        pages = (
            readers("ec2")
            .get_paginator("describe_instances")
            .paginate(Filters=[{"Name": key, "Values": [value]} for key, value in filters.items()])
        )
        found: list[dict[str, Any]] = [
            instance for page in pages for group in page["Reservations"] for instance in group["Instances"]
        ]
    except ClientError as error:
        raise AwsUnusable(f"EC2 does not list the nodes of {settings.cluster_name}: {error}") from None
    except BotoCoreError as error:
        raise AwsUnusable(str(aws_errors.explain(error))) from None
    if not found:
        raise TunnelUnusable(
            f"no system node of {settings.cluster_name} runs (instances {name}), and a session of SSM goes through one: "
            f"`pulumi up --stack {settings.environment}` makes them; what is left of a stack without nodes needs no tunnel"
        )
    return [
        str(instance["InstanceId"]) for instance in sorted(found, key=lambda one: (one["LaunchTime"], one["InstanceId"]))
    ]
