"""This repository's stacks and their models; the ids of their pins: test_packaged_models.py."""

import pytest

from examples.packaged import build
from modelctl.release.progress import Silent
from modelctl.release.publish import prepare
from modelctl.store.bucket import PART_BYTES
from spec import settings
from twin.host.home import REPOSITORY

STACKS = REPOSITORY / "stacks"
SHIPPED = ("dev", "prod", "staging")


def test_the_samples_are_released_for_the_stack_of_the_twin_alone() -> None:
    plan = prepare(REPOSITORY / "models", PART_BYTES, Silent(), STACKS)
    assert ([*plan.manifest.serving], plan.other_stacks) == (["local"], SHIPPED)
    assert "classify/configs/local.pbtxt" in plan.objects


@pytest.mark.parametrize("stack", SHIPPED)
def test_the_other_stacks_serve_every_packaged_model_and_say_what_they_want_of_it(stack: str) -> None:
    models = settings.load_stack_file(STACKS / f"Pulumi.{stack}.yaml").models
    assert models.release is not None
    assert tuple(sorted(models.release.models)) == tuple(sorted(models.serving)) == build.MODELS
    on_gpus = [name for name, wants in sorted(models.serving.items()) if wants.device == "gpu"]
    assert on_gpus == ["filetype", "text_detection", "text_direction", "text_recognition"]
