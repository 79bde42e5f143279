"""Prepare the release of `make up`: the samples with models that read pictures or, on an autoscaled twin, a slow model."""

import shutil
from pathlib import Path

from examples.packaged import build
from spec.failure import Failure
from twin.engine import stack_files
from twin.host.home import REPOSITORY, TwinHome

SAMPLES = REPOSITORY / "models"
SLOW_MODELS = REPOSITORY / "twin" / "models"
"""For loads that need more than one pod: the samples answer in a millisecond."""
SLOW_MODEL = "timed_batch"
PICTURE_MODEL = "text_in_picture"
"""From examples/packaged, like the models that it calls."""
_PACKAGED = (PICTURE_MODEL, "text_detection", "text_direction", "text_recognition")


class NotPrepared(Failure):
    """The models could not be put together; the text says why."""


def directory(home: TwinHome) -> Path:
    """Return the folder of the models that this twin's `make up` releases."""
    return home.cache / "release" / "models"


def reads_pictures(home: TwinHome) -> bool:
    """Return whether they include models that read pictures."""
    return with_pictures(stack_files.autoscaling(home), stack_files.gateway(home))


def with_pictures(autoscaling: bool, gateway: bool) -> bool:
    """Return whether a twin serves models that read pictures. They start too slowly if pods come and go with a load."""
    return not (autoscaling or gateway)


def check() -> None:
    """Raise NotBuilt if packages are missing from which the models that read pictures are built."""
    build.files_of_packages(_PACKAGED)


def prepare(home: TwinHome, program: Path = REPOSITORY) -> Path:
    """Create `directory` with the models to release, and return it. Raises NotPrepared, and NotBuilt without the packages.

    `program`: the checkout with the samples and the stack file. Next to the models is only this twin's own copy of its
    stack, because the other stacks serve other models. It may have other GPUs than the tracked file.
    """
    models = directory(home)
    is_scaled = stack_files.autoscaling(home)
    shutil.rmtree(models.parent, ignore_errors=True)
    try:
        samples = program / SAMPLES.relative_to(REPOSITORY)
        for source in (samples, SLOW_MODELS) if is_scaled else (samples,):
            shutil.copytree(source, models, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
        if reads_pictures(home):
            packaged = build.build(models.parent / "packaged", _PACKAGED)
            for model in _PACKAGED:
                (packaged / model).rename(models / model)
        stacks = models.parent / "stacks"
        stacks.mkdir()
        own = stack_files.write_merged(home, stack_files.STACK, program)
        shutil.copyfile(own, stacks / own.name)
    except OSError as error:
        raise NotPrepared(f"the models that are to be released cannot be copied to {models}: {error}") from None
    return models
