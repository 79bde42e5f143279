"""Runs the real policy pack process on every stack's registrations, then on the same with one defect per policy."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import yaml

from tests.paths import ROOT
from tests.policies.case import changed
from tests.system.component.engine.analyzer import Pack, running
from tests.system.component.engine.monitor import FirstPreview
from tests.system.component.engine.recording import Recording
from tests.system.component.engine.stack_run import STACKS, TODAY, StackRun, previewed
from tests.system.component.policy_defects import DEFECTS, seed
from triton_policies.pods import DEPLOYMENT
from triton_policies.resources import stack_of

_DAY = {"asOf": TODAY.isoformat()}
_PACK = ROOT / "policies"
_REGION = {"aws:region": "us-west-2", "aws:allowedAccountIds": '["123456789012"]'}

_OF_DOCUMENTS = ("iam-no-wildcard", "iam-trust-bounded", "other-accounts-named")


_OF_CHARTS = {
    *("pod-images", "pod-network-policy", "pod-no-api-token", "pod-no-plain-secrets", "pod-privileges", "pod-resources"),
    *("scaling-one-owner", "service-not-public"),
    *("release-signed", "triton-disruption", "triton-drain", "triton-probes", "triton-release"),
}
"""Policies whose defect is in an object of our charts."""
_OF_OBJECTS = {"gateway-clients-known", "gateway-tls", "ng-max-size-cap", "triton-scraped"}
"""Policies about a whole stack whose defect is in another object."""


@pytest.fixture(scope="module")
def pack() -> Iterator[Pack]:
    """Return the pack; it evaluates Kubernetes versions for the same day as the stack files."""
    with running(_PACK) as pack:
        pack.configure({"eks-version-supported": _DAY, "eks-version-ageing": _DAY})
        pack.configure_stack("any", _REGION)
        yield pack


def test_the_process_tells_severity_level_and_remedy_of_every_policy(pack: Pack) -> None:
    policies = pack.policies()
    assert sorted(policies) == sorted([*DEFECTS, "settings-known", "judged-at-up"])
    assert [
        name for name, info in policies.items() if not (info.severity and info.remediation_steps and info.description)
    ] == []


def test_what_a_stack_registers_violates_no_policy(stack_run: StackRun, pack: Pack) -> None:
    assert [str(found) for found in pack.judge(stack_run.up)] == []


def test_a_first_preview_only_says_what_it_cannot_judge_yet(stack_run: StackRun, pack: Pack) -> None:
    [waiting] = pack.judge(stack_run.preview)
    assert (waiting.policy, waiting.level) == ("judged-at-up", "advisory")
    assert re.search(r"^\d+ checks wait for values that are known only while `pulumi up` runs\. ", waiting.message, re.M)
    # Documents that name resources to be created. Nothing else may wait, or people would not read the list.
    told = set(re.findall(r"([a-z0-9-]+) \(", waiting.message.partition("refuses: ")[2]))
    assert told - {*_OF_DOCUMENTS, "s3-tls-only", "sqs-tls-only"} == set()
    assert "s3-tls-only (models-policy.policy" in waiting.message


@pytest.fixture(scope="module", params=STACKS)
def without_a_cluster(request: pytest.FixtureRequest) -> Recording:
    """Return a first preview of each stack as on AWS: the kubeconfig is unknown before the cluster exists."""
    config = yaml.safe_load((ROOT / "stacks" / f"Pulumi.{request.param}.yaml").read_text())["config"]
    return previewed(ROOT, request.param, config, FirstPreview)


def test_a_first_preview_has_no_properties_of_objects_and_none_of_our_charts(
    without_a_cluster: Recording, stack_runs: Callable[[str], StackRun]
) -> None:
    stack = stack_of(without_a_cluster.registrations[0].urn)
    objects = [item for item in without_a_cluster.registrations if item.type.startswith("kubernetes:") and item.custom]
    assert [item.name for item in objects if item.outputs or not item.inputs] == []
    absent = {item.urn: item for item in stack_runs(stack).preview.registrations}
    for item in without_a_cluster.registrations:
        del absent[item.urn]
    charts = {item.parent.rpartition("$")[2].partition("::")[0] for item in absent.values()}
    assert charts == {"kubernetes:helm.sh/v4:Chart"}


def test_a_first_preview_without_a_cluster_violates_no_policy(without_a_cluster: Recording, pack: Pack) -> None:
    [waiting] = pack.judge(without_a_cluster)
    assert (waiting.policy, waiting.level) == ("judged-at-up", "advisory")


def test_policies_catch_their_defects_before_the_cluster_exists(pack: Pack) -> None:
    """Rules about one resource get an object's inputs. Rules about the whole stack get no property of it."""
    config = yaml.safe_load((ROOT / "stacks" / "Pulumi.prod.yaml").read_text())["config"]
    first = previewed(ROOT, "prod", config, FirstPreview)
    defects = {
        policy: defect
        for policy, defect in DEFECTS.items()
        if defect.adds or any(defect.changes(item.type, item.name, item.custom) for item in first.registrations)
    }
    found = {one.policy for one in pack.judge(seed(first, defects))} - {"judged-at-up"}
    assert DEFECTS.keys() - defects.keys() == _OF_CHARTS
    assert defects.keys() - found == _OF_OBJECTS
    assert found <= defects.keys()


