"""Run `stackctl certify`, which `make certify` calls."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TypeVar

import typer
from botocore.exceptions import BotoCoreError, ClientError

from console import pulumi_program
from console.program import interruptible
from console.terminal import output
from spec import files
from spec.failure import FAILED, NOT_TRIED, Failure
from spec.settings import Settings
from spec.stack_names import stack_file
from stackctl.account.cluster import Cluster, ClusterUnusable, connect
from stackctl.account.guard import Caller, caller, require_account
from stackctl.account.read_only import AwsUnusable, Readers
from stackctl.certify import claims, report
from stackctl.certify.operations import OPERATIONS
from stackctl.certify.outcome import Verdict
from stackctl.certify.run import Result, Steps
from stackctl.certify.run import certify as run
from stackctl.certify.subject import Subject
from stackctl.cost import prices
from stackctl.cost.command import of_settings
from stackctl.destroy.engine import Engine
from stackctl.destroy.guards import objections
from stackctl.destroy.run import Teardown
from stackctl.first_inference.command import first_inference, require_models
from stackctl.orphans.find import leftovers
from stackctl.orphans.search import Leftover, Search
from stackctl.preflight.checks import CHECKS
from stackctl.preflight.checks.check import Subject as Asked
from stackctl.preflight.command import Row, rows, summary
from stackctl.stack_settings import settings_of

_Answer = TypeVar("_Answer")
_HOUR = 3600
_REPORTS = Path(".certify")


class NotCertified(Failure):
    """The run did not begin, because it must not or the confirmation is missing."""

    exit_code = NOT_TRIED


def certify(stack: str, *, hours: float, confirm: str) -> int:
    """Create a stack, check the claims, delete the stack, and write the report.

    Return the exit code, FAILED if a claim differs. `hours` limit everything except the teardown. Raises Failure.
    """
    page = claims.read()
    settings = settings_of(stack)
    if settings.models.release is not None:
        raise NotCertified(
            f"{stack_file(stack)} pins a release, which the new stack's bucket does not have: take models.release out, "
            "or let `stackctl init` write another stack"
        )
    require_models(settings)
    readers = Readers(settings.region, OPERATIONS)
    who = caller(readers)
    require_account(who, settings)
    engine = Engine(stack)
    _require_nothing_there(settings, readers, engine)
    found = rows(Asked(settings, readers, who), CHECKS)
    _confirm(settings, who, found, hours, confirm)
    subject = Subject(
        settings,
        readers,
        (),
        objects=lambda path: _asked(stack, lambda cluster: cluster.objects(path)),
        drift=lambda: _drift(stack),
        caller=who,
        text=lambda path: _asked(stack, lambda cluster: cluster.text(path)),
        found=found,
    )
    began = datetime.now(UTC)
    pin = _Pin(Path(stack_file(stack)))
    with interruptible(f"interrupted; `python3 -m stackctl orphans {stack}` says whether anything is left"):
        try:
            results = run(page, subject, _steps(settings, readers, engine, pin), hours * _HOUR, _say)
        finally:
            pin.take_out()
    return _tell(settings, who, began, results)


def _require_nothing_there(settings: Settings, readers: Readers, engine: Engine) -> None:
    """Refuse to begin if the stack has resources, because the run would delete them.

    Raises NotCertified, AwsUnusable.
    """
    stack, there = settings.stack, [resource for resource in engine.resources() if resource.custom]
    if there:
        raise NotCertified(
            f"{stack} is up ({len(there)} resources), and would be taken away: run this on a stack of its own, or "
            f"`python3 -m stackctl destroy {stack}` first"
        )
    try:
        reasons = objections(settings, readers, ())
        left = _leftovers(settings, readers)
    except (ClientError, BotoCoreError) as error:
        raise AwsUnusable(f"AWS could not be asked what there is of {stack}: {error}") from None
    if left:
        reasons.append(f"AWS has {len(left)} things of it already: `python3 -m stackctl orphans {stack}`")
    if reasons:
        raise NotCertified("\n".join([f"{stack} is not tried:", *(f"  {reason}" for reason in reasons)]))


def _leftovers(settings: Settings, readers: Readers) -> Sequence[Leftover]:
    return leftovers(Search.of(settings, readers, prices.load(settings.region)))


def _confirm(settings: Settings, who: Caller, found: Sequence[Row], hours: float, confirm: str) -> None:
    """Print the cost, and refuse to continue without the stack's name as confirmation. Raises NotCertified."""
    made, stack = of_settings(settings), settings.stack
    most = made.total.max / prices.HOURS * Decimal(str(hours))
    price = "at an unknown price" if made.total.unknown else f"for {most:.2f} US$ at most ({made.source})"
    _say(f"{stack}: all of it in account {who.account}, {settings.region}, for {hours:g} hours and a teardown, {price}.")
    _say("It is taken away at the end, and after Ctrl-C. The time bounds everything but the teardown.")
    _say(f"preflight: {summary(found)}")
    if not confirm and sys.stdin.isatty():
        confirm = typer.prompt("Type the name of the stack to begin", default="", show_default=False)
    if confirm != stack:
        raise NotCertified(f"nothing was made: to begin, say so: make certify STACK={stack} CONFIRM={stack}")


