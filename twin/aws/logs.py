"""CloudWatch log groups."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from twin.aws.base import records, tags
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError, Problem
from twin.aws.base.handler import Handler, Values, known
from twin.aws.base.lookup import gone_is_fine
from twin.aws.kms import keys

_RETENTION_DAYS = (
    *(0, 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731),
    *(1096, 1827, 2192, 2557, 2922, 3288, 3653),
)
"""https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html; 0 is Pulumi's never."""


class LogGroup(Handler):
    token = "aws:cloudwatch/logGroup:LogGroup"
    inputs = frozenset({"kmsKeyId", "name", "retentionInDays", "skipDestroy", "tags"})
    defaults: ClassVar[Values] = {"retentionInDays": 0, "skipDestroy": False}
    computed = frozenset({"arn"})
    replace_on = frozenset({"name"})
    name_input = "name"

    def rules(self, inputs: Values) -> Iterable[Problem]:
        days = known(inputs, "retentionInDays")
        if days is not None and days not in _RETENTION_DAYS:
            yield Problem("retentionInDays", f"{days} is not one of {', '.join(map(str, _RETENTION_DAYS))}")

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        logs, name = clients("logs"), inputs["name"]
        key = {}
        if "kmsKeyId" in inputs:
            self._require_usable_key(clients, inputs["kmsKeyId"], name)
            key = {"kmsKeyId": inputs["kmsKeyId"]}
        pairs = {"tags": inputs["tags"]} if inputs.get("tags") else {}
        logs.create_log_group(logGroupName=name, **key, **pairs)
        if inputs.get("retentionInDays"):
            logs.put_retention_policy(logGroupName=name, retentionInDays=inputs["retentionInDays"])
        return name, self.outputs(inputs, {"arn": clients.arn("logs", f"log-group:{name}")})

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        group = self._find(clients, id)
        if group is None:
            return None
        seen = clients("logs").list_tags_log_group(logGroupName=id)["tags"]
        return {
            **state,
            "retentionInDays": group.get("retentionInDays", 0),
            **self._key(clients, group),
            **tags.observed(state, seen),
        }

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        logs = clients("logs")
        if new.get("kmsKeyId") != old.get("kmsKeyId"):
            self._change_key(clients, id, new.get("kmsKeyId"))
        if new.get("retentionInDays"):
            logs.put_retention_policy(logGroupName=id, retentionInDays=new["retentionInDays"])
        elif old.get("retentionInDays"):
            logs.delete_retention_policy(logGroupName=id)
        gone = tags.removed(old.get("tags"), new.get("tags"))
        if gone:
            logs.untag_log_group(logGroupName=id, tags=gone)
        if new.get("tags"):
            logs.tag_log_group(logGroupName=id, tags=new["tags"])
        return self.kept(new, old)

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        if state.get("skipDestroy"):
            return
        with gone_is_fine():
            clients("logs").delete_log_group(logGroupName=id)
        records.delete(clients, records.path("logs", id))

    def _change_key(self, clients: Clients, id: str, key_id: str | None) -> None:
        """Record a new key or its removal: moto has neither AssociateKmsKey nor DisassociateKmsKey."""
        if key_id is not None:
            self._require_usable_key(clients, key_id, id)
        records.put(clients, records.path("logs", id), {"kmsKeyId": key_id})

    @staticmethod
    def _key(clients: Clients, group: Values) -> Values:
        noted = records.get(clients, records.path("logs", group["logGroupName"]))
        key_id = noted["kmsKeyId"] if noted is not None else group.get("kmsKeyId")
        return {} if key_id is None else {"kmsKeyId": key_id}

    @staticmethod
    def _find(clients: Clients, name: str) -> dict[str, Any] | None:
        groups = clients("logs").describe_log_groups(logGroupNamePrefix=name)["logGroups"]
        return next((dict(group) for group in groups if group["logGroupName"] == name), None)

    @staticmethod
    def _require_usable_key(clients: Clients, key_id: str, name: str) -> None:
        """Refuse a key whose policy does not let CloudWatch Logs encrypt.

        https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/encrypt-log-data-kms.html
        """
        where = f"log group {name}"
        keys.require_key(clients, key_id, where)
        policy = clients("kms").get_key_policy(KeyId=key_id, PolicyName="default")["Policy"]
        service = f"logs.{clients.region}.amazonaws.com"
        if service not in policy and "logs.amazonaws.com" not in policy:
            raise HandlerError(f"{where}: the policy of {key_id} does not let {service} use the key")
