"""Report the remaining resources: a table for people, a document for programs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from console.terminal import table
from stackctl.cost.prices import PriceTable
from stackctl.orphans.search import Leftover


def show(stack: str, found: Sequence[Leftover], prices: PriceTable, console: Console) -> None:
    """Print the resources, their cost and, unless the stack is up, the removal commands."""
    if not found:
        console.print(f"{stack}: nothing is left in AWS")
        return
    if _is_up(found):
        console.print(f"{stack} is up: this is what it has, and nobody can say yet what will be left of it.\n")
    made = table("kind", "id", "name", "ours because of", "USD a month", right=["USD a month"], fold=True)
    for item in found:
        made.add_row(item.kind, item.id, item.name, item.reason, _cost(item.usd_a_month))
    console.print(made)
    console.print(f"\n{len(found)} things, at least {_total(found):.2f} USD a month ({prices.source}).")
    unpriced = sorted({item.kind for item in found if _is_unknown(item)})
    if unpriced:
        console.print(prices.missing(unpriced), soft_wrap=True, markup=False)
    if _is_up(found):
        return
    console.print("\nNothing was touched. Each is removed with:")
    for item in found:
        console.print(f"  {item.remove}", soft_wrap=True)


def document(found: Sequence[Leftover]) -> dict[str, Any]:
    """Return the document for `--json`.

    `up`: the cluster runs, so the resources are in use. `usdAMonth` null: it depends on use, or has no price.
    """
    things = [
        {
            "kind": item.kind,
            "id": item.id,
            "name": item.name,
            "reason": item.reason,
            "usdAMonth": None if _is_unknown(item) else item.usd_a_month,
            "remove": item.remove,
        }
        for item in found
    ]
    return {"up": _is_up(found), "usdAMonthAtLeast": round(_total(found), 2), "leftovers": things}


def _is_up(found: Sequence[Leftover]) -> bool:
    return any(item.kind in ("cluster", "node group") for item in found)


def _total(found: Sequence[Leftover]) -> float:
    return sum(item.usd_a_month or 0 for item in found if not _is_unknown(item))


def _is_unknown(item: Leftover) -> bool:
    return item.usd_a_month is not None and math.isnan(item.usd_a_month)


def _cost(usd: float | None) -> str:
    if usd is None:
        return "by use"
    if math.isnan(usd):
        return "unknown"
    return f"{usd:.2f}" if usd else "-"
