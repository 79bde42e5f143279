"""Every policy: what passes, what each violation is told as, and what becomes of a value that is not known yet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.policies.case import UNKNOWN, Case, Failure, changed, changed_stack, text
from tests.policies.cases import CASES
from tests.policies.judging import BY_ID, Verdict, judge
from triton_policies.registry import POLICIES
from triton_policies.waiting import Waiting

_FAILURES = [pytest.param(case, failure, id=f"{case.policy}-{n}") for case in CASES for n, failure in enumerate(case.fails)]
_WITH_UNKNOWN = [case for case in CASES if case.unknown is not None]


def _id(case: Case) -> str:
    return case.policy


def test_every_policy_has_a_case_with_a_violation() -> None:
    assert [policy.id for policy in POLICIES if policy.id not in {case.policy for case in CASES if case.fails}] == []


def test_every_policy_has_a_case_with_an_unknown_value() -> None:
    without = sorted(BY_ID.keys() - {case.policy for case in _WITH_UNKNOWN})
    # They read no value: something is there or not, or an option says it. Of SSH keys an unknown one is one (see its cases).
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


def test_an_unknown_value_hides_no_violation_beside_it() -> None:
    """Of the same resource, in the same list, after the unknown one."""
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
    waiting.add("s3-tls-only", "models.policy")  # of a resource that is replaced, the engine asks twice
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
