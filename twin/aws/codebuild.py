"""Projects of CodeBuild and their webhooks. They are the twin's records: moto changes no project and has no webhooks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from twin.aws.base import records, strict, tags
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError, Problem
from twin.aws.base.handler import Values, known
from twin.aws.base.recorded import Recorded
from twin.aws.ec2 import api
from twin.aws.iam import trust

_PROJECTS, _WEBHOOKS = "codebuild-projects", "codebuild-webhooks"


class Project(Recorded):
    token = "aws:codebuild/project:Project"
    inputs = frozenset(
        {
            "artifacts",
            "buildTimeout",
            "description",
            "environment",
            "logsConfig",
            "name",
            "serviceRole",
            "source",
            "tags",
            "vpcConfig",
        }
    )
    computed = frozenset({"arn"})
    replace_on = frozenset({"name"})
    name_input = "name"

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        if records.get(clients, self.record_name(inputs)) is not None:
            raise HandlerError(f"CodeBuild project {inputs['name']} already exists")
        self._check(clients, inputs)
        arn = clients.arn("codebuild", f"project/{inputs['name']}")
        outputs = self.outputs(inputs, {"arn": arn})
        records.put(clients, self.record_name(inputs), outputs)
        return arn, outputs

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        self._check(clients, new)
        return super().update(clients, id, old, new)

    def record_name(self, values: Values) -> str:
        return records.path(_PROJECTS, values["name"])

    @staticmethod
    def _check(clients: Clients, inputs: Values) -> None:
        """Refuse what CodeBuild refuses: a role that it may not take, subnets and groups of another VPC."""
        where, network = f"CodeBuild project {inputs['name']}", inputs["vpcConfig"]
        trust.require_role(clients, inputs["serviceRole"], where, service="codebuild.amazonaws.com")
        for kind, ids in (("subnet", network["subnets"]), ("security-group", network["securityGroupIds"])):
            for found in api.require_all(clients, kind, ids, where):
                if found["VpcId"] != network["vpcId"]:
                    raise HandlerError(f"{where}: a {kind} is in {found['VpcId']}, and the project in {network['vpcId']}")
        strict.check(clients("codebuild"), "CreateProject", _request(inputs))


def _request(inputs: Values) -> dict[str, Any]:
    logs = inputs["logsConfig"]["cloudwatchLogs"]
    return {
        "name": inputs["name"],
        "description": inputs["description"],
        "source": inputs["source"],
        "artifacts": inputs["artifacts"],
        "environment": inputs["environment"],
        "serviceRole": inputs["serviceRole"],
        "timeoutInMinutes": inputs["buildTimeout"],
        "tags": [{"key": pair["Key"], "value": pair["Value"]} for pair in tags.to_list(inputs.get("tags"))],
        "vpcConfig": inputs["vpcConfig"],
        "logsConfig": {"cloudWatchLogs": {"groupName": logs["groupName"], "status": logs["status"]}},
    }


class Webhook(Recorded):
    token = "aws:codebuild/webhook:Webhook"
    inputs = frozenset({"filterGroups", "projectName"})
    computed = frozenset({"payloadUrl", "url"})
    replace_on = frozenset({"projectName"})

    def rules(self, inputs: Values) -> Iterable[Problem]:
        if known(inputs, "filterGroups") == []:
            yield Problem("filterGroups", "is empty: every push would start a build")
        for index, group in enumerate(known(inputs, "filterGroups") or ()):
            if not any(one["type"] == "EVENT" for one in group["filters"]):
                yield Problem(f"filterGroups[{index}]", "has no filter of the type EVENT")

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        name = inputs["projectName"]
        if records.get(clients, records.path(_PROJECTS, name)) is None:
            raise HandlerError(f"CodeBuild webhook: there is no project {name}")
        if records.get(clients, self.record_name(inputs)) is not None:
            raise HandlerError(f"CodeBuild webhook: {name} has one already")
        self._check(clients, "CreateWebhook", inputs)
        number = hashlib.sha256(name.encode()).hexdigest()[:8]
        made = {"payloadUrl": f"https://codebuild.{clients.region}.amazonaws.com/webhooks", "url": f"hooks/{number}"}
        outputs = self.outputs(inputs, made)
        records.put(clients, self.record_name(inputs), outputs)
        return name, outputs

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        self._check(clients, "UpdateWebhook", new)
        return super().update(clients, id, old, new)

    @staticmethod
    def _check(clients: Clients, operation: str, inputs: Values) -> None:
        groups = [group["filters"] for group in inputs["filterGroups"]]
        strict.check(clients("codebuild"), operation, {"projectName": inputs["projectName"], "filterGroups": groups})

    def record_name(self, values: Values) -> str:
        return records.path(_WEBHOOKS, values["projectName"])
