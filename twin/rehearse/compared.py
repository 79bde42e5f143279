"""Say how far the figures of a change that was made under load are of a state that was judged, too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from twin.rehearse.judgement import Finding, Rehearsal
from twin.rehearse.measured import Measured

_TOLD = 10


@dataclass(frozen=True)
class Compared:
    """A judgement of a state beside a change that was made from a revision.

    `differs`: what the revision's program would change in the state, so that the change from it is not the state's.
    `errors`: why the engine would not go on with that program. `made`: findings on the state with an effect, whose step was
    made under load too, each with what was judged of it there; `in_part`: those of which only some properties changed there,
    each with the others; `only_judged`: those of which nothing was made.
    """

    differs: tuple[Finding, ...]
    errors: tuple[str, ...]
    made: tuple[tuple[Finding, Finding], ...]
    in_part: tuple[tuple[Finding, tuple[str, ...]], ...]
    only_judged: tuple[Finding, ...]

    def document(self) -> dict[str, Any]:
        """Return it as JSON has it: each step as `TYPE::NAME`, which the findings have too."""
        return {
            "differs": [one.key for one in self.differs],
            "errors": list(self.errors),
            "made": [one.key for one, _ in self.made],
            "in_part": {one.key: list(others) for one, others in self.in_part},
            "only_judged": [one.key for one in self.only_judged],
        }


def compare(judged: Rehearsal, before: Rehearsal, local: Rehearsal, seen: Measured | None) -> Compared:
    """Compare a judgement of a state with a change that was judged as `local` and made, of which `seen` are the figures.

    `before`: what the program of the revision from which it was made would do to the state. `seen` None: it was not made;
    of a change that ended before its end nothing counts as made either.
    """
    is_whole = seen is not None and seen.ended is None
    there = {(one.action, one.key): one for one in local.findings} if is_whole else {}
    made: list[tuple[Finding, Finding]] = []
    in_part: list[tuple[Finding, tuple[str, ...]]] = []
    only_judged: list[Finding] = []
    for one in (one for one in judged.findings if one.effect != "none"):
        other = there.get((one.action, one.key))
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


def lines(compared: Compared, revision: str) -> Iterator[str]:
    """Yield what a person reads below both parts."""
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
