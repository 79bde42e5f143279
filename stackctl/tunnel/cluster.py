"""Find the API server that EKS describes, and the nodes for the session."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from console import aws_errors
from spec.settings import Settings
from spec.settings.nodes import SYSTEM_GROUP_NAME
from spec.versions import PROJECT
from stackctl.account import api_server
from stackctl.account.api_server import ApiServer
from stackctl.account.read_only import AwsUnusable, Readers
from stackctl.tunnel.ssm import TunnelUnusable


def api_server_of(settings: Settings, readers: Readers) -> ApiServer:
    """Return the API server. Raises TunnelUnusable before it exists, and AwsUnusable."""
    try:
        server = api_server.find(settings, readers)
    except ClientError as error:
        raise AwsUnusable(f"EKS does not describe {settings.used_cluster}: {error}") from None
    except BotoCoreError as error:
        raise AwsUnusable(str(aws_errors.explain(error))) from None
    if server is None:
        raise TunnelUnusable(
            f"{settings.used_cluster} in {settings.region} has no API server yet: "
            f"`pulumi up --stack {settings.stack}` makes it and its nodes and ends where it does not reach it; then "
            "run it again through the tunnel"
        )
    return server


def system_nodes(settings: Settings, readers: Readers) -> list[str]:
    """Return the ids of the running system nodes, the oldest first.

    Raises TunnelUnusable without such a node, and AwsUnusable.
    """
    name = f"{settings.cluster_name}-{SYSTEM_GROUP_NAME}"  # the name in their launch template
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
        raise AwsUnusable(f"EC2 does not list the nodes of {settings.used_cluster}: {error}") from None
    except BotoCoreError as error:
        raise AwsUnusable(str(aws_errors.explain(error))) from None
    if not found:
        raise TunnelUnusable(
            f"no system node of {settings.used_cluster} runs (instances {name}), and a session of SSM goes through one: "
            f"`pulumi up --stack {settings.stack}` makes them; what is left of a stack without nodes needs no tunnel"
        )
    return [
        str(instance["InstanceId"]) for instance in sorted(found, key=lambda one: (one["LaunchTime"], one["InstanceId"]))
    ]
