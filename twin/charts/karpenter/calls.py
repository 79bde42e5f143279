"""List the actions, resources and conditions that AWS checks with IAM for each of Karpenter's API calls.

One EC2 call checks many resources. A launch checks image, subnet, security groups, launch template, and everything that it
creates, each with its new tags. The resource types of an action, and their condition keys, are in
https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from twin.aws.iam.authorization import Call

_MADE_BY_A_LAUNCH = ("instance", "volume", "network-interface")
_PASSED_TO = "ec2.amazonaws.com"
Tags = Mapping[str, str]


class UnknownCall(Exception):
    """This module does not know what AWS checks with IAM for an action; the text names it."""


@dataclass(frozen=True)
class Request:
    """A received AWS API call. `parameters`: from the query protocol or a JSON body; for EKS, from the path."""

    service: str
    action: str
    parameters: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Return the action as a policy writes it."""
        return f"{self.service}:{self.action}"


class Account(Protocol):
    """The facts of the account that the checks need."""

    partition: str
    region: str
    id: str

    def tags(self, resource: str) -> Tags:
        """Return the tags of an instance or a launch template; empty if it does not exist."""

    def launch_template(self, name: str) -> tuple[str, Mapping[str, Any]]:
        """Return id and newest data of a launch template, given by name or id; empty if it does not exist."""

    def role_of(self, instance_profile: str) -> str | None:
        """Return the ARN of the role of instances with this profile."""


def calls(request: Request, account: Account) -> Iterator[Call]:
    """Yield the checks that AWS does for `request`. Raises UnknownCall."""
    match request.service, request.action:
        case "ec2", action if action.startswith("Describe"):
            yield Call(request.name, "*", {"aws:RequestedRegion": account.region})
        case "ec2", "CreateFleet":
            yield from _fleet(request, account)
        case "ec2", "RunInstances":
            yield from _launch(request, account, _template_of(request.parameters), [_overrides(request.parameters)])
        case "ec2", "CreateLaunchTemplate":
            yield from _made(
                request.name, _arn(account, "launch-template", "*"), _given(request.parameters, "launch-template")
            )
        case "ec2", "DeleteLaunchTemplate":
            name = request.parameters.get("LaunchTemplateName") or request.parameters.get("LaunchTemplateId", "")
            yield _existing(request.name, account, "launch-template", account.launch_template(name)[0] or name)
        case "ec2", "TerminateInstances":
            for id in _values(request.parameters, "InstanceId"):
                yield _existing(request.name, account, "instance", id)
        case "ec2", "CreateTags":
            tags = _tags(request.parameters)
            for id in _values(request.parameters, "ResourceId"):
                there = _existing(request.name, account, _KINDS[id.partition("-")[0]], id)
                yield Call(request.name, there.resource, {**there.context, **_asked(tags)})
        case "ssm", "GetParameter":
            # Public parameters belong to no account.
            yield Call(request.name, f"arn:{account.partition}:ssm:{account.region}::parameter{request.parameters['Name']}")
        case "iam", "GetInstanceProfile":
            name = request.parameters["InstanceProfileName"]
            yield Call(request.name, f"arn:{account.partition}:iam::{account.id}:instance-profile/{name}")
        case "iam", "ListInstanceProfiles":
            yield Call(request.name, f"arn:{account.partition}:iam::{account.id}:instance-profile/*")
        case "eks", "DescribeCluster":
            name = request.parameters["name"]
            yield Call(request.name, f"arn:{account.partition}:eks:{account.region}:{account.id}:cluster/{name}")
        case "sqs", "GetQueueUrl" | "ReceiveMessage" | "DeleteMessage":
            name = request.parameters.get("QueueName") or request.parameters["QueueUrl"].rpartition("/")[2]
            yield Call(request.name, f"arn:{account.partition}:sqs:{account.region}:{account.id}:{name}")
        case "pricing", "GetProducts":
            yield Call(request.name, "*")
        case _:
            raise UnknownCall(f"what AWS asks IAM about {request.name} is not known to {__name__}")


_KINDS = {"i": "instance", "lt": "launch-template"}


def _fleet(request: Request, account: Account) -> Iterator[Call]:
    """Yield the checks of a fleet: with type `instant`, it launches with the caller's permissions."""
    tags = _given(request.parameters, "fleet")
    yield from _made(request.name, _arn(account, "fleet", "*"), tags)
    for config in _items(request.parameters, "LaunchTemplateConfigs"):
        template = _template_of(config, "LaunchTemplateSpecification")
        overrides = [*map(_overrides, _items(config, "Overrides"))]
        yield from _launch(request, account, template, overrides)
        yield from _launch(Request("ec2", "RunInstances", request.parameters), account, template, overrides)


