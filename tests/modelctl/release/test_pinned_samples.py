"""The stacks of this repository serve the sample models of this repository, with configs made from what they want."""

import shutil

import pytest

from modelctl.release.progress import Silent
from modelctl.release.publish import prepare
from modelctl.store.bucket import PART_BYTES
from modelctl.store.manifest import Manifest
from spec import settings
from twin.host.home import REPOSITORY

STACKS = REPOSITORY / "stacks"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """The release that `modelctl release models/` would make now, for the stacks that are shipped."""
    shipped = tmp_path_factory.mktemp("stacks")
    for stack in ("local", "dev", "staging", "prod"):
        shutil.copy(STACKS / f"Pulumi.{stack}.yaml", shipped)
    return prepare(REPOSITORY / "models", PART_BYTES, Silent(), shipped).manifest


@pytest.mark.parametrize("stack", ["dev", "staging", "prod"])
def test_a_stack_pins_the_release_that_the_sample_models_make(stack: str, made: Manifest) -> None:
    pinned = settings.load_stack_file(STACKS / f"Pulumi.{stack}.yaml").models.release
    assert pinned is not None
    assert (pinned.id, pinned.bytes, dict(pinned.models)) == (made.id, made.bytes, made.versions)
    assert pinned.serving == made.serving[stack]


def test_the_stack_of_the_twin_has_configs_in_the_release_too(made: Manifest) -> None:
    assert "classify/configs/local.pbtxt" in made.objects
