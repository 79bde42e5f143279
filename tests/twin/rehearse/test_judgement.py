"""Judgement beyond a step's type and properties: secrets, resources kept in AWS, knock-on replacements, errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from stackctl.review.plan import Change, Plan, Step
from twin.rehearse import judgement
from twin.rehearse.judgement import Finding

BUCKET, VPC, SECRET = "aws:s3/bucket:Bucket", "aws:ec2/vpc:Vpc", "kubernetes:core/v1:Secret"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"


def urn(type_: str, name: str) -> str:
    return f"urn:pulumi:prod::triton-eks::triton:network:Network${type_}::{name}"


def one(step: Step, **facts: Any) -> Finding:
    (found,) = judgement.judge(Plan((step,)), facts.pop("inputs", {}), facts.pop("hidden", {}), **facts).findings
    return found


def test_what_would_change_only_with_an_encrypted_value_is_not_known() -> None:
    step = Step("replace", SECRET, "token", (Change("data.token", "[secret]", "[secret]"),), ("data.token",))
    assert one(step).effect == "none"
    found = one(step, hidden={urn(SECRET, "token"): [("data",)]})
    assert (found.effect, found.says) == ("not known", "it would be replaced if its secret is another one")


def test_another_reason_beside_an_encrypted_value_counts() -> None:
    step = Step("replace", VPC, "net", (), ("cidrBlock", "secret"))
    assert one(step, hidden={urn(VPC, "net"): [("secret",)]}).effect == "interrupted"


def test_what_pulumi_leaves_in_aws_is_not_lost() -> None:
    gone, replaced = Step("delete", BUCKET, "models"), Step("replace", BUCKET, "models", (), ("bucket",))
    assert (one(gone).effect, one(replaced).effect) == ("lost", "lost")
    kept = [urn(BUCKET, "models")]
    assert one(gone, retained=kept).says == "it stays in AWS, and Pulumi forgets it"
    assert (one(gone, retained=kept).effect, one(replaced, retained=kept).effect) == ("none", "interrupted")


def test_a_guard_that_is_deleted_stops_nothing() -> None:
    guards = (
        "kubernetes:gateway.envoyproxy.io/v1alpha1:SecurityPolicy",
        "kubernetes:autoscaling/v2:HorizontalPodAutoscaler",
    )
    assert [one(Step("delete", guard, "x")).effect for guard in guards] == ["weakened", "weakened"]


@pytest.mark.parametrize(
    ("type_", "effect"),
    [
        (VPC, "interrupted"),
        ("aws:iam/role:Role", "interrupted"),
        ("aws:eks/addon:Addon", "interrupted"),
        ("kubernetes:apps/v1:DaemonSet", "interrupted"),
        ("kubernetes:gateway.networking.k8s.io/v1:HTTPRoute", "interrupted"),
        ("aws:eks/accessEntry:AccessEntry", "weakened"),
        ("aws:eks/podIdentityAssociation:PodIdentityAssociation", "weakened"),
    ],
)
def test_to_delete_is_judged_where_to_replace_is(type_: str, effect: str) -> None:
    assert [one(Step(action, type_, "x")).effect for action in ("delete", "replace")] == [effect, effect]


def test_the_worst_comes_first_and_causes_before_what_follows_from_them() -> None:
    steps = (
        Step("create", VPC, "other"),
        Step("replace", "aws:ec2/subnet:Subnet", "a", (), ("vpcId",), caused_by=f"{VPC}::net"),
        Step("replace", VPC, "net", (), ("cidrBlock",)),
        Step("delete", BUCKET, "models"),
    )
    made = judgement.judge(Plan(steps), {}, {})
    assert [finding.name for finding in made.findings] == ["models", "net", "a", "other"]
    assert made.bad


def test_an_engine_that_would_not_go_on_is_bad_and_creations_are_not() -> None:
    assert judgement.judge(Plan((), errors=("protected",)), {}, {}).bad
    assert not judgement.judge(Plan((Step("create", VPC, "net"),)), {}, {}).bad


@pytest.mark.parametrize(
    ("spec", "effect"),
    [
        ({"replicas": 3}, "rolled"),
        ({"replicas": 1}, "rolled"),
        ({"replicas": 0}, "none"),
        ({"replicas": 3, "strategy": {"type": "Recreate"}}, "interrupted"),
        ({"replicas": 2, "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}}, "rolled"),
        ({"replicas": 1, "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}}, "interrupted"),
        ({"replicas": 2, "strategy": {"rollingUpdate": {"maxSurge": "0%", "maxUnavailable": "100%"}}}, "interrupted"),
        ({"replicas": 4, "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "25%"}}}, "rolled"),
        ({"replicas": 3, "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": "100%"}}}, "interrupted"),
        ({"replicas": 1, "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}, "rolled"),
    ],
)
def test_a_rollout_is_judged_by_its_strategy(spec: Mapping[str, Any], effect: str) -> None:
    step = Step("update", DEPLOYMENT, "triton", (Change("spec.template.spec.nodeName", "a", "b"),))
    manifest = {"metadata": {"name": "triton", "namespace": "triton"}, "spec": spec}
    assert one(step, inputs={step.key: (manifest, manifest)}).effect == effect


@pytest.mark.parametrize(("after", "effect"), [(4, "none"), (2, "rolled"), (0, "interrupted")])
def test_fewer_pods_are_told(after: int, effect: str) -> None:
    step = Step("update", DEPLOYMENT, "triton", (Change("spec.replicas", "3", str(after)),))
    inputs = {step.key: ({"spec": {"replicas": 3}}, {"spec": {"replicas": after}})}
    assert one(step, inputs=inputs).effect == effect


@pytest.mark.parametrize(
    ("before", "after", "effect"),
    [("90", "30", "lost"), ("30", "90", "none"), ("0", "30", "lost"), ("(none)", "30", "lost"), ("30", "0", "none")],
)
def test_a_shorter_time_for_logs_loses_some(before: str, after: str, effect: str) -> None:
    step = Step("update", "aws:cloudwatch/logGroup:LogGroup", "logs", (Change("retentionInDays", before, after),))
    inputs = [{"retentionInDays": int(days)} if days != "(none)" else {} for days in (before, after)]
    assert one(step, inputs={step.key: inputs}).effect == effect


def expiring(rule: str, days: int) -> dict[str, Any]:
    return {"id": rule, "expiration": {"days": days}}


@pytest.mark.parametrize(
    ("before", "after", "effect"),
    [
        ([], [expiring("results", 30)], "lost"),
        ([{"id": "results"}], [expiring("results", 30)], "lost"),
        ([expiring("results", 30)], [expiring("results", 7)], "lost"),
        ([expiring("results", 30)], [], "none"),
        ([expiring("results", 30), expiring("old", 7)], [expiring("old", 7), expiring("results", 30)], "none"),
        ([expiring("results", 30)], [{"id": "uploads", "daysAfterInitiation": 1}, expiring("results", 30)], "none"),
    ],
)
def test_objects_are_lost_by_a_rule_that_is_new_or_shorter_wherever_it_stands(
    before: list[Any], after: list[Any], effect: str
) -> None:
    lifecycle = "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration"
    step = Step("update", lifecycle, "models", (Change("rules[0]", "(none)", "{…}"),))
    assert one(step, inputs={step.key: ({"rules": before}, {"rules": after})}).effect == effect


@pytest.mark.parametrize(
    ("rules", "effect"),
    [
        ([{"id": "all", "expiration": {"days": 30}}], "lost"),
        ([{"id": "uploads", "abortIncompleteMultipartUpload": {"daysAfterInitiation": 1}}], "none"),
    ],
)
def test_objects_are_lost_by_the_first_rules_of_a_bucket_that_is_there_already(rules: list[Any], effect: str) -> None:
    step = Step("create", "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration", "models")
    made = {step.key: ({}, {"bucket": "triton-models", "rules": rules})}
    bucket = {"bucket": "triton-models"}
    assert one(step, inputs={**made, f"{BUCKET}::models": (bucket, bucket)}).effect == effect
    assert one(step, inputs={**made, f"{BUCKET}::models": ({}, bucket)}).effect == "none"


@pytest.mark.parametrize("replicas", [{}, {"replicas": 1}, {"replicas": 0}])
def test_an_autoscaler_says_how_many_pods_there_are_whatever_the_deployment_said_before_it(
    replicas: Mapping[str, int],
) -> None:
    named, scaler = {"namespace": "triton", "name": "triton"}, "kubernetes:keda.sh/v1alpha1:ScaledObject"
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    manifest = {"metadata": named, "spec": {"strategy": strategy, **replicas}}
    scaled = {"metadata": named, "spec": {"minReplicaCount": 3, "scaleTargetRef": {"name": "triton"}}}
    step = Step("update", DEPLOYMENT, "triton", (Change("spec.template.spec.image", "a", "b"),))
    inputs = {f"{DEPLOYMENT}::triton": (manifest, manifest), f"{scaler}::scaling": (scaled, scaled)}
    assert one(step, inputs=inputs).effect == "rolled"
