"""Run `modelctl rollout`, `modelctl watch` and `modelctl parity`. Each raises Failure with the problem."""

from __future__ import annotations

import functools
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from console import pulumi_program
from console.exit_codes import DONE, NO_TRAFFIC
from console.program import interruptible
from console.pulumi_program import PulumiFailed
from console.terminal import output, print_json, progress, table
from modelctl import metrics_server
from modelctl.release import catalog
from modelctl.release.pin import pinned
from modelctl.release.rollback import RollbackError, roll_back
from modelctl.release.stacks import stack_name
from modelctl.rollout import parity as fleet_parity
from modelctl.rollout.blue_green import BlueGreen, Platform
from modelctl.rollout.controller import Controller, Outcome, Result, Wanted
from modelctl.rollout.exporter import ParityCollector
from modelctl.rollout.fleet import Fleet, FleetError
from modelctl.rollout.lease import Lease
from modelctl.rollout.limits import Limits
from modelctl.rollout.misused import Misused
from modelctl.rollout.plan import StackRelease
from modelctl.rollout.pod_client import PodProblem
from modelctl.rollout.pods import StillAsked
from modelctl.rollout.replay import Replay
from modelctl.rollout.several_fleets import SeveralFleets
from modelctl.rollout.watch import Watched
from modelctl.rollout.watch import watch as watch_fleets
from modelctl.store.bucket import open_store
from modelctl.store.live import LiveRepository
from spec.failure import FAILED, NOT_TRIED, Failure
from spec.names import COMPARER, TRITON_RELEASE
from spec.settings import Settings, load_stack_file
from spec.settings.blue_green import is_blue_green
from spec.settings.fleets import Fleet as StackFleet

if TYPE_CHECKING:
    from modelctl.rollout.kubernetes_fleet import KubernetesFleet

_GOES_ON = "interrupted; run the same command again, it goes on"


class Unfinished(Failure):
    """The rollout could not continue; running the command again resumes it."""

    exit_code = NOT_TRIED


class NoPods(Failure):
    """There are no pods to compare."""

    exit_code = NOT_TRIED


class Undone(Failure):
    """The rollout was rolled back because of the responses of its pods."""


class Bad(Failure):
    """A served release is bad."""


class Unjudged(Failure):
    """A served release got too few requests to be judged, or its pods had no time to answer."""

    exit_code = NO_TRAFFIC


class UndoneUnjudged(Undone):
    """The rollout was rolled back because its canary got too few requests to be judged."""

    exit_code = NO_TRAFFIC


@dataclass(frozen=True)
class Asked:
    """The request for a release on a stack. For the previous release, set `back` and no release.

    `canary` is like 5%,25%,100%. `replay` is a file of requests. `mirror`, like 20%, is the share of requests that is
    mirrored to the release first. `may_differ` is the share of responses that may differ, for replayed and for mirrored
    requests.
    """

    stack: str
    release: str | None
    stacks: Path
    canary: str
    limits: Limits
    back: bool
    replay: Path | None
    may_differ: float
    mirror: str | None = None


def rollout(asked: Asked, bucket: str, endpoint_url: str | None, namespace: str) -> None:
    """Change the models of running pods, or resume an interrupted rollout. Raises Misused and Unfinished."""
    if (asked.release is None) != asked.back:
        raise Misused("name either a release or --back")
    file = asked.stacks / f"Pulumi.{asked.stack}.yaml"
    settings = load_stack_file(file)
    slos = _slos(settings)
    several = {fleet.release: frozenset(fleet.keys.models) for fleet in settings.each_fleet if fleet.keys is not None}
    replay = Replay.read(asked.replay, asked.may_differ) if asked.replay is not None else None
    on_fleets = frozenset().union(*several.values()) if several else None
    mirror = _mirror(asked.mirror, settings) if asked.mirror is not None else 0
    wanted = Wanted(
        asked.stack, _steps(asked.canary), slos, replay, on_fleets, mirror, asked.may_differ, settings.models.signers
    )
    store = open_store(bucket, endpoint_url)
    tell = _tell()
    try:
        with interruptible(_GOES_ON), Lease(LiveRepository(store), tell=tell) as lease:
            if is_blue_green(settings):
                comparers = functools.cache(lambda: _fleet(namespace).behind(COMPARER))
                platform = Platform(
                    lambda name: _fleet(namespace, name),
                    lambda: _up(asked.stack, tell),
                    lease.check,
                    lambda: comparers().pods(),
                )
                rolled = BlueGreen(file, store, platform, wanted, asked.limits, tell)
                result = rolled.back() if asked.release is None else rolled.rollout(asked.release)
            else:
                follows = settings.models.access == "local"
                pods = _fleets(namespace, several, follows=follows) if several else _fleet(namespace, follows=follows)
                controller = Controller(store, pods, wanted, limits=asked.limits, tell=tell)
                result = controller.back(lease) if asked.release is None else controller.rollout(asked.release, lease)
    except (FleetError, PodProblem, StillAsked) as failure:
        raise Unfinished(f"{failure}; run the same command again, it goes on") from failure
    _report(result, asked_to_undo=asked.back)


