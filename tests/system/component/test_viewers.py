"""Permissions of the preview roles: all objects that the program registers, but no Secret."""

from __future__ import annotations

from typing import Any

import pytest

from infra.platform.viewers import CORE, GROUPS
from spec.settings import load
from tests.system.component.engine.account import fresh_account, seed_roles, seed_topics
from tests.system.component.engine.recording import Recording
from tests.system.component.engine.stack_run import TODAY, deployed
from tests.system.component.test_reach import OTHERS
from twin.aws.base.clients import Clients

PREVIEW = "arn:aws:iam::123456789012:role/triton-eks-preview"


@pytest.fixture(scope="module", params=[*OTHERS])
def recording(request: pytest.FixtureRequest) -> Recording:
    stack, given = OTHERS[request.param]()
    given["triton-eks:cluster"] = {**given["triton-eks:cluster"], "viewRoleArns": [PREVIEW]}
    settings = load(given, stack, today=TODAY)
    with fresh_account():
        clients = Clients(settings.region)
        seed_roles(clients, settings.cluster)
        seed_topics(clients, given)
        return deployed(settings, given, clients, preview=False)


def test_a_preview_may_read_each_object_of_the_program(recording: Recording) -> None:
    types = {
        item.type.removeprefix("kubernetes:") for item in recording.registrations if item.type.startswith("kubernetes:")
    }
    objects = {tuple(type.split(":")) for type in types if not type.startswith(("helm.sh/", "core/v1:Secret"))}
    core = {kind for version, kind in objects if version == "core/v1"}
    groups = {version.partition("/")[0] for version, _ in objects} - {"core"}
    assert len(groups) > 2
    assert {f"{kind.lower()}s" for kind in core} <= set(CORE)
    assert groups <= set(GROUPS)


def test_it_reads_no_secret_and_reaches_no_container(recording: Recording) -> None:
    (role,) = [item for item in recording.registrations if item.name == "viewers-role"]
    (binding,) = [item for item in recording.registrations if item.name == "viewers-binding"]
    rules: list[dict[str, Any]] = role.checked["rules"]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list", "watch"}
    (core,) = [rule["resources"] for rule in rules if "" in rule["apiGroups"]]
    assert not {"secrets", "*", "pods/exec", "pods/portforward", "pods/log", "nodes/proxy", "pods/proxy"} & set(core)
    assert all("*" not in rule["apiGroups"] for rule in rules)
    assert binding.checked["subjects"] == [
        {"kind": "Group", "name": "triton-viewers", "apiGroup": "rbac.authorization.k8s.io"}
    ]
    (entry,) = [
        item for item in recording.of_type("aws:eks/accessEntry:AccessEntry") if item.checked["principalArn"] == PREVIEW
    ]
    assert entry.checked["kubernetesGroups"] == ["triton-viewers"]
    policies = recording.of_type("aws:eks/accessPolicyAssociation:AccessPolicyAssociation")
    assert PREVIEW not in {item.checked["principalArn"] for item in policies}
