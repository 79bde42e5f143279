"""Prepare what `make up` releases: the sample models, and on an autoscaled twin one that is slow beside them."""

import shutil
from pathlib import Path

from twin.engine import stack_files
from twin.host.home import REPOSITORY, TwinHome

SAMPLES = REPOSITORY / "models"
SLOW_MODELS = REPOSITORY / "twin" / "models"
"""For loads that need more than one pod: the samples answer in a millisecond."""
SLOW_MODEL = "timed_batch"


def directory(home: TwinHome) -> Path:
    """Return where the models lie that this twin's `make up` releases."""
    return home.cache / "release" / "models" if stack_files.autoscaling(home) else SAMPLES


def prepare(home: TwinHome) -> Path:
    """Make `directory` what it has to be, and return it.

    The samples alone are released with the tracked stacks beside them. Together with SLOW_MODELS they lie beside this
    twin's own copy of its stack, which alone wants something of those.
    """
    models = directory(home)
    if models == SAMPLES:
        return models
    shutil.rmtree(models.parent, ignore_errors=True)
    for source in (SAMPLES, SLOW_MODELS):
        shutil.copytree(source, models, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    merged = stack_files.write_merged(home, stack_files.AUTOSCALED_STACK)
    stacks = models.parent / "stacks"
    stacks.mkdir()
    shutil.copyfile(merged, stacks / merged.name)
    return models
