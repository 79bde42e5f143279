"""The pods of a Service that take new requests."""

from typing import Any

from twin.cluster.services import ready


def endpoint(address: str, **conditions: bool) -> dict[str, Any]:
    return {"addresses": [address], "conditions": conditions}


def test_the_ready_pods_of_all_slices_sorted_and_once() -> None:
    slices = [
        {"endpoints": [endpoint("10.244.130.3", ready=True), endpoint("10.244.130.4", ready=False)]},
        {"endpoints": [endpoint("10.244.130.2", ready=True), endpoint("10.244.130.3", ready=True)]},
        {"endpoints": None},
    ]
    assert ready(slices) == ["10.244.130.2", "10.244.130.3"]


def test_a_pod_that_ends_takes_no_new_requests_though_it_still_serves() -> None:
    ending = endpoint("10.244.130.2", ready=False, serving=True, terminating=True)
    assert ready([{"endpoints": [ending]}]) == []
