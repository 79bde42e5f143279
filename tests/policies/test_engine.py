"""The policy pack's handling of the engine's calls."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.struct_pb2 import Struct
from pulumi.runtime.proto import analyzer_pb2
from pulumi_policy import EnforcementLevel, Policy
from pulumi_policy import policy as sdk_policy

from triton_policies import engine
from triton_policies.registry import POLICIES
from triton_policies.run import Run
from triton_policies.sdk import to_sdk

_BUCKET = "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock"
_REFUSED = "s3-public-access-blocked"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the properties converted to Python objects so far. Restores the SDK's servicer at the end."""
    monkeypatch.setattr(sdk_policy, "_PolicyAnalyzerServicer", sdk_policy._PolicyAnalyzerServicer)
    deserialize = engine.deserialize_properties
    found: list[Any] = []

    def deserialize_properties(properties: dict[str, Any]) -> dict[str, Any]:
        found.append(properties)
        return deserialize(properties)

    monkeypatch.setattr(engine, "deserialize_properties", deserialize_properties)
    return found


def _pack(*levels: tuple[str, int]) -> Any:
    run = Run()
    engine.listen(run)
    policies: list[Policy] = [to_sdk(policy, run) for policy in POLICIES]
    pack: Any = sdk_policy._PolicyAnalyzerServicer("pack", "1", policies, EnforcementLevel.ADVISORY)
    config = {name: analyzer_pb2.PolicyConfig(enforcementLevel=level) for name, level in levels}  # type: ignore[arg-type]
    pack.Configure(analyzer_pb2.ConfigureAnalyzerRequest(policyConfig=config), None)
    return pack


def _resource(message: Any, kind: str, **properties: Any) -> Any:
    held = Struct()
    held.update(properties)
    return message(type=kind, name="it", urn=f"urn:pulumi:prod::triton-eks::{kind}::it", properties=held)


def test_a_resource_becomes_pythons_objects_once_for_all_policies(read: list[Any]) -> None:
    pack, inputs = _pack(), {"blockPublicAcls": False}
    pack.Analyze(_resource(analyzer_pb2.AnalyzeRequest, _BUCKET, **inputs), None)
    assert read == [inputs]
    stack = [_resource(analyzer_pb2.AnalyzerResource, "aws:s3/bucket:Bucket", bucket="a")]
    pack.AnalyzeStack(analyzer_pb2.AnalyzeStackRequest(resources=stack), None)
    assert read == [inputs, {"bucket": "a"}]


def test_a_resource_that_no_policy_is_about_is_not_read(read: list[Any]) -> None:
    _pack().Analyze(_resource(analyzer_pb2.AnalyzeRequest, "pulumi:pulumi:Stack", text="long"), None)
    assert read == []


def test_to_see_that_a_resource_has_properties_it_is_not_read(read: list[Any]) -> None:
    stack = [
        _resource(analyzer_pb2.AnalyzerResource, "aws:iam/user:User", name="a"),
        _resource(analyzer_pb2.AnalyzerResource, "x"),
    ]
    _pack().AnalyzeStack(analyzer_pb2.AnalyzeStackRequest(resources=stack), None)
    assert read == []


@pytest.mark.usefixtures("read")
@pytest.mark.parametrize(
    ("configured", "told"),
    [
        (analyzer_pb2.ADVISORY, {analyzer_pb2.ADVISORY}),
        (analyzer_pb2.MANDATORY, {analyzer_pb2.MANDATORY}),
        (analyzer_pb2.REMEDIATE, {analyzer_pb2.MANDATORY}),
        (analyzer_pb2.DISABLED, set()),
    ],
)
def test_a_violation_has_the_level_that_is_configured(configured: int, told: set[int]) -> None:
    request = _resource(analyzer_pb2.AnalyzeRequest, _BUCKET)
    found = _pack((_REFUSED, configured)).Analyze(request, None).diagnostics
    assert {one.enforcementLevel for one in found if one.policyName == _REFUSED} == told


@pytest.mark.usefixtures("read")
@pytest.mark.parametrize(("configured", "left"), [(analyzer_pb2.MANDATORY, []), (analyzer_pb2.REMEDIATE, [_REFUSED])])
def test_a_policy_that_is_to_mend_what_it_cannot_is_told_as_one_that_does_not_apply(
    configured: int, left: list[str]
) -> None:
    answer = _pack((_REFUSED, configured)).Remediate(_resource(analyzer_pb2.AnalyzeRequest, _BUCKET), None)
    assert [one.policy_name for one in answer.not_applicable] == left
