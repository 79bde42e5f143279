"""The stacks of this repository serve the sample models of this repository."""

import pytest

from infra import settings
from modelctl.progress import Silent
from modelctl.release import prepare
from modelctl.store import PART_BYTES
from twin.home import REPOSITORY


@pytest.mark.parametrize("stack", ["dev", "staging", "prod"])
def test_a_stack_pins_the_release_that_the_sample_models_make(stack: str) -> None:
    made = prepare(REPOSITORY / "models", PART_BYTES, Silent()).manifest
    pinned = settings.load_stack_file(REPOSITORY / "stacks" / f"Pulumi.{stack}.yaml").models.release
    assert pinned is not None
    assert (pinned.id, pinned.bytes, dict(pinned.models)) == (made.id, made.bytes, made.versions)
