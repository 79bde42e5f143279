"""Run `stackctl init`: read the account, prompt for the rest, and write the stack file."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import boto3
import typer
from botocore.exceptions import BotoCoreError, ClientError

from console import aws_errors
from console.program import interruptible
from console.terminal import output
from spec.catalog import REGIONS
from spec.failure import NOT_TRIED, Failure
from spec.files import create
from spec.settings import Settings, SettingsError, load, read_config
from spec.stack_names import environments_in_name, mistake_about_environment, mistakes_in_name, stack_file
from spec.versions import DEFAULT_TRITON_VERSION, TRITON_UPSTREAM_REPOSITORY, example_digest
from spec.wording import did_you_mean, one_of
from stackctl.account.guard import Caller, caller
from stackctl.account.read_only import AwsUnusable, Operations, Readers
from stackctl.cost.command import hour_and_day, of_settings
from stackctl.images.upstream import pinned_image
from stackctl.init import backend, profile
from stackctl.init.kind_of_nodes import Profile
from stackctl.init.profile import Found
from stackctl.preflight.checks import service_quotas
from stackctl.preflight.checks.check import Check, Finding, Status, Subject, findings
from stackctl.preflight.checks.instance_offerings import read_offering
from stackctl.preflight.operations import OPERATIONS

READS: Operations = {**OPERATIONS, "kms": {"DescribeKey": "kms:DescribeKey"}}
_QUOTAS = Check("service quotas", service_quotas.check)
_OPTIONS = {
    "cluster.publicAccessCidrs": "--api-from",
    "tags.cost-center": "--cost-center",
    "aws:defaultTags.tags.cost-center": "--cost-center",
    "triton.image": "--image",
}
"""Beginning of a path in the stack file -> the option with its value."""
_DRAFT = Found(
    account="123456789012",
    caller="arn:aws:iam::123456789012:user/somebody",
    owner="somebody",
    region="us-west-2",
    gpu_types=(),
    capacity="on-demand",
    image=f"{TRITON_UPSTREAM_REPOSITORY}@{example_digest(DEFAULT_TRITON_VERSION)}",
    api_cidrs=("198.51.100.7/32",),
    cost_center="somebody",
)
"""A valid stack for checking an answer before the account is read."""
_NO_TAG_VALUE = re.compile(r"[^\w +\-=.:/@]")


class NotMade(Failure):
    """The stack file was not written. The text has the missing value or the obstacle."""

    exit_code = NOT_TRIED


def init(
    name: str, region: str | None, api_from: Sequence[str], cost_center: str | None, image: str | None, made_for: Profile
) -> None:
    """Write the stack file, create the stack in Pulumi's state, and print the next command.

    `image` is Triton's image by digest; None: NVIDIA's current image in its registry. Raises Failure.
    """
    if mistakes := mistakes_in_name(name):
        raise NotMade("\n".join(mistakes))
    if mistake_about_environment(name, profile.ENVIRONMENT) is not None:
        raise NotMade(
            f"'{name}' says {one_of(environments_in_name(name))}, and init makes stacks of {profile.ENVIRONMENT}; choose "
            "another name, or make a stack file of your own (docs/aws.md)"
        )
    file = Path(stack_file(name))
    if not file.parent.is_dir():
        raise NotMade(f"there is no directory {file.parent} here; run this from the root of the checkout")
    if file.exists() or file.is_symlink():
        raise NotMade(
            f"{file} is there already, and is left as it is; choose another name, edit it, or, after an init that was cut "
            f"short, {_removal(name)}, and run the same command again"
        )
    console = output(soft_wrap=True)
    with interruptible(f"interrupted; run the same command again; if {file} is there already, first {_removal(name)}"):
        region, api_from, cost_center = _asked(region or _configured_region(), api_from, cost_center)
        readers = Readers(region, READS)
        try:
            who = caller(readers)
            draft = Found(
                account=who.account,
                caller=who.arn,
                owner=owner_of(who.arn),
                region=region,
                gpu_types=_gpu_types(readers) if made_for is Profile.GPU else _without_gpu(readers),
                capacity=profile.CAPACITIES[0],
                image=image or f"{TRITON_UPSTREAM_REPOSITORY}@{example_digest(DEFAULT_TRITON_VERSION)}",
                api_cidrs=tuple(api_from),
                cost_center=cost_center,
            )
            _refuse_mistakes(name, draft)  # report wrong options before anything is created
            backend.log_in(readers, who, console.print)
            backend.require_new(name)
            found, quotas = _with_quotas(
                name, replace(draft, image=image or pinned_image(DEFAULT_TRITON_VERSION)), readers, who
            )
            create(file, profile.text(found).encode())
            _tell(name, found, quotas, console.print)
            backend.make_stack(name, readers)
        except (ClientError, BotoCoreError) as error:
            raise AwsUnusable(aws_errors.explain(error) or f"AWS cannot be asked: {error}") from None
    console.print(f"next: python3 -m stackctl preflight {name}")


def _removal(name: str) -> str:
    """Return the way to start over. Deleting only the file would leave a stack without its secrets' key."""
    return f"`pulumi stack rm {name}` (it removes the file too; where Pulumi knows no such stack, remove the file yourself)"


