"""Generic handler of record-only types: each resource is a record (base/records.py) of its outputs.

A row of rows.py describes a type completely. The provider's schema decides which inputs it has, and botocore's model decides
which values AWS accepts.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from twin.aws.base import records, schema, strict
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError
from twin.aws.base.handler import Difference, Handler, Values
from twin.aws.base.lookup import or_none
from twin.aws.ec2 import api
from twin.aws.eks import access_policies, lookup
from twin.aws.iam import trust
from twin.aws.kms import keys
from twin.aws.sqs import queue


@dataclass(frozen=True)
class Row:
    """A type. Texts with `{…}` are filled from the inputs, from earlier `outputs`, and from `_places`."""

    token: str
    model: str
    """The botocore operation that validates the values, such as `sqs.CreateQueue`, or a member of its input."""
    id: str
    outputs: Mapping[str, Any] = field(default_factory=dict)
    """Computed outputs, filled in this order."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    replace_on: frozenset[str] = frozenset()
    unordered: frozenset[str] = frozenset()
    delete_before_replace: bool = False
    name: str | None = None
    """The input with the physical name."""
    members: Mapping[str, str] = field(default_factory=dict)
    """Inputs whose names differ in botocore's model."""
    references: Mapping[str, str] = field(default_factory=dict)
    """Inputs that name other resources, by path, with their kind: see `_require`. For a type of this table, `TOKEN OUTPUT`.
    """
    exists: str = ""
    """Error of `model`'s operation, with its text, for a second resource with this id; without it AWS overwrites the first.
    """
    record: tuple[str, ...] = ()
    """The record's path; by default type and id."""
    parts: tuple[str, ...] = ()
    """The folder of records that are deleted with this one."""
    grows: str = ""
    """A number that can grow in place; a smaller value replaces the resource."""


