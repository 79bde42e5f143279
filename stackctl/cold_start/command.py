"""Run `stackctl cold-start`: print the stages of a start, and the required startSeconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from console import pulumi_program
from console.terminal import output, print_json
from spec.failure import NOT_TRIED, Failure
from spec.names import TRITON_CHART, TRITON_NAMESPACE
from spec.prometheus.timing import start_seconds
from spec.settings import Settings
from spec.settings.fleets import Fleet
from stackctl.account.cluster import connect
from stackctl.cold_start.pods import Start, slowest, start_of
from stackctl.cold_start.stages import stages
from stackctl.stack_settings import settings_of


class NotUp(Failure):
    """The stack has no cluster with pods to measure."""

    exit_code = NOT_TRIED


def cold_start(stack: str, *, measured: bool, as_json: bool) -> None:
    """Print the stages of a start for each fleet; with `measured`, also running pods' times.

    Raises Failure.
    """
    settings = settings_of(stack)
    found = _measured(stack, settings) if measured else {}
    if as_json:
        print_json({"fleets": [_document(fleet, found.get(fleet.release)) for fleet in settings.each_fleet]})
        return
    console = output(soft_wrap=True)
    for fleet in settings.each_fleet:
        starts = found.get(fleet.release)
        console.print(_table(fleet, starts))
        for line in _below(fleet, starts):
            console.print(line, markup=False)


def _measured(stack: str, settings: Settings) -> dict[str, list[Start]]:
    """Return the starts of the pods by fleet release. Raises NotUp, ClusterUnusable."""
    outputs = pulumi_program.outputs(stack)
    if any(not isinstance(outputs.get(name), str) for name in ("clusterName", "region", "tritonRoleArn")):
        raise NotUp(
            f"{stack} is not up, so that no pod can be looked at: `pulumi up --stack {stack}`, or leave --measured out"
        )
    found = {}
    for fleet in settings.each_fleet:
        selector = f"app.kubernetes.io%2Fname%3D{TRITON_CHART},app.kubernetes.io%2Finstance%3D{fleet.release}"
        with connect(outputs["clusterName"], outputs["region"], outputs["tritonRoleArn"], fleet.release) as cluster:
            pods = cluster.objects(f"/api/v1/namespaces/{TRITON_NAMESPACE}/pods?labelSelector={selector}")
        found[fleet.release] = [start for pod in pods if (start := start_of(pod)) is not None]
    return found


def _table(fleet: Fleet[Settings], starts: Sequence[Start] | None) -> Table:
    title = f"{fleet.release}: from a pod that is wanted to one that is ready, in seconds"
    table = Table("stage", title=title, title_justify="left")
    table.add_column("counted", justify="right")
    if starts is not None:
        table.add_column("slowest pod", justify="right")
    table.add_column("why")
    table.add_column("what makes it shorter")
    most = slowest(starts) if starts else None
    for stage in stages(fleet.stack):
        counted = "?" if stage.counted is None else str(stage.counted)
        seen = [] if starts is None else [str(most.seconds[stage.name]) if most is not None else "-"]
        table.add_row(stage.name, counted, *seen, stage.why, stage.shorter)
    return table


def _below(fleet: Fleet[Settings], starts: Sequence[Start] | None) -> list[str]:
    bounds = fleet.stack.autoscaling
    given = bounds.start_seconds if bounds is not None else None
    says = f"autoscaling.startSeconds says {given} s" if given is not None else f"{start_seconds(fleet.stack)} s are assumed"
    lines = [
        f"{says}, by which the pace of autoscaling is set"
        if bounds is not None
        else f"{says}; nothing scales {fleet.release}"
    ]
    if starts is None:
        return [*lines, "--measured looks at the pods that run"]
    if not starts:
        return [*lines, "no pod runs that was ready from its first start on: nothing is measured"]
    most = slowest(starts)
    each = ", ".join(str(one.total) for one in starts)
    lines.append(f"the pods that were looked at took {each} s; the slowest is {most.pod}")
    if bounds is not None and given is None:
        lines.append(f"write autoscaling.startSeconds: {max(1, most.total)} if that pod came up on a new node")
    elif given is not None and most.total > given:
        lines.append(f"that is more than startSeconds: raise it to {most.total}, or find out what was slow")
    return lines


def _document(fleet: Fleet[Settings], starts: Sequence[Start] | None) -> dict[str, Any]:
    return {
        "fleet": fleet.release,
        "startSeconds": start_seconds(fleet.stack),
        "stages": [
            {"stage": one.name, "countedSeconds": one.counted, "why": one.why, "shorter": one.shorter}
            for one in stages(fleet.stack)
        ],
        "pods": None
        if starts is None
        else [{"pod": one.pod, "seconds": dict(one.seconds), "total": one.total} for one in starts],
    }
