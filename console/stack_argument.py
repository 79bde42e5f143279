"""The STACK argument of this package's commands: the settings of its file, or a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NoReturn

import typer

from spec.settings import Settings, SettingsError, load_stack_file
from spec.stack_names import EXIT_CODE, NoSuchStack, file_of

# With a default, so that a command without it is refused by `settings_of`, in the words of all commands.
StackArgument = Annotated[
    str, typer.Argument(metavar="STACK", help="Stack, like prod: stacks/Pulumi.prod.yaml is read.", show_default=False)
]


def settings_of(stack: str) -> Settings:
    """The settings of `stacks/Pulumi.<stack>.yaml`. Without such a file, or with a mistake in it: a sentence, and code 2."""
    try:
        return load_stack_file(file_of(stack, Path()))
    except (NoSuchStack, SettingsError) as error:
        fail(f"error: {error}", EXIT_CODE)


def fail(sentence: str, code: int) -> NoReturn:
    """End the command with this sentence on standard error."""
    typer.echo(sentence, err=True)
    raise typer.Exit(code)
