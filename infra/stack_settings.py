"""Read the settings of the stack that the engine runs. All other code reads the stack file itself (`spec.settings`)."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pulumi
import pulumi.runtime.config

from spec import reading
from spec.settings import Settings, load, read_config
from spec.stack_names import stack_file
from spec.wording import listed

EXPLAINED = 32
"""Exit status of a program that has already reported its error to the engine.

After any other status, also of `pulumi.RunError`, the engine shows a second error:
`program exited with non-zero exit code: 1`. The status is a constant of Pulumi's own launcher:
https://github.com/pulumi/pulumi/blob/v3.257.0/sdk/python/cmd/pulumi-language-python-exec
"""


def from_pulumi() -> Settings:
    """Return the settings of the stack that the engine runs. Raises SettingsError with every problem."""
    stack = pulumi.get_stack()
    _refuse_ambiguities_that_the_engine_resolves(stack)
    config = {**pulumi.runtime.config.get_config_env(), **pulumi.runtime.config.CONFIG.get()}
    return load(config, stack)


def _refuse_ambiguities_that_the_engine_resolves(stack: str) -> None:
    """Raise SettingsError for a stack file that the commands refuse although the engine can read it.

    The engine silently reads 010 as 8, and accepts either of two spellings of a key.
    """
    file = Path(os.environ.get("PULUMI_OPTION_CONFIG_FILE") or stack_file(stack))
    if file.is_file():
        read_config(reading.file(file), stack_file(stack))


def refuse(source: str, mistakes: Sequence[str]) -> NoReturn:
    """Report all problems of `source` to the engine in one error, without a traceback. Exit the program."""
    pulumi.log.error(listed(source, "mistake", mistakes))
    sys.exit(EXPLAINED)