class _Pin:
    """Remove the first inference's pin from a stack file.

    The pinned release is deleted with its bucket.
    """

    def __init__(self, file: Path) -> None:
        self._file, self._before = file, file.read_bytes()
        self._after = self._before

    def made(self) -> None:
        """Remember the file with the pin."""
        self._after = self._file.read_bytes()

    def take_out(self) -> None:
        """Restore the file, unless another program has changed it since."""
        if self._file.read_bytes() == self._after != self._before:
            files.rewrite(self._file, self._before, made_from=self._after)


def _steps(settings: Settings, readers: Readers, engine: Engine, pin: _Pin) -> Steps:
    stack, table = settings.stack, prices.load(settings.region)
    up = ["up", "--stack", stack, "--yes", "--skip-preview", "--non-interactive"]

    def bring_up(seconds: float) -> None:
        if pulumi_program.run(up, seconds) != 0:
            raise pulumi_program.PulumiFailed(f"`pulumi {' '.join(up)}` ended with an error, which stands above")

    def infer(seconds: float) -> str:
        try:
            return first_inference(stack, yes=True, seconds=seconds)
        finally:
            pin.made()

    return Steps(
        up=bring_up,
        state=engine.resources,
        first_inference=infer,
        teardown=Teardown(engine, lambda: Search.of(settings, readers, table), _say).run,
    )


def _asked(stack: str, ask: Callable[[Cluster], _Answer]) -> _Answer:
    """Return the answer of the stack's cluster. Raises ClusterUnusable."""
    outputs = pulumi_program.outputs(stack)
    missing = [name for name in ("clusterName", "region", "tritonRoleArn") if not isinstance(outputs.get(name), str)]
    if missing:
        raise ClusterUnusable(f"`pulumi up` ended before {stack} had a cluster to ask (no output {', '.join(missing)})")
    release = settings_of(stack).each_fleet[0].release
    with connect(outputs["clusterName"], outputs["region"], outputs["tritonRoleArn"], release) as cluster:
        return ask(cluster)


def _drift(stack: str) -> str:
    """Return the end of a preview with refresh that finds changes, otherwise "".

    It runs twice, like the nightly drift check, because some differences of buckets come and go with the order of AWS's
    responses (pulumi/pulumi-aws#2128).
    """
    for time in ("first", "second"):
        done = pulumi_program.ask(
            ["preview", "--stack", stack, "--refresh", "--expect-no-changes", "--diff", "--non-interactive"]
        )
        if done.returncode != 0:
            return f"the {time} time: {' '.join((done.stdout + done.stderr).split())[-1000:]}"
    return ""


def _tell(settings: Settings, who: Caller, began: datetime, results: Sequence[Result]) -> int:
    facts = {
        "stack": settings.stack,
        "account": who.account,
        "region": settings.region,
        "began": began.isoformat(timespec="seconds"),
        "minutes": f"{(datetime.now(UTC) - began).total_seconds() / 60:.0f}",
    }
    _REPORTS.mkdir(exist_ok=True)
    page = _REPORTS / f"{settings.stack}-{began:%Y%m%dT%H%M%SZ}.md"
    page.write_text(report.markdown(facts, results), encoding="utf-8")
    page.with_suffix(".json").write_text(json.dumps(report.document(facts, results), indent=2) + "\n", encoding="utf-8")
    console = output(soft_wrap=True)
    console.print(f"{page}, and .json: {report.summary(results)}")
    for result in results:
        if result.outcome.verdict is Verdict.DIFFER:
            console.print(f"  differs: {result.claim.text}: {'; '.join(result.outcome.evidence)}")
    return FAILED if any(result.outcome.verdict is Verdict.DIFFER for result in results) else 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
