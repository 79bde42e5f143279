"""Tags on Auto Scaling groups that somebody else owns."""

from __future__ import annotations

from typing import Any

from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError
from twin.aws.base.handler import Handler, Values
from twin.aws.eks import auto_scaling


class Tag(Handler):
    token = "aws:autoscaling/tag:Tag"
    inputs = frozenset({"autoscalingGroupName", "tag"})
    replace_on = frozenset({"autoscalingGroupName"})

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        name = inputs["autoscalingGroupName"]
        if auto_scaling.find(clients, name) is None:
            raise HandlerError(f"tag {inputs['tag']['key']}: Auto Scaling group {name} does not exist")
        self._put(clients, inputs)
        return f"{name},{inputs['tag']['key']}", self.outputs(inputs, {})

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        group = auto_scaling.find(clients, state["autoscalingGroupName"])
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
        if auto_scaling.find(clients, state["autoscalingGroupName"]) is not None:
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