class Recorded(Handler):
    """Handler of a type, by its row."""

    def __init__(self, row: Row) -> None:
        self.row = row
        names = ("token", "defaults", "replace_on", "unordered", "delete_before_replace")
        vars(self).update({name: getattr(row, name) for name in names})
        vars(self).update(computed=frozenset(row.outputs), name_input=row.name)

    @property
    def inputs(self) -> frozenset[str]:  # type: ignore[override]
        """Return all inputs of the provider's schema: a record holds all of them."""
        return schema.input_names(self.token)

    def diff(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> Difference:
        difference = super().diff(old, new)
        before, after = old.get(self.row.grows), new.get(self.row.grows)
        if not (isinstance(before, int) and isinstance(after, int) and after < before):
            return difference
        return Difference(difference.changed, (*difference.replaces, self.row.grows), self._must_delete_first(old, new))

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        self._check(clients, inputs)
        values = {**_places(clients), **self.defaults, **inputs}
        for key, text in self.row.outputs.items():
            values[key] = _filled(text, values)
        id = _filled(self.row.id, values)
        outputs = self.outputs(inputs, {key: values[key] for key in self.row.outputs})
        name = self.record_name(id, outputs)
        if self.row.exists and records.get(clients, name) is not None:
            raise HandlerError(f"{id}: {self.row.exists}")
        records.put(clients, name, outputs)
        return id, outputs

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        return records.get(clients, self.record_name(id, state))

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        self._check(clients, new)
        outputs = self.kept(new, old)
        if self.record_name(id, old) != self.record_name(id, outputs):
            records.delete(clients, self.record_name(id, old))
        records.put(clients, self.record_name(id, outputs), outputs)
        return outputs

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        records.delete(clients, self.record_name(id, state))
        if self.row.parts:
            for name in records.below(clients, records.path(*_filled(self.row.parts, {**state, "id": id}))):
                records.delete(clients, name)

    def record_name(self, id: str, outputs: Values) -> str:
        """Return the record's name."""
        row = self.row
        parts = _filled(row.record, {**outputs, "id": id}) if row.record else ["aws", *row.token.split(":")[1:], id]
        return records.path(*parts)

    def _check(self, clients: Clients, inputs: Values) -> None:
        strict.check_values(clients, self.row.model, inputs, self.row.members)
        for path, kind in self.row.references.items():
            for value in _at(inputs, path.split(".")):
                _require(clients, kind, value, inputs, f"{self.token.rpartition(':')[2]}: {path}")


def _places(clients: Clients) -> Values:
    """Return account, region, partition, time and AWS-like random digits, for the texts of a row."""
    random = uuid.uuid4()
    return {
        "account": clients.account_id,
        "partition": clients.partition,
        "region": clients.region,
        "now": datetime.now(UTC).isoformat(timespec="seconds"),
        "uuid": random,
        "hex8": random.hex[:8],
        "hex17": random.hex[:17],
    }


def _filled(text: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(text, Mapping):
        return {key: _filled(item, values) for key, item in text.items()}
    if isinstance(text, list | tuple):
        return [_filled(item, values) for item in text]
    return text.format(**values)


def _at(value: Any, path: list[str]) -> Iterator[Any]:
    """Yield the values at the path; for a list, the values of all items."""
    if isinstance(value, list):
        for item in value:
            yield from _at(item, path)
    elif path:
        yield from _at(value[path[0]], path[1:]) if isinstance(value, Mapping) and path[0] in value else ()
    elif value is not None:
        yield value


def _require(clients: Clients, kind: str, value: str, inputs: Values, where: str) -> None:
    """Raise HandlerError if an input names no existing resource, as AWS does for an unknown id."""
    name, _, detail = kind.partition(":")
    if name == "role":
        trust.require_role(clients, value, where, service=detail or None)
    elif name in ("vpc", "subnet", "security-group"):
        api.require(clients, name, value, where)
    elif name == "key":
        keys.require_key(clients, value, where)
    elif name == "aws":
        _require_output(clients, detail, value, where)
    elif not _EXISTS[kind](clients, value, inputs):
        raise HandlerError(f"{where}: the {kind} {value} does not exist")


def _require_output(clients: Clients, detail: str, value: str, where: str) -> None:
    type_, _, output = detail.partition(" ")
    folder = records.path("aws", *type_.split(":"))
    living = records.below(clients, folder).items()
    if value not in [name.removeprefix(f"{folder}/") if output == "id" else record[output] for name, record in living]:
        raise HandlerError(f"{where}: the {type_.rpartition(':')[2]} {value} does not exist")


def _topic(clients: Clients, arn: str, _: Values) -> bool:
    """Check topics of this account; accept topics of other accounts, e-mail addresses and other actions."""
    own = f":sns:{clients.region}:{clients.account_id}:" in arn
    return not own or or_none(clients("sns").get_topic_attributes, TopicArn=arn) is not None


def _principal(clients: Clients, arn: str, inputs: Values) -> bool:
    if f":{clients.account_id}:role/" in arn:
        trust.require_role(clients, arn, f"access entry to {inputs['clusterName']}")
    return True


def _log_group(clients: Clients, arn: str, _: Values) -> bool:
    name = arn.split(":log-group:")[-1].removesuffix(":*")
    groups = clients("logs").describe_log_groups(logGroupNamePrefix=name)["logGroups"]
    return name in [group["logGroupName"] for group in groups]


def _cluster_with_entries(clients: Clients, name: str, _: Values) -> bool:
    """Require access entries, as EKS does: https://github.com/aws-ia/terraform-aws-eks-blueprints/issues/1877."""
    lookup.require_cluster(clients, name, "access entry")
    mode = lookup.record(clients, name).get("accessConfig", {}).get("authenticationMode", "CONFIG_MAP")
    if mode not in lookup.API_MODES:
        raise HandlerError(
            f"access entry to {name}: InvalidRequestException: The cluster's authentication mode must be set to one of "
            "[API, API_AND_CONFIG_MAP] to perform this operation."
        )
    return True


def _entry(clients: Clients, principal: str, inputs: Values) -> bool:
    return records.get(clients, lookup.record_name(inputs["clusterName"], "access-entries", principal)) is not None


_EXISTS: dict[str, Callable[[Clients, str, Values], bool]] = {
    "access entry": _entry,
    "access policy": lambda _, arn, __: arn.rpartition("/")[2] in access_policies.POLICIES,
    "bucket": lambda clients, url, _: or_none(clients("s3").head_bucket, Bucket=url.split("/")[2]) is not None,
    "cluster": lambda clients, name, _: lookup.cluster(clients, name) is not None,
    "cluster with entries": _cluster_with_entries,
    "hosted zone": lambda clients, id, _: or_none(clients("route53").get_hosted_zone, Id=id) is not None,
    "log group": _log_group,
    "principal": _principal,
    "queue": lambda clients, arn, _: queue.url_of(clients, arn) is not None,
    "queue URL": lambda clients, url, _: queue.find_queue(clients, url) is not None,
    "topic": _topic,
}
