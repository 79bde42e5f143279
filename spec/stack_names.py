"""The stacks of a checkout, the rules for stack names, and the error for an unknown name.

This module has no heavy imports, because tools use it too.
"""

from __future__ import annotations

import re
from pathlib import Path

from spec import names as aws_names
from spec.failure import NOT_TRIED, Failure
from spec.wording import one_of

_FOLDER, _PREFIX, _SUFFIX = "stacks", "Pulumi.", ".yaml"

ENVIRONMENTS = ("local", "dev", "staging", "prod")
"""All values of `triton-eks:environment`. Each may have several stacks, in any regions and accounts."""

_NAME = re.compile(r"[a-z](-?[a-z0-9])*")
_MOST_OF_PULUMI = 100
"""https://github.com/pulumi/pulumi/blob/v3.272.0/sdk/go/common/tokens/stack.go."""
_AN_ACCOUNT = "0" * 12
_MODEL_BUCKET = re.compile(r"triton-models-(?P<stack>.+)-\d{12}-(?P<region>[a-z]+(?:-[a-z]+)+-\d+)")
_OF_THE_WORKFLOWS = ("eks-preview", "eks-deploy")
"""Prefixes of the roles that the deploy role must not change, by name (`bootstrap.deploy_identity`)."""


class NoSuchStack(Failure):
    """A stack name is missing or unknown; the text lists the existing stacks."""

    exit_code = NOT_TRIED


def stack_file(stack: str) -> str:
    """Return a stack file's path in the checkout, as used in messages."""
    return f"{_FOLDER}/{_PREFIX}{stack}{_SUFFIX}"


def names(checkout: Path) -> list[str]:
    """Return the stacks that have a file, sorted."""
    found = (checkout / _FOLDER).glob(f"{_PREFIX}*{_SUFFIX}")
    return sorted(file.name.removeprefix(_PREFIX).removesuffix(_SUFFIX) for file in found)


def file_of(stack: str, checkout: Path) -> Path:
    """Return the file of a stack. Raises NoSuchStack."""
    known = names(checkout)
    if stack in known:
        return checkout / stack_file(stack)
    there_are = f"there are: {', '.join(known)}" if known else "run this from the root of the checkout"
    if known and stack and not mistakes_in_name(stack):
        there_are += f"; `python3 -m stackctl init {stack}` makes a new one"
    raise NoSuchStack(f"no stack file {stack_file(stack)}; {there_are}" if stack else f"no stack is named; {there_are}")


def mistakes_in_name(stack: str, region: str | None = None) -> list[str]:
    """Return all problems of a stack name, one sentence each. With a region, also check its length.

    The name is part of the names of S3, IAM, SQS and EKS resources (`spec.names`). S3 has the strictest rules: lower case,
    digits and hyphens, and 63 characters including account and region.
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html
    """
    mistakes = []
    if not _NAME.fullmatch(stack):
        mistakes.append(
            f"'{stack}' cannot be part of a bucket's name; begin with a lower-case letter, and go on with lower-case "
            "letters, digits and single hyphens between them, like prod-eu"
        )
    if stack.startswith(_OF_THE_WORKFLOWS):
        mistakes.append(
            f"a cluster '{aws_names.cluster_name(stack)}' would be taken for one of the roles of GitHub's workflows, which "
            "nobody who deploys may change; give another name"
        )
    if region is None and len(stack) > _MOST_OF_PULUMI:
        mistakes.append(f"a stack's name has {_MOST_OF_PULUMI} characters at most, and this one {len(stack)}; shorten it")
    most = longest_name(region) if region is not None else None
    if most is not None and len(stack) > most:
        mistakes.append(
            f"'{stack}' has {len(stack)} characters, and the names of its buckets and roles in {region} have room for "
            f"{most}; give a shorter one"
        )
    return mistakes


def longest_name(region: str) -> int:
    """Return the maximum length of a stack name in a region. All names that contain it then comply with AWS's limits.

    Bucket names may have 63 characters, roles and EventBridge rules 64, queues 80.
    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
    """
    cluster = aws_names.cluster_name("")
    room = {
        aws_names.request_bucket("", _AN_ACCOUNT, region): 63,
        aws_names.model_bucket("", _AN_ACCOUNT, region): 63,
        **{aws_names.workload_role(cluster, region, purpose): 64 for purpose in aws_names.WORKLOAD_ROLES},
        f"{aws_names.interruption_queue(cluster)}-reservation": 64,
        f"{aws_names.request_queue(cluster)}-dead": 80,
    }
    return min(most - len(name) for name, most in room.items())


def environments_in_name(stack: str) -> list[str]:
    """Return the environments that parts of a stack name match: prod for `prod-eu`, none for `team-a`."""
    return [environment for environment in ENVIRONMENTS if environment in stack.split("-")]


def mistake_about_environment(stack: str, environment: str) -> str | None:
    """Return the problem if the stack's name contains another environment than its own; None if there is no problem.

    Otherwise a stack `prod-eu` without the rules of prod would go unnoticed until its deletion.
    """
    said = environments_in_name(stack)
    if not said or environment in said:
        return None
    return f"'{environment}' is not what the name of the stack '{stack}' says; use {one_of(said)}, or another name"


def stack_of_model_bucket(bucket: str) -> str | None:
    """Return the stack of this model bucket (`spec.names.model_bucket`); None for other bucket names."""
    parts = _MODEL_BUCKET.fullmatch(bucket)
    return parts["stack"] if parts is not None else None


def region_of_model_bucket(bucket: str) -> str | None:
    """Return the region in the name of a stack's model bucket; None for other bucket names."""
    parts = _MODEL_BUCKET.fullmatch(bucket)
    return parts["region"] if parts is not None else None
