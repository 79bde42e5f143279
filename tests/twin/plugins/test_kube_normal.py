"""Normal forms: quantities and zero values of built-in kinds, as the official provider leaves them."""

from __future__ import annotations

from typing import Any

import pytest

from twin.plugins.kube_normal import normalized
from twin.plugins.values import UNKNOWN


def limits(inputs: Any) -> Any:
    return inputs["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]


def deployment(memory: Any, version: str = "apps/v1") -> dict[str, Any]:
    container = {"name": "c", "resources": {"limits": {"memory": memory}}}
    return {"apiVersion": version, "kind": "Deployment", "spec": {"template": {"spec": {"containers": [container]}}}}


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("1024Mi", "1Gi"),
        ("2304Mi", "2304Mi"),
        ("2048Gi", "2Ti"),
        ("512Ki", "512Ki"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("1000m", "1"),
        ("0.5", "500m"),
        ("500m", "500m"),
        ("1500m", "1500m"),
        ("2000", "2k"),
        (3, "3"),
        ("0", "0"),
        ("1e3", "1e3"),
        ("a word", "a word"),
    ],
)
def test_a_quantity_is_written_as_kubernetes_does(given: Any, written: str) -> None:
    assert limits(normalized(deployment(given)))["memory"] == written


def test_a_custom_resource_and_what_is_not_known_yet_stay() -> None:
    for inputs in (deployment("1024Mi", "example.com/v1"), {**deployment("1024Mi"), "status": UNKNOWN}):
        assert normalized(inputs) == inputs


def test_a_plain_field_of_zero_value_goes_and_a_pointer_stays() -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"labels": {"paused": False}},
        "data": {"limits": {"memory": "1024Mi"}},
        "spec": {"publishNotReadyAddresses": False, "automountServiceAccountToken": False, "ports": [{"tty": False}]},
    }
    found = normalized(service)
    assert found["spec"] == {"automountServiceAccountToken": False, "ports": [{}]}
    assert (found["metadata"], found["data"]) == (service["metadata"], service["data"])
    assert normalized({**service, "spec": {"publishNotReadyAddresses": True}})["spec"] == {"publishNotReadyAddresses": True}
