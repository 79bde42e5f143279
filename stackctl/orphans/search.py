"""Search an account for a stack's own resources; finders use it to yield leftovers."""

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
    """A remaining resource. This program does not remove it.

    `reason`: why it belongs to the stack. `usd_a_month`: 0 if it is free, None if it depends on use, NaN without a price.
    `remove`: the command that removes it.
    """

    kind: str
    id: str
    name: str
    reason: str
    usd_a_month: float | None
    remove: str


@dataclass(frozen=True)
class Search:
    """One search of one account and region for the resources of one stack."""

    readers: Readers
    owner: Ownership
    prices: PriceTable
    existing_cluster: str | None = None
    """A cluster that existed before the stack, which uses it."""

    @classmethod
    def of(cls, settings: Settings, readers: Readers, prices: PriceTable) -> Search:
        """Return the search for the stack with these settings."""
        existing = settings.cluster.existing
        return cls(readers, Ownership.of(settings), prices, existing.name if existing is not None else None)

    def usd_a_month(self, key: str, units: Decimal | int = 1) -> float:
        """Return the list price of this number of units a month, rounded to cents.

        A resource that is billed every hour has `HOURS` units.
        """
        return float(product(Decimal(units), self.prices.usd(key)).quantize(_CENT, ROUND_HALF_UP))

    def pages(self, service: str, operation: str, key: str, **arguments: Any) -> Iterator[Item]:
        """Yield all items below `key` of a paginated operation."""
        for page in self.readers(service).get_paginator(operation).paginate(**arguments):
            yield from page[key]

    def own(self, items: Iterator[Item]) -> Iterator[tuple[Item, str]]:
        """Yield the items with the stack's tags, each with the reason."""
        for item in items:
            reason = self.owner.reason(tags_of(item.get("Tags")))
            if reason is not None:
                yield item, reason

    def in_the_way(self, items: Iterator[Item], tags: str = "Tags") -> Iterator[tuple[Item, str]]:
        """Yield the items with the stack's tags, and the items in its VPC.

        Items in the VPC block its deletion.
        """
        for item in items:
            reason = self.owner.reason(tags_of(item.get(tags)))
            vpc = item.get("VpcId")
            if reason is None and vpc in self.vpcs:
                reason = f"in {vpc}{self._other_owner(tags_of(item.get(tags)))}"
            if reason is not None:
                yield item, reason

    def _other_owner(self, tags: Tags) -> str:
        # GuardDuty's runtime monitoring adds an endpoint and a security group to a VPC. AWS leaves both to the owner.
        if tags.get("GuardDutyManaged") == "true":
            return ", created by GuardDuty"
        stranger = self.owner.stranger(tags)
        return f", and {_SOMEBODY_ELSES}: {stranger}" if stranger else ""

    @cached_property
    def vpcs(self) -> dict[str, str]:
        """Return the stack's VPCs, each with the tag that identifies it."""
        found = {}
        for vpc in self.pages("ec2", "describe_vpcs", "Vpcs"):
            reason = self.owner.reason(tags_of(vpc.get("Tags")))
            if reason is not None:
                found[str(vpc["VpcId"])] = reason
        return found

    def remove(self, command: str, reason: str = "") -> str:
        """Return an AWS CLI command, or a comment if another owner has the resource.

        The command is for the search's region.
        """
        if _SOMEBODY_ELSES in reason:
            return f"# no command, ask its owner: {command.rpartition(' ')[2]} is {reason}"
        return f"aws {command} --region {self.readers.region}"


def name_of(item: Item) -> str:
    """Return the tag Name; "" without one."""
    return tags_of(item.get("Tags")).get("Name", "")