def watch(
    file: Path,
    bucket: str,
    endpoint_url: str | None,
    namespace: str,
    limits: Limits,
    *,
    take_back: bool,
) -> None:
    """Judge the release that a stack file pins on the pods that serve it.

    With `take_back`, pin the previous release when this one is bad. Raises Bad, Unjudged and Misused.
    """
    settings = load_stack_file(file)
    release = pinned(file)
    name = stack_name(file)
    if release is None or name is None:
        raise Misused(f"{file}: pins no release of a stack; name a file like stacks/Pulumi.prod.yaml that does")
    store = open_store(bucket, endpoint_url)
    tell = _tell()
    stack_release = StackRelease(catalog.finished(store, release.id), name, store)
    with interruptible("interrupted; nothing was changed"):
        fleets = [
            _watched(fleet, stack_release, _fleet(namespace, fleet.release))
            for fleet in settings.each_fleet
            if not fleet.candidate
        ]
        seen = watch_fleets(stack_release, fleets, _slos(settings), limits, tell)
    for line in seen.figures:
        print(line)
    if seen.open and not seen.wrong:
        raise Unjudged(f"release {release.id} is not judged in {limits.watch:g} s: {'; '.join(seen.open)}; it stays")
    if not seen.wrong:
        print(f"release {release.id} is right")
        return
    reasons = "; ".join(seen.wrong)
    if not take_back:
        raise Bad(f"release {release.id} is bad: {reasons}; `modelctl rollback` pins the one before")
    try:
        back = roll_back(file, store, release)
    except RollbackError as failure:
        raise Bad(f"release {release.id} is bad: {reasons}; it is not taken back: {failure}") from failure
    raise Bad(f"release {release.id} is bad: {reasons}; {file} pins {back.release.id} again, and `pulumi up` rolls it out")


def parity(namespace: str, serve: str | None, *, direct: bool, as_json: bool) -> int:
    """Print the models that the pods serve, or export them as metrics.

    Returns the exit code: FAILED when the pods differ. Raises NoPods. `direct`: see KubernetesFleet.
    """
    address = metrics_server.address("--serve", serve) if serve is not None else None
    first = _fleet(namespace, direct=direct)
    if address is not None:
        with metrics_server.serving(ParityCollector(first.all_fleets, namespace), "--serve", *address):
            threading.Event().wait()
        return DONE
    states = fleet_parity.states(first.all_fleets())
    if not states:
        raise NoPods(f"no pods of Triton in namespace {namespace}, so there is nothing to compare")
    differences = fleet_parity.differences(states)
    if as_json:
        pods = {
            s.pod: {"fleet": s.fleet, "problem": s.problem, "models": {m.model: m.hashes for m in s.models}} for s in states
        }
        print_json({"pods": pods, "differences": differences})
    else:
        _print(states)
        for sentence in differences:
            print(sentence)
        if not differences:
            print(_alike([state.fleet for state in states]))
    return FAILED if differences else DONE


