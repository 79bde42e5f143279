"""Add up a stack's bill: in all, by part, and for a million inferences."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from spec.capacity import pods_per_node
from spec.settings import Settings
from stackctl.cost import usage
from stackctl.cost.prices import EC2, HOURS, PriceTable
from stackctl.cost.throughput import measured_rates
from stackctl.cost.usage import NOTHING, Amounts, Item

_SECONDS = 3600
MILLION = Decimal(1_000_000)


@dataclass(frozen=True)
class Estimate:
    """US dollars a month, UNKNOWN without a price.

    `per_million`: at the stack's expected rates; None if it expects no requests.
    """

    source: str
    """The source of the prices, in words."""
    region: str
    as_of: date | None
    items: tuple[Item, ...]
    notes: tuple[str, ...]
    per_million: Decimal | None
    fleets: dict[str, Amounts]
    """Node cost of each fleet by name, already included in the parts.

    Empty for a stack without `fleets`.
    """
    per_million_measured: dict[str, Decimal]
    """US dollars for a million inferences by model, at the measured rate.

    The node is an on-demand one that always answers at that rate.
    """

    @property
    def total(self) -> Amounts:
        """Return the sum of all items."""
        return sum((item.cost for item in self.items), NOTHING)

    @property
    def parts(self) -> dict[str, Amounts]:
        """Return the sums by part, in the order of the bill."""
        parts: dict[str, Amounts] = {}
        for item in self.items:
            parts[item.part] = parts.get(item.part, NOTHING) + item.cost
        return parts


def with_own_prices(settings: Settings, prices: PriceTable, today: date) -> PriceTable:
    """Return the table with the prices of types that the stack file describes."""
    described = {name: facts.usd_per_hour for name, facts in settings.instance_types.items() if facts.usd_per_hour}
    return prices.including({f"{EC2}.{name}": usd for name, usd in described.items()}, today)


def estimate(settings: Settings, prices: PriceTable, today: date) -> Estimate:
    """Return the estimated cost of the stack. Raises EvidenceError."""
    prices = with_own_prices(settings, prices, today)
    items = tuple(usage.items(settings, prices, today))
    expected = sum((item.cost.expected for item in items), Decimal(0))
    unpriced = [f"{item.part}: {item.what}" for item in items if item.cost.unknown]
    return Estimate(
        source=prices.source,
        region=prices.region,
        as_of=prices.as_of,
        items=items,
        notes=(*([prices.missing(unpriced)] if unpriced else []), *usage.notes(settings), *prices.aged(today)),
        per_million=_per_million(settings, expected),
        fleets={
            fleet.name: usage.fleet_cost(settings, fleet, prices) for fleet in settings.each_fleet if fleet.name is not None
        },
        per_million_measured=_per_million_measured(settings, prices),
    )


def _per_million(settings: Settings, expected: Decimal) -> Decimal | None:
    """Return `dollars a month / requests a month * 10^6`, for the expected rates of all models."""
    rate = sum((Decimal(str(wants.expected_rate)) for wants in settings.models.serving.values()), Decimal(0))
    return expected / (rate * HOURS * _SECONDS) * MILLION if rate else None


def _per_million_measured(settings: Settings, prices: PriceTable) -> dict[str, Decimal]:
    """Return `dollars an hour / (requests per second * 3600) * 10^6` by model.

    The unit is US dollars for a million inferences. A model on several fleets counts on the first of them.
    """
    found: dict[str, Decimal] = {}
    for fleet in settings.each_fleet:
        group = fleet.stack.triton_nodes
        hourly = prices.usd(f"{EC2}.{group.instance_types[0]}") / pods_per_node(fleet.stack, group)
        for model, rate in measured_rates(fleet.stack).items():
            found.setdefault(model, hourly / (Decimal(str(rate)) * _SECONDS) * MILLION)
    return found
