"""docs/policies.md and the pack's data agree with the code, with AWS and with the program."""

from __future__ import annotations

import re
import tomllib

import pytest
import yaml

from spec.catalog import INSTANCE_TYPES
from spec.versions import KUBERNETES_SUPPORT
from tests.paths import ROOT
from triton_policies import document
from triton_policies.cluster import END_OF_STANDARD_SUPPORT
from triton_policies.gpu_types import gpus_of
from triton_policies.policy import Policy
from triton_policies.registry import POLICIES

_CONTROL = re.compile(r"CIS EKS \d+\.\d+\.\d+|FSBP (EKS|EC2|IAM|KMS|S3|ECR|SQS|CloudWatch)\.\d+")


def test_the_page_has_every_policy_as_it_is() -> None:
    page = (ROOT / "docs" / "policies.md").read_text()
    assert page == document.written(page), "run `make reference`"


def test_what_is_not_between_the_two_lines_of_the_page_stays() -> None:
    page = f"before\n{document.BEGIN}\nold\n{document.END}\nafter\n"
    assert document.written(page) == f"before\n{document.BEGIN}\n\n{document.tables()}\n{document.END}\nafter\n"
    for line in (document.BEGIN, document.END):
        with pytest.raises(ValueError, match="the page needs the lines"):
            document.written(page.replace(line, ""))


def test_ids_are_unique_and_every_policy_is_described_whole() -> None:
    assert len({policy.id for policy in POLICIES}) == len(POLICIES)
    assert [policy.id for policy in POLICIES if not _whole(policy)] == []


def _whole(policy: Policy) -> bool:
    return policy.says.endswith(".") and bool(policy.fix) and all(_CONTROL.fullmatch(one) for one in policy.controls)


def test_the_strict_value_of_a_setting_is_one_that_its_schema_takes() -> None:
    kinds = {"array": list, "integer": int, "boolean": bool, "object": dict, "string": str}
    for policy in POLICIES:
        for name, setting in policy.settings.items():
            for environment in ("prod", "local", "dev", "staging"):
                assert isinstance(setting.of(environment), kinds[setting.schema["type"]]), f"{policy.id} {name}"


def test_versions_and_gpus_are_those_of_the_program() -> None:
    """The pack imports nothing from the program, because it checks the program; so a test keeps both in agreement."""
    known = {version: KUBERNETES_SUPPORT[version].standard_until.isoformat() for version in END_OF_STANDARD_SUPPORT}
    assert known == END_OF_STANDARD_SUPPORT
    assert {name: gpus_of(name) for name in INSTANCE_TYPES} == {name: one.gpus for name, one in INSTANCE_TYPES.items()}


def test_the_pack_imports_nothing_of_the_program() -> None:
    ours = {"benchmarks", "bootstrap", "console", "infra", "modelctl", "spec", "stackctl", "tests", "twin", "worker"}
    for path in sorted((ROOT / "policies").rglob("*.py")):
        imported = set(re.findall(r"^(?:from|import) (\w+)", path.read_text(), re.MULTILINE))
        assert imported & ours == set(), path


def test_the_pack_needs_what_the_project_has() -> None:
    assert yaml.safe_load((ROOT / "policies" / "PulumiPolicy.yaml").read_text())["runtime"]["name"] == "python"
    requirement = (ROOT / "policies" / "requirements.in").read_text().splitlines()[-1]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert requirement in extras["dev"]
