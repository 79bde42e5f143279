"""Parity of pods: which differences count, and their export."""

from prometheus_client import CollectorRegistry, generate_latest

from modelctl.rollout.exporter import ParityCollector
from modelctl.rollout.fleet import Pod
from modelctl.rollout.parity import PodState, ServedModel, differences
from tests.modelctl.rollout.idle_fleet import IdleFleet

FLEET = "triton"
ALIKE = ServedModel("adder", {1: "aaa", 2: "aaa"})


def test_pods_alike_differ_in_nothing() -> None:
    assert differences([PodState(FLEET, "a", (ALIKE,)), PodState(FLEET, "b", (ALIKE,))]) == []


def test_another_version_another_config_and_no_model_are_differences() -> None:
    states = [
        PodState(FLEET, "a", (ALIKE,)),
        PodState(FLEET, "b", (ServedModel("adder", {2: "aaa"}),)),
        PodState(FLEET, "c", (ServedModel("adder", {1: "aaa", 2: "bbb"}),)),
        PodState(FLEET, "d"),
    ]
    assert differences(states) == [
        "adder: not served on d; version 1 with config aaa, version 2 with config aaa on a; "
        "version 1 with config aaa, version 2 with config bbb on c; version 2 with config aaa on b"
    ]


def test_pods_of_two_fleets_may_differ_and_those_of_one_may_not() -> None:
    other = ServedModel("adder", {3: "ccc"})
    two = [
        PodState("triton-a", "a-1", (ALIKE,)),
        PodState("triton-b", "b-1", (other,)),
        PodState("triton-b", "b-2", (other,)),
    ]
    assert differences(two) == []
    assert differences([*two, PodState("triton-b", "b-3")]) == [
        "adder: not served on b-3; version 3 with config ccc on b-1, b-2"
    ]


def test_a_pod_that_does_not_answer_is_a_difference() -> None:
    assert differences([PodState(FLEET, "a", (ALIKE,)), PodState(FLEET, "b", problem="b: nothing answers")]) == [
        "b: nothing answers"
    ]


def _exported(fleet: IdleFleet) -> str:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ParityCollector(fleet.all_fleets, "triton"))
    return generate_latest(registry).decode()


def test_unreachable_pods_are_counted() -> None:
    dead = Pod("a", "uid", http="http://127.0.0.1:9", metrics="http://127.0.0.1:9", admin_key=lambda: "k")
    text = _exported(IdleFleet([dead]))
    assert 'triton_model_config_unreachable_pods{namespace="triton"} 1.0' in text
    assert 'triton_model_config_fleet_up{namespace="triton"} 1.0' in text


def test_a_fleet_that_cannot_be_listed_is_not_an_empty_one() -> None:
    text = _exported(IdleFleet(None))
    assert 'triton_model_config_fleet_up{namespace="triton"} 0.0' in text
    assert "unreachable" not in text
