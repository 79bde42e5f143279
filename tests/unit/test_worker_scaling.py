"""What KEDA is told about the workers, against the schemas in its Go module (skipped where that is not in the cache)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from infra.serving.worker import authentication_spec
from tests.unit.test_worker import scaling

ROLE = "arn:aws:iam::123456789012:role/scaler"


def _module() -> Path:
    caches = Path(os.environ.get("GOMODCACHE") or Path(os.environ.get("GOPATH") or Path.home() / "go") / "pkg" / "mod")
    found = sorted((caches / "github.com" / "kedacore" / "keda").glob("v2@*"))
    if not found:
        pytest.skip("the Go module of KEDA is not in the module cache: `go mod download` in twin/tools brings it")
    return found[-1]


def _strict(schema: Any) -> Any:
    """Nothing that the CRD does not know: the API server drops it in silence."""
    if isinstance(schema, dict):
        closed = {key: _strict(value) for key, value in schema.items()}
        if "properties" in closed and not closed.get("x-kubernetes-preserve-unknown-fields"):
            closed.setdefault("additionalProperties", False)
        return closed
    return [_strict(item) for item in schema] if isinstance(schema, list) else schema


def validate(crd: str, spec: dict[str, Any]) -> None:
    """Raises ValidationError when the kind's schema refuses the spec."""
    document = yaml.safe_load((_module() / "config" / "crd" / "bases" / f"keda.sh_{crd}.yaml").read_text())
    schema = document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    jsonschema.validate(spec, _strict(schema))


def test_the_scaled_object_is_valid() -> None:
    validate("scaledobjects", scaling(awsEndpoint="http://127.0.0.1:5000"))


def test_the_identity_is_valid() -> None:
    validate("triggerauthentications", authentication_spec(ROLE))


@pytest.mark.parametrize("mistake", [{"queueLength": 16}, {"scaleOnInFlight": True}])
def test_the_validation_can_fail(mistake: dict[str, Any]) -> None:
    spec = scaling()
    spec["triggers"][0]["metadata"].update(mistake)
    with pytest.raises(jsonschema.ValidationError):
        validate("scaledobjects", spec)


def test_the_scaler_knows_every_parameter_and_misses_none() -> None:
    """The CRD takes any text; KEDA's own list of parameters does not."""
    document = json.loads((_module() / "schema" / "generated" / "scalers-schema.json").read_text())
    (scaler,) = [item for item in document["scalers"] if item["type"] == "aws-sqs-queue"]
    parameters = {item["name"]: item for item in scaler["parameters"]}
    given = scaling(awsEndpoint="http://127.0.0.1:5000")["triggers"][0]["metadata"]
    assert given.keys() <= parameters.keys()
    required = {
        name
        for name, item in parameters.items()
        if not item.get("optional") and not item.get("default") and item.get("metadataVariableReadable")
    }
    assert required <= given.keys()
