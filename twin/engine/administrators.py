"""The people who are in an AWS account before our program is: the roles that a stack lets into the cluster.

EKS refuses an access entry for a role that does not exist, and so does the twin. In a real account somebody has made these
roles; in the twin's, this module has.
"""

import json
from pathlib import Path

from twin.engine import stack_files

_ROLE = ":role/"


def create(aws_url: str, region: str, stack_file: Path) -> None:
    """Make the roles that `stack_file` names in `triton-eks:cluster` and the account at `aws_url` lacks."""
    config = stack_files.read(stack_file)
    cluster = config.get("triton-eks:cluster")
    lists = [cluster.get(key) for key in ("adminRoleArns", "viewRoleArns")] if isinstance(cluster, dict) else []
    # What else is wrong with an entry, the settings say.
    arns = [arn for listed in lists if isinstance(listed, list) for arn in listed if isinstance(arn, str) and _ROLE in arn]
    if not arns:
        return
    import boto3  # for half of a second, which no command that only needs the engine's environment should take

    iam = boto3.client(
        "iam", region_name=region, endpoint_url=aws_url, aws_access_key_id="test", aws_secret_access_key="test"
    )
    present = {role["Arn"] for page in iam.get_paginator("list_roles").paginate() for role in page["Roles"]}
    for arn in arns:
        if arn not in present:
            path, _, name = f"/{arn.partition(_ROLE)[2]}".rpartition("/")
            iam.create_role(RoleName=name, Path=f"{path}/", AssumeRolePolicyDocument=_trust(arn))


def _trust(arn: str) -> str:
    principal = {"AWS": f"arn:aws:iam::{arn.split(':')[4]}:root"}
    statement = {"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})
