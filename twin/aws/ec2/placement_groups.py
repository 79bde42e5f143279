"""Placement groups. moto has none: they are records of the twin's own."""

from __future__ import annotations

from collections.abc import Iterable

from twin.aws.base import records
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError, Problem
from twin.aws.base.handler import Values, known
from twin.aws.base.recorded import Recorded


def record_name(name: str) -> str:
    """Return where the record of the placement group of this name is kept."""
    return records.path("ec2", "placement-groups", name)


class PlacementGroup(Recorded):
    token = "aws:ec2/placementGroup:PlacementGroup"
    inputs = frozenset({"name", "strategy", "tags"})
    computed = frozenset({"arn", "placementGroupId"})
    replace_on = frozenset({"name", "strategy"})
    name_input = "name"

    def rules(self, inputs: Values) -> Iterable[Problem]:
        if known(inputs, "strategy") not in (None, "cluster", "partition", "spread"):
            yield Problem("strategy", f"{inputs['strategy']!r} is not one of cluster, partition, spread")

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        name = inputs["name"]
        if records.get(clients, record_name(name)):
            raise HandlerError(f"placement group {name} already exists")
        computed = {
            "arn": clients.arn("ec2", f"placement-group/{name}"),
            "placementGroupId": "pg-" + records.path(f"placement group {name}").removeprefix("/twin/")[:17],
        }
        outputs = self.outputs(inputs, computed)
        records.put(clients, record_name(name), outputs)
        return name, outputs

    def record_name(self, values: Values) -> str:
        return record_name(values["name"])