def owner_of(caller_arn: str) -> str:
    """Return the caller as a tag value: the user's or the role session's name."""
    return _NO_TAG_VALUE.sub("-", caller_arn.rpartition("/")[2].rpartition(":")[2])


def _asked(region: str | None, api_from: Sequence[str], cost_center: str | None) -> tuple[str, Sequence[str], str]:
    """Return the values that only a person knows; prompt on a terminal. Raises NotMade."""
    if sys.stdin.isatty():
        region = region or _prompted("AWS region, like us-west-2", _not_a_region)
        api_from = api_from or [
            _prompted(
                "Addresses that may reach the Kubernetes API, like 198.51.100.7/32",
                lambda given: _mistake(replace(_DRAFT, api_cidrs=(given,))),
            )
        ]
        cost_center = cost_center or _prompted(
            "Cost center, for the tags of all resources", lambda given: _mistake(replace(_DRAFT, cost_center=given))
        )
    given = {
        "--region REGION (or AWS_REGION): the region of the stack": region,
        "--api-from RANGE: the addresses that may reach the Kubernetes API, like 198.51.100.7/32": api_from,
        "--cost-center NAME: the cost center in the tags of all resources": cost_center,
    }
    lacking = [flag for flag, value in given.items() if not value]
    if lacking or not region or not cost_center:
        flags = "".join(f"\n  {flag}" for flag in lacking)
        raise NotMade(f"standard input is not a terminal, so `init` cannot ask; give{flags}")
    wrong = _not_a_region(region)
    if wrong is not None:
        raise NotMade(wrong)
    return region, api_from, cost_center


def _prompted(question: str, mistake: Callable[[str], str | None]) -> str:
    """Prompt until the answer is valid. An error after the last prompt would force all answers again."""
    while True:
        given = str(typer.prompt(question)).strip()
        wrong = mistake(given)
        if wrong is None:
            return given
        typer.echo(f"  {wrong}", err=True)


def _not_a_region(name: str) -> str | None:
    if name in REGIONS:
        return None
    near = did_you_mean(name, sorted(REGIONS))
    return f"'{name}' is no region of AWS that has EKS; {near}give one like us-west-2"


def _mistake(draft: Found) -> str | None:
    """Return the error of a stack with one answer, without its option's name."""
    try:
        _refuse_mistakes("first", draft)
    except NotMade as error:
        return str(error).partition(": ")[2].partition("\n")[0]
    return None


