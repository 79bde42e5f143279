"""Two releases on two Deployments (`triton.rollout: blue-green`) in a stack file: each release, and every mistake."""

from typing import Any

import pytest

from spec.settings import Release, Settings
from spec.settings.digest import digest_of
from spec.settings.fleets import Fleet
from tests.infra.test_fleets import GATEWAY
from tests.spec.stack_config import DIGEST, ECR, REMOVED, complaints, settings
from tests.spec.test_stack_mistakes_monitoring import SECTION as MONITORING
from tests.spec.test_stack_mistakes_worker import BY_HAND

RELEASE = {"id": "3f2a9c1b7d04" + 52 * "0", "bytes": 123456, "models": {"classify": 1, "detect": 1}}
NEXT = {"id": "aaaaaaaaaaaa" + 52 * "0", "bytes": 223456, "models": {"classify": 1, "embed": 1}}
BLUE_GREEN: dict[str, Any] = {
    "triton.rollout": "blue-green",
    "gateway": GATEWAY,
    "gpu.pools[0].desired": 4,
    "gpu.pools[0].max": 4,
    "models.release": RELEASE,
}
SCALED: dict[str, Any] = {
    "triton.replicas": REMOVED,
    "autoscaling": {"minReplicas": 2, "maxReplicas": 8},
    "nodes.autoscaler": "karpenter",
    "models.serving": {"classify": {"device": "cpu", "sloP95Ms": 50, "expectedRate": 10, "peakRate": 40}},
    "nodes.system.instanceTypes": ["m7i.2xlarge"],
    "monitoring": {"runbooks": "https://wiki.example.com/triton", "replicas": 1, "retentionDays": 15, "storageGiB": 50},
    "gpu.pools[0].min": 0,
    "gpu.pools[0].desired": 0,
    "gpu.pools[0].max": 16,
}
WITH_CANDIDATE = {**BLUE_GREEN, "models.candidate": {"release": NEXT, "percent": 5}}


def fleets(changes: dict[str, Any]) -> tuple[Fleet[Settings], ...]:
    return settings(changes).each_fleet


def told(fleet: Fleet[Settings]) -> tuple[str, str | None, int, bool]:
    release = fleet.stack.models.release
    return fleet.release, release and release.id, fleet.weight("classify"), fleet.candidate


def test_a_release_is_one_fleet_in_its_slot_which_is_the_stack() -> None:
    (only,) = fleets(BLUE_GREEN)
    assert told(only) == ("triton-blue", RELEASE["id"], 1, False)
    assert only.deployment == "triton-blue"
    (green,) = fleets({**BLUE_GREEN, "models.slot": "green"})
    assert told(green) == ("triton-green", RELEASE["id"], 1, False)


@pytest.mark.parametrize(("slot", "names"), [("blue", ("blue", "green")), ("green", ("green", "blue"))])
def test_a_candidate_is_a_fleet_in_the_other_slot_with_its_part_of_the_requests(slot: str, names: tuple[str, str]) -> None:
    release, candidate = fleets({**WITH_CANDIDATE, "models.slot": slot})
    assert told(release) == (f"triton-{names[0]}", RELEASE["id"], 95, False)
    assert told(candidate) == (f"triton-{names[1]}", NEXT["id"], 5, True)
    assert [candidate.serves(model) for model in ("classify", "detect", "embed")] == [True, False, True]
    assert release.stack.models.candidate is None and candidate.stack.models.candidate is None


@pytest.mark.parametrize(("pods", "fewest"), [(None, 2), (1, 2), (3, 3), (8, 8)])
def test_both_have_as_many_pods_as_there_were(pods: int | None, fewest: int) -> None:
    candidate: dict[str, Any] = {} if pods is None else {"pods": pods}
    unpinned = {**BLUE_GREEN, **SCALED, "models.release": REMOVED}
    made_from = digest_of(settings(unpinned).models, (8.6,))
    release = {**RELEASE, "serving": made_from}
    candidate["release"] = {**NEXT, "serving": made_from}
    scaled = {**unpinned, "models.release": release, "models.candidate": candidate}
    assert [fleet.stack.fewest_pods for fleet in fleets(scaled)] == [fewest, fewest]


