"""VPC flow logs to CloudWatch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError, Problem
from twin.aws.base.handler import Values, known
from twin.aws.base.lookup import gone_is_fine
from twin.aws.ec2 import api
from twin.aws.ec2.api import Ec2Handler
from twin.aws.iam import trust


class FlowLog(Ec2Handler):
    kind = "vpc-flow-log"
    token = "aws:ec2/flowLog:FlowLog"
    inputs = frozenset(
        {"vpcId", "trafficType", "logDestinationType", "logDestination", "iamRoleArn", "maxAggregationInterval"} | {"tags"}
    )
    defaults: ClassVar[Values] = {"logDestinationType": "cloud-watch-logs", "maxAggregationInterval": 600}
    computed = frozenset({"arn"})
    replace_on = inputs - {"tags"}

    def rules(self, inputs: Values) -> Iterable[Problem]:
        for key in ("vpcId", "trafficType", "logDestination", "iamRoleArn"):
            if key not in inputs:
                yield Problem(key, "required: the twin has flow logs of a VPC to a CloudWatch log group")
        if inputs.get("logDestinationType", "cloud-watch-logs") != "cloud-watch-logs":
            yield Problem("logDestinationType", "the twin has cloud-watch-logs only")
        if known(inputs, "maxAggregationInterval") not in (None, 60, 600):
            yield Problem("maxAggregationInterval", f"{inputs['maxAggregationInterval']} is not 60 or 600 seconds")

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        where = f"flow log of {inputs['vpcId']}"
        api.require(clients, "vpc", inputs["vpcId"], where)
        trust.require_role(clients, inputs["iamRoleArn"], where, service="vpc-flow-logs.amazonaws.com")
        self._require_log_group(clients, inputs["logDestination"], where)
        answer = clients("ec2").create_flow_logs(
            ResourceIds=[inputs["vpcId"]],
            ResourceType="VPC",
            TrafficType=inputs["trafficType"],
            LogDestinationType="cloud-watch-logs",
            LogDestination=inputs["logDestination"],
            DeliverLogsPermissionArn=inputs["iamRoleArn"],
            MaxAggregationInterval=inputs.get("maxAggregationInterval", 600),
            **api.tag_specifications("vpc-flow-log", inputs),
        )
        if answer.get("Unsuccessful"):
            error = answer["Unsuccessful"][0]["Error"]
            raise HandlerError(f"{where}: {error['Code']}: {error['Message']}")
        id = answer["FlowLogIds"][0]
        return id, self.outputs(inputs, {"arn": clients.arn("ec2", f"vpc-flow-log/{id}")})

    def observed(self, clients: Clients, found: Values, state: Values) -> Values:
        return {"vpcId": found["ResourceId"], "trafficType": found["TrafficType"]}

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        with gone_is_fine():
            clients("ec2").delete_flow_logs(FlowLogIds=[id])

    @staticmethod
    def _require_log_group(clients: Clients, arn: str, where: str) -> None:
        name = arn.split(":log-group:")[-1].removesuffix(":*")
        groups = clients("logs").describe_log_groups(logGroupNamePrefix=name)["logGroups"]
        if name not in [group["logGroupName"] for group in groups]:
            raise HandlerError(f"{where}: log group {name} does not exist")
