"""Each policy: passing resources, the message of each violation, and the handling of unknown values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.policies.case import UNKNOWN, Case, Failure, Made, changed, changed_stack, made, text
from tests.policies.cases import CASES
from tests.policies.judging import BY_ID, Verdict, judge
from triton_policies.platform import PROXY, SECURITY
from triton_policies.policy import Policy
from triton_policies.registry import POLICIES
from triton_policies.waiting import Waiting

_FAILURES = [pytest.param(case, failure, id=f"{case.policy}-{n}") for case in CASES for n, failure in enumerate(case.fails)]
_STACKS = [case for case in CASES if isinstance(case.passes, tuple)]
_STACK_FAILURES = [
    pytest.param(case, failure, id=f"{case.policy}-{n}") for case in _STACKS for n, failure in enumerate(case.fails)
]
_MAY_MEND: dict[str, set[str]] = {
    "ng-private-subnets": {"InternetGateway", "Route", "RouteTableAssociation"},
    "ng-max-size-cap": {"LaunchTemplate"},
    "vpc-flow-logs": {"FlowLog"},
    "vpc-endpoints-present": {"VpcEndpoint"},
    "sg-default-locked": {"DefaultSecurityGroup"},
    "nat-ha-in-prod": {"NatGateway", "Subnet"},
    "s3-locked-down": {
        "BucketOwnershipControls",
        "BucketPolicy",
        "BucketPublicAccessBlock",
        "BucketServerSideEncryptionConfiguration",
        "BucketVersioning",
    },
    "ecr-lifecycle": {"LifecyclePolicy"},
    "sqs-policy-present": {"QueuePolicy"},
    "sqs-dead-letters": {"RedriveAllowPolicy"},
    "pod-network-policy": {"NetworkPolicy"},
    "triton-disruption": {"ScaledObject", "PodDisruptionBudget"},
    "triton-scraped": {"PodMonitor"},
    "scaling-one-owner": {"HorizontalPodAutoscaler", "ScaledObject"},
    "gateway-clients-known": {"SecurityPolicy"},
    "gateway-tls": {"EnvoyProxy"},
    "budget-present": {"Budget"},
}
"""Policy -> kinds of which one more resource may be the missing one, or may decide about another one."""
_COUNTED = {"budget-present": {"Budget"}, "nat-ha-in-prod": {"NatGateway"}}
"""Policy -> kinds that count whatever their properties are."""
_WITH_UNKNOWN = [case for case in CASES if case.unknown is not None]


def _id(case: Case) -> str:
    return case.policy


def test_every_policy_has_a_case_with_a_violation() -> None:
    assert [policy.id for policy in POLICIES if policy.id not in {case.policy for case in CASES if case.fails}] == []


def test_every_policy_has_a_case_with_an_unknown_value() -> None:
    without = sorted(BY_ID.keys() - {case.policy for case in _WITH_UNKNOWN})
    # They read no value: a resource exists or not, or an option decides. An unknown SSH key counts as a key (see its cases).
    assert without == ["budget-present", "iam-no-static-keys", "k8s-explicit-provider", "lasting-protected", "ng-no-ssh"]


@pytest.mark.parametrize("case", CASES, ids=_id)
def test_what_is_right_passes(case: Case) -> None:
    assert judge(case, case.passes) == Verdict((), None)


@pytest.mark.parametrize(("case", "failure"), _FAILURES)
def test_a_violation_is_told_with_resource_property_and_fix(case: Case, failure: Failure) -> None:
    given = (
        changed(case.passes, failure.change) if isinstance(case.passes, dict) else changed_stack(case.passes, failure.change)
    )
    assert judge(failure.of(case), given) == Verdict(failure.told, None)


@pytest.mark.parametrize("case", _WITH_UNKNOWN, ids=_id)
def test_an_unknown_value_is_no_violation_and_switches_no_important_rule_off_in_silence(case: Case) -> None:
    assert case.unknown is not None
    if isinstance(case.passes, dict):
        name, path = "it", case.unknown
        verdict = judge(case, changed(case.passes, {path: UNKNOWN}))
    else:
        name, path = case.unknown  # type: ignore[misc]
        verdict = judge(case, changed_stack(case.passes, {name: {path: UNKNOWN}}))
    assert verdict.told == ()
    if case.needs_no_value:
        assert verdict.unjudged is None
    elif BY_ID[case.policy].severity in ("critical", "high"):
        assert verdict.unjudged is not None
        places = verdict.unjudged.partition(f"refuses: {case.policy} (")[2].removesuffix(")").split(", ")
        assert any(place.endswith(text(path)) for place in places), verdict.unjudged
    else:
        assert verdict.unjudged is None


@pytest.mark.parametrize("case", _STACKS, ids=_id)
def test_a_resource_without_properties_is_no_violation(case: Case) -> None:
    """Its inputs are unknown, not empty: the engine has no properties of an object while its cluster does not exist."""
    for empty in case.passes:
        stack = [replace(one, properties={}) if one is empty else one for one in case.passes]
        assert judge(case, stack).told == (), empty


def test_a_resource_without_properties_is_named_among_what_waits() -> None:
    case = next(case for case in CASES if case.policy == "gateway-tls")
    [gateway], [proxy] = _of(case, "inference"), _of(case, "envoy")
    assert judge(case, [gateway, replace(proxy, properties={})]).unjudged == (
        "1 check waits for values that are known only while `pulumi up` runs. The policies run again there, and a mandatory "
        "one still refuses: gateway-tls (envoy.spec.provider.kubernetes.envoyService.annotations)"
    )
    assert str(judge(case, [replace(gateway, properties={}), proxy]).unjudged).endswith(
        ": gateway-tls (inference.spec.listeners)"
    )


def test_a_gateway_on_the_internet_passes_in_a_preview_only_if_its_clients_may_be_known() -> None:
    case = next(case for case in CASES if case.policy == "gateway-clients-known")
    [violation] = case.fails
    public = changed_stack(case.passes, violation.change)
    assert judge(case, [*public, made(PROXY, "another")]).told == violation.told
    unknown = judge(case, [*public, made(SECURITY, "keys")])
    assert unknown.told == ()
    assert str(unknown.unjudged).endswith(": gateway-clients-known (keys.spec.apiKeyAuth)")


@pytest.mark.parametrize(("case", "failure"), _STACK_FAILURES)
def test_a_resource_without_properties_hides_no_violation_that_it_cannot_mend(case: Case, failure: Failure) -> None:
    stack = changed_stack(case.passes, failure.change)
    for kind in {one.type for one in (*case.passes, *stack)}:
        told = judge(failure.of(case), [*stack, made(kind, "empty")]).told
        assert set(failure.told) <= set(told) or _kind(kind) in _MAY_MEND[case.policy]


@pytest.mark.parametrize(("case", "failure"), _STACK_FAILURES)
def test_a_defect_beside_a_resource_without_properties_never_passes_in_silence(
    case: Case, failure: Failure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Policy, "tells_unknown", True)  # of each severity
    stack = changed_stack(case.passes, failure.change)
    for kind in {one.type for one in (*case.passes, *stack)}:
        verdict = judge(failure.of(case), [*stack, made(kind, "empty")])
        assert verdict.told or verdict.unjudged or _kind(kind) in _COUNTED[case.policy]


def _kind(type: str) -> str:
    return type.rpartition(":")[2]


def _of(case: Case, *names: str) -> list[Made]:
    return [one for one in case.passes if isinstance(one, Made) and one.name in names]


def test_an_unknown_value_hides_no_violation_beside_it() -> None:
    """The violation is on the same resource, in the same list, after the unknown value."""
    case = next(case for case in CASES if case.policy == "sg-no-world-ingress" and "ingress" in case.passes)
    assert isinstance(case.passes, dict)
    open_rule = {"cidrBlocks": ["0.0.0.0/0"], "fromPort": 22, "toPort": 22}
    verdict = judge(case, changed(case.passes, {"ingress": [{"cidrBlocks": UNKNOWN}, open_rule]}))
    assert [told.partition(": anyone")[0] for told in verdict.told] == ["it: ingress[1].cidrBlocks[0]: is 0.0.0.0/0"]
    assert verdict.unjudged is not None
    assert verdict.unjudged.endswith("refuses: sg-no-world-ingress (it.ingress[0].cidrBlocks)")


def test_what_waits_is_one_sentence_for_the_whole_stack_and_told_once() -> None:
    waiting = Waiting()
    for policy, place in (
        ("s3-tls-only", "models.policy"),
        ("iam-no-wildcard", "b.policy"),
        ("iam-no-wildcard", "a.policy"),
    ):
        waiting.add(policy, place)
    waiting.add("s3-tls-only", "models.policy")  # for a replaced resource, the engine calls twice
    assert waiting.take() == (
        "3 checks wait for values that are known only while `pulumi up` runs. The policies run again there, and a mandatory "
        "one still refuses: iam-no-wildcard (a.policy, b.policy), s3-tls-only (models.policy)"
    )
    assert waiting.take() is None


def test_a_configuration_goes_before_the_environment() -> None:
    case = next(case for case in CASES if case.policy == "ng-max-size-cap")
    assert judge(case, case.passes).told == ()
    [told] = judge(replace(case, config={"maxGpus": 31.0}), case.passes).told
    assert told.startswith("the stack may start 32 GPUs (g5 16, p4d 16), 31 is the most here")


def test_a_message_is_one_line_whatever_the_value() -> None:
    case = next(case for case in CASES if case.policy == "helm-pinned")
    assert isinstance(case.passes, dict)
    [told] = judge(case, changed(case.passes, {"version": "1.2.3\nand more"})).told
    assert told == "it: version: is 1.2.3 and more: the chart may be another one tomorrow. Fix: set one exact version"


@pytest.mark.parametrize(
    ("type", "path"),
    [
        ("kubernetes:apps/v1:Deployment", "spec.template.spec"),
        ("kubernetes:apps/v1:StatefulSet", "spec.template.spec"),
        ("kubernetes:apps/v1:DaemonSet", "spec.template.spec"),
        ("kubernetes:apps/v1:ReplicaSet", "spec.template.spec"),
        ("kubernetes:batch/v1:Job", "spec.template.spec"),
        ("kubernetes:batch/v1:CronJob", "spec.jobTemplate.spec.template.spec"),
        ("kubernetes:core/v1:Pod", "spec"),
    ],
)
def test_a_pod_is_seen_in_every_kind_that_makes_one(type: str, path: str) -> None:
    (given,) = [case for case in CASES if case.policy == "pod-privileges" and isinstance(case.passes, dict)][:1]
    pod = given.passes["spec"]["template"]["spec"]  # type: ignore[call-overload]
    for step in reversed(path.split(".")):
        pod = {step: pod}
    case = replace(given, type=type, passes=pod)
    assert judge(case, pod) == Verdict((), None)
    privileged = changed(pod, {f"{path}.containers[0].securityContext.privileged": True})
    (told,) = judge(case, privileged).told
    assert told.startswith(f"it: {path}.containers[0].securityContext.privileged: ")
