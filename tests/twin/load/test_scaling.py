"""Facts of an autoscaled workload, read from its objects."""

from typing import Any

from twin.load.scaling import Scale, Signal, scale, together

SCALED: dict[str, Any] = {
    "spec": {
        "minReplicaCount": 1,
        "triggers": [
            {"name": "pending-classify"},
            {"name": "busy-classify"},
            {"name": "pending-slow"},
            {"name": "busy-slow"},
        ],
    }
}


def deployment(replicas: int) -> dict[str, Any]:
    return {"spec": {"replicas": replicas}}


def pod(ready: bool, ending: bool = False) -> dict[str, Any]:
    metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if ending else {}
    return {"metadata": metadata, "status": {"conditions": [{"type": "Ready", "status": str(ready)}]}}


def external(name: str, **values: str) -> dict[str, Any]:
    return {
        "type": "External",
        "external": {"metric": {"name": name}, **{of: {"averageValue": v} for of, v in values.items()}},
    }


def autoscaler(current: list[dict[str, Any]], **spec: Any) -> dict[str, Any]:
    targets = [external("s0-prometheus", target="8"), external("s1-prometheus", target="700m")]
    more = [external("s2-prometheus", target="8"), external("s3-prometheus", target="700m")]
    return {"spec": {"metrics": targets + more, "maxReplicas": 4, **spec}, "status": {"currentMetrics": current}}


def test_pods_are_ready_starting_or_ending() -> None:
    pods = [pod(True), pod(True), pod(False), {"metadata": {}}, pod(True, ending=True)]
    found = scale(deployment(4), pods, None, None)
    assert (found.wanted, found.ready, found.starting, found.ending) == (4, 2, 2, 1)


def test_the_signal_is_the_one_that_asks_for_most_by_the_name_that_the_stack_gave_it() -> None:
    current = [
        external("s1-prometheus", current="350m"),
        external("s2-prometheus", current="4"),
        external("s3-prometheus", current="910m"),
    ]
    found = scale(deployment(1), [], SCALED, autoscaler(current))
    assert found.signal == Signal("busy-slow", 0.91, 0.7)
    assert round(found.signal.share, 2) == 1.3


def test_an_autoscaler_without_numbers_has_no_signal() -> None:
    assert scale(deployment(1), [], SCALED, autoscaler([])).signal is None
    assert scale(deployment(1), [], SCALED, autoscaler([{"type": ""}])).signal is None
    assert scale(deployment(1), [], None, None).signal is None


def test_the_average_over_no_pods_is_no_signal() -> None:
    current = [external("s0-prometheus", current="-9223372036854775808m")]
    assert scale(deployment(0), [], SCALED, autoscaler(current)).signal is None


def test_the_numbers_of_a_plain_autoscaler_are_called_as_they_are() -> None:
    metric = {"type": "Pods", "pods": {"metric": {"name": "triton_busy_instances"}, "target": {"averageValue": "700m"}}}
    current = {"type": "Pods", "pods": {"metric": {"name": "triton_busy_instances"}, "current": {"averageValue": "500m"}}}
    made = {"spec": {"minReplicas": 2, "maxReplicas": 4, "metrics": [metric]}, "status": {"currentMetrics": [current]}}
    found = scale(deployment(2), [], None, made)
    assert (found.signal, found.fewest) == (Signal("triton_busy_instances", 0.5, 0.7), 2)


def test_the_numbers_of_a_plain_autoscaler_are_told_apart_by_model() -> None:
    def metric(model: str, of: str, value: str) -> dict[str, Any]:
        described = {"name": "triton_busy_instances", "selector": {"matchLabels": {"model": model}}}
        return {"type": "Pods", "pods": {"metric": described, of: {"averageValue": value}}}

    spec = {"maxReplicas": 4, "metrics": [metric("busy", "target", "700m"), metric("idle", "target", "700m")]}
    current = [metric("busy", "current", "910m"), metric("idle", "current", "0")]
    found = scale(deployment(2), [], None, {"spec": spec, "status": {"currentMetrics": current}})
    assert found.signal == Signal("triton_busy_instances{model=busy}", 0.91, 0.7)


def test_how_long_the_way_back_may_take_follows_from_the_autoscalers_own_times() -> None:
    behavior = {
        "scaleDown": {"stabilizationWindowSeconds": 600, "policies": [{"type": "Pods", "value": 1, "periodSeconds": 180}]}
    }
    found = scale(deployment(1), [], SCALED, autoscaler([], behavior=behavior))
    assert found.return_seconds == 90 + 600 + 3 * 180
    to_none = {"spec": {"minReplicaCount": 0, "cooldownPeriod": 200, "triggers": []}}
    assert scale(deployment(1), [], to_none, autoscaler([])).return_seconds == 90 + 300 + 200
    assert scale(deployment(1), [], None, None).return_seconds is None


def test_at_rest_are_the_fewest_pods_of_which_none_comes_or_goes() -> None:
    def rest(**counts: int) -> bool:
        return Scale(**{"wanted": 1, "ready": 1, "starting": 0, "ending": 0, "fewest": 1, **counts}).at_rest

    assert rest()
    assert not any([rest(wanted=2), rest(ready=0), rest(starting=1), rest(ending=1), rest(wanted=2, ready=2)])


def test_the_pods_of_several_fleets_are_counted_together() -> None:
    first = Scale(wanted=3, ready=2, starting=1, ending=0, fewest=2, signal=Signal("a", 5, 10), return_seconds=90)
    second = Scale(wanted=2, ready=2, starting=0, ending=1, fewest=1, signal=Signal("b", 3, 4), return_seconds=120)
    fixed = Scale(wanted=1, ready=1, starting=0, ending=0, fewest=1)
    assert together([first, second, fixed]) == Scale(6, 5, 1, 1, 4, Signal("b", 3, 4), 120)
    assert together([fixed]) == fixed
