"""The command line: what a stack costs, and the refreshing of prices."""

from __future__ import annotations

import json
import sys
from datetime import date
from decimal import Decimal
from typing import Annotated

import typer
from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console
from rich.table import Table

from console.stack_argument import StackArgument
from spec.stack_names import EXIT_CODE, NoSuchStack
from stackctl.account.read_only import AwsUnusable, Readers
from stackctl.cost import prices, revisions
from stackctl.cost.estimate import Estimate, estimate
from stackctl.cost.prices import PriceError
from stackctl.cost.refresh import API_REGION, refresh
from stackctl.cost.throughput import EvidenceError
from stackctl.cost.usage import Amounts

app = typer.Typer(
    help="What a stack costs a month at list prices, from its stack file.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
EXPECTED = (PriceError, EvidenceError, AwsUnusable)
PRICES = {"pricing": {"GetProducts": "pricing:GetProducts"}}
"""What `refresh` may ask of AWS."""
_CENTS_BELOW = 100


def main() -> None:
    """Runs the command line; an expected failure is one message on standard error and code 1, or 2 about the stack file."""
    try:
        app(prog_name="python3 -m stackctl.cost")
    except (NoSuchStack, revisions.StackUnreadable) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(EXIT_CODE)
    except EXPECTED as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    except (ClientError, BotoCoreError) as error:
        print(f"error: the Price List API: {error}", file=sys.stderr)
        sys.exit(1)


@app.command()
def show(
    stack: StackArgument = "",
    against: Annotated[str | None, typer.Option(metavar="REV", help="the git revision to compare with")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON document, for programs")] = False,
) -> None:
    """Show what a stack costs a month: with as few nodes as there may be, as expected, with the most."""
    now = of_stack(stack)
    before = of_stack(stack, against) if against is not None else None
    if as_json:
        print(json.dumps({"after": _document(now), "before": _document(before) if before else None}, indent=1))
        return
    console = Console(highlight=False, soft_wrap=True)
    console.print(_table(stack, now, before))
    if before is not None and _document(now) == _document(before):
        console.print(f"no change against {against}", markup=False)
    for line in _below(now, before):
        console.print(line, markup=False)


@app.command("refresh")
def refresh_prices(region: Annotated[str, typer.Argument(help="the AWS region, like us-west-2")]) -> None:
    """Look the prices of a region up in AWS's Price List API (pricing:GetProducts) and write its table."""
    old = prices.load(region).prices if prices.file_of(region).exists() else {}
    found = refresh(Readers(API_REGION, PRICES)("pricing"), region, old, date.today())
    if not found.table.prices:
        raise PriceError(f"AWS gave no price of {region}: is it the name of a region?")
    file = found.table.write()
    print(f"{file}: {len(found.table.prices) - len(found.missing)} prices looked up")
    for key, before in sorted(found.changed.items()):
        print(f"  {key}: {before if before is not None else 'none'} -> {found.table.prices[key].usd}")
    for key, why in sorted(found.missing.items()):
        kept = f"keeps its price of {old[key].as_of}" if key in old else "has no price"
        print(f"  {key} {kept}: {why}", file=sys.stderr)
    if found.missing:
        raise typer.Exit(1)


def of_stack(stack: str, revision: str | None = None) -> Estimate:
    """The estimate of a stack in the working tree, or as of a revision.

    Raises NoSuchStack, PriceError, EvidenceError and StackUnreadable.
    """
    settings = revisions.settings_at(revision, stack) if revision is not None else revisions.settings_now(stack)
    if settings is None:
        raise revisions.StackUnreadable(f"{revision} has no stack {stack}")
    return estimate(settings, prices.load(settings.region), date.today())


def _table(stack: str, now: Estimate, before: Estimate | None) -> Table:
    table = Table("US$ a month", title=f"{stack}: list prices of {now.region} as of {now.as_of}", title_justify="left")
    for column in ("at least", "expected", "at most"):
        table.add_column(column, justify="right")
    old = before.parts if before is not None else {}
    for part, amounts in now.parts.items():
        table.add_row(part, *_cells(amounts, old.get(part, _ZERO) if before else None))
    for part in old.keys() - now.parts.keys():
        table.add_row(part, *_cells(_ZERO, old[part]))
    table.add_section()
    table.add_row("all", *_cells(now.total, before.total if before else None))
    return table


_ZERO = Amounts(Decimal(0), Decimal(0), Decimal(0))


def _cells(amounts: Amounts, before: Amounts | None) -> list[str]:
    cells = []
    for size in ("min", "expected", "max"):
        now = getattr(amounts, size)
        then = getattr(before, size) if before is not None else now
        cells.append(_dollars(now) if then == now else f"{_dollars(then)} → {_dollars(now)}")
    return cells


def _below(now: Estimate, before: Estimate | None) -> list[str]:
    lines = []
    if now.per_million is not None:
        old = before.per_million if before is not None else None
        then = f"{_dollars(old)} → " if old is not None and old != now.per_million else ""
        lines.append(f"a million inferences at the stack's expected rates: {then}{_dollars(now.per_million)} US$")
    for model, usd in now.per_million_measured.items():
        lines.append(f"a million inferences of {model} at its measured rate, the node alone: {_dollars(usd)} US$")
    return [*lines, *now.notes]


def _dollars(amount: Decimal) -> str:
    return f"{amount:,.2f}" if abs(amount) < _CENTS_BELOW else f"{amount:,.0f}"


def _document(made: Estimate) -> dict[str, object]:
    """Exact numbers, as text."""
    return {
        "region": made.region,
        "asOf": made.as_of.isoformat(),
        "total": _amounts(made.total),
        "parts": {part: _amounts(amounts) for part, amounts in made.parts.items()},
        "items": [{"part": item.part, "what": item.what, **_amounts(item.cost)} for item in made.items],
        "perMillion": str(made.per_million) if made.per_million is not None else None,
        "perMillionMeasured": {model: str(usd) for model, usd in made.per_million_measured.items()},
        "notes": list(made.notes),
    }


def _amounts(amounts: Amounts) -> dict[str, str]:
    return {size: str(getattr(amounts, size)) for size in ("min", "expected", "max")}
