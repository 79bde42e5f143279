"""Accounts, addresses and rules exist before the pods that need them, and until the last of these pods has exited."""

from typing import Any

import pytest

from tests.charts import rendering, test_worker_chart
from twin.plugins.chart_order import sorted_with_dependencies

Objects = list[dict[str, Any]]


def before_the_deployment(objects: Objects) -> list[str]:
    """Return the objects that the official provider creates before the Deployment and deletes after it."""
    orders = dict(sorted_with_dependencies(objects))
    [deployment] = [index for index, manifest in enumerate(objects) if manifest["kind"] == "Deployment"]
    assert all(not earlier for index, earlier in orders.items() if index != deployment)
    return sorted(f"{objects[index]['kind']} {objects[index]['metadata']['name']}" for index in orders[deployment])


@pytest.mark.parametrize("environment", rendering.ENVIRONMENTS)
def test_tritons_account_addresses_and_rules_outlive_its_pods(environment: str) -> None:
    assert before_the_deployment(rendering.render(environment=environment)) == [
        "NetworkPolicy triton",
        "Service triton",
        "Service triton-headless",
        "Service triton-metrics",
        "ServiceAccount triton",
    ]


@pytest.mark.parametrize(
    ("overrides", "before"),
    [
        ({"networkPolicy": {"enabled": False}, "serviceAccount": {"create": False, "name": "mine"}}, []),
        ({"serviceAccount": {"create": False, "name": "mine"}}, ["NetworkPolicy triton"]),
    ],
)
def test_nothing_is_waited_for_that_is_not_in_the_chart(overrides: dict[str, Any], before: list[str]) -> None:
    services = ["Service triton", "Service triton-headless", "Service triton-metrics"]
    assert before_the_deployment(rendering.render(overrides)) == [*before, *services]


def test_the_workers_account_and_rules_outlive_its_pods() -> None:
    assert before_the_deployment(test_worker_chart.render(test_worker_chart.computed(test_worker_chart.BY_HAND))) == [
        "NetworkPolicy triton-worker",
        "ServiceAccount triton-worker",
    ]
