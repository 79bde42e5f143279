"""The arguments and options that several commands share."""

from __future__ import annotations

from importlib import metadata
from typing import Annotated

import typer

# With a default, so all commands refuse a missing stack with the same message (spec.stack_names.file_of).
StackArgument = Annotated[
    str, typer.Argument(metavar="STACK", help="Stack, like prod: stacks/Pulumi.prod.yaml is read.", show_default=False)
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, for programs.")]
PLATFORM = "Run by the platform"
"""Help panel of commands that containers and workflows call."""


def _print_version(wanted: bool) -> None:
    if wanted:
        try:
            print(metadata.version("triton-eks"))
        except metadata.PackageNotFoundError:
            print("unknown: `make venv` installs the programs")
        raise typer.Exit


def options_of_the_program(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Handle the options before a command."""
