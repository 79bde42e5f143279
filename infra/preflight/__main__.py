"""`python3 -m infra.preflight STACK`."""

import virtual_environment

virtual_environment.enter("infra.preflight")

import typer  # noqa: E402 - not before this is the checkout's environment

from infra.preflight.cli import main  # noqa: E402

typer.run(main)
