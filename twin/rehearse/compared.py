"""Compare a change that was made under load with a state that was only judged: how far do its figures apply?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from spec.names import TRITON_RELEASE
from spec.settings.blue_green import SLOTS, helm_release
from twin.rehearse.judgement import Finding, Rehearsal
from twin.rehearse.measured import Measured

_TOLD = 10


@dataclass(frozen=True)
class Compared:
    """A comparison between the judgement of a state and a change that was made from a revision.

    `differs`: changes that the revision's program would make to the state; with any, the two changes start from different
    points. `errors`: why the engine stopped at the revision's program.
    `made`: findings with an effect on the state whose step was also made under load, each with its finding there.
    `in_part`: findings of which only some properties changed under load, each with the other properties.
    `only_judged`: findings that were not made under load at all.
    """

    differs: tuple[Finding, ...]
    errors: tuple[str, ...]
    made: tuple[tuple[Finding, Finding], ...]
    in_part: tuple[tuple[Finding, tuple[str, ...]], ...]
    only_judged: tuple[Finding, ...]

    def document(self) -> dict[str, Any]:
        """Return the JSON form: each step as `TYPE::NAME`, the key that the findings have too."""
        return {
            "differs": [one.key for one in self.differs],
            "errors": list(self.errors),
            "made": [one.key for one, _ in self.made],
            "in_part": {one.key: list(others) for one, others in self.in_part},
            "only_judged": [one.key for one in self.only_judged],
        }


def compare(judged: Rehearsal, before: Rehearsal, local: Rehearsal, seen: Measured | None) -> Compared:
    """Compare the judgement of a state with the change `local`, whose measured figures are `seen`.

    `before`: the effects of the starting revision's program on the state. `seen` is None if the change was not made. If the
    change failed half-way, all of its steps count as not made.
    """
    is_whole = seen is not None and seen.ended is None
    there = {(one.action, _without_slot(one.key)): one for one in local.findings} if is_whole else {}
    made: list[tuple[Finding, Finding]] = []
    in_part: list[tuple[Finding, tuple[str, ...]]] = []
    only_judged: list[Finding] = []
    for one in (one for one in judged.findings if one.effect != "none"):
        other = there.get((one.action, _without_slot(one.key)))
        others = () if other is None else tuple(path for path in one.because if path not in other.because)
        if other is not None and not others:
            made.append((one, other))
        elif 0 < len(others) < len(one.because):
            in_part.append((one, others))
        else:
            only_judged.append(one)
    return Compared(
        differs=tuple(one for one in before.findings if one.effect != "not known"),
        errors=before.errors,
        made=tuple(made),
        in_part=tuple(in_part),
        only_judged=tuple(only_judged),
    )


def _without_slot(key: str) -> str:
    """Return the key as in a stack without `rollout: blue-green`, such as `local`."""
    return re.sub(rf"\b({'|'.join(map(helm_release, SLOTS))})\b", TRITON_RELEASE, key)


def lines(compared: Compared, revision: str) -> Iterator[str]:
    """Yield the lines that are printed below both reports."""
    yield "\nHOW FAR the figures are of the state too:"
    if compared.errors:
        yield (
            f"  nobody knows whether the state is of {revision}, as the engine would not go on with its program: "
            f"{'; '.join(compared.errors)}"
        )
    elif compared.differs:
        yield (
            f"  the state is not as the program of {revision} leaves it, which would {_steps(compared.differs)}. What was "
            f"made is the change from {revision}, and what was judged is the one from the state"
        )
    else:
        yield f"  the state is as the program of {revision} leaves it"
    if compared.made:
        yield f"  made under load: {_several([_pair(*pair) for pair in compared.made])}"
    if compared.in_part:
        yield f"  made under load in part: {_several([_part(*part) for part in compared.in_part])}"
    if compared.only_judged:
        yield f"  judged, and not made under load: {_steps(compared.only_judged)}"
    if not (compared.made or compared.in_part or compared.only_judged):
        yield "  no step on the state is judged to have an effect, so that none needs figures"


def _pair(one: Finding, other: Finding) -> str:
    return _step(one) + ("" if one.effect == other.effect else f" ({one.effect}, and {other.effect} where it was made)")


def _part(one: Finding, others: Sequence[str]) -> str:
    return f"{_step(one)}, but for {', '.join(others)}"


def _steps(found: Sequence[Finding]) -> str:
    return _several([_step(one) for one in found])


def _several(steps: Sequence[str]) -> str:
    more = f"; and {len(steps) - _TOLD} more" if len(steps) > _TOLD else ""
    return "; ".join(steps[:_TOLD]) + more


def _step(one: Finding) -> str:
    return f"{one.action} {one.name} ({one.type})"
