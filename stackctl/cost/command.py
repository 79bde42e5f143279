"""Run `stackctl cost`: print the cost of a stack, and refresh the prices."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import date
from decimal import Decimal

from botocore.exceptions import BotoCoreError, ClientError
from rich.table import Table

from console import aws_errors
from console.terminal import output, print_json
from spec.catalog import REGIONS
from spec.failure import FAILED
from spec.settings import Settings
from spec.wording import did_you_mean, one_of
from stackctl.account.read_only import AwsUnusable, Readers
from stackctl.cost import prices
from stackctl.cost.estimate import Estimate, estimate
from stackctl.cost.prices import PriceError
from stackctl.cost.refresh import API_REGION, Refreshed, look_up
from stackctl.cost.usage import NOTHING, Amounts
from stackctl.stack_settings import NoSuchRevision, settings_at, settings_of

PRICES = {"pricing": {"GetProducts": "pricing:GetProducts"}}
"""The AWS operations that `refresh` may call, each with its IAM action."""
_CENTS_BELOW = 100
_UNKNOWN = "unknown"


def show(stack: str, against: str | None, *, as_json: bool) -> None:
    """Print the monthly cost of a stack, now and as of the revision `against`. Raises Failure."""
    now = of_stack(stack)
    before = of_stack(stack, against) if against is not None else None
    if as_json:
        print_json({"after": _document(now), "before": _document(before) if before else None})
        return
    console = output(soft_wrap=True)
    console.print(_table(stack, now, before))
    if before is not None and _document(now) == _document(before):
        console.print(f"no change against {against}", markup=False)
    for line in _below(now, before):
        console.print(line, markup=False)


def refresh(region: str) -> int:
    """Look up the prices of a region and write its table; return the exit code.

    FAILED if some prices were not found. Raises Failure.
    """
    if region not in REGIONS:
        raise PriceError(
            f"'{region}' is not a region with EKS; {did_you_mean(region, REGIONS)}use {one_of(sorted(REGIONS))}"
        )
    if not prices.in_dollars(region):
        raise PriceError(prices.PriceTable(region, {}).missing([]))
    old = prices.load(region).prices
    found = _asked(region, old)
    if not found.table.prices:
        raise PriceError(f"AWS gave no price of {region}")
    file = found.table.write()
    print(f"{file}: {len(found.table.prices) - len(found.missing)} prices looked up")
    for key, before in sorted(found.changed.items()):
        print(f"  {key}: {before if before is not None else 'none'} -> {found.table.prices[key].usd}")
    for key, why in sorted(found.missing.items()):
        kept = f"keeps its price of {old[key].as_of}" if key in old else "has no price"
        print(f"  {key} {kept}: {why}", file=sys.stderr)
    return FAILED if found.missing else 0


def of_stack(stack: str, revision: str | None = None) -> Estimate:
    """Return the estimate of a stack, now or as of a revision. Raises Failure."""
    settings = settings_at(revision, stack) if revision is not None else settings_of(stack)
    if settings is None:
        raise NoSuchRevision(f"{revision} has no stack {stack}")
    return of_settings(settings)


def of_settings(settings: Settings) -> Estimate:
    """Return the estimate for a stack's settings. Raises Failure."""
    return estimate(settings, prices.load(settings.region), date.today())


def hour_and_day(made: Estimate) -> str:
    """Return the expected cost an hour and a day, in words."""
    if made.total.unknown:
        return f"unknown: {made.notes[0]}"
    hour = made.total.expected / prices.HOURS
    return f"about {hour:.2f} US$ an hour, {hour * 24:.2f} a day ({made.source})"


def _asked(region: str, old: Mapping[str, prices.Price]) -> Refreshed:
    try:
        return look_up(Readers(API_REGION, PRICES)("pricing"), region, old, date.today())
    except (ClientError, BotoCoreError) as error:
        raise AwsUnusable(aws_errors.explain(error) or f"the Price List API: {error}") from None


def _table(stack: str, now: Estimate, before: Estimate | None) -> Table:
    table = Table("US$ a month", title=f"{stack}: {now.source}", title_justify="left")
    for column in ("at least", "expected", "at most"):
        table.add_column(column, justify="right")
    old = before.parts if before is not None else {}
    for part, amounts in now.parts.items():
        table.add_row(part, *_cells(amounts, old.get(part, NOTHING) if before else None))
    for part in old.keys() - now.parts.keys():
        table.add_row(part, *_cells(NOTHING, old[part]))
    table.add_section()
    table.add_row("all", *_cells(now.total, before.total if before else None))
    return table


def _cells(amounts: Amounts, before: Amounts | None) -> list[str]:
    cells = []
    for size in ("min", "expected", "max"):
        now = _dollars(getattr(amounts, size))
        then = _dollars(getattr(before, size)) if before is not None else now
        cells.append(now if then == now else f"{then} → {now}")
    return cells


def _below(now: Estimate, before: Estimate | None) -> list[str]:
    lines = []
    for name, amounts in now.fleets.items():
        cells = _cells(amounts, before.fleets.get(name, NOTHING) if before is not None else None)
        lines.append(
            f"of it, nodes of fleet {name}: at least {cells[0]}, expected {cells[1]}, at most {cells[2]} US$ a month"
        )
    if now.per_million is not None:
        new = _dollars(now.per_million)
        old = _dollars(before.per_million) if before is not None and before.per_million is not None else new
        moved = new if old == new else f"{old} → {new}"
        lines.append(f"a million inferences at the stack's expected rates: {_us(moved)}")
    for model, usd in now.per_million_measured.items():
        lines.append(f"a million inferences of {model} at its measured rate, the node alone: {_us(_dollars(usd))}")
    return [*lines, *now.notes]


def _us(dollars: str) -> str:
    return dollars if dollars == _UNKNOWN else f"{dollars} US$"


def _dollars(amount: Decimal) -> str:
    if amount.is_nan():
        return _UNKNOWN
    return f"{amount:,.2f}" if abs(amount) < _CENTS_BELOW else f"{amount:,.0f}"


def _document(made: Estimate) -> dict[str, object]:
    """Return the document for `--json`: exact numbers as text, and null without a price."""
    return {
        "region": made.region,
        "asOf": made.as_of.isoformat() if made.as_of is not None else None,
        "total": _amounts(made.total),
        "parts": {part: _amounts(amounts) for part, amounts in made.parts.items()},
        "items": [{"part": item.part, "what": item.what, **_amounts(item.cost)} for item in made.items],
        "fleets": {name: _amounts(amounts) for name, amounts in made.fleets.items()},
        "perMillion": _number(made.per_million),
        "perMillionMeasured": {model: _number(usd) for model, usd in made.per_million_measured.items()},
        "notes": list(made.notes),
    }


def _amounts(amounts: Amounts) -> dict[str, str | None]:
    return {size: _number(getattr(amounts, size)) for size in ("min", "expected", "max")}


def _number(amount: Decimal | None) -> str | None:
    return None if amount is None or amount.is_nan() else str(amount)
