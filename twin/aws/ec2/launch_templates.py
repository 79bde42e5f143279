"""Launch templates."""

from __future__ import annotations

from typing import Any

from twin.aws.base import wire
from twin.aws.base.clients import Clients
from twin.aws.base.handler import UNKNOWN, Values
from twin.aws.ec2 import api
from twin.aws.ec2.api import Ec2Handler
from twin.aws.kms import keys

_NOT_DATA = frozenset({"name", "description", "updateDefaultVersion", "tags"})
_RENAMES = {"vpcSecurityGroupIds": "SecurityGroupIds", "networkInterfaces.securityGroups": "Groups"}


class LaunchTemplate(Ec2Handler):
    kind = "launch-template"
    token = "aws:ec2/launchTemplate:LaunchTemplate"
    inputs = _NOT_DATA | {
        "blockDeviceMappings",
        "capacityReservationSpecification",
        "imageId",
        "instanceMarketOptions",
        "instanceType",
        "metadataOptions",
        "monitoring",
        "networkInterfaces",
        "tagSpecifications",
        "userData",
        "vpcSecurityGroupIds",
    }
    computed = frozenset({"arn", "defaultVersion", "latestVersion"})
    replace_on = frozenset({"name"})
    unordered = frozenset({"vpcSecurityGroupIds"})
    name_input = "name"

    def preview_update(self, old: Values, new: Values) -> Values:
        outputs = self.kept(new, old)
        if self._data(new) != self._data(old):
            outputs |= {"latestVersion": UNKNOWN, "defaultVersion": UNKNOWN}
        return outputs

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        self._check_references(clients, inputs)
        template = clients("ec2").create_launch_template(
            LaunchTemplateName=inputs["name"],
            VersionDescription=inputs.get("description", ""),
            LaunchTemplateData=self._request(clients, inputs),
            **api.tag_specifications("launch-template", inputs),
        )["LaunchTemplate"]
        id = template["LaunchTemplateId"]
        return id, self.outputs(inputs, self._computed(clients, template))

    def observed(self, clients: Clients, found: Values, state: Values) -> Values:
        return {**self._computed(clients, found), "name": found["LaunchTemplateName"]}

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        ec2 = clients("ec2")
        outputs = self.kept(new, old)
        if self._data(new) != self._data(old):
            self._check_references(clients, new)
            version = ec2.create_launch_template_version(
                LaunchTemplateId=id,
                VersionDescription=new.get("description", ""),
                LaunchTemplateData=self._request(clients, new),
            )["LaunchTemplateVersion"]["VersionNumber"]
            outputs["latestVersion"] = version
            if new.get("updateDefaultVersion"):
                ec2.modify_launch_template(LaunchTemplateId=id, DefaultVersion=str(version))
                outputs["defaultVersion"] = version
        api.retag(clients, id, old, new)
        return outputs

    def _data(self, values: Values) -> Values:
        """Return the inputs of a template version: AWS creates a new version when any of them changes."""
        return {key: values[key] for key in self.inputs - _NOT_DATA if values.get(key) is not None}

    def _request(self, clients: Clients, inputs: Values) -> Values:
        operation = clients("ec2").meta.service_model.operation_model("CreateLaunchTemplate")
        shape = operation.input_shape.members["LaunchTemplateData"]
        request: Values = wire.to_request(self._data(inputs), shape, _RENAMES)
        return request

    @staticmethod
    def _computed(clients: Clients, template: dict[str, Any]) -> Values:
        return {
            "arn": clients.arn("ec2", f"launch-template/{template['LaunchTemplateId']}"),
            "defaultVersion": template["DefaultVersionNumber"],
            "latestVersion": template["LatestVersionNumber"],
        }

    @staticmethod
    def _check_references(clients: Clients, inputs: Values) -> None:
        """Check references that EC2 checks only at the first launch, when the node group has already failed."""
        where = f"launch template {inputs['name']}"
        groups = list(inputs.get("vpcSecurityGroupIds", []))
        for interface in inputs.get("networkInterfaces", []):
            groups += interface.get("securityGroups", [])
        for group in groups:
            api.require(clients, "security-group", group, where)
        for mapping in inputs.get("blockDeviceMappings", []):
            key = mapping.get("ebs", {}).get("kmsKeyId")
            if key:
                keys.require_key(clients, key, where)
