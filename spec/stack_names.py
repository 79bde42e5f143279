"""Which stacks a checkout has, what a stack may be called, and the one sentence about a name that is none of them.

Nothing heavy: tools use it too.
"""

from __future__ import annotations

import re
from pathlib import Path

from spec import names as aws_names
from spec.failure import NOT_TRIED, Failure
from spec.wording import one_of

_FOLDER, _PREFIX, _SUFFIX = "stacks", "Pulumi.", ".yaml"

ENVIRONMENTS = ("local", "dev", "staging", "prod")
"""All that a stack can be (`triton-eks:environment`): there may be several stacks of each, in any regions and accounts."""

_NAME = re.compile(r"[a-z](-?[a-z0-9])*")
_MOST_OF_PULUMI = 100
"""https://github.com/pulumi/pulumi/blob/v3.272.0/sdk/go/common/tokens/stack.go."""
_AN_ACCOUNT = "0" * 12
_MODEL_BUCKET = re.compile(r"triton-models-(?P<stack>.+)-\d{12}-(?P<region>[a-z]+(?:-[a-z]+)+-\d+)")
_OF_THE_WORKFLOWS = ("eks-preview", "eks-deploy")
"""Roles that begin so are refused to the deploy role by their names (`bootstrap.deploy_identity`)."""


class NoSuchStack(Failure):
    """A name that is no stack's, or none at all; the text says which stacks there are."""

    exit_code = NOT_TRIED


def stack_file(stack: str) -> str:
    """Return how messages call the file of a stack: its path in the checkout."""
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
    """Return everything that is wrong with a name for a stack, a sentence each, and with its length in a region.

    The name is part of what S3, IAM, SQS and EKS have by name (`spec.names`). S3 has the narrowest rules: lower case,
    digits and hyphens, and 63 characters, of which account and region take their part.
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
    """Return how many characters a stack's name may have in a region, so that every name made of it fits AWS's limits.

    Buckets may have 63, roles and rules of EventBridge 64, queues 80.
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
    """Return the environments that the parts of a name say: of `prod-eu` prod, of `team-a` none."""
    return [environment for environment in ENVIRONMENTS if environment in stack.split("-")]


def mistake_about_environment(stack: str, environment: str) -> str | None:
    """Return what is wrong with a stack of this name being of an environment: one that says another; None: nothing.

    A stack `prod-eu` without the rules of prod would be found out on the day when somebody deletes it.
    """
    said = environments_in_name(stack)
    if not said or environment in said:
        return None
    return f"'{environment}' is not what the name of the stack '{stack}' says; use {one_of(said)}, or another name"


def stack_of_model_bucket(bucket: str) -> str | None:
    """Return the stack whose models bucket this is (`spec.names.model_bucket`); None for one that is called otherwise."""
    parts = _MODEL_BUCKET.fullmatch(bucket)
    return parts["stack"] if parts is not None else None


def region_of_model_bucket(bucket: str) -> str | None:
    """Return the region in the name of a stack's models bucket; None for a bucket that is called otherwise."""
    parts = _MODEL_BUCKET.fullmatch(bucket)
    return parts["region"] if parts is not None else None