NO_ROOM = (
    "gpu.pools[0].desired: 3 nodes hold the pods of one release, which fill 2, and rollout: blue-green runs two at a time; "
    "give 4, or use rollout: rolling"
)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"triton.rollout": "rolling"},
            "models.candidate: rollout: rolling has one Deployment, where there is no place for it; remove it, or use "
            "rollout: blue-green",
        ),
        (
            {"triton.rollout": "rolling", "models.candidate": None, "models.slot": "green"},
            "models.slot: rollout: rolling has one Deployment without a slot; remove it, or use rollout: blue-green",
        ),
        (
            {"gateway": None},
            "triton.rollout: blue-green shares the requests of a model by the gateway, and there is none; add it, or use "
            "rollout: rolling",
        ),
        ({"gpu.pools[0].desired": 3}, NO_ROOM),
        ({"gpu.pools[0].desired": 3, "models.candidate": None}, NO_ROOM),
        (
            {"models.release": REMOVED},
            "models.candidate: there is no models.release that it could replace; pin it as models.release",
        ),
        (
            {"models.candidate.release.id": RELEASE["id"]},
            "models.candidate.release.id: 3f2a9c1b7d04 is models.release itself; remove the candidate",
        ),
        (
            {"models.candidate.release.previous": "bbbbbbbbbbbb" + 52 * "0"},
            "models.candidate.release.previous: a candidate comes after models.release, whichever that is; remove it",
        ),
        (
            {"models.candidate.pods": 2},
            "models.candidate.pods: triton.replicas says how many pods each release has; remove it",
        ),
        (
            {"models.candidate.release.serving": "0123456789ab"},
            "models.candidate.release.serving: release aaaaaaaaaaaa was made from another models.serving, or for other "
            "GPUs, than 3f2a9c1b7d04, and the stack has one for both; roll the change of models.serving out by itself "
            "first: `python -m modelctl release … --pin stacks/Pulumi.staging.yaml`, then `pulumi up`",
        ),
        (
            {"models.candidate.release.bytes": 10**12},
            "models.candidate.release.bytes: with models.candidate: 1000000000000 bytes make a pod ask for",
        ),
        ({"models.candidate.percent": 101}, "models.candidate.percent: 101 is out of range; use 0 to 100 percent"),
        (
            {"models.candidate.mirrorPercent": 20},
            "models.candidate.mirrorPercent: the candidate has 5 % of the requests, and copies are for one that nobody "
            "asks; remove it, or set percent: 0",
        ),
        (
            {"models.candidate.percent": 0, "models.candidate.mirrorPercent": 101},
            "models.candidate.mirrorPercent: 101 is out of range; use 0 to 100 percent",
        ),
        ({"models.slot": "red"}, "models.slot: 'red' is not a choice; use blue or green"),
    ],
)
def test_mistakes(changes: dict[str, Any], said: str) -> None:
    (found,) = complaints({**WITH_CANDIDATE, **changes})
    assert found.startswith(said)


@pytest.mark.parametrize(("percent", "parts"), [(0, (100, 0)), (5, (100, 0)), (99, (100, 0)), (100, (0, 100))])
def test_a_model_of_sequences_goes_to_the_candidate_with_all_requests_or_none(percent: int, parts: tuple[int, int]) -> None:
    serving = {"device": "cpu", "sloP95Ms": 50, "expectedRate": 10, "peakRate": 40}
    entries = {"classify": {**serving, "sequence": {"strategy": "direct"}}, "embed": serving}
    pinned = {**RELEASE, "models": {"classify": 1, "embed": 1, "pipeline": 1}, "asks": {"pipeline": ["embed", "classify"]}}
    asking = {**BLUE_GREEN, "models.serving": entries}
    models = settings({**asking, "models.release": REMOVED}).models
    pinned["serving"] = digest_of(models.with_release(Release.model_validate(pinned, strict=False)), (8.6,))
    tried = {"release": {**pinned, "id": NEXT["id"]}, "percent": percent}
    release, candidate = fleets({**asking, "models.release": pinned, "models.candidate": tried})
    for model in ("classify", "pipeline"):  # the pipeline calls the former in its own server
        assert (release.weight(model), candidate.weight(model)) == parts
    assert (release.weight("embed"), candidate.weight("embed")) == (100 - percent, percent)


