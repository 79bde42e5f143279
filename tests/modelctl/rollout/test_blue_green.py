"""`modelctl rollout` with `triton.rollout: blue-green`: its changes of the stack file, and reasons for a rollback.

On real servers, under load: tests/system/serving/test_blue_green.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from console.pulumi_program import PulumiFailed
from modelctl.release import candidate
from modelctl.release.pin import pin, pinned_by
from modelctl.rollout import blue_green, command
from modelctl.rollout.blue_green import BlueGreen, NotReturned, Platform
from modelctl.rollout.controller import Outcome, Wanted
from modelctl.rollout.fleet import Fleet, Pod, ServedVersion
from modelctl.rollout.limits import Limits, Terms
from modelctl.rollout.metrics import Counters
from modelctl.rollout.misused import Misused
from modelctl.rollout.plan import Refused
from modelctl.rollout.pod_client import ForwardBroke, PodClient, PodHangs
from modelctl.rollout.replay import Replay, ReplayError
from modelctl.store.bucket import Store
from modelctl.store.manifest import Manifest
from spec.failure import Failure
from spec.settings import load_stack_file
from spec.settings.models import Models
from tests.modelctl.blue_green_stack import write_blue_green
from tests.modelctl.conftest import BUCKET
from tests.modelctl.rollout.answering_pod import answering_pod, out
from tests.modelctl.rollout.idle_fleet import IdleFleet
from tests.modelctl.rollout.releases import model, publish

LIMITS = Limits(restart=0, canary=0, watch=0, poll=0, terms=Terms(seconds=0))
WRONG = "a: adder version 2 answers wrongly: OUT[0] is 7.0, expected 1.0 (tolerance 1e-05)"


class Killed(BaseException):
    """Simulates a killed process."""


@dataclass
class Stage:
    """A stack whose release is `old`, in the blue slot. `ups`: slot, release, candidate and percent at each `pulumi up`.

    `at`: the fate of the candidate's pods at this share.
    """

    file: Path
    store: Store
    old: Manifest
    new: Manifest
    pods: ExitStack
    answer: float = 1.0
    ups: list[tuple[str, str, str | None, int | None]] = field(default_factory=list)
    failing: int | None = None
    killed: int | None = None
    slos: dict[str, float] = field(default_factory=lambda: {"adder": 50.0})
    told: dict[str, ServedVersion] = field(default_factory=dict)
    at: dict[int, Callable[[ExitStack, list[Pod]], None]] = field(default_factory=dict)
    tried: list[Pod] = field(default_factory=list)
    stable: list[Pod] = field(default_factory=list)
    mirrored: list[int] = field(default_factory=list)
    limits: Limits = LIMITS
    comparers: list[Pod] = field(default_factory=list)
    compared: list[dict[str, float]] = field(default_factory=list)

    def rollout(self, release: str | None = None, *, back: bool = False, **wanted: Any) -> Any:
        """Roll out `release`, or the newer one, with these other fields of Wanted."""
        self.tried = [self.pods.enter_context(answering_pod(lambda _: out(self.answer)))]
        fleets: dict[str, Fleet] = {
            "triton-blue": IdleFleet(self.stable, self.old.id, self.told),
            "triton-green": IdleFleet(self.tried, self.new.id),
        }
        rolled = BlueGreen(
            self.file,
            self.store,
            Platform(fleets.__getitem__, self.up, lambda: None, lambda: self.comparers),
            Wanted("dev", slo_p95_ms=self.slos, **wanted),
            self.limits,
        )
        return rolled.back() if back else rolled.rollout(release or self.new.id)

    def up(self) -> None:
        models = load_stack_file(self.file).models
        assert models.release is not None
        tried = models.candidate
        self.ups.append((models.slot, models.release.id, tried and tried.release.id, tried and tried.percent))
        self.mirrored.append(tried.mirror_percent if tried is not None else 0)
        self.compared.append(dict(tried.mirror_tolerances) if tried is not None else {})
        if tried is not None and tried.percent in self.at:
            self.at[tried.percent](self.pods, self.tried)
        if len(self.ups) == self.killed:
            raise Killed
        if len(self.ups) == self.failing:
            raise PulumiFailed("`pulumi up` ended with an error")


@pytest.fixture
def stage(store: Store, tmp_path: Path) -> Iterator[Stage]:
    file = write_blue_green(tmp_path / "stacks")
    old, new = (publish(store, tmp_path / "repository", model(version=version)) for version in (1, 2))
    pin(file, old)
    with ExitStack() as pods:
        yield Stage(file, store, old, new, pods)


def served(stage: Stage) -> tuple[str, str, str | None]:
    """Return slot, release and previous release of a file without a candidate."""
    models = load_stack_file(stage.file).models
    assert models.release is not None
    assert models.candidate is None
    return models.slot, models.release.id, models.release.previous


def test_a_release_is_asked_when_its_pods_have_answered_and_is_the_release_at_the_end(stage: Stage) -> None:
    before = stage.file.read_text()
    result = stage.rollout()
    old, new = stage.old.id, stage.new.id
    assert (result.outcome, result.release) == (Outcome.DONE, new)
    assert stage.ups == [("blue", old, new, 0), ("blue", old, new, 100), ("green", new, None, None)]
    assert served(stage) == ("green", new, old)
    # Only the pin and the slot differ.
    assert len(set(before.splitlines()) - set(stage.file.read_text().splitlines())) <= 3


def test_a_wrong_answer_takes_it_back_before_anybody_has_asked_it(stage: Stage) -> None:
    before = stage.file.read_text()
    stage.answer = 7.0
    result = stage.rollout()
    assert (result.outcome, result.release, result.reason) == (Outcome.UNDONE, stage.old.id, WRONG)
    assert stage.ups == [("blue", stage.old.id, stage.new.id, 0), ("blue", stage.old.id, None, None)]
    assert stage.file.read_text() == before


def test_a_step_without_requests_takes_it_back(stage: Stage) -> None:
    result = stage.rollout(canary=(5,))
    assert result.outcome is Outcome.NO_TRAFFIC
    assert result.reason == "not enough requests to judge by in 0 s at 5 %: adder version 2 got 0 of 100 requests"
    assert [percent for *_, percent in stage.ups] == [0, 5, None]


def test_a_model_of_sequences_is_judged_by_all_requests_alone(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then it gets neither requests nor copies, so no gate waits for them."""
    monkeypatch.setattr(Models, "keeps_sequences", lambda *_: True)
    result = stage.rollout(mirror=20, canary=(5, 25))
    assert (result.outcome, [percent for *_, percent in stage.ups]) == (Outcome.DONE, [0, 0, 5, 25, 100, None])


