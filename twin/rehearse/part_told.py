"""Print which of a state's servers and objects were made on a twin, what replaced others, and what was left out."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from twin.rehearse.judgement import Rehearsal
from twin.rehearse.part import Part
from twin.rehearse.part_under_load import pods

_TOLD = 10


def document(part: Part) -> dict[str, Any]:
    """Return the JSON form: objects as `TYPE::NAME`, and the types in the namespace that were left out."""
    return {
        "made": sorted(part.before),
        "changed": sorted(part.changed),
        "pods": {one.name: {"made": pods(part.servers)[one.name], "kept": one.pods} for one in part.servers},
        "stand_ins": list(_stand_ins(part)),
        "not_made": dict(part.others),
    }


def lines(part: Part, resources: int) -> Iterator[str]:
    """Yield the lines that are printed above the figures. `resources`: how many the state has."""
    counts = pods(part.servers)
    told = ", ".join(f"{one.name} with {counts[one.name]} of {one.pods} pods" for one in part.servers)
    yield (
        f"  made of the state: {len(part.before)} of {resources} resources, of which the change touches "
        f"{len(part.changed)}: {told}"
    )
    for sentence in _stand_ins(part):
        yield f"  other than there: {sentence}"
    if part.others:
        left_out = ", ".join(f"{count} {type_.rpartition(':')[2]}" for type_, count in sorted(part.others.items()))
        yield f"  not made, of the same namespace: {left_out}"


def of_part(judged: Rehearsal, part: Part) -> Rehearsal:
    """Return the judgement of only the steps that were also made on the twin; the figures can be compared with it."""
    return dataclasses.replace(judged, findings=tuple(one for one in judged.findings if one.key in part.changed))


def only_judged(judged: Rehearsal, part: Part) -> Iterator[str]:
    """Yield a line about the steps with an effect that were not made on the twin."""
    left = [one for one in judged.findings if one.effect != "none" and one.key not in part.changed]
    if left:
        some = "; ".join(f"{one.action} {one.name} ({one.type})" for one in left[:_TOLD])
        yield f"  judged, and not made: {some}" + (f"; and {len(left) - _TOLD} more" if len(left) > _TOLD else "")


def _stand_ins(part: Part) -> Iterator[str]:
    releases = sorted({one.release for one in (*part.servers, *part.servers_after) if one.release is not None})
    several = "releases" if len(releases) > 1 else "release"
    yield (
        f"sample models answer for {several} {', '.join(releases)}, which the account's bucket has, and are not fetched "
        "to a disk first: whether the models of a new release arrive and load is not seen"
    )
    if any(one.gpus for one in part.servers):
        yield "GPUs are counted when pods are placed, and nothing runs on them; a machine is there for each pod at once"
    yield "the server is this machine's, whatever the image; nobody changes the number of pods meanwhile"
