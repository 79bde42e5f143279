"""`python3 -m infra.orphans STACK`."""

import virtual_environment

virtual_environment.enter("infra.orphans")

import typer  # noqa: E402 - not before this is the checkout's environment

from infra.orphans.cli import main  # noqa: E402

typer.run(main)