def _configured_region() -> str | None:
    """Return the region of the environment or the profile, or None.

    Other AWS tools read it from the same places.
    """
    try:
        return os.environ.get("AWS_REGION") or boto3.Session().region_name
    except BotoCoreError as error:
        raise AwsUnusable(str(aws_errors.explain(error))) from None


def _gpu_types(readers: Readers) -> tuple[str, ...]:
    """Return the types of the first GPU family that enough zones have. Raises NotMade.

    The zones must also have the system nodes' type.
    """
    wanted = [profile.SYSTEM_TYPE, *(name for family in profile.FAMILIES for name in family)]
    offering = read_offering(readers, wanted)
    for family in profile.FAMILIES:
        if len(offering.zones_of([profile.SYSTEM_TYPE, *family])) >= profile.ZONES:
            return family
    names = ", ".join(family[0].partition(".")[0] for family in profile.FAMILIES)
    raise NotMade(
        f"{readers.region} has no {profile.ZONES} zones with {profile.SYSTEM_TYPE} and one of {names}; choose another region"
    )


def _without_gpu(readers: Readers) -> tuple[str, ...]:
    """Return no GPU types, if enough zones have the other types. Raises NotMade."""
    wanted = [profile.SYSTEM_TYPE, *profile.CPU_TYPES]
    if len(read_offering(readers, wanted).zones_of(wanted)) < profile.ZONES:
        raise NotMade(f"{readers.region} has no {profile.ZONES} zones with {', '.join(wanted)}; choose another region")
    return ()


def _settings(name: str, found: Found) -> Settings:
    """Return the settings of the future file. Raises SettingsError."""
    return load(read_config(profile.text(found), stack_file(name)), name)


def _refuse_mistakes(name: str, found: Found) -> None:
    """Raise NotMade for invalid values, with their options.

    Messages name options, because the file does not exist yet.
    """
    try:
        _settings(name, found)
    except SettingsError as error:
        told = (replace(one, path=_given_with(one.path)) for one in error.problems)
        raise NotMade("\n".join(dict.fromkeys(map(str, told)))) from None


def _given_with(path: str) -> str:
    return next((option for key, option in _OPTIONS.items() if path.startswith(key)), path)


def _with_quotas(name: str, draft: Found, readers: Readers, who: Caller) -> tuple[Found, list[Finding]]:
    """Return the stack with the cheapest capacity that quotas allow, and the missing quotas.

    If no capacity fits, return the one that lacks the fewest quotas.
    """
    tried = []
    for capacity in profile.CAPACITIES if draft.gpu_types else ("on-demand",):
        found = replace(draft, capacity=capacity)
        asked = findings(_QUOTAS, Subject(_settings(name, found), readers, who))
        lacking = [finding for finding in asked if finding.status is Status.FAIL]
        if not lacking:
            return found, []
        tried.append((found, lacking))
    return min(tried, key=lambda one: len(one[1]))


def _tell(name: str, found: Found, quotas: Sequence[Finding], say: Callable[[str], None]) -> None:
    say(f"{stack_file(name)} is written:")
    say(f"  account  {found.account} in {found.region}, as {found.caller}")
    if found.gpu_types:
        say(f"  GPU      one of {' or '.join(found.gpu_types)}, {found.capacity}")
    else:
        say(f"  GPU      none: Triton runs on {' or '.join(profile.CPU_TYPES)}")
    say(f"  image    {found.image}")
    say(f"  API      for {', '.join(found.api_cidrs)}")
    cost = of_settings(_settings(name, found))
    say(f"  price    {hour_and_day(cost)}{'' if cost.total.unknown else ', from `pulumi up` to `stackctl destroy`'}")
    for finding in quotas:
        say(f"  lacking  {finding.message}\n           {finding.remedy}")
    if quotas and found.gpu_types:
        say(
            f"  or       `pulumi stack rm {name}`, which removes {stack_file(name)} too, and run the same command with "
            "--profile cpu: it needs no quota for GPUs"
        )
