"""The search that a finder is given, which tells the stack's own things from others', and the leftover that it yields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from functools import cached_property
from typing import Any

from spec.ownership import Ownership, Tags, tags_of
from spec.settings import Settings
from stackctl.account.read_only import Readers
from stackctl.cost.prices import PriceTable, product

Item = Mapping[str, Any]
_CENT = Decimal("0.01")
_SOMEBODY_ELSES = "somebody else's"


@dataclass(frozen=True)
class Leftover:
    """A thing that is left; nothing here removes it.

    `reason`: why it counts as the stack's. `usd_a_month`: 0 where AWS charges nothing, None where it depends on use, NaN
    where there is no price. `remove`: the command with which somebody removes it.
    """

    kind: str
    id: str
    name: str
    reason: str
    usd_a_month: float | None
    remove: str


@dataclass(frozen=True)
class Search:
    """One look at one account and region for the things of one stack."""

    readers: Readers
    owner: Ownership
    prices: PriceTable
    existing_cluster: str | None = None
    """A cluster that was there before the stack and is used by it."""

    @classmethod
    def of(cls, settings: Settings, readers: Readers, prices: PriceTable) -> Search:
        """Return the search for the things of the stack with these settings."""
        existing = settings.cluster.existing
        return cls(readers, Ownership.of(settings), prices, existing.name if existing is not None else None)

    def usd_a_month(self, key: str, units: Decimal | int = 1) -> float:
        """Return the list price of so many units a month (an hour that is paid all month has `HOURS`), in whole cents."""
        return float(product(Decimal(units), self.prices.usd(key)).quantize(_CENT, ROUND_HALF_UP))

    def pages(self, service: str, operation: str, key: str, **arguments: Any) -> Iterator[Item]:
        """Yield all items below `key` of a paginated operation."""
        for page in self.readers(service).get_paginator(operation).paginate(**arguments):
            yield from page[key]

    def own(self, items: Iterator[Item]) -> Iterator[tuple[Item, str]]:
        """Yield the items that are the stack's by their tags, each with the reason."""
        for item in items:
            reason = self.owner.reason(tags_of(item.get("Tags")))
            if reason is not None:
                yield item, reason

    def in_the_way(self, items: Iterator[Item], tags: str = "Tags") -> Iterator[tuple[Item, str]]:
        """Yield the items that are the stack's by their tags, and those in its VPC, which keep it from being deleted."""
        for item in items:
            reason = self.owner.reason(tags_of(item.get(tags)))
            vpc = item.get("VpcId")
            if reason is None and vpc in self.vpcs:
                reason = f"in {vpc}{self._other_owner(tags_of(item.get(tags)))}"
            if reason is not None:
                yield item, reason

    def _other_owner(self, tags: Tags) -> str:
        # GuardDuty's runtime monitoring adds an endpoint with a security group to a VPC, and AWS leaves both to its owner.
        if tags.get("GuardDutyManaged") == "true":
            return ", created by GuardDuty"
        stranger = self.owner.stranger(tags)
        return f", and {_SOMEBODY_ELSES}: {stranger}" if stranger else ""

    @cached_property
    def vpcs(self) -> dict[str, str]:
        """Return the stack's VPCs, each with the tag that says so."""
        found = {}
        for vpc in self.pages("ec2", "describe_vpcs", "Vpcs"):
            reason = self.owner.reason(tags_of(vpc.get("Tags")))
            if reason is not None:
                found[str(vpc["VpcId"])] = reason
        return found

    def remove(self, command: str, reason: str = "") -> str:
        """Return a command of the AWS CLI for the region; a comment instead for what the reason says is somebody else's."""
        if _SOMEBODY_ELSES in reason:
            return f"# no command, ask its owner: {command.rpartition(' ')[2]} is {reason}"
        return f"aws {command} --region {self.readers.region}"


def name_of(item: Item) -> str:
    """Return the tag Name; "" without one."""
    return tags_of(item.get("Tags")).get("Name", "")
