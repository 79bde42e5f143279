"""The objects that scale Triton (ScaledObject and HorizontalPodAutoscaler), and the speed at which they may scale."""

from typing import Any

import pulumi
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra import app
from infra.platform.dashboards.scaling import scaling as scaling_board
from infra.serving.scaling import first_pod_trigger
from spec.prometheus.timing import NODE_START_SECONDS, pod_start_seconds, start_seconds, timing
from spec.scaling.behavior import assumptions, behavior
from spec.scaling.manifests import autoscaler_spec, scaled_object_spec
from tests import crds, triggers
from tests.infra.access import stack
from tests.spec.stack_config import settings
from tests.spec.test_stack_mistakes_access import gateway
from tests.spec.test_stack_mistakes_autoscaling import CLASSIFY, FLOOR, HPA, MONITORED, PROMETHEUS, SCALED, scaling
from tests.spec.test_stack_mistakes_worker import KEDA

TWO_MODELS = {"models.serving": {"classify": CLASSIFY, "embed.v2": {**CLASSIFY, "instances": 2}}}


def scaled_object(**keys: Any) -> dict[str, Any]:
    read = settings({**SCALED, **TWO_MODELS, "autoscaling": scaling(**keys)})
    return scaled_object_spec(read, PROMETHEUS)


def manifest(spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "triton"}, "spec": spec}


def test_the_most_demanding_number_of_the_most_loaded_model_decides() -> None:
    triggers = scaled_object()["triggers"]
    assert [(item["name"], item["metadata"]["threshold"]) for item in triggers] == [
        ("pending-classify", "8"),
        ("busy-classify", "0.8"),
        ("pending-embed.v2", "16"),
        ("busy-embed.v2", "1.6"),
    ]
    assert {item["metricType"] for item in triggers} == {"AverageValue"}
    assert {item["metadata"]["ignoreNullValues"] for item in triggers} == {"false"}


def test_an_outage_of_prometheus_takes_no_pod_away() -> None:
    assert scaled_object()["fallback"] == {"failureThreshold": 12, "replicas": 1, "behavior": "currentReplicasIfHigher"}
    assert scaled_object(minReplicas=2)["fallback"]["replicas"] == 2


def to_zero() -> dict[str, Any]:
    """Return the ScaledObject of a fleet that may scale to zero."""
    read = settings({**SCALED, "worker": KEDA, "autoscaling": scaling(minReplicas=0)})
    assert read.worker is not None
    spec = scaled_object_spec(read, PROMETHEUS)
    return {**spec, "triggers": [*spec["triggers"], first_pod_trigger(stack(), read.worker, "triton")]}


def test_a_fleet_without_pods_gets_its_first_by_a_message_and_no_second() -> None:
    spec = to_zero()
    assert (spec["minReplicaCount"], spec["fallback"]["replicas"], spec["cooldownPeriod"]) == (0, 1, 600)
    assert spec["cooldownPeriod"] == behavior(settings(SCALED))["scaleDown"]["stabilizationWindowSeconds"]
    *of_pods, queue = spec["triggers"]
    assert {trigger["metadata"]["ignoreNullValues"] for trigger in of_pods} == {"true"}, "no pod, no number: that is 0"
    assert queue["authenticationRef"] == {"name": "triton"}
    assert (queue["metadata"]["queueLength"], queue["metadata"]["activationQueueLength"]) == ("1000000", "0")
    assert crds.problems("keda", manifest(spec)) == []
    assert [problem for trigger in spec["triggers"] for problem in triggers.problems(trigger)] == []


def test_the_last_pod_stays_for_longer_than_a_fleet_under_load_looks_idle_while_prometheus_fails() -> None:
    """The fallback counts as activity. The test adds a poll during which KEDA recreates its scalers."""

    def last_pod(after: int) -> tuple[int, int]:
        bounds = scaling(minReplicas=0, scaleDownAfterSeconds=after)
        spec = scaled_object_spec(settings({**SCALED, "worker": KEDA, "autoscaling": bounds}), PROMETHEUS)
        looks = spec["fallback"]["failureThreshold"] + 1 + 1
        return spec["cooldownPeriod"], looks * spec["pollingInterval"]

    assert [last_pod(after) for after in (1, 60, 74, 76)] == [(75, 70), (75, 70), (75, 70), (76, 70)]


