"""The STACK argument of this package's commands: the settings of its file, or a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import typer

from infra.settings import Settings, SettingsError, load_stack_file

_STACKS = Path("stacks")


def settings_of(stack: str) -> Settings:
    """The settings of `stacks/Pulumi.<stack>.yaml`. Ends the command with a sentence and code 2 where it is no stack's."""
    file = _STACKS / f"Pulumi.{stack}.yaml"
    if not file.is_file():
        known = ", ".join(sorted(path.stem.removeprefix("Pulumi.") for path in _STACKS.glob("Pulumi.*.yaml")))
        fail(
            f"there is no {file} here; " + (f"the stacks are {known}" if known else "run it from the root of the checkout"),
            2,
        )
    try:
        return load_stack_file(file)
    except SettingsError as error:
        fail(str(error), 2)


def fail(sentence: str, code: int) -> NoReturn:
    """End the command with this sentence on standard error."""
    typer.echo(sentence, err=True)
    raise typer.Exit(code)
