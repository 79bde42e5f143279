"""What a real account has before the program's first ``up``: the people's roles that the stack file names."""

from __future__ import annotations

import json
from collections.abc import Iterable

from twin.aws.clients import Clients
from twin.aws.iam import trust


def seed_roles(clients: Clients, role_arns: Iterable[str]) -> None:
    """Make the roles (of this account) that do not exist yet, trusted by the account itself."""
    root = f"arn:{clients.partition}:iam::{clients.account_id}:root"
    statement = {"Effect": "Allow", "Principal": {"AWS": root}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    for arn in role_arns:
        head, _, path = arn.partition(":role/")
        if f":{clients.account_id}" in head and trust.role_of(clients, arn) is None:
            folder, _, name = path.rpartition("/")
            clients("iam").create_role(
                RoleName=name, Path=f"/{folder}/" if folder else "/", AssumeRolePolicyDocument=document
            )
