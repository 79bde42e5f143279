"""Print the figures of a stack: its cost, its scaling under load, its quotas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal

from stackctl.review.markdown import Section, code, prose, short
from stackctl.review.report import Cost, CostLine, Figures, MeasuredCost, Quota, Range, Replay, ReplayedFleet

_CENTS_BELOW = 100
_REQUESTS = 10_000
_BAR = 20
"""Characters of a full bar."""
_VERDICTS = {
    (1, 1): "worse",
    (1, 0): "worse",
    (1, -1): "more misses, for less money",
    (0, 1): "costs more, for the same misses",
    (0, 0): "about the same",
    (0, -1): "costs less, for the same misses",
    (-1, 1): "fewer misses, for more money",
    (-1, 0): "better",
    (-1, -1): "better",
}
"""Keys: missed requests and GPU-hours, each more (1), equal (0) or fewer (-1)."""


def cost_cell(cost: Cost | None) -> str:
    """Return the cost cell of the table at the top."""
    if cost is None:
        return "not known"
    return _moved(cost.before.expected if cost.before else None, cost.after.expected)


def cost_moves(cost: Cost | None) -> list[str]:
    """Return the change of the expected monthly cost; empty without a change.

    It includes the date of the prices.
    """
    before = cost.before.expected if cost is not None and cost.before is not None else None
    if cost is None or before is None or _dollars(before) == _dollars(cost.after.expected):
        return []
    return [f"{_signed(cost.after.expected - before)} US$ a month at prices of {prose(cost.as_of)}"]


def cost(cost: Cost | None) -> Section:
    """Return the section with the stack's cost, before and after."""
    if cost is None:
        return Section("Cost", (), "parts")
    compared = cost.before is not None
    rows = [_cost_row("**all**", CostLine("all", cost.before, cost.after), compared)]
    rows += [_cost_row(code(short(line.name)), line, compared) for line in cost.lines]
    head = [
        f"US$ a month at list prices of {prose(cost.region)} as of {prose(cost.as_of)}: "
        "with the fewest, the expected and the most nodes."
    ]
    if cost.per_million_after is not None:
        moved = _moved(cost.per_million_before, cost.per_million_after)
        head.append(f"A million inferences at the stack's expected rates: {moved} US$.")
    head += [_measured(one) for one in cost.measured]
    head += [f"{prose(note)}." for note in cost.notes]
    head += ["", "| | at least | expected | at most |", "| --- | ---: | ---: | ---: |"]
    return Section("Cost", tuple(rows), "parts", "\n".join(head))


def _measured(one: MeasuredCost) -> str:
    what = f"A million inferences of {code(short(one.model))} at its measured rate, the node alone"
    if one.after is None:
        before = f" ({_dollars(one.before)} US$ before)" if one.before is not None else ""
        return f"{what}: not measured any more{before}."
    return f"{what}: {_moved(one.before, one.after)} US$."


def _cost_row(name: str, line: CostLine, compared: bool) -> str:
    cells = [
        _moved(_amount(line.before, size, compared), _amount(line.after, size, True) or Decimal(0))
        for size in Range.__dataclass_fields__
    ]
    return f"| {name} | {' | '.join(cells)} |"


def _amount(amounts: Range | None, size: str, zero: bool) -> Decimal | None:
    if amounts is None:
        return Decimal(0) if zero else None
    amount: Decimal = getattr(amounts, size)
    return amount