def test_copies_that_are_too_few_take_it_back_before_anybody_has_asked_it(stage: Stage) -> None:
    before = stage.file.read_text()
    result = stage.rollout(mirror=20, canary=(5,))
    assert result.outcome is Outcome.NO_TRAFFIC
    assert result.reason == "not enough requests to judge by in 0 s by copies of 20 %: adder version 2 got 0 of 100 requests"
    assert [percent for *_, percent in stage.ups] == [0, 0, None]
    assert stage.mirrored == [0, 20, 0]
    assert stage.file.read_text() == before


@pytest.mark.parametrize(
    ("failing", "reason"), [(0.0, None), (0.1, "adder version 2: 20 of 200 (10.0%) requests failed, 0.1% may (release ")]
)
def test_copies_are_judged_beside_the_requests_that_the_release_answers(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, failing: float, reason: str | None
) -> None:
    looks: Counter[str] = Counter()

    def counters(client: PodClient) -> dict[Any, Counters]:
        """Count 200 more requests at each look, of 1 to 1.02 ms; a share fails, but none of the release's."""
        version = 1 if client.pod.name == "old" else 2
        looks[client.pod.name] += 1
        number = 200.0 * looks[client.pod.name]
        bad = number * failing if version == 2 else 0.0
        return {
            ("adder", version): Counters(number - bad, bad, duration_us=number * (1000 + looks[client.pod.name] % 3 * 10))
        }

    monkeypatch.setattr(PodClient, "counters", counters)
    stage.stable = [stage.pods.enter_context(answering_pod(lambda _: out(1.0), "old"))]
    stage.limits = replace(LIMITS, canary=30)
    result = stage.rollout(mirror=100)
    shares = [percent for *_, percent in stage.ups]
    if reason is None:
        assert (result.outcome, shares, stage.mirrored) == (Outcome.DONE, [0, 0, 100, None], [0, 100, 0, 0])
        assert looks["old"] > 747 / 200, "as many as it takes to tell"
    else:
        assert (result.outcome, shares, stage.mirrored) == (Outcome.UNDONE, [0, 0, None], [0, 100, 0])
        assert result.reason.startswith(reason)


