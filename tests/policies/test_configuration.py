"""The policy pack's configuration as the workflows and the twin set it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.paths import ROOT
from tests.policies.cases import CASES
from tests.policies.judging import BY_ID, judge

CONFIGURATION = json.loads((ROOT / "policies" / "config.json").read_text(encoding="utf-8"))
ADMINISTRATORS = "eks-access-admin-limit"


def test_it_sets_what_policies_have() -> None:
    assert {(policy, name) for policy, own in CONFIGURATION.items() for name in own} <= {
        (policy, name) for policy in BY_ID for name in BY_ID[policy].settings
    }


@pytest.mark.parametrize(
    ("role", "refused"),
    [
        ("platform-admin", 0),
        ("triton-eks-deploy-prod", 0),
        ("triton-eks-deploy-prod-eu-central-1", 0),
        ("triton-eks-deploy-dev", 1),
        ("triton-eks-deploy", 1),
        ("triton-eks-preview", 1),
        ("x/platform-admin", 1),
    ],
)
def test_people_and_the_workflows_role_may_administer(role: str, refused: int) -> None:
    case = next(case for case in CASES if case.policy == ADMINISTRATORS)
    assert isinstance(case.passes, dict)
    given = {**case.passes, "principalArn": f"arn:aws:iam::123456789012:role/{role}"}
    assert len(judge(replace(case, config=CONFIGURATION[ADMINISTRATORS]), given).told) == refused
