"""Triton's scaling signals: queries, metric types and targets, which belong together."""

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec.prometheus.language_models import language_model_groups
from spec.prometheus.recording import recording_group
from spec.scaling.signal import (
    ASKED,
    AT_GATEWAY,
    IN_FLIGHT,
    NEEDED,
    PENDING,
    RECORDINGS,
    WAITING,
    Signal,
    busy_target,
    pending_target,
    quantity,
    recordings,
    signals,
)
from spec.settings.digest import serving_digest
from tests.spec.stack_config import REMOVED, settings
from tests.spec.test_stack_mistakes_access import gateway
from tests.spec.test_stack_mistakes_autoscaling import CLASSIFY, MONITORED, SCALED, scaling
from twin.replay.hpa import by_average_value

P4D = {"gpu.pools[1].desired": 2}


def targets(changes: dict[str, Any]) -> dict[str, float]:
    return {signal.name: signal.target for signal in signals(settings({**SCALED, **changes}))}


def test_a_model_is_scaled_on_its_queue_and_on_its_instances() -> None:
    assert targets({}) == {"busy-classify": 0.8, "pending-classify": 8}


def test_the_measured_pod_has_the_target_that_was_measured() -> None:
    """20/s * 0.2 s of a pod of one instance with batches of 4 (docs/facts/triton-metrics.md#measured-pod)."""
    assert pending_target(4, 1) == 4


def test_instances_on_gpus_are_there_once_for_each_gpu_of_a_pod() -> None:
    on_gpu = {**CLASSIFY, "device": "gpu", "instances": 2, "gpuMemoryMiB": 900, "maxBatchSize": 16}
    pool = {"triton.pool": "p4d", "triton.gpus": 4, "gpu.pools[1].desired": 2}
    assert targets({**pool, "models.serving": {"classify": on_gpu}}) == {
        "busy-classify": 6.4,
        "pending-classify": 128,
        "gpu-load": 4 * 0.74,
    }


CHAT = {
    **CLASSIFY,
    "device": "gpu",
    "gpuMemoryMiB": 20_000,
    "decoupled": True,
    "llm": {"concurrentStreams": 32, "contextTokens": 4096, "weightsMiB": 8000, "kvBytesPerToken": 65_536},
}


def test_a_language_model_is_scaled_on_its_own_requests_and_never_on_tritons_queue() -> None:
    changes = {"models.serving": {"chat": CHAT}}
    assert targets(changes) == {"in-flight-chat": 22.4, "waiting-chat": 3.2}
    given_ = {**changes, "autoscaling": scaling(targets={"chat": {"pending": 2, "busy": 24}})}
    assert targets(given_) == {"in-flight-chat": 24, "waiting-chat": 2}
    read = settings({**SCALED, **changes})
    assert {signal.query for signal in signals(read)} == {
        'sum(pod_model:triton_requests_in_flight{namespace="triton",model="chat"})',
        'sum(pod_model:triton_requests_waiting{namespace="triton",model="chat"})',
    }
    assert recordings(read) == (PENDING, NEEDED, WAITING, IN_FLIGHT)
    assert recordings(settings(SCALED)) == RECORDINGS


RELEASE = {"id": "0123456789ab" + 52 * "0", "bytes": 1, "models": {"classify": 1, "pipeline": 1}}


def targets_of_release(serving: dict[str, Any], **said: Any) -> dict[str, float]:
    """Return the targets of a stack whose release has these models."""
    digest = serving_digest(settings({**SCALED, "triton.gpus": 4, "triton.pool": "p4d", **P4D, "models.serving": serving}))
    release = {**RELEASE, "serving": digest, **said}
    return targets({"models.serving": serving, "models.release": release, "triton.gpus": 4, "triton.pool": "p4d", **P4D})


def test_a_language_model_behind_a_gateway_is_scaled_on_what_that_has_in_flight_too() -> None:
    """The target is the same, so the larger number decides; without scrapes of the gateway, it has no such signal."""
    served = {"models.serving": {"chat": CHAT}, "models.release": REMOVED}
    own = {key: value for key, value in scaling().items() if key != "prometheusUrl"}
    read = settings({**SCALED, **MONITORED, **gateway(), **served, "autoscaling": own})
    found = {signal.name: signal.target for signal in signals(read)}
    assert found == {"waiting-chat": 3.2, "in-flight-chat": 22.4, "at-gateway-chat": 22.4}
    assert signals(read)[2].query == 'sum(pod_model:triton_requests_at_gateway{namespace="triton",model="chat"})'
    assert recordings(read) == (PENDING, NEEDED, WAITING, IN_FLIGHT, AT_GATEWAY)
    assert "at-gateway-chat" not in targets({**gateway(), **served})