def test_a_release_that_answers_a_replayed_request_otherwise_is_never_asked_by_clients(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "requests.jsonl"
    file.write_text('{"model": "adder", "inputs": {"IN": {"datatype": "FP32", "shape": [1, 1], "data": [3.0]}}}\n')
    stage.stable = [stage.pods.enter_context(answering_pod(lambda _: out(2.0), "old"))]
    result = stage.rollout(replay=Replay.read(file, 0.0), mirror=20, canary=(5,))
    assert (result.outcome, [percent for *_, percent in stage.ups], stage.mirrored) == (Outcome.UNDONE, [0, None], [0, 0])
    assert result.reason == (
        f"adder version 2 answers 1 of 1 replayed requests otherwise than release {stage.old.id}, 0% may; the first: "
        "line 1: OUT[0] is 1.0, expected 2.0 (tolerance 1e-05)"
    )
    file.write_text(file.read_text().replace("adder", "adderr"))
    with pytest.raises(ReplayError, match="has no model 'adderr', but adder"):
        stage.rollout(replay=Replay.read(file, 0.0))


def test_one_that_had_requests_gets_no_copies_when_it_goes_on(stage: Stage) -> None:
    stage.killed = 2
    with pytest.raises(Killed):
        stage.rollout(mirror=20)
    stage.killed = None
    candidate.give(stage.file, 100)  # the largest possible share
    assert stage.rollout(mirror=20).outcome is Outcome.DONE
    assert stage.mirrored == [0, 20, 0, 0, 0]


@pytest.mark.parametrize(
    ("mirror", "rollout", "said"),
    [
        ("0%", "blue-green", "--mirror '0%': write one percentage, like 20%"),
        ("5%,20%", "blue-green", "--mirror '5%,20%': write one percentage, like 20%"),
        ("20%", "rolling", "--mirror sends copies to pods of the new release alone, which triton.rollout: blue-green has"),
    ],
)
def test_copies_that_cannot_be(stage: Stage, mirror: str, rollout: str, said: str) -> None:
    stage.file.write_text(stage.file.read_text().replace("rollout: blue-green", f"rollout: {rollout}"))
    asked = command.Asked(
        "dev", "x", stage.file.parent, "100%", LIMITS, back=False, replay=None, may_differ=0, mirror=mirror
    )
    with pytest.raises(Misused, match=said):
        command.rollout(asked, BUCKET, None, "triton")


@pytest.mark.parametrize("percent", [5, 100])
@pytest.mark.parametrize("end", [lambda servers, _: servers.close(), lambda _, pods: pods.clear()], ids=["dies", "leaves"])
def test_a_pod_that_ends_under_its_requests_takes_it_back(
    stage: Stage, tmp_path: Path, percent: int, end: Callable[[ExitStack, list[Pod]], None]
) -> None:
    # A new model has no requests for an evaluation.
    stage.new = publish(stage.store, tmp_path / "repository", {**model(), **model("other")})
    stage.at[percent] = end
    result = stage.rollout(canary=(5,))
    assert (result.outcome, result.reason) == (Outcome.UNDONE, "0 of 1 pods of the candidate answer")
    assert [share for *_, share in stage.ups] == [0, 5, None] if percent == 5 else [0, 5, 100, None]
    assert served(stage) == ("blue", stage.old.id, None)


@pytest.mark.parametrize("hangs", [1, 99])
def test_a_pod_without_time_at_the_end_is_asked_again(stage: Stage, monkeypatch: pytest.MonkeyPatch, hangs: int) -> None:
    looks = iter([False, False, *[True] * hangs])  # before the share, in the watch, and at its end

    def counters(_: PodClient) -> dict[Any, Counters]:
        if next(looks, False):
            raise PodHangs("a: no answer in time")
        return {}

    monkeypatch.setattr(PodClient, "counters", counters)
    monkeypatch.setattr(blue_green, "until", lambda seconds, *_: range(3 if seconds else 1))  # times
    result = stage.rollout()
    assert result.reason == (None if hangs == 1 else "0 of 1 pods of the candidate answer")


def test_a_candidate_is_not_taken_back_for_a_way_that_is_lost(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([False, False, *[True] * 99])  # before the share, in the watch, and at its end

    def counters(_: PodClient) -> dict[Any, Counters]:
        if next(looks, False):
            raise ForwardBroke("pod a: port 8002: the API server's port forward was lost")
        return {}

    monkeypatch.setattr(PodClient, "counters", counters)
    monkeypatch.setattr(blue_green, "until", lambda seconds, *_: range(3 if seconds else 1))  # times
    with pytest.raises(ForwardBroke):
        stage.rollout()
    tried = load_stack_file(stage.file).models.candidate
    assert tried is not None
    assert (tried.release.id, tried.percent) == (stage.new.id, 100)
    monkeypatch.setattr(PodClient, "counters", lambda _: {})
    assert stage.rollout().outcome is Outcome.DONE


@pytest.mark.parametrize("at", [1, 2])
def test_an_update_that_fails_takes_it_back(stage: Stage, at: int) -> None:
    stage.failing = at
    result = stage.rollout()
    assert (result.outcome, result.reason) == (Outcome.UNDONE, "`pulumi up` ended with an error")
    assert served(stage) == ("blue", stage.old.id, None)


def test_a_return_that_fails_says_what_to_do(stage: Stage) -> None:
    stage.answer, stage.failing = 7.0, 2
    with pytest.raises(NotReturned) as failure:
        stage.rollout()
    assert str(failure.value) == (
        f"`pulumi up` ended with an error; the candidate, which is taken out of {stage.file} because {WRONG}, may still "
        "have requests: run `pulumi up --stack dev`"
    )


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_killed_rollout_goes_on_by_the_same_command(stage: Stage, at: int) -> None:
    stage.killed = at
    with pytest.raises(Killed):
        stage.rollout()
    result = stage.rollout()
    assert result.outcome is (Outcome.NOTHING_TO_DO if at == 3 else Outcome.DONE)
    assert served(stage) == ("green", stage.new.id, stage.old.id)
    assert stage.ups[-1] == ("green", stage.new.id, None, None)
    # A model with all requests keeps them.
    assert 0 not in [percent for *_, percent in stage.ups[2 if at == 1 else 1 :]][1:]


def test_an_unfinished_one_is_undone_by_back_and_no_other_begins_beside_it(stage: Stage, tmp_path: Path) -> None:
    stage.killed = 1
    with pytest.raises(Killed):
        stage.rollout()
    other = publish(stage.store, tmp_path / "repository", model(version=3))
    with pytest.raises(Refused, match=f"release {stage.new.id} is a candidate with 0 % of the requests: finish it with"):
        stage.rollout(other.id)
    assert pinned_by(stage.file.parent, stage.new.id).files == [stage.file], "so that it is not retired meanwhile"
    assert stage.rollout(back=True).outcome is Outcome.UNDONE
    assert served(stage) == ("blue", stage.old.id, None)
    with pytest.raises(
        Refused, match="no release is being rolled out, so there is nothing to undo; there is none before it"
    ):
        stage.rollout(back=True)


def test_a_return_that_was_killed_is_ended_by_the_same_command(stage: Stage) -> None:
    stage.killed = 1
    with pytest.raises(Killed):
        stage.rollout()
    stage.killed = 2
    with pytest.raises(Killed):
        stage.rollout(back=True)
    with pytest.raises(Refused, match="no release is being rolled out, so there is nothing to undo"):
        stage.rollout(back=True)
    assert stage.ups[1:] == 2 * [("blue", stage.old.id, None, None)]


def unproven(files: dict[str, str]) -> dict[str, str]:
    return {path: text for path, text in files.items() if not path.endswith("golden.json")}


@pytest.mark.parametrize(
    ("files", "canary", "said"),
    [
        (
            unproven(model(version=3)),
            (),
            "adder: version 3 has no golden.json, so that nothing would tell a wrong model from",
        ),
        ({**model(), **model("other")}, (5,), None),  # without an SLO, and with unknown requests
        (
            {**model(), "adder/1/labels.txt": "one"},
            (5,),
            "adder: a canary is judged by its SLO: give it models.serving.adder.sloP95Ms in the stack dev",
        ),
    ],
)
def test_what_nothing_would_judge_is_refused(
    stage: Stage, tmp_path: Path, files: dict[str, str], canary: tuple[int, ...], said: str | None
) -> None:
    before = stage.file.read_text()
    stage.slos = {}
    stage.new = publish(stage.store, tmp_path / "repository", files)
    if said is None:
        assert stage.rollout(canary=canary).outcome is Outcome.DONE
        return
    with pytest.raises(Refused, match=said):
        stage.rollout(canary=canary)
    assert (stage.file.read_text(), stage.ups) == (before, [])


@pytest.mark.parametrize(
    ("told", "missing"),
    [
        ({"adder": ServedVersion(stable=1)}, 1),
        ({"adder": ServedVersion(stable=2, canary=3, percent=5)}, 3),
        ({"adder": ServedVersion(stable=2), "other": ServedVersion(stable=1)}, None),
    ],
)
def test_clients_are_not_told_to_ask_for_a_version_that_the_candidate_lacks(
    stage: Stage, told: dict[str, ServedVersion], missing: int | None
) -> None:
    before = stage.file.read_text()
    stage.told = told
    if missing is None:
        assert stage.rollout().outcome is Outcome.DONE
        return
    with pytest.raises(Refused) as refusal:
        stage.rollout()
    assert str(refusal.value).endswith(
        f"adder: triton-served-versions tells clients to ask for version {missing}, which pods of release {stage.new.id} do "
        "not have; take the entry out, and they name no version: `kubectl patch configmap triton-served-versions --type "
        """merge -p '{"data": {"adder": null}}'` in the namespace of Triton"""
    )
    assert (stage.file.read_text(), stage.ups) == (before, [])


def test_a_file_in_which_a_candidate_would_be_a_mistake_stays_as_it_is(stage: Stage) -> None:
    text = stage.file.read_text().replace("rollout: blue-green", "rollout: rolling")
    stage.file.write_text(text)
    with pytest.raises(Failure, match="rollout: rolling has one Deployment, where there is no place for it"):
        candidate.add(stage.file, stage.new, None)
    assert stage.file.read_text() == text


def test_the_command_brings_pulumi_up_and_reads_the_pods_of_both_slots(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[list[str]] = []
    tried = stage.pods.enter_context(answering_pod(lambda _: out(1.0)))
    fleets = {"triton-blue": IdleFleet([]), "triton-green": IdleFleet([tried], stage.new.id)}
    monkeypatch.setattr(command, "_fleet", lambda _namespace, name: fleets[name])
    monkeypatch.setattr(command.pulumi_program, "run", lambda arguments: ran.append(arguments) or 0)
    asked = command.Asked("dev", stage.new.id, stage.file.parent, "100%", LIMITS, back=False, replay=None, may_differ=0.0)
    command.rollout(asked, BUCKET, None, "triton")
    assert ran == 3 * [["up", "--stack", "dev", "--yes", "--skip-preview", "--non-interactive"]]
    assert capsys.readouterr().out == f"{stage.new.id} serves: adder version 2\n"
    assert served(stage) == ("green", stage.new.id, stage.old.id)