def test_a_fleet_behind_a_gateway_gets_its_first_pod_by_a_request_that_found_none_and_keeps_it_until_it_can_answer() -> None:
    bounds = scaling(minReplicas=0, startSeconds=900, scaleDownAfterSeconds=60)
    spec = scaled_object_spec(settings({**SCALED, **gateway(), **MONITORED, "autoscaling": bounds}), PROMETHEUS)
    *of_pods, requests = spec["triggers"]
    assert (requests["name"], requests["metricType"]) == ("requests-without-a-pod", "AverageValue")
    assert requests["metadata"] == {
        "serverAddress": PROMETHEUS,
        "query": 'sum(increase(envoy_http_rq_direct_response{namespace="envoy-gateway-system",job="envoy",'
        'envoy_http_conn_manager_prefix=~"https?-[0-9]+"}[1m]))',
        "threshold": "1000000",
        "activationThreshold": "0",
        "ignoreNullValues": "false",
    }
    assert spec["cooldownPeriod"] == 900, "not the 60 s in which fewer pods have to be enough"
    assert {trigger["metadata"]["ignoreNullValues"] for trigger in of_pods} == {"true"}
    assert crds.problems("keda", manifest(spec)) == []
    assert triggers.problems(requests) == []


def test_a_floor_in_working_hours_is_one_more_trigger() -> None:
    assert scaled_object(cronFloor=FLOOR)["triggers"][-1] == {
        "type": "cron",
        "name": "floor",
        "metadata": {
            "timezone": "Europe/Zurich",
            "start": "0 7 * * 1-5",
            "end": "0 19 * * 1-5",
            "desiredReplicas": "2",
        },
    }


