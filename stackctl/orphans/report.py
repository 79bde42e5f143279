"""The list that people read."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from stackctl.orphans.leftover import Leftover
from stackctl.orphans.prices import AS_OF


def show(stack: str, found: Sequence[Leftover], console: Console) -> None:
    """Print what was found, its cost, and, unless the stack is up, how each thing is removed."""
    if not found:
        console.print(f"{stack}: nothing is left in AWS")
        return
    is_up = any(item.kind == "cluster" for item in found)
    if is_up:
        console.print(f"{stack} is up: this is what it has, and nobody can say yet what will be left of it.\n")
    table = Table(box=None, pad_edge=False)
    for column in ("kind", "id", "name", "ours because of"):
        table.add_column(column, overflow="fold")
    table.add_column("USD a month", justify="right")
    for item in found:
        table.add_row(item.kind, item.id, item.name, item.reason, _cost(item.usd_a_month))
    console.print(table)
    total = sum(item.usd_a_month or 0 for item in found)
    console.print(f"\n{len(found)} things, at least {total:.2f} USD a month (list prices of {AS_OF:%B %Y}, us-west-2).")
    if is_up:
        return
    console.print("\nNothing was touched. Each is removed with:")
    for item in found:
        console.print(f"  {item.remove}", soft_wrap=True)


def _cost(usd: float | None) -> str:
    if usd is None:
        return "by use"
    return f"{usd:.2f}" if usd else "-"