def _launch(request: Request, account: Account, template: str, overrides: list[dict[str, set[str]]]) -> Iterator[Call]:
    id, data = account.launch_template(template)
    yield _existing(request.name, account, "launch-template", id or template)
    images = {data.get("ImageId", "")}.union(*(one["image"] for one in overrides)) - {""}
    yield from (Call(request.name, f"arn:{account.partition}:ec2:{account.region}::image/{id}") for id in sorted(images))
    subnets: set[str] = set().union(*(one["subnet"] for one in overrides))
    groups = set(data.get("SecurityGroupIds", ()))
    for interface in data.get("NetworkInterfaces", ()):
        groups |= set(interface.get("Groups", ()))
    yield from (Call(request.name, _arn(account, "subnet", id)) for id in sorted(subnets))
    yield from (Call(request.name, _arn(account, "security-group", id)) for id in sorted(groups))
    reservation = data.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
    if "CapacityReservationId" in reservation:
        yield Call(request.name, _arn(account, "capacity-reservation", reservation["CapacityReservationId"]))
    by_template = {
        one["ResourceType"]: {tag["Key"]: tag["Value"] for tag in one["Tags"]} for one in data.get("TagSpecifications", ())
    }
    is_spot = request.parameters.get("TargetCapacitySpecification.DefaultTargetCapacityType") == "spot"
    for kind in (*_MADE_BY_A_LAUNCH, *(["spot-instances-request"] if is_spot else [])):
        tags = {**by_template.get(kind, {}), **_given(request.parameters, kind)}
        yield from _made(request.name, _arn(account, kind, "*"), tags)
    profile = data.get("IamInstanceProfile", {})
    role = account.role_of(profile.get("Name") or profile.get("Arn", "").rpartition("/")[2]) if profile else None
    if role is not None:
        yield Call("iam:PassRole", role, {"iam:PassedToService": _PASSED_TO})


def _made(action: str, arn: str, tags: Tags) -> Iterator[Call]:
    """Yield the checks of a creation, and of tagging in the same call if there are tags."""
    yield Call(action, arn, _asked(tags))
    if tags:
        yield Call("ec2:CreateTags", arn, {**_asked(tags), "ec2:CreateAction": action.partition(":")[2]})


def _existing(action: str, account: Account, kind: str, id: str) -> Call:
    return Call(
        action, _arn(account, kind, id), {f"aws:ResourceTag/{key}": value for key, value in account.tags(id).items()}
    )


def _asked(tags: Tags) -> dict[str, str | tuple[str, ...]]:
    context: dict[str, str | tuple[str, ...]] = {f"aws:RequestTag/{key}": value for key, value in tags.items()}
    return {**context, "aws:TagKeys": tuple(sorted(tags))} if tags else context


def _arn(account: Account, kind: str, id: str) -> str:
    return f"arn:{account.partition}:ec2:{account.region}:{account.id}:{kind}/{id}"


def _template_of(parameters: Mapping[str, Any], prefix: str = "LaunchTemplate") -> str:
    named = (parameters.get(f"{prefix}.{key}") for key in ("LaunchTemplateName", "LaunchTemplateId"))
    return next((name for name in named if name), "")


def _overrides(parameters: Mapping[str, Any]) -> dict[str, set[str]]:
    subnets = {value for key, value in parameters.items() if re.fullmatch(r"(NetworkInterface\.\d+\.)?SubnetId", key)}
    return {"image": {value for key, value in parameters.items() if key == "ImageId"}, "subnet": subnets}


def _given(parameters: Mapping[str, Any], kind: str) -> Tags:
    """Return the tags that a call gives to created resources of one type."""
    return {
        key: value
        for one in _items(parameters, "TagSpecification")
        if one.get("ResourceType") == kind
        for key, value in _tags(one).items()
    }


def _tags(parameters: Mapping[str, Any]) -> Tags:
    return {one["Key"]: one.get("Value", "") for one in _items(parameters, "Tag")}


def _values(parameters: Mapping[str, Any], name: str) -> list[str]:
    """Return a list of texts in the query protocol: `InstanceId.1=…&InstanceId.2=…`."""
    return [value for key, value in parameters.items() if re.fullmatch(rf"{name}\.\d+", key)]


def _items(parameters: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return a list of structures in the query protocol, each with the parameters below its number."""
    found: dict[str, dict[str, Any]] = {}
    for key, value in parameters.items():
        head, _, rest = key.partition(".")
        number, _, below = rest.partition(".")
        if head == name and below:
            found.setdefault(number, {})[below] = value
    return [found[number] for number in sorted(found, key=int)]
