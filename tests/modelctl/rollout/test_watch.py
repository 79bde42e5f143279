"""`modelctl watch` with silent or scripted pods. On real servers: tests/system/serving/test_watch.py."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from modelctl.release import candidate
from modelctl.release.pin import pin, pinned
from modelctl.rollout import command
from modelctl.rollout import pods as pods_module
from modelctl.rollout import watch as watch_module
from modelctl.rollout.fleet import Fleet, Pod
from modelctl.rollout.limits import Limits
from modelctl.rollout.metrics import Counters
from modelctl.rollout.plan import StackRelease
from modelctl.rollout.pod_client import PodClient, PodHangs, PodProblem
from modelctl.rollout.pods import Pods, Target
from modelctl.rollout.watch import NotServed, Seen, Watched, watch
from modelctl.store.bucket import Store
from spec.failure import Failure
from tests.modelctl.blue_green_stack import write_blue_green
from tests.modelctl.conftest import BUCKET
from tests.modelctl.rollout.answering_pod import FULL, answering_pod, out
from tests.modelctl.rollout.idle_fleet import IdleFleet
from tests.modelctl.rollout.releases import model, publish
from tests.modelctl.stacks import write_stack

WRONG = "adder version 1 answers wrongly: OUT[0] is 7.0, expected 1.0 (tolerance 1e-05)"
DEAD = Pod("a", "uid", http="http://127.0.0.1:9", metrics="http://127.0.0.1:9", admin_key=lambda: "k")


def watched(release: StackRelease, fleet: Fleet, tell: Callable[[str], None] = lambda _: None) -> Seen:
    """Return the findings of an instant watch on a stack without fleets."""
    versions = release.manifest.versions
    return watch(release, [Watched(fleet, versions, list(versions))], {}, Limits(watch=0), tell)


@pytest.mark.parametrize(
    ("pods", "said"),
    [
        ([], "there are no pods to watch; run this after `pulumi up`"),
        ([DEAD], "no pod answered in 0 s; `kubectl get pods` says what they do"),
    ],
)
def test_pods_that_do_not_answer_are_no_release_to_judge(store: Store, tmp_path: Path, pods: list[Pod], said: str) -> None:
    release = StackRelease(publish(store, tmp_path / "repository", model()), "local", store)
    with pytest.raises(NotServed) as refusal:
        watched(release, IdleFleet(pods))
    assert (str(refusal.value), refusal.value.exit_code) == (said, 2)


def test_pods_of_a_release_with_the_same_versions_are_not_judged(store: Store, tmp_path: Path) -> None:
    release = StackRelease(publish(store, tmp_path / "repository", model()), "local", store)
    with answering_pod(lambda _: out(7.0)) as pod, pytest.raises(NotServed) as refusal:
        watched(release, IdleFleet([pod], "0123456789ab" + 52 * "0"))
    said = f"a serves release 0123456789ab{52 * '0'}, not {release.manifest.id}; run `pulumi up` first"
    assert (str(refusal.value), refusal.value.exit_code) == (said, 2)


@pytest.mark.parametrize("in_place", [False, True])
def test_pods_of_the_release_are_judged_and_those_that_name_none(store: Store, tmp_path: Path, in_place: bool) -> None:
    release = StackRelease(publish(store, tmp_path / "repository", model()), "local", store)
    with answering_pod(lambda _: out(7.0)) as pod:
        fleet = IdleFleet([pod], None if in_place else release.manifest.id)
        seen = watched(release, fleet)
    assert seen.wrong == [f"a: {WRONG}"]


@pytest.mark.parametrize(("wrong_at_last", "wrong"), [(1.0, []), (7.0, [f"a: {WRONG}"])])
def test_a_pod_without_time_is_asked_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong_at_last: float, wrong: list[str]
) -> None:
    monkeypatch.setattr(watch_module, "until", lambda *_: range(4))  # looks
    release = StackRelease(publish(store, tmp_path / "repository", model()), "local", store)
    answers = iter([FULL, FULL])
    with answering_pod(lambda _: next(answers, out(wrong_at_last))) as pod:
        told: list[str] = []
        seen = watched(release, IdleFleet([pod]), told.append)
    assert seen.wrong == wrong
    assert told == [f"a: 1 golden inferences, {'not as released' if wrong else 'as released'}"]
    assert seen.open == ([] if wrong else ["adder version 1 got 0 of 100 requests"])


@pytest.mark.parametrize("always", [False, True])
def test_metrics_that_hang_are_asked_for_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, always: bool
) -> None:
    monkeypatch.setattr(watch_module, "until", lambda *_: range(3))  # looks
    counted = iter([None, None, 100])

    def counters(_: PodClient) -> dict[Any, Counters]:
        requests = next(counted)
        if requests is None or always:
            raise PodHangs("a: no answer in time")
        return {("adder", 1): Counters(success=requests)}

    monkeypatch.setattr(PodClient, "counters", counters)
    release = StackRelease(publish(store, tmp_path / "repository", model()), "local", store)
    with answering_pod(lambda _: out(1.0)) as pod:
        seen = watched(release, IdleFleet([pod]))
    few = "adder version 1 got 0 of 100 requests"
    hung = ["a: no answer in time, where its metrics were asked for"] if always else []
    assert (seen.wrong, seen.open) == ([], [*hung, few])


@pytest.mark.parametrize("full", [2, 99])
def test_a_pod_without_time_may_prove_a_version_later(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: int
) -> None:
    monkeypatch.setattr(pods_module, "until", lambda *_: range(3))  # times
    monkeypatch.setattr(PodClient, "config_hash", lambda *_: "as before")
    golden = StackRelease(publish(store, tmp_path / "repository", model()), "local", store).golden("adder")
    target = Target("adder", (1,), "{}", "", proven=1, golden=golden)
    answers = iter([FULL] * full)
    with answering_pod(lambda _: next(answers, out(1.0))) as pod, PodClient(pod) as client:
        pods = Pods(IdleFleet([pod]), Limits(), lambda: None, lambda _: None)
        if full == 2:
            pods._prove(client, target, {})
            return
        with pytest.raises(PodProblem) as failure:
            pods._prove(client, target, {})
    said = "a: Exceeds maximum queue size for 300 s, where adder version 1 has to prove itself"
    assert str(failure.value) == said


def test_each_fleet_is_judged_by_its_own_models_and_pods(store: Store, tmp_path: Path) -> None:
    repository = {**model(), **model("left"), **model("right")}
    release = StackRelease(publish(store, tmp_path / "repository", repository), "local", store)
    asked: dict[str, set[str]] = {"a": set(), "b": set()}

    def answering(name: str) -> Callable[[str], tuple[int, dict[str, Any]]]:
        def answer(path: str) -> tuple[int, dict[str, Any]]:
            asked[name].add(path.split("/")[3])
            return out(7.0 if name == "b" and "right" in path else 1.0)

        return answer

    with answering_pod(answering("a")) as first, answering_pod(answering("b"), "b") as second:
        fleets = [
            Watched(IdleFleet([first]), {"adder": 1, "left": 1}, ["adder", "left"], "g5"),
            Watched(IdleFleet([second]), {"adder": 1, "right": 1}, ["right"], "g6"),
        ]
        wrong = watch(release, fleets, {}, Limits(watch=0), lambda _: None)
        right = watch(release, fleets[:1], {}, Limits(watch=0), lambda _: None)
    assert asked == {"a": {"adder", "left"}, "b": {"adder", "right"}}
    assert wrong.wrong == ["b: right version 1 answers wrongly: OUT[0] is 7.0, expected 1.0 (tolerance 1e-05)"]
    assert right.open == [
        "fleet g5: adder version 1 got 0 of 100 requests",
        "fleet g5: left version 1 got 0 of 100 requests",
    ]
    # The second fleet gets no requests for the first model.
    assert [line.partition(" version")[0] for line in wrong.figures] == [
        "fleet g5: adder",
        "fleet g5: left",
        "fleet g6: right",
    ]


@pytest.mark.parametrize(
    ("answer", "wrong", "open_"),
    [
        (7.0, [f"a: {WRONG}"], []),
        (1.0, [], ["fleet g6: there were no pods to watch", "fleet g5: adder version 1 got 0 of 100 requests"]),
    ],
)
def test_a_fleet_without_pods_is_left_open_and_the_others_are_judged(
    store: Store, tmp_path: Path, answer: float, wrong: list[str], open_: list[str]
) -> None:
    release = StackRelease(publish(store, tmp_path / "repository", model()), "local", store)
    with answering_pod(lambda _: out(answer)) as pod:
        fleets = [Watched(IdleFleet(pods), {"adder": 1}, ["adder"], name) for name, pods in (("g6", []), ("g5", [pod]))]
        seen = watch(release, fleets, {}, Limits(watch=0), lambda _: None)
        with pytest.raises(NotServed, match=r"^there are no pods to watch; run this after `pulumi up`$"):
            watch(release, fleets[:1], {}, Limits(watch=0), lambda _: None)
    assert (seen.wrong, seen.open) == (wrong, open_)


def test_a_fleet_that_gets_its_first_pod_meanwhile_is_judged_by_it(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = StackRelease(publish(store, tmp_path / "repository", model()), "local", store)
    pods: list[Pod] = []
    with answering_pod(lambda _: out(1.0), "g5") as one, answering_pod(lambda _: out(7.0)) as late:

        def looks(*_: object) -> Iterator[None]:
            yield
            pods.append(late)
            yield

        monkeypatch.setattr(watch_module, "until", looks)
        fleets = [Watched(IdleFleet(of), {"adder": 1}, ["adder"], name) for name, of in (("g6", pods), ("g5", [one]))]
        seen = watch(release, fleets, {}, Limits(watch=0), lambda _: None)
    assert seen.wrong == [f"a: {WRONG}"]


def test_a_stack_file_says_which_fleets_are_watched(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_stack(tmp_path / "stacks", {})
    document = YAML(typ="safe").load(file)
    pool = document["config"]["triton-eks:gpu"]["pools"][0]
    pool |= {"desired": 2, "max": 2}
    document["config"]["triton-eks:fleets"] = [
        {"name": "a", "models": ["adder"], "pool": pool["name"], "weights": {"adder": 0}},
        {"name": "b", "models": ["adder"], "pool": pool["name"]},
    ]
    YAML().dump(document, file)
    pin(file, publish(store, tmp_path / "repository", model()))
    found = []

    def watching(_: object, fleets: list[Watched], *__: object) -> Seen:
        found.extend((one.name, one.fleet, one.versions, one.asked) for one in fleets)
        return Seen([], [], [])

    monkeypatch.setattr(command, "watch_fleets", watching)
    monkeypatch.setattr(command, "_fleet", lambda _, release: release)
    command.watch(file, BUCKET, None, "triton", Limits(watch=0), take_back=False)
    assert found == [("a", "triton-a", {"adder": 1}, []), ("b", "triton-b", {"adder": 1}, ["adder"])]


def test_a_candidate_is_not_watched_beside_the_release(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_blue_green(tmp_path / "stacks")
    old, new = (publish(store, tmp_path / "repository", model(version=version)) for version in (1, 2))
    pin(file, old)
    candidate.add(file, new, None)
    found = []

    def watching(_: object, fleets: list[Watched], *__: object) -> Seen:
        found.extend((one.fleet, one.versions, one.asked) for one in fleets)
        return Seen([], [], [])

    monkeypatch.setattr(command, "watch_fleets", watching)
    monkeypatch.setattr(command, "_fleet", lambda _, release: release)
    command.watch(file, BUCKET, None, "triton", Limits(watch=0), take_back=False)
    assert found == [("triton-blue", {"adder": 1}, ["adder"])]


def test_pods_that_have_no_time_leave_a_release_unjudged(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_stack(tmp_path / "stacks", {})
    release = publish(store, tmp_path / "repository", model())
    pin(file, release)
    end = threading.Event()

    def hangs(_: str) -> tuple[int, dict[str, Any]]:
        end.wait(10)
        return out(1.0)

    monkeypatch.setitem(PodClient._ask.__kwdefaults__, "seconds", 0.1)
    with answering_pod(lambda _: FULL) as full, answering_pod(hangs, "b") as hanging:
        monkeypatch.setattr(command, "_fleet", lambda *_: IdleFleet([full, hanging]))
        before = file.read_text()
        with pytest.raises(Failure) as failure:
            command.watch(file, BUCKET, None, "triton", Limits(watch=0), take_back=True)
        end.set()

    asked = "where its golden inferences were asked for"
    assert (failure.value.exit_code, str(failure.value)) == (
        3,
        f"release {release.id} is not judged in 0 s: a: Exceeds maximum queue size, {asked}; b: no answer in time, {asked}; "
        "adder version 1 got 0 of 100 requests; it stays",
    )
    assert file.read_text() == before


def test_a_release_that_was_pinned_meanwhile_stays(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_stack(tmp_path / "stacks", {})
    earlier = publish(store, tmp_path / "repository", model())
    watched = publish(store, tmp_path / "repository", model(version=2))
    later = publish(store, tmp_path / "repository", model(version=3))
    for manifest in (earlier, watched):
        pin(file, manifest)

    def wrong(_: str) -> tuple[int, dict[str, Any]]:
        pin(file, later)  # by another user
        return out(7.0)

    with answering_pod(wrong) as pod:
        monkeypatch.setattr(command, "_fleet", lambda *_: IdleFleet([pod]))
        with pytest.raises(Failure) as failure:
            command.watch(file, BUCKET, None, "triton", Limits(watch=0), take_back=True)

    assert (failure.value.exit_code, str(failure.value)) == (
        1,
        f"release {watched.id} is bad: a: adder version 2 answers wrongly: OUT[0] is 7.0, expected 1.0 (tolerance 1e-05); "
        f"it is not taken back: {file}: the pin has changed meanwhile, from release {watched.id} to {later.id}; nothing was "
        "written",
    )
    now = pinned(file)
    assert now is not None and (now.id, now.previous) == (later.id, watched.id)
