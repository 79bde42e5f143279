"""Ownership: the program's tags on its resources, which a user cannot override."""

import pytest

from spec import ownership
from spec.ownership import Ownership, own_tags
from spec.settings import SettingsError, load
from tests.spec.stack_config import TODAY, config, settings

OWN = {"project": "triton-eks", "environment": "staging"}


@pytest.mark.parametrize("key", ["project", "Project", "environment", "ENVIRONMENT"])
def test_no_tag_of_a_stack_file_takes_the_place_of_an_ownership_tag(key: str) -> None:
    """Settings refuse it; without the check, the stack's own resources would still be recognised."""
    given = settings()
    forged = given.model_copy(update={"tags": {**given.tags, key: "prod"}})
    tags = own_tags(forged)
    assert {one: tags[one] for one in OWN} == OWN
    assert {one for one in tags if one.casefold() in OWN} == set(OWN)
    assert Ownership.of(forged).reason(tags) == "project=triton-eks, environment=staging"


def test_the_other_tags_of_the_file_are_there() -> None:
    assert own_tags(settings()) == {**OWN, "owner": "ml-platform", "cost-center": "inference"}


@pytest.mark.parametrize("key", [*OWN, *ownership._CLUSTER_NAME_TAGS, "kubernetes.io/cluster/triton-prod"])
def test_every_tag_by_which_something_is_known_as_a_stacks_is_refused_in_a_stack_file(key: str) -> None:
    with pytest.raises(SettingsError, match=f"tags.{key}: '{key}' is "):
        load(config({"tags": {"owner": "a", "cost-center": "b", key: "triton-prod"}}), "staging", today=TODAY)