def test_requests_that_name_no_model_in_a_header_are_those_of_the_only_model() -> None:
    def counted(serving: dict[str, Any]) -> list[bool]:
        served = {"models.serving": serving, "models.release": REMOVED}
        own = {key: value for key, value in scaling().items() if key != "prometheusUrl"}
        read = settings({**SCALED, **MONITORED, **gateway(), **served, "autoscaling": own})
        rules = [rule for group in language_model_groups(read) for rule in group["rules"]]
        (rule,) = [one for one in rules if one.get("record") == AT_GATEWAY.series and one["labels"] == {"model": "chat"}]
        return [route in rule["expr"] for route in ("chat", "all-models", "openai-v1")]

    assert counted({"chat": CHAT}) == [True, True, True]
    assert counted({"chat": CHAT, "classify": CLASSIFY}) == [True, False, False]


def test_an_ensemble_is_counted_by_its_steps_alone() -> None:
    serving = {"pipeline": CLASSIFY, "classify": CLASSIFY}
    assert targets_of_release(serving, ensembles={"pipeline": ["classify"]}) == {"busy-classify": 0.8, "pending-classify": 8}
    assert len(targets_of_release(serving)) == 4


def test_a_model_that_takes_the_gpus_by_itself_is_there_once_for_a_pod() -> None:
    on_gpu = {**CLASSIFY, "device": "gpu", "gpuMemoryMiB": 900}
    assert targets_of_release({"classify": on_gpu}, selfPlaced=["classify"]) == {"busy-classify": 0.8, "pending-classify": 8}
    assert targets_of_release({"classify": on_gpu}) == {"busy-classify": 3.2, "pending-classify": 32}


@pytest.mark.parametrize(
    ("batches", "max_batch_size", "pending"),
    [({}, None, 8), ({"classify": 0}, None, 1), ({"classify": 32}, None, 32), ({"classify": 32}, 4, 4)],
)
def test_as_many_wait_as_a_batch_holds_by_the_stack_or_else_by_the_config(
    batches: dict[str, int], max_batch_size: int | None, pending: int
) -> None:
    """With 0 each request is a batch: eight waiting requests would take eight times the time that the SLO leaves."""
    classify = {key: value for key, value in CLASSIFY.items() if key != "maxBatchSize"}
    classify |= {} if max_batch_size is None else {"maxBatchSize": max_batch_size}
    assert targets_of_release({"classify": classify}, batches=batches)["pending-classify"] == pending


def test_a_stack_can_give_either_target_of_a_model_itself() -> None:
    given_ = {"autoscaling": scaling(targets={"classify": {"pending": 3}})}
    assert targets(given_) == {"busy-classify": 0.8, "pending-classify": 3}
    given_ = {"autoscaling": scaling(targets={"classify": {"busy": 0.5}})}
    assert targets(given_) == {"busy-classify": 0.5, "pending-classify": 8}


def test_a_rate_takes_the_place_of_the_derived_instances() -> None:
    read = settings({**SCALED, "autoscaling": scaling(targets={"classify": {"rate": 64}})})
    assert [(one.name, one.target, one.spare) for one in signals(read)] == [
        ("pending-classify", 8, 0),
        ("rate-classify", 64, 1),
    ]
    assert signals(read)[1].query == ('sum(pod_model:triton_requests:rate{namespace="triton",model="classify"}) + 64')
    assert recordings(read) == (*RECORDINGS, ASKED)
    both = {"autoscaling": scaling(targets={"classify": {"rate": 64, "busy": 0.9}})}
    assert targets(both) == {"pending-classify": 8, "busy-classify": 0.9, "rate-classify": 64}


def test_each_model_has_its_own_signals_so_that_the_most_loaded_one_decides() -> None:
    serving = {"embed.v2": CLASSIFY, "classify": {**CLASSIFY, "instances": 2}}
    assert targets({"models.serving": serving}) == {
        "pending-classify": 16,
        "busy-classify": 1.6,
        "pending-embed.v2": 8,
        "busy-embed.v2": 0.8,
    }


LONG = {**CLASSIFY, "sloP95Ms": 120_000}


def test_what_waits_is_averaged_over_the_window_of_its_model() -> None:
    """A batch takes half of 120 s, and twenty of them 1200 s."""
    long, short = (signals(settings({**SCALED, "models.serving": {"classify": of}}))[0] for of in (LONG, CLASSIFY))
    assert (long.query.count("[1200s]"), short.query.count("[30s]")) == (1, 1)


def test_queries_are_sums_over_the_deployment_of_rules_that_exist() -> None:
    recorded = {rule["record"] for rule in recording_group(settings(SCALED))["rules"]}
    assert {recording.series for recording in RECORDINGS} <= recorded
    signal = Signal(PENDING, "embed.v2", 4)
    pending = 'pod_model:triton_pending_requests:sum{namespace="triton",model="embed.v2"}'
    assert signal.query == f"sum(avg_over_time({pending}[30s]))"