def test_the_replicas_of_a_live_object_are_the_clusters_and_those_of_the_program_are_a_violation(
    stack_runs: Callable[[str], StackRun], pack: Pack
) -> None:
    up = stack_runs("prod").up
    live = {"spec.replicas": 3, "metadata.uid": "5d0c"}
    items = [
        replace(item, outputs=changed(item.outputs, live)) if item.type == DEPLOYMENT else item for item in up.registrations
    ]
    assert [str(found) for found in pack.judge(Recording(items, up.exports))] == []
    asked = [
        replace(item, inputs=changed(item.inputs, live), checked=changed(item.checked, {"spec.replicas": 3}))
        if item.type == DEPLOYMENT
        else item
        for item in items
    ]
    # In a stack that has just got its autoscaler, the ignored inputs are the old ones.
    assert [str(found) for found in pack.judge(Recording(asked, up.exports))] == []
    asked = [replace(item, ignore_changes=()) if item.type == DEPLOYMENT else item for item in asked]
    found = pack.judge(Recording(asked, up.exports))
    assert {(one.policy, one.level) for one in found} == {("scaling-one-owner", "mandatory")}


def test_a_stack_is_judged_as_what_it_is_configured_to_be_whatever_its_name_is(
    stack_runs: Callable[[str], StackRun], pack: Pack
) -> None:
    def told(stack: str, config: dict[str, str]) -> set[str]:
        pack.configure_stack(stack, {**_REGION, **config})
        return {found.policy for found in pack.judge(stack_runs(stack).up)}

    try:
        strict = told("local", {"triton-eks:environment": "prod"})
        assert {"lasting-protected", "budget-present", "eks-deletion-protection"} <= strict
        assert told("local", {"triton-eks:environment": "something new"}) == strict
        assert told("local", {}) == set()
        assert told("prod", {"triton-eks:environment": "dev"}) == {
            "ng-instance-allowlist",
            "ng-max-size-cap",
            "scaling-bounds",
        }
    finally:
        pack.configure_stack("any", _REGION)


def test_what_is_in_another_region_than_the_stack_is_a_violation(stack_runs: Callable[[str], StackRun], pack: Pack) -> None:
    try:
        pack.configure_stack("local", {"aws:region": "eu-central-1"})
        assert {found.policy for found in pack.judge(stack_runs("local").up)} == {"region-allowed"}
    finally:
        pack.configure_stack("any", _REGION)


def test_settings_that_no_policy_has_are_refused_and_told_once(stack_runs: Callable[[str], StackRun]) -> None:
    with running(_PACK) as pack:
        pack.configure({"ng-max-size-cap": {"maxGpu": 4}, "lt-imdsv2": {"hops": 1}, "sqs-encrypted": {"on": True}})
        found = [one for one in pack.judge(stack_runs("local").up) if one.policy == "settings-known"]
    assert [(one.level, one.message.partition("\n")[2]) for one in found] == [
        ("mandatory", f"--policy-pack-config: {stray}: there is no such setting, and it changes nothing. Fix: {fix}")
        for stray, fix in (
            ("lt-imdsv2.hops", "set maxHops"),
            ("ng-max-size-cap.maxGpu", "set maxGpus"),
            ("sqs-encrypted.on", "take it out, the policy has none"),
        )
    ]


def test_each_policy_catches_its_defect(stack_runs: Callable[[str], StackRun], pack: Pack) -> None:
    """The test adds all defects at once, so it also proves that no defect hides another."""
    found = pack.judge(seed(stack_runs("prod").up))
    told = {(one.policy, one.level, one.message.partition("\n")[2].partition(": ")[0]) for one in found}
    told |= {(one.policy, one.level, "") for one in found if one.message.partition("\n")[2].startswith("the stack ")}
    assert [policy for policy, defect in DEFECTS.items() if (policy, defect.level, defect.at_fault) not in told] == []
    assert {(one.policy, one.level) for one in found} == {(policy, defect.level) for policy, defect in DEFECTS.items()}
