"""KEDA's objects for the workers, against the schemas in its Go module."""

from __future__ import annotations

from typing import Any

import pytest

from infra.serving.queue_trigger import authentication_spec
from tests import crds, triggers
from tests.infra.test_worker import scaling

ROLE = "arn:aws:iam::123456789012:role/scaler"
OWN_AWS = {"awsEndpoint": "http://127.0.0.1:5000"}


def problems(kind: str, spec: dict[str, Any]) -> list[str]:
    """Return the errors that the API server would report."""
    manifest = {"apiVersion": "keda.sh/v1alpha1", "kind": kind, "metadata": {"name": "triton-worker"}, "spec": spec}
    return crds.problems("keda", manifest)


def test_the_scaled_object_is_valid() -> None:
    assert problems("ScaledObject", scaling(**OWN_AWS)) == []


def test_the_identity_is_valid() -> None:
    assert problems("TriggerAuthentication", authentication_spec(ROLE)) == []


@pytest.mark.parametrize(
    ("mistake", "said"), [({"queueLength": 16}, "queueLength: 16"), ({"scaleOnInFlight": True}, "scaleOnInFlight: True")]
)
def test_the_validation_can_fail(mistake: dict[str, Any], said: str) -> None:
    spec = scaling()
    spec["triggers"][0]["metadata"].update(mistake)
    assert problems("ScaledObject", spec) == [f"spec.triggers.0.metadata.{said} is not of type 'string'"]


def test_the_scaler_knows_every_parameter_and_misses_none() -> None:
    assert triggers.problems(scaling(**OWN_AWS)["triggers"][0]) == []