def test_both_owners_have_the_same_bounds_pace_and_target() -> None:
    read = settings({**HPA, **TWO_MODELS})
    hpa, keda = autoscaler_spec(read), scaled_object()
    assert hpa["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "triton"}
    assert keda["scaleTargetRef"] == {"name": "triton"}
    assert (hpa["minReplicas"], hpa["maxReplicas"]) == (keda["minReplicaCount"], keda["maxReplicaCount"]) == (1, 2)
    pace = keda["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert hpa["behavior"]["scaleDown"] == pace["scaleDown"]
    assert hpa["behavior"]["scaleUp"] == {**pace["scaleUp"], "stabilizationWindowSeconds": 30}, "its numbers are no means"
    assert len(hpa["metrics"]) == len(keda["triggers"])


@pytest.mark.parametrize("keys", [{}, {"cronFloor": FLOOR, "startSeconds": 3600}])
def test_keda_accepts_the_scaled_object(keys: dict[str, Any]) -> None:
    assert crds.problems("keda", manifest(scaled_object(**keys))) == []


def test_scalers_know_every_parameter_of_each_trigger_and_miss_none() -> None:
    made = scaled_object(cronFloor=FLOOR)["triggers"]
    assert {trigger["type"] for trigger in made} == {"prometheus", "cron"}
    assert [problem for trigger in made for problem in triggers.problems(trigger)] == []


@pytest.mark.parametrize(
    ("trigger", "said"),
    [
        (
            {"type": "prometheus", "metadata": {"serverAddress": "http://p", "query": "q", "treshold": "1"}},
            ["treshold: unknown"],
        ),
        (
            {"type": "cron", "metadata": {"timezone": "UTC", "start": "0 1 * * *", "end": "0 2 * * *"}},
            ["desiredReplicas: missing"],
        ),
    ],
)
def test_a_parameter_that_a_scaler_does_not_know_or_misses_is_said(trigger: dict[str, Any], said: list[str]) -> None:
    """Proves that the check can fail."""
    found = [problem.partition(".")[2] for problem in triggers.problems(trigger)]
    assert [problem for problem in found if problem in said] == said


def test_keda_refuses_a_number_where_it_takes_text() -> None:
    """Proves that the check can fail."""
    spec = scaled_object()
    spec["triggers"][0]["metadata"]["threshold"] = 8
    assert crds.problems("keda", manifest(spec)) == ["spec.triggers.0.metadata.threshold: 8 is not of type 'string'"]


def test_a_start_is_what_the_startup_probe_allows_and_that_of_a_node() -> None:
    fixed = settings(SCALED)
    assert start_seconds(fixed) == pod_start_seconds(fixed) == timing(fixed).start == 300
    scaled = settings({**SCALED, "nodes.autoscaler": "cluster-autoscaler"})
    assert start_seconds(scaled) == 300 + NODE_START_SECONDS
    assert pod_start_seconds(scaled) == 300
    assert start_seconds(settings({**SCALED, "autoscaling": scaling(startSeconds=95)})) == 95


def test_a_pace_that_nobody_measured_is_warned_of_with_what_is_assumed_and_where_to_read_it() -> None:
    said = (
        "autoscaling.startSeconds: is missing; the pace of scaling assumes that a pod takes {} s from wanted to ready: {}, "
        "and nothing of it is measured; "
        "give what the panel 'Time to ready' of the dashboard 'Triton: scaling' shows for new pods"
    )
    on_nodes_that_are_there, on_new_ones = settings(SCALED), settings({**SCALED, "nodes.autoscaler": "cluster-autoscaler"})
    assert [str(problem) for problem in assumptions(on_nodes_that_are_there)] == [
        said.format(300, "300 s are the limit of its startup probe")
    ]
    assert [str(problem) for problem in assumptions(on_new_ones)] == [
        said.format(540, "300 s are the limit of its startup probe and 240 s the start of a node")
    ]
    assert assumptions(settings({**SCALED, "autoscaling": scaling(startSeconds=95)})) == []
    assert assumptions(settings()) == []


def test_the_program_says_it(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(app.stack_settings, "from_pulumi", lambda: settings(SCALED))
    monkeypatch.setattr(app, "deploy", lambda _: None)
    monkeypatch.setattr(pulumi, "get_stack", lambda: "staging")
    monkeypatch.setattr(pulumi.log, "warn", said.append)
    app.main()
    (message,) = said
    assert "\n  autoscaling.startSeconds: is missing" in message


def test_the_names_in_that_warning_are_those_of_the_dashboard() -> None:
    board = scaling_board()
    assert board["title"] == "Triton: scaling"
    assert "Time to ready" in [panel["title"] for panel in board["panels"]]


def test_the_pace_follows_from_a_start() -> None:
    assert behavior(settings({**SCALED, "autoscaling": scaling(startSeconds=400)})) == {
        "scaleUp": {
            "stabilizationWindowSeconds": 0,
            "selectPolicy": "Max",
            "policies": [
                {"type": "Pods", "value": 4, "periodSeconds": 400},
                {"type": "Percent", "value": 300, "periodSeconds": 400},
            ],
        },
        "scaleDown": {
            "stabilizationWindowSeconds": 800,
            "policies": [
                {"type": "Pods", "value": 1, "periodSeconds": 400},
                {"type": "Percent", "value": 50, "periodSeconds": 400},
            ],
        },
    }


def test_a_stack_says_when_pods_may_go_and_a_step_is_never_shorter_than_a_start() -> None:
    def pace(**keys: int) -> tuple[int, int]:
        down = behavior(settings({**SCALED, "autoscaling": scaling(**keys)}))["scaleDown"]
        return down["stabilizationWindowSeconds"], down["policies"][0]["periodSeconds"]

    assert pace(startSeconds=15) == (600, 180)
    assert pace(startSeconds=15, scaleDownAfterSeconds=60) == (60, 60)
    assert pace(startSeconds=90, scaleDownAfterSeconds=60) == (60, 90)
    assert pace(startSeconds=15, scaleDownAfterSeconds=1200) == (1200, 180)


def test_a_fleet_whose_queues_hold_nothing_too_late_looks_back_for_the_pod_s_part_of_a_start() -> None:
    def look_back(start: int, nodes: str = "cluster-autoscaler", fewest: int = 1, **wants: int) -> int:
        serving = {"models.serving": {"classify": {**CLASSIFY, **wants}}, "nodes.autoscaler": nodes, "worker": KEDA}
        read = settings({**SCALED, **serving, "autoscaling": scaling(startSeconds=start, minReplicas=fewest)})
        return int(behavior(read)["scaleDown"]["stabilizationWindowSeconds"])

    assert [look_back(start) for start in (15, 400)] == [600, 800]
    # Of the assumed 540 s, the pod takes 300 s on an existing node.
    assert [look_back(start, queueTimeoutMs=25) for start in (15, 90, 180, 540)] == [60, 60, 100, 300]
    assert [look_back(start, "none", queueTimeoutMs=25) for start in (15, 400)] == [60, 400], "no node has to start"
    assert [look_back(start, fewest=0, queueTimeoutMs=25) for start in (15, 400)] == [300, 400], "the last pod may go"
    assert look_back(15, queueTimeoutMs=50) == 600, "the wait alone is the SLO"


@given(
    st.integers(1, 3600), st.one_of(st.just({}), st.integers(1, 3600).map(lambda after: {"scaleDownAfterSeconds": after}))
)
def test_the_api_accepts_the_pace_of_any_start(start: int, after: dict[str, int]) -> None:
    """0 to 3600 s of stabilization window, 1 to 1800 s of period (API reference of autoscaling/v2)."""
    given_ = behavior(settings({**SCALED, "autoscaling": scaling(startSeconds=start, **after)}))
    for rules in given_.values():
        assert 0 <= rules["stabilizationWindowSeconds"] <= 3600
        assert all(1 <= policy["periodSeconds"] <= 1800 for policy in rules["policies"])