def test_nobody_can_choose_a_metric_type_that_does_not_go_with_a_sum() -> None:
    assert [field.name for field in fields(Signal)] == [
        "recording",
        "model",
        "target",
        "deployment",
        "spare",
        "window_seconds",
    ]
    signal = Signal(NEEDED, "classify", 0.7)
    assert signal.keda_trigger("http://p:9090")["metricType"] == "AverageValue"
    assert signal.pods_metric()["pods"]["target"]["type"] == "AverageValue"
    with pytest.raises(AttributeError):
        setattr(signal, "METRIC_TYPE", "Value")  # noqa: B010 - as somebody would who does not check types


@pytest.mark.parametrize("target", [0, -1, float("nan"), float("inf")])
def test_a_target_is_a_number_that_one_can_divide_by(target: float) -> None:
    with pytest.raises(ValueError, match="it has to be more than 0"):
        Signal(PENDING, "classify", target)


def test_a_trigger_takes_no_data_for_a_failure_and_not_for_idleness() -> None:
    assert Signal(NEEDED, "classify", 0.7).keda_trigger("http://p:9090") == {
        "type": "prometheus",
        "name": "busy-classify",
        "metricType": "AverageValue",
        "useCachedMetrics": True,
        "metadata": {
            "serverAddress": "http://p:9090",
            "query": 'sum(pod_model:triton_needed_instances:rate{namespace="triton",model="classify"})',
            "threshold": "0.7",
            "ignoreNullValues": "false",
        },
    }


BOUNDED = {"models.serving": {"classify": {**CLASSIFY, "queueTimeoutMs": 25}}}
"""A queue that drops requests that can no longer be answered in time."""
SPARE = Signal(NEEDED, "classify", 0.8, spare=2)


def test_a_spare_pod_is_added_to_what_the_busy_instances_ask_for() -> None:
    metadata = SPARE.keda_trigger("http://p:9090")["metadata"]
    query = 'sum(pod_model:triton_needed_instances:rate{namespace="triton",model="classify"}) + 1.6'
    assert (metadata["query"], metadata["threshold"], "activationThreshold" in metadata) == (query, "0.8", False)
    assert [by_average_value(busy + SPARE.added, SPARE.target, 1) for busy in (0, 0.8, 2)] == [2, 3, 5]


def test_a_spare_pod_keeps_no_pod_of_a_fleet_that_may_have_none() -> None:
    metadata = SPARE.keda_trigger("http://p:9090", to_zero=True)["metadata"]
    assert (metadata["query"].rpartition(" + ")[2], metadata["activationThreshold"]) == ("1.6", "1.6")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {"busy-classify": (0.8, 1), "pending-classify": (8, 0)}),
        ({"autoscaling": scaling(sparePods=0)}, {"busy-classify": (0.7, 0), "pending-classify": (8, 0)}),
        ({"autoscaling": scaling(sparePods=1)}, {"busy-classify": (0.8, 1), "pending-classify": (8, 0)}),
        ({"triton.autoscaler": "hpa"}, {"busy-classify": (0.7, 0), "pending-classify": (8, 0)}),
        (BOUNDED, {"busy-classify": (0.9, 0.5), "pending-classify": (8, 0)}),
        ({**BOUNDED, "autoscaling": scaling(sparePods=1)}, {"busy-classify": (0.9, 1), "pending-classify": (8, 0)}),
        ({**BOUNDED, "autoscaling": scaling(sparePods=0)}, {"busy-classify": (0.7, 0), "pending-classify": (8, 0)}),
    ],
)
def test_instances_may_be_busier_where_there_is_a_spare_pod(changes: dict[str, Any], expected: Any) -> None:
    found = signals(settings({**SCALED, **changes}))
    assert {signal.name: (signal.target, signal.spare) for signal in found} == expected


def test_an_autoscaler_asks_for_the_same_number_of_the_same_model() -> None:
    assert Signal(NEEDED, "classify", 0.7).pods_metric() == {
        "type": "Pods",
        "pods": {
            "metric": {"name": "triton_needed_instances", "selector": {"matchLabels": {"model": "classify"}}},
            "target": {"type": "AverageValue", "averageValue": "700m"},
        },
    }


@pytest.mark.parametrize(("value", "text"), [(4, "4"), (4.0, "4"), (0.7, "700m"), (5.6, "5600m"), (0.0004, "1m")])
def test_quantities(value: float, text: str) -> None:
    assert quantity(value) == text


@given(st.integers(1, 64), st.integers(1, 4096))
def test_targets_grow_with_what_a_pod_holds_and_never_ask_for_more_than_it_has(instances: int, batch: int) -> None:
    assert 0 < busy_target(instances) < busy_target(instances, 1) < instances
    assert pending_target(batch, instances) == instances * batch