def replays(replays: Sequence[Replay]) -> Section:
    """Return the section with the stack's scaling under each load, before and after."""
    changed = [replay for replay in replays if replay.fleets]
    if not changed:
        return Section("Under load", (), "fleets")
    same = ", ".join(code(short(replay.trace)) for replay in replays if not replay.fleets)
    notes = tuple(dict.fromkeys(note for replay in changed for note in replay.notes))
    assumed = any(note.endswith("(assumed)") for note in notes)
    head = [
        "The same requests, replayed through both scaling settings in virtual time on simulated servers "
        "(docs/replay.md has the loads). A request misses the SLO if its answer is later than `sloP95Ms`, or absent.",
        "",
        *_in_words(changed),
        *([f"No difference: {same}.", ""] if same else []),
        *(["Some times are assumed: trust only the difference between before and after.", ""] if assumed else []),
        *(f"{prose(note)}." for note in notes),
        "",
        "| load | fleet | missed the SLO | longest without capacity | GPU-hours | US$ of the nodes | changes of direction |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    rows = tuple(_replayed(replay.trace, fleet) for replay in changed for fleet in replay.fleets)
    return Section("Under load", rows, "fleets", "\n".join(head))


def _in_words(replays: Iterable[Replay]) -> Iterator[str]:
    """Yield the comparison of each fleet that existed before, with bars."""
    told = [
        f"* {code(short(replay.trace))}, {code(short(fleet.name))}: {_compared(fleet.before, fleet.after)}"
        f"\n{_bars(fleet.before, fleet.after)}"
        for replay in replays
        for fleet in replay.fleets
        if fleet.before is not None and fleet.after is not None
    ]
    if told:
        yield from (*told, "")


def _compared(before: Figures, after: Figures) -> str:
    # Not `round`, because an untrusted report may have numbers of any size.
    missed = [(figures.missed * _REQUESTS).to_integral_value() for figures in (before, after)]
    hours = [(figures.gpu_hours * 10).to_integral_value() / 10 for figures in (before, after)]
    slower, dearer = (_sign(now - then) for then, now in (missed, hours))
    verdict = _VERDICTS[slower, dearer]
    of_requests = f"of {_REQUESTS:,} requests {missed[1]:,.0f} miss the SLO, {missed[0]:,.0f} before"
    change = abs(hours[1] - hours[0])
    share = f" ({change / hours[0]:.1%})" if hours[0] else ""
    of_hours = f"{change:,.1f} GPU-hours{share} {'more' if dearer > 0 else 'fewer'}" if dearer else "as many GPU-hours"
    recovery = ""
    if before.shortage != after.shortage:
        recovery = f"; without capacity for up to {after.shortage:,} s at a time, {before.shortage:,} s before"
    return f"**{verdict}**: {of_requests}{recovery}; {of_hours}."


def _bars(before: Figures, after: Figures) -> str:
    """Return two pairs of text bars in a fenced block of the list item.

    The longer bar of a pair is full.
    """
    lines = []
    for title, field, form in (("missed SLO", "missed", "{:.2%}"), ("GPU-hours ", "gpu_hours", "{:,.1f}")):
        pair = [getattr(before, field), getattr(after, field)]
        longest = max(pair)
        for when, number in zip(("before", "after "), pair, strict=True):
            length = round(number / longest * _BAR) if longest > 0 else 0
            lines.append(f"  {title} {when} {'█' * max(length, 0):<{_BAR}} {form.format(number)}")
    return "\n".join(["  ```text", *lines, "  ```"])


def _sign(difference: Decimal) -> int:
    return (difference > 0) - (difference < 0)


_CELLS = (("missed", "{:.2%}"), ("shortage", "{:,} s"), ("gpu_hours", "{:,.1f}"), ("usd", "{:,.2f}"), ("turns", "{:,}"))


def _replayed(trace: str, fleet: ReplayedFleet) -> str:
    cells = []
    for field, form in _CELLS:
        both = [getattr(figures, field) if figures is not None else None for figures in (fleet.before, fleet.after)]
        before, after = (form.format(number) if number is not None else "–" for number in both)  # noqa: RUF001
        cells.append(after if before == after else f"{before} → {after}")
    return f"| {code(short(trace))} | {code(short(fleet.name))} | {' | '.join(cells)} |"


def _moved(before: Decimal | None, after: Decimal) -> str:
    if before is None or _dollars(before) == _dollars(after):
        return _dollars(after)
    return f"{_dollars(before)} → {_dollars(after)} ({_signed(after - before)})"


def _signed(difference: Decimal) -> str:
    sign = "+" if difference > 0 else "−"  # noqa: RUF001 - a minus sign, for people
    return f"{sign}{_dollars(abs(difference))}"


def _dollars(amount: Decimal) -> str:
    return f"{amount:,.2f}" if abs(amount) < _CENTS_BELOW else f"{amount:,.0f}"


def quotas(quotas: tuple[Quota, ...] | None) -> Section:
    """Return the section with the quotas that the account needs."""
    if not quotas:
        return Section("Quotas", (), "quotas")
    head = "The service quotas that the stack needs at its largest size.\n\n| quota | code | needed |\n| --- | --- | ---: |"
    return Section("Quotas", tuple(_quota_row(quota) for quota in quotas), "quotas", head)


def _quota_row(quota: Quota) -> str:
    moved = f"{quota.after}" if quota.before in (None, quota.after) else f"{quota.before} → **{quota.after}**"
    return f"| {prose(quota.name)} | {code(short(quota.code))} | {moved} {prose(quota.unit)} |"