def _alike(fleets: Sequence[str]) -> str:
    """Return the message that all pods serve the same. `fleets` has the fleet of each pod."""
    counts = Counter(fleets)
    if len(counts) == 1:
        return f"{len(fleets)} pods serve the same"
    return f"the pods of each fleet serve the same: {', '.join(f'{fleet} {count}' for fleet, count in counts.items())}"


def _watched(fleet: StackFleet[Settings], release: StackRelease, pods: Fleet) -> Watched:
    versions = {model: version for model, version in release.manifest.versions.items() if fleet.serves(model)}
    return Watched(pods, versions, [model for model in versions if fleet.weight(model)], fleet.name)


def _print(states: list[fleet_parity.PodState]) -> None:
    rows = table("pod", "model", "versions", "config")
    for state in states:
        if state.problem is not None:
            rows.add_row(state.pod, "?", "?", "?")
        for served in state.models:
            hashes = ", ".join(sorted(set(served.hashes.values())))
            rows.add_row(state.pod, served.model, ", ".join(map(str, served.versions)), hashes)
    output().print(rows)


def _steps(text: str) -> tuple[int, ...]:
    """Return the percentages below 100. Raises Misused for an invalid text."""
    words = [word.strip().removesuffix("%") for word in text.split(",")]
    steps = [int(word) for word in words if word.isdecimal()]
    if len(steps) != len(words) or steps != sorted(set(steps)) or steps[0] < 1 or steps[-1] != 100:
        raise Misused(f"--canary {text!r}: write ascending percentages that end with 100%, like 5%,25%,100%") from None
    return tuple(steps[:-1])


def _mirror(text: str, settings: Settings) -> int:
    """Return the percentage. Raises Misused for an invalid text, or when the same pods serve both versions."""
    number = text.strip().removesuffix("%")
    if not number.isdecimal() or not 1 <= int(number) <= 100:
        raise Misused(f"--mirror {text!r}: write one percentage, like 20%")
    if settings.triton.rollout != "blue-green":
        raise Misused(
            "--mirror sends copies to pods of the new release alone, which triton.rollout: blue-green has; leave it out"
        )
    return int(number)


def _slos(settings: Settings) -> dict[str, float]:
    return {model: float(wants.slo_p95_ms) for model, wants in settings.models.serving.items()}


def _up(stack: str, tell: Callable[[str], None]) -> None:
    """Apply the stack file with `pulumi up`. Raises PulumiFailed."""
    arguments = ["up", "--stack", stack, "--yes", "--skip-preview", "--non-interactive"]
    tell(f"pulumi {' '.join(arguments)}")
    if pulumi_program.run(arguments) != 0:
        raise PulumiFailed(f"`pulumi {' '.join(arguments)}` ended with an error, which stands above")


def _fleet(namespace: str, release: str = TRITON_RELEASE, *, follows: bool = False, direct: bool = False) -> KubernetesFleet:
    from modelctl.rollout.kubernetes_fleet import KubernetesFleet

    return KubernetesFleet(namespace, release, follows=follows, direct=direct, tell=_tell())


def _fleets(namespace: str, models: Mapping[str, frozenset[str]], *, follows: bool) -> Fleet:
    return SeveralFleets({name: (_fleet(namespace, name, follows=follows), served) for name, served in models.items()})


def _tell() -> Callable[[str], None]:
    console = progress()
    return lambda line: console.print(line, markup=False, soft_wrap=True)


def _report(result: Result, *, asked_to_undo: bool) -> None:
    versions = ", ".join(f"{change.model} version {change.new}" for change in result.changes)
    if result.outcome is Outcome.DONE:
        print(f"{result.release} serves: {versions or 'nothing changed'}")
    elif result.outcome is Outcome.SEEDED:
        print(f"{result.release} fills live/: {versions}; pods that start from now on serve it")
    elif result.outcome is Outcome.NOTHING_TO_DO:
        print(f"{result.release} serves already")
    elif asked_to_undo and result.outcome is Outcome.UNDONE:
        print(f"undone, release {result.release} serves as before")
    else:
        kind = UndoneUnjudged if result.outcome is Outcome.NO_TRAFFIC else Undone
        raise kind(f"undone, release {result.release} serves as before: {result.reason}")
