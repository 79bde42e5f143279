"""Prepare what `make up` releases: the samples, beside models that read pictures or, on an autoscaled twin, a slow one."""

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
"""Of examples/packaged, as are those that it asks."""
_PACKAGED = (PICTURE_MODEL, "text_detection", "text_direction", "text_recognition")


class NotPrepared(Failure):
    """The models could not be put together; the text says why."""


def directory(home: TwinHome) -> Path:
    """Return where the models lie that this twin's `make up` releases."""
    return home.cache / "release" / "models"


def reads_pictures(home: TwinHome) -> bool:
    """Return whether models that read pictures are among them."""
    return with_pictures(stack_files.autoscaling(home), stack_files.gateway(home))


def with_pictures(autoscaling: bool, gateway: bool) -> bool:
    """Return whether a twin serves models that read pictures. Where pods come and go with a load they start too slowly."""
    return not (autoscaling or gateway)


def check() -> None:
    """Raise NotBuilt where the packages are missing of which the models that read pictures are made."""
    build.files_of_packages(_PACKAGED)


def prepare(home: TwinHome, program: Path = REPOSITORY) -> Path:
    """Make `directory` what it has to be, and return it. Raises NotPrepared, and NotBuilt without the packages.

    `program`: the checkout whose samples and stack file these are.

    Beside the models lies this twin's own copy of its stack alone, which may have other GPUs than the tracked file: the
    other stacks serve other models.
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
