"""Define the arguments and options that several commands take alike."""

from __future__ import annotations

from typing import Annotated

import typer

# With a default, so that a command without it is refused in the same words everywhere (spec.stack_names.file_of).
StackArgument = Annotated[
    str, typer.Argument(metavar="STACK", help="Stack, like prod: stacks/Pulumi.prod.yaml is read.", show_default=False)
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, for programs.")]
