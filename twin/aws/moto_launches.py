"""Add to moto what Karpenter needs for launches: EKS images, and instance types without capacity.

A fleet gets none of the types in `WITHOUT_CAPACITY` (faults.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from moto.core.responses import ActionResult
from moto.core.utils import utcnow
from moto.ec2.models import ec2_backends
from moto.ec2.models.amis import Ami
from moto.ec2.models.instances import Instance, InstanceState
from moto.ec2.responses.fleets import Fleets
from moto.ssm.models import Parameter, SimpleSystemManagerBackend

from twin.aws import faults
from twin.aws.base import moto_records
from twin.aws.faults import WITHOUT_CAPACITY

_NO_CAPACITY = "We currently do not have sufficient {type} capacity in the Availability Zone you requested."
# https://docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id.html; here NVIDIA and Neuron images are x86_64 only.
_EKS_IMAGE = re.compile(
    r"/aws/service/eks/optimized-ami/(?P<minor>1\.\d+)/amazon-linux-2023/(?P<architecture>x86_64|arm64)/"
    r"(?P<variant>standard|nvidia|neuron)/(?P<name>amazon-eks-node-al2023-[\w.-]+-v\d{8}|recommended)/image_id"
)
_AMAZON = "602401143452"
"""The account that owns EKS's images."""
_get_parameter = SimpleSystemManagerBackend.get_parameter
_create_fleet = Fleets.create_fleet
_terminate = Instance.terminate


def install() -> None:
    """Patch the moto of this process."""
    SimpleSystemManagerBackend.get_parameter = get_parameter  # type: ignore[method-assign,assignment]
    Fleets.create_fleet = create_fleet  # type: ignore[method-assign,assignment]
    Instance.terminate = terminate  # type: ignore[method-assign,assignment]


def terminate(instance: Instance) -> InstanceState:
    """Terminate an instance and, as EC2 does by default, its first interface, which moto would leave in the subnet."""
    instance.nics[0].delete_on_termination = True
    return _terminate(instance)


def get_parameter(backend: SimpleSystemManagerBackend, name: str) -> Parameter | None:
    """Return a parameter. The parameter of an EKS image, and the image itself, are created at the first request."""
    found = _EKS_IMAGE.fullmatch(name)
    if found is None or (found["architecture"], found["variant"]) == ("arm64", "neuron"):
        return _get_parameter(backend, name)
    images = ec2_backends[backend.account_id][backend.region_name].amis
    called = found["name"] if found["name"] != "recommended" else f"{found['variant']}-{found['minor']}-recommended"
    image = next((one for one in images.values() if one.name == called), None)
    if image is None:
        image = _image(ec2_backends[backend.account_id][backend.region_name], called, found["architecture"])
        images[image.id] = image
    return Parameter(backend.account_id, name, image.id, "String", None, None, None, utcnow(), 1, "text")  # type: ignore[abstract]


def create_fleet(response: Fleets) -> ActionResult:
    """Create a fleet from available types, and list the unavailable ones, as EC2 does for an instant fleet without an error.

    Instances get the security groups of their launch template, and EC2's own tags with their fleet and template.
    """
    missing = _missing(response)
    configs = response._get_param("LaunchTemplateConfigs", [])
    kind = response._get_param("TargetCapacitySpecification", {}).get("DefaultTargetCapacityType") or "on-demand"
    errors = []
    left = []
    for config in configs:
        overrides = config.get("Overrides") or []
        gone = [one for one in overrides if _is_missing(one, kind, missing)]
        errors += [_error(config, one, kind) for one in gone]
        if len(gone) < len(overrides) or not overrides:
            left.append({**config, "Overrides": [one for one in overrides if one not in gone]})
    if response._get_bool_param("DryRun"):
        return _create_fleet(response)
    if not left:
        return ActionResult({"FleetId": "fleet-00000000-0000-0000-0000-000000000000", "Errors": errors, "Instances": []})
    asked = response._get_param
    response._get_param = lambda name, *rest, **more: (  # type: ignore[method-assign]
        left if name == "LaunchTemplateConfigs" else asked(name, *rest, **more)
    )
    made: dict[str, Any] = _create_fleet(response).result  # type: ignore[assignment]
    for launched in made.get("Instances", ()):
        template = launched["LaunchTemplateAndOverrides"]["LaunchTemplateSpecification"]
        for id in launched["InstanceIds"]:
            instance = response.ec2_backend.get_instance(id)
            instance.security_groups = _security_groups(response.ec2_backend, template)
            instance.add_tag("aws:ec2:fleet-id", made["FleetId"])
            instance.add_tag("aws:ec2launchtemplate:id", template["LaunchTemplateId"])
            instance.add_tag("aws:ec2launchtemplate:version", template["Version"])
    return ActionResult({**made, "Errors": errors})


def _image(backend: Any, name: str, architecture: str) -> Ami:
    serial = len(backend.amis) + 1
    return Ami(
        backend,
        f"ami-{serial:017x}",
        name=name,
        owner_id=_AMAZON,
        public=True,
        virtualization_type="hvm",
        architecture=architecture,
        hypervisor="xen",
        root_device_type="ebs",
        root_device_name="/dev/xvda",
        region_name=backend.region_name,
    )


def _security_groups(backend: Any, template: Mapping[str, str]) -> list[Any]:
    data = backend.get_launch_template(template["LaunchTemplateId"]).get_version(template["Version"]).data
    ids = [*(data.get("SecurityGroupIds") or ())]
    for interface in data.get("NetworkInterfaces") or ():
        ids += interface.get("Groups") or interface.get("SecurityGroupId") or ()
    return [backend.get_security_group_from_id(id) for id in dict.fromkeys(ids)]


def _missing(response: Fleets) -> frozenset[str]:
    return faults.listed(moto_records.text(response.current_account, response.region, WITHOUT_CAPACITY))


def _is_missing(override: Mapping[str, Any], kind: str, missing: frozenset[str]) -> bool:
    type = override.get("InstanceType", "")
    return not missing.isdisjoint({type, f"{type}/{override.get('AvailabilityZone')}", f"{type}/{kind}"})


def _error(config: Mapping[str, Any], override: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return {
        "LaunchTemplateAndOverrides": {
            "LaunchTemplateSpecification": config["LaunchTemplateSpecification"],
            "Overrides": dict(override),
        },
        "Lifecycle": kind,
        "ErrorCode": "InsufficientInstanceCapacity",
        "ErrorMessage": _NO_CAPACITY.format(type=override.get("InstanceType")),
    }
