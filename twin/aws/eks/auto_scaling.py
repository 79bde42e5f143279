"""A managed node group's Auto Scaling group, launch template and tags, which moto does not create."""

from __future__ import annotations

from typing import Any

from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError
from twin.aws.base.handler import Handler, Values
from twin.aws.base.lookup import gone_is_fine


def create(clients: Clients, name: str, inputs: Values, instance_type: str, *, starts: bool) -> None:
    """Create the group with EKS's tags; its instances run in moto as long as it exists. `starts`: it gets instances."""
    # EKS copies the user's template and adds image and type; the copy has the group's name.
    template = clients("ec2").create_launch_template(
        LaunchTemplateName=name, LaunchTemplateData={"InstanceType": instance_type}
    )["LaunchTemplate"]
    scaling = inputs["scalingConfig"]
    clients("autoscaling").create_auto_scaling_group(
        AutoScalingGroupName=name,
        MinSize=scaling["minSize"] if starts else 0,
        MaxSize=scaling["maxSize"],
        DesiredCapacity=scaling["desiredSize"] if starts else 0,
        VPCZoneIdentifier=",".join(inputs["subnetIds"]),
        LaunchTemplate={"LaunchTemplateId": template["LaunchTemplateId"], "Version": "1"},
        Tags=[_tag(name, key, value) for key, value in _eks_tags(inputs).items()],
    )


def resize(clients: Clients, name: str, scaling: Values) -> None:
    """Set the node group's sizes on the Auto Scaling group."""
    clients("autoscaling").update_auto_scaling_group(
        AutoScalingGroupName=name,
        MinSize=scaling["minSize"],
        MaxSize=scaling["maxSize"],
        DesiredCapacity=scaling["desiredSize"],
    )


def delete(clients: Clients, name: str) -> None:
    """Delete group, instances, their interfaces and the copied template; absent ones are no error."""
    interfaces = _interfaces(clients, name)
    if find(clients, name) is not None:
        clients("autoscaling").delete_auto_scaling_group(AutoScalingGroupName=name, ForceDelete=True)
    # AWS deletes the interfaces with their instances; moto leaves them in the subnets.
    for interface in interfaces:
        with gone_is_fine():
            clients("ec2").delete_network_interface(NetworkInterfaceId=interface)
    with gone_is_fine():
        clients("ec2").delete_launch_template(LaunchTemplateName=name)


def find(clients: Clients, name: str) -> dict[str, Any] | None:
    """Return the group of this name, or None."""
    groups = clients("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=[name])["AutoScalingGroups"]
    return dict(groups[0]) if groups else None


def _interfaces(clients: Clients, name: str) -> list[str]:
    group = find(clients, name)
    ids = [instance["InstanceId"] for instance in group["Instances"]] if group else []
    if not ids:
        return []
    reservations = clients("ec2").describe_instances(InstanceIds=ids)["Reservations"]
    instances = [instance for reservation in reservations for instance in reservation["Instances"]]
    return [item["NetworkInterfaceId"] for instance in instances for item in instance.get("NetworkInterfaces", [])]


def _eks_tags(inputs: Values) -> dict[str, str]:
    cluster = inputs["clusterName"]
    return {
        "eks:cluster-name": cluster,
        "eks:nodegroup-name": inputs["nodeGroupName"],
        "k8s.io/cluster-autoscaler/enabled": "true",
        f"k8s.io/cluster-autoscaler/{cluster}": "owned",
        f"kubernetes.io/cluster/{cluster}": "owned",
    }


def _tag(group: str, key: str, value: str) -> dict[str, Any]:
    return {
        "ResourceId": group,
        "ResourceType": "auto-scaling-group",
        "Key": key,
        "Value": value,
        "PropagateAtLaunch": True,
    }


class Tag(Handler):
    token = "aws:autoscaling/tag:Tag"
    inputs = frozenset({"autoscalingGroupName", "tag"})
    replace_on = frozenset({"autoscalingGroupName"})

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        name = inputs["autoscalingGroupName"]
        if find(clients, name) is None:
            raise HandlerError(f"tag {inputs['tag']['key']}: Auto Scaling group {name} does not exist")
        self._put(clients, inputs)
        return f"{name},{inputs['tag']['key']}", self.outputs(inputs, {})

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        group = find(clients, state["autoscalingGroupName"])
        for tag in group["Tags"] if group else ():
            if tag["Key"] == state["tag"]["key"]:
                seen = {"key": tag["Key"], "value": tag["Value"], "propagateAtLaunch": tag["PropagateAtLaunch"]}
                return {**state, "tag": seen}
        return None

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        if old["tag"]["key"] != new["tag"]["key"]:
            self.delete(clients, id, old)
        self._put(clients, new)
        return self.kept(new, old)

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        if find(clients, state["autoscalingGroupName"]) is not None:
            clients("autoscaling").delete_tags(Tags=[_request(state)])

    @staticmethod
    def _put(clients: Clients, inputs: Values) -> None:
        clients("autoscaling").create_or_update_tags(Tags=[_request(inputs)])


def _request(values: Values) -> dict[str, Any]:
    tag = values["tag"]
    return {
        "ResourceId": values["autoscalingGroupName"],
        "ResourceType": "auto-scaling-group",
        "Key": tag["key"],
        "Value": tag["value"],
        "PropagateAtLaunch": tag["propagateAtLaunch"],
    }
