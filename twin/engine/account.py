"""Create prerequisites of a stack in an AWS account: roles with access to its cluster, and topics of its alarms.

EKS refuses an access entry for a missing role. AWS accepts an alarm with a missing topic, but then sends no notification.
The twin refuses both. In a real account people have created them.
"""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from spec.boundary import boundary
from spec.names import permissions_boundary
from twin.engine import stack_files

_ROLE = ":role/"
_TOPIC = re.compile(r'"arn:[a-z-]+:sns:[a-z0-9-]+:\d{12}:([A-Za-z0-9_-]+)"')
"""In its JSON form."""


def create(aws_url: str, region: str, stack: str, stack_file: Path) -> None:
    """Create what `stack_file` requires and the account at `aws_url` lacks: roles, topics and the permissions boundary."""
    config = stack_files.read(stack_file)
    roles, topics = _roles_in(config.get("triton-eks:cluster")), topics_in(config)
    import boto3  # takes half a second, which commands that only need the engine's environment should not spend

    given = {"region_name": region, "endpoint_url": aws_url, "aws_access_key_id": "test", "aws_secret_access_key": "test"}
    iam, sns = boto3.client("iam", **given), boto3.client("sns", **given)
    present = {role["Arn"] for page in iam.get_paginator("list_roles").paginate() for role in page["Roles"]} if roles else ()
    for arn in roles:
        if arn not in present:
            path, _, name = f"/{arn.partition(_ROLE)[2]}".rpartition("/")
            iam.create_role(RoleName=name, Path=f"{path}/", AssumeRolePolicyDocument=_trust(arn))
    for topic in sorted(topics):
        sns.create_topic(Name=topic)  # returns an existing one
    account_id = boto3.client("sts", **given).get_caller_identity()["Account"]
    create_boundary(iam, account_id, region, stack, config)


def create_boundary(iam: Any, account_id: str, region: str, stack: str, config: Mapping[str, Any]) -> None:
    """Create the permissions boundary of a stack's roles, as `bootstrap` does, unless it exists or the stack has none."""
    environment = config.get("triton-eks:environment")
    if config.get("triton-eks:permissionsBoundary") is False or not isinstance(environment, str):
        return  # the stack needs none; or the settings report the environment
    document = boundary(account_id, region, stack, environment)
    with suppress(iam.exceptions.EntityAlreadyExistsException):
        iam.create_policy(PolicyName=permissions_boundary(stack), PolicyDocument=document)


def topics_in(value: Any) -> set[str]:
    """Return the names of all topics whose ARNs are a complete text anywhere in the value."""
    return set(_TOPIC.findall(json.dumps(value, default=str)))


def _roles_in(cluster: Any) -> list[str]:
    keys = ("adminRoleArns", "viewRoleArns", "rolloutRoleArns")
    lists = [cluster.get(key) for key in keys] if isinstance(cluster, dict) else []
    # The settings report other mistakes in an entry.
    return [arn for listed in lists if isinstance(listed, list) for arn in listed if isinstance(arn, str) and _ROLE in arn]


def _trust(arn: str) -> str:
    principal = {"AWS": f"arn:aws:iam::{arn.split(':')[4]}:root"}
    statement = {"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})
