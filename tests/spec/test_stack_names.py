"""Names of stacks: derived names follow AWS's rules, and a stack's rules follow its environment."""

import pytest

from spec import names
from spec.catalog import REGIONS
from spec.stack_names import ENVIRONMENTS, longest_name, mistakes_in_name
from tests.spec.stack_config import complaints, settings

ACCOUNT = "123456789012"
NOT_A_NAME = (
    "cannot be part of a bucket's name; begin with a lower-case letter, and go on with lower-case letters, digits and "
    "single hyphens between them, like prod-eu"
)


def test_a_stack_of_any_name_is_what_its_file_says_and_calls_everything_after_itself() -> None:
    read = settings({"environment": "prod", "network.nat": "per_az"}, "eu-1")
    assert (read.stack, read.environment, read.cluster_name, read.protected) == ("eu-1", "prod", "triton-eu-1", True)
    assert not settings({"environment": "local"}, "laptop").protected


@pytest.mark.parametrize("name", ["Prod", "prod_eu", "prod.eu", "1a", "-a", "a-", "a--b", "", "prod eu"])
def test_a_name_that_s3_refuses_is_refused(name: str) -> None:
    assert mistakes_in_name(name) == [f"'{name}' {NOT_A_NAME}"]


@pytest.mark.parametrize("name", ["eks-deploy", "eks-preview-2"])
def test_a_name_whose_roles_the_deploy_role_must_not_touch_is_refused(name: str) -> None:
    assert mistakes_in_name(name) == [
        f"a cluster 'triton-{name}' would be taken for one of the roles of GitHub's workflows, which nobody who deploys may "
        "change; give another name"
    ]


@pytest.mark.parametrize("name", [*ENVIRONMENTS, "a", "prod-eu", "team-7", "x1"])
def test_a_name_that_fits_everywhere(name: str) -> None:
    assert [mistakes_in_name(name, region) for region in REGIONS if mistakes_in_name(name, region)] == []


@pytest.mark.parametrize("region", ["us-west-2", "ap-northeast-1", "us-gov-west-1", "cn-northwest-1"])
def test_the_longest_name_fits_every_limit_and_one_character_more_does_not(region: str) -> None:
    def lengths(stack: str) -> list[bool]:
        cluster = names.cluster_name(stack)
        return [
            len(names.request_bucket(stack, ACCOUNT, region)) <= 63,
            len(names.model_bucket(stack, ACCOUNT, region)) <= 63,
            len(names.workload_role(cluster, region, "alertmanager")) <= 64,
            len(f"{names.interruption_queue(cluster)}-reservation") <= 64,
            len(f"{names.request_queue(cluster)}-dead") <= 80,
        ]

    longest = "a" * longest_name(region)
    assert all(lengths(longest))
    assert not all(lengths(longest + "a"))
    assert mistakes_in_name(longest, region) == []
    assert mistakes_in_name(longest + "a", region) == [
        f"'{longest}a' has {len(longest) + 1} characters, and the names of its buckets and roles in {region} have room for "
        f"{len(longest)}; give a shorter one"
    ]


def test_the_name_is_told_with_everything_else_that_is_wrong() -> None:
    assert complaints({"environment": "dev", "tags": {"owner": "a"}}, "Prod_eu") == [
        "tags: 'cost-center' is missing; every resource is tagged with owner and cost-center",
        f"the name of the stack: 'Prod_eu' {NOT_A_NAME}",
    ]


@pytest.mark.parametrize(
    ("stack", "environment", "valid"),
    [
        ("prod-eu", "dev", "prod"),
        ("eu-prod", "staging", "prod"),
        ("prod-dev", "staging", "dev or prod"),
        ("dev", "prod", "dev"),
    ],
)
def test_a_stack_whose_name_says_an_environment_is_of_it(stack: str, environment: str, valid: str) -> None:
    sentence = f"environment: '{environment}' is not what the name of the stack '{stack}' says; use {valid}, or another name"
    assert sentence in complaints({"environment": environment}, stack)


def test_the_rules_of_prod_hold_for_every_stack_that_is_prod_and_for_one_whose_environment_is_misspelt() -> None:
    broken = "network.nat: prod invariant 'NAT per zone': 'single' lets one zone's failure cut off the others; use per_az"
    assert complaints({"environment": "prod"}, "eu-1") == [broken]
    assert broken in complaints({"environment": "prd"}, "prod-eu")
    assert settings({"environment": "staging"}, "eu-1").environment == "staging"


def test_a_name_that_pulumi_refuses_is_a_mistake_in_every_region() -> None:
    assert mistakes_in_name("a" * 100) == []
    assert mistakes_in_name("a" * 101) == ["a stack's name has 100 characters at most, and this one 101; shorten it"]