def test_a_mistake_of_both_is_told_once() -> None:
    assert len(complaints({**WITH_CANDIDATE, "triton.cpu": "64"})) == len(complaints({**BLUE_GREEN, "triton.cpu": "64"})) > 0


def test_a_candidate_has_pods_to_prove_itself_on() -> None:
    to_zero = {
        **BLUE_GREEN,
        **SCALED,
        "models.release": REMOVED,
        "worker": BY_HAND,
        "autoscaling": {"minReplicas": 0, "maxReplicas": 8},
    }
    assert (
        "autoscaling.minReplicas: a candidate of blue-green proves itself on its pods; give 1 or more, or use "
        "rollout: rolling" in complaints(to_zero)
    )


MODELCTL = f"{ECR}/modelctl@{DIGEST}"
COMPARED: dict[str, Any] = {
    **WITH_CANDIDATE,
    "triton.comparerImage": MODELCTL,
    "models.candidate.percent": 0,
    "models.candidate.mirrorPercent": 20,
    "models.candidate.mirrorTolerances": {"classify": 1e-5},
}


def test_answers_to_copies_are_compared_by_an_image_of_modelctl() -> None:
    assert settings(BLUE_GREEN).triton.comparer_image is None
    candidate = settings(COMPARED).models.candidate
    assert candidate is not None
    assert candidate.mirror_tolerances == {"classify": 1e-5}
    settings({**BLUE_GREEN, "triton.comparerImage": MODELCTL})


def test_pods_of_each_release_are_compared_with_one_another() -> None:
    """Parity counts by fleet; blue and green are separate fleets."""
    compared = settings({**WITH_CANDIDATE, "monitoring": {**MONITORING, "parityImage": MODELCTL}})
    assert compared.monitoring and compared.monitoring.parity_image == MODELCTL
    assert [fleet.release for fleet in compared.each_fleet] == ["triton-blue", "triton-green"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"triton.comparerImage": f"{ECR}/modelctl:1.0"},
            f"triton.comparerImage: '{ECR}/modelctl:1.0' is not an image of modelctl by its digest: its path has to end in "
            "/modelctl; give <mirror>/modelctl@sha256:<64 hex digits> (`crane digest` prints it)",
        ),
        (
            {"triton.comparerImage": None},
            "models.candidate.mirrorTolerances: nothing compares answers without triton.comparerImage; give that, or remove "
            "this",
        ),
        (
            {"models.candidate.mirrorPercent": 0},
            "models.candidate.mirrorTolerances: there are no copies whose answers could be compared; remove it",
        ),
        (
            {"models.candidate.mirrorTolerances": {"detect": 0}},
            "models.candidate.mirrorTolerances.detect: release aaaaaaaaaaaa has no such model; remove the line",
        ),
        (
            {"models.candidate.mirrorTolerances": {"classify": 0.6}},
            "models.candidate.mirrorTolerances.classify: 0.6 is out of range; use 0 to 0.5 of a number, or of 1",
        ),
        (
            {"models.release": {**RELEASE, "decoupled": ["classify"]}},
            "models.candidate.mirrorTolerances.classify: a request of it has any number of answers, and those of streams "
            "are not compared; remove the line",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(changes: dict[str, Any], said: str) -> None:
    assert said in complaints({**COMPARED, **changes})


def test_other_rollouts_have_nothing_to_compare() -> None:
    assert complaints({"triton.comparerImage": MODELCTL}) == [
        "triton.comparerImage: rollout: rolling has no copies of requests whose answers could be compared; remove it, or "
        "use rollout: blue-green"
    ]
