"""Mistakes about the controller of pod and node counts."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.spec.stack_config import REMOVED, complaints, settings
from tests.spec.test_stack_mistakes_access import gateway
from tests.spec.test_stack_mistakes_worker import BY_HAND
from twin.replay.cron import Cron

CLASSIFY = {"device": "cpu", "sloP95Ms": 50, "expectedRate": 40, "peakRate": 120}
PROMETHEUS = "http://prometheus.observability.svc:9090"
SCALED: dict[str, Any] = {
    "nodes.autoscaler": "none",
    "triton.autoscaler": "keda",
    "triton.replicas": REMOVED,
    "models.serving": {"classify": CLASSIFY},
    "models.release": REMOVED,
    "autoscaling": {"minReplicas": 1, "maxReplicas": 2, "prometheusUrl": PROMETHEUS},
}
MONITORED = {
    "monitoring": {"runbooks": "https://wiki.example.com/triton", "replicas": 1, "retentionDays": 15, "storageGiB": 50}
}
HPA = {**SCALED, "triton.autoscaler": "hpa"}
KARPENTER: dict[str, Any] = {
    "nodes.autoscaler": "karpenter",
    "gpu.pools[0].min": 0,
    "gpu.pools[0].desired": 0,
    "triton.replicas": 4,
}


def scaling(**keys: Any) -> dict[str, Any]:
    return {**SCALED["autoscaling"], **keys}


PIPELINE = {
    "id": "0123456789ab" + 52 * "0",
    "bytes": 1,
    "models": {"pipeline": 1, "normalize": 1, "classify": 1},
    "ensembles": {"pipeline": ["normalize", "classify"]},
}
CHANGED = (
    "models.release.serving: models.serving, or the kind of GPU of Triton's pool, changed since release 0123456789ab was "
    "made; run `python -m modelctl release … --pin stacks/Pulumi.staging.yaml`"
)
FLOOR = {"start": "0 7 * * 1-5", "end": "0 19 * * 1-5", "timezone": "Europe/Zurich", "replicas": 2}

MISTAKES: list[tuple[dict[str, Any], list[str]]] = [
    (
        {"triton.replicas": REMOVED},
        [
            "triton.replicas: is missing; nobody else sets the number of pods while autoscaler is none; "
            "give it, or the section autoscaling, within whose bounds KEDA sets it"
        ],
    ),
    (
        {"triton.autoscaler": "none", "autoscaling": scaling()},
        [
            "autoscaling: nothing reads it while triton.autoscaler is none; remove it, or use autoscaler: keda or hpa",
        ],
    ),
    (
        {**SCALED, "triton.autoscaler": None, "triton.replicas": 2},
        [
            "triton.replicas: KEDA owns the number of pods, and every `pulumi up` would reset it; "
            "remove it, and give autoscaling.minReplicas and maxReplicas"
        ],
    ),
    (
        {**SCALED, "autoscaling": None},
        ["autoscaling: is missing; KEDA needs it: give minReplicas and maxReplicas"],
    ),
    (
        {**SCALED, "models.serving": {}},
        ["models.serving: is empty, so that nothing says what a pod can carry; add the models that Triton is scaled on"],
    ),
    (
        {**SCALED, "autoscaling": {"minReplicas": 1, "prometheusUrl": PROMETHEUS}},
        ["autoscaling.maxReplicas: is missing; give the most pods, like 8"],
    ),
    (
        {**SCALED, "autoscaling": {"minReplicas": 1, "maxReplicas": 2}},
        [
            "autoscaling.prometheusUrl: is missing; without the section monitoring there is no Prometheus to ask: "
            "add it, or give the URL of your own"
        ],
    ),
    (
        {**SCALED, "autoscaling": scaling(prometheusUrl="prometheus:9090/api")},
        [
            "autoscaling.prometheusUrl: 'prometheus:9090/api' is not the address of a Prometheus; "
            "give one like http://prometheus.observability.svc:9090"
        ],
    ),
    (
        {**SCALED, "autoscaling": scaling(minReplicas=3)},
        ["autoscaling.minReplicas: 3 is more than maxReplicas 2; give 0 to 2"],
    ),
    (
        {**SCALED, "autoscaling": scaling(minReplicas=-1)},
        ["autoscaling.minReplicas: -1 is out of range; use 0 to 1000 pods"],
    ),
    (
        {**SCALED, "autoscaling": scaling(minReplicas=0)},
        [
            "autoscaling.minReplicas: nothing would start the first pod of 0: a message in the request queue does, and a "
            "request at a gateway whose Envoys Prometheus watches; give 1 or more, or add the section worker, or the "
            "sections gateway and monitoring"
        ],
    ),
    (
        {**HPA, "worker": BY_HAND, "autoscaling": scaling(minReplicas=0)},
        [
            "autoscaling.minReplicas: a HorizontalPodAutoscaler never starts a first pod; give 1 or more, or use KEDA",
        ],
    ),
    (
        {**SCALED, "autoscaling": scaling(maxReplicas=3)},
        [
            "autoscaling.maxReplicas: 3 pods do not fit the 2 desired nodes of pool 'g5', 1 on each, and nothing adds nodes "
            "by itself; raise the pool's desired to 3, or use at most 2 replicas"
        ],
    ),
    (
        {**SCALED, "nodes.autoscaler": "cluster-autoscaler", "autoscaling": scaling(maxReplicas=5)},
        [
            "autoscaling.maxReplicas: 5 pods do not fit the 4 nodes at most of pool 'g5', 1 on each; "
            "raise the pool's max to 5, or use at most 4 replicas"
        ],
    ),
    (
        {**SCALED, "autoscaling": scaling(cronFloor={**FLOOR, "replicas": 9})},
        [
            "autoscaling.cronFloor.replicas: 9 is out of bounds; give 1 to 2",
        ],
    ),
    (
        {**SCALED, "autoscaling": scaling(cronFloor={**FLOOR, "start": "7", "timezone": "Europe/Zuerich"})},
        [
            "autoscaling.cronFloor.start: '7' is not a cron expression of five fields; "
            'give minute, hour, day, month and weekday in quotes, like "0 7 * * 1-5"',
            "autoscaling.cronFloor.timezone: 'Europe/Zuerich' is not a time zone; did you mean 'Europe/Zurich'? "
            "give a name of the IANA time zone database, like Europe/Zurich",
        ],
    ),
    (
        {**SCALED, "autoscaling": scaling(cronFloor={**FLOOR, "start": "60 7 * * 1-8", "end": "0 7-19/0 * foo mon-fri"})},
        [
            "autoscaling.cronFloor.start: '60' is no value for the minute; use 0 to 59, like *, 1, 1-5, 1,3 or */2",
            "autoscaling.cronFloor.end: '7-19/0' is no value for the hour; use 0 to 23, like *, 1, 1-5, 1,3 or */2",
        ],
    ),
    (
        {**SCALED, "autoscaling": scaling(cronFloor={**FLOOR, "start": "0 7 * foo 1", "end": "0 9 * * fri-mon"})},
        [
            "autoscaling.cronFloor.start: 'foo' is no value for the month; use 1 to 12 or jan to dec, like *, 1, 1-5, "
            "1,3 or */2",
            "autoscaling.cronFloor.end: 'fri-mon' is no value for the weekday; use 0 to 6 or sun to sat, like *, 1, 1-5, "
            "1,3 or */2",
        ],
    ),
    (
        {**SCALED, "autoscaling": scaling(cronFloor={**FLOOR, "end": FLOOR["start"]})},
        ["autoscaling.cronFloor.end: it begins and ends at '0 7 * * 1-5'; give another end"],
    ),
    (
        {**SCALED, "autoscaling": scaling(cronFloor={**FLOOR, "start": "0 19 * * 1,3", "end": "30 7 * * 1,3"})},
        [
            "autoscaling.cronFloor.end: '30 7 * * 1,3' comes before '0 19 * * 1,3' on each of its days, so that it would "
            "hold until the next one; give a later time of the day, or the days after for a night"
        ],
    ),
    (
        {**SCALED, "autoscaling": scaling(cronFloor={**FLOOR, "start": "0 7,9 * * *", "end": "0,30 19 * * *"})},
        [
            "autoscaling.cronFloor.start: '0 7,9 * * *' begins twice, at 07:00 and 09:00, with no end between; leave one of "
            "them out",
            "autoscaling.cronFloor.end: '0,30 19 * * *' ends twice, at 19:00 and 19:30, with no start between; leave one of "
            "them out",
        ],
    ),
    (
        {**HPA, "autoscaling": scaling(cronFloor=FLOOR)},
        [
            "autoscaling.cronFloor: a HorizontalPodAutoscaler knows no time of day; remove it, or use KEDA",
        ],
    ),
    (
        {**HPA, "autoscaling": scaling(sparePods=1)},
        [
            "autoscaling.sparePods: a HorizontalPodAutoscaler adds nothing to what its pods have on average; remove it, or "
            "use KEDA",
        ],
    ),
    (
        {**SCALED, "autoscaling": scaling(sparePods=2)},
        ["autoscaling.sparePods: 2 leave none of maxReplicas 2 to follow a load; give 0 to 1"],
    ),
    (
        {**SCALED, "autoscaling": scaling(targets={"clasify": {"pending": 4}})},
        ["autoscaling.targets.clasify: models.serving has no 'clasify'; did you mean 'classify'? use classify"],
    ),
    (
        {
            **SCALED,
            "models.serving": {"pipeline": CLASSIFY, "classify": CLASSIFY},
            "models.release": {**PIPELINE, "serving": "000000000000"},
            "autoscaling": scaling(targets={"pipeline": {"pending": 4}}),
        },
        [
            CHANGED,
            "autoscaling.targets.pipeline: is an ensemble, and pods are scaled on its steps; give targets of those "
            "(normalize, classify), or remove it",
        ],
    ),
    (
        {
            **SCALED,
            "models.serving": {"pipeline": CLASSIFY},
            "models.release": {**PIPELINE, "selfPlaced": ["normalize", "classify"], "serving": "000000000000"},
        },
        [
            "models.serving: has ensembles alone (pipeline), and it is their steps that pods are scaled on; add one at "
            "least of normalize, classify",
            CHANGED,
        ],
    ),
    (
        {**SCALED, "autoscaling": scaling(targets={"classify": {"pending": 0, "busy": 0.01}})},
        [
            "autoscaling.targets.classify.pending: 0 is out of range; use 1 to 100000 requests per pod",
            "autoscaling.targets.classify.busy: 0.01 is out of range; use 0.05 to 512 busy instances per pod",
        ],
    ),
    (
        {**SCALED, "autoscaling": scaling(warmPods=1)},
        [
            "autoscaling.warmPods: nothing starts nodes for them while nodes.autoscaler is none; "
            "use 0, or karpenter or cluster-autoscaler"
        ],
    ),
    (
        {**KARPENTER, "nodes.system.min": 1},
        [
            "nodes.system.min: 1 node cannot hold both of Karpenter's pods, which refuse to share one; use at least 2",
        ],
    ),
    (
        {**KARPENTER, "gpu.pools[0].min": 1, "gpu.pools[0].desired": 2},
        [
            "gpu.pools[0].min: Karpenter starts nodes for pods and keeps none without; use 0 instead of 1, "
            "and autoscaling.warmPods for nodes that wait; "
            "or nodes.autoscaler: cluster-autoscaler or none, for node groups",
            "gpu.pools[0].desired: Karpenter starts nodes for pods and keeps none without; use 0 instead of 2, "
            "and autoscaling.warmPods for nodes that wait; "
            "or nodes.autoscaler: cluster-autoscaler or none, for node groups",
        ],
    ),
    (
        {**KARPENTER, "gpu.pools[1].sharing": {"strategy": "mps", "replicas": 2}},
        [
            "gpu.pools[1].sharing: Karpenter does not know that a new node will offer shares of its GPUs, and starts none "
            "for pods that want one; use exclusive, or nodes.autoscaler: cluster-autoscaler"
        ],
    ),
    ({"nodes.autoscaler": "both"}, ["nodes.autoscaler: 'both' is not a choice; use none, karpenter or cluster-autoscaler"]),
]


@pytest.mark.parametrize(("changes", "expected"), MISTAKES, ids=[str(expected) for _, expected in MISTAKES])
def test_a_mistake_is_said_where_it_is_and_with_what_is_valid(changes: dict[str, Any], expected: list[str]) -> None:
    assert complaints(changes) == expected


def test_prod_keeps_two_pods_whoever_scales_them() -> None:
    said = complaints({**SCALED, "nodes.autoscaler": "cluster-autoscaler"}, stack="prod")
    assert (
        "autoscaling.minReplicas: prod invariant 'two replicas': 1 pod is an outage at every restart; use 2 or more" in said
    )


def test_nodes_that_an_autoscaler_adds_make_room_for_fixed_pods() -> None:
    assert settings(KARPENTER).triton.replicas == 4


def test_keda_owns_the_pods_where_there_are_bounds_and_karpenter_the_nodes_where_pods_are_scaled() -> None:
    fixed = settings()
    assert (fixed.pod_autoscaler, fixed.node_autoscaler) == ("none", "none")
    unsaid = {
        **SCALED,
        "triton.autoscaler": None,
        "nodes.autoscaler": None,
        "gpu.pools[0].min": 0,
        "gpu.pools[0].desired": 0,
    }
    scaled = settings(unsaid)
    assert (scaled.pod_autoscaler, scaled.node_autoscaler) == ("keda", "karpenter")
    by_hpa = settings({**unsaid, "triton.autoscaler": "hpa"})
    assert (by_hpa.pod_autoscaler, by_hpa.node_autoscaler) == ("hpa", "karpenter")
    groups = settings({**unsaid, "nodes.autoscaler": "cluster-autoscaler"})
    assert (groups.pod_autoscaler, groups.node_autoscaler) == ("keda", "cluster-autoscaler")


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("0 7 * * 1-5", "0 19 * * 1-5"),
        ("0 19 * * *", "0 7 * * *"),
        ("0 19 * * 1-5", "0 7 * * 1-5"),  # nights, and the weekend
        ("0 19 * * 1", "0 7 * * 2"),
        ("0 7,14 * * *", "0 12,19 * * *"),
        ("*/20 * * * *", "10-59/20 * * * *"),
        ("0 7 1 * *", "0 19 1 * *"),
        ("0 7 * * 1", "0 19 * * 5"),  # a week
        ("0 7 1 * *", "0 19 15 * *"),
        ("0 7 29 2 *", "0 7 1 3 *"),
        ("0 7 * * 1-5", "0 7 * * 2-6"),
    ],
)
def test_a_floor_may_hold_over_night_and_several_times_a_day(start: str, end: str) -> None:
    floor = settings({**SCALED, "autoscaling": scaling(cronFloor={**FLOOR, "start": start, "end": end})})
    assert floor.autoscaling is not None and floor.autoscaling.cron_floor is not None


@pytest.mark.parametrize(
    ("start", "end", "said"),
    [
        ("* * * * *", "0 19 * * 1-5", "start: '* * * * *' begins twice, at Sat 2028-01-01 00:00 and Sat 2028-01-01 00:01"),
        ("0 7 * * 1-5", "0 19 * * 5", "start: '0 7 * * 1-5' begins twice, at Mon 2028-01-03 07:00 and Tue 2028-01-04 07:00"),
        ("0 7 * * 1-5", "0 19 * * *", "end: '0 19 * * *' ends twice, at Sat 2028-01-01 19:00 and Sun 2028-01-02 19:00"),
        (
            "0 7 1,15 * *",
            "0 19 28 * *",
            "start: '0 7 1,15 * *' begins twice, at Sat 2028-01-01 07:00 and Sat 2028-01-15 07:00",
        ),
    ],
)
def test_a_start_and_an_end_on_other_days_take_turns(start: str, end: str, said: str) -> None:
    (told,) = complaints({**SCALED, "autoscaling": scaling(cronFloor={**FLOOR, "start": start, "end": end})})
    assert told.startswith(f"autoscaling.cronFloor.{said}")
    # By the port of KEDA's trigger, it does not do what the user intended.
    cron = Cron({"start": start, "end": end, "timezone": "UTC", "desiredReplicas": "2"})
    first, second = (
        datetime.strptime(found, "%Y-%m-%d %H:%M").replace(tzinfo=UTC).timestamp()
        for found in re.findall(r"\d{4}-\d\d-\d\d \d\d:\d\d", told)
    )
    assert (cron.value((first + second) / 2) == 2) == said.startswith("end")


def test_pods_that_share_a_gpu_are_warned_about() -> None:
    sharing = {"gpu.pools[0].sharing": {"strategy": "mps", "replicas": 2}, "triton.memoryGiB": 6, "triton.cpu": "1"}
    (warning,) = [found for found in settings({**SCALED, **sharing}).warnings if found.path == "triton.autoscaler"]
    assert warning.message.startswith(
        "2 pods share a GPU of pool 'g5' by mps: a second pod on the same GPU adds no capacity"
    )


def test_the_fewest_pods_are_those_of_their_owner() -> None:
    assert settings().fewest_pods == 2
    assert settings({**SCALED, "autoscaling": scaling(minReplicas=2)}).fewest_pods == 2
    assert settings({**SCALED, "worker": BY_HAND, "autoscaling": scaling(minReplicas=0)}).fewest_pods == 0


def test_a_gateway_before_a_fleet_that_may_have_no_pod_is_warned_of() -> None:
    to_zero = {**SCALED, "worker": BY_HAND, "autoscaling": scaling(minReplicas=0)}
    assert not [found for found in settings(to_zero).warnings if found.path == "autoscaling.minReplicas"]
    (warning,) = [found for found in settings({**to_zero, **gateway()}).warnings if found.path == "autoscaling.minReplicas"]
    assert warning.message.startswith("is 0: while there is no pod the gateway answers 503, and without the section monitor")
    woken = settings({**to_zero, **gateway(), **MONITORED})
    assert not [found for found in woken.warnings if found.path == "autoscaling.minReplicas"]


@pytest.mark.parametrize(
    ("changes", "woken"),
    [
        ({**gateway(), **MONITORED, "autoscaling": scaling(minReplicas=0)}, True),
        ({**gateway(), **MONITORED}, False),
        ({**gateway(), "worker": BY_HAND, "autoscaling": scaling(minReplicas=0)}, False),
        ({**MONITORED, "worker": BY_HAND, "autoscaling": scaling(minReplicas=0)}, False),
    ],
    ids=["gateway and Prometheus", "one pod at least", "no Prometheus", "no gateway"],
)
def test_a_request_starts_the_first_pod_where_the_gateway_has_a_prometheus(changes: dict[str, Any], woken: bool) -> None:
    assert settings({**SCALED, **changes}).woken_at_gateway is woken
