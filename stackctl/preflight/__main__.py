"""`python3 -m stackctl.preflight STACK`."""

import virtual_environment

virtual_environment.enter("stackctl.preflight")

import typer  # noqa: E402 - not before this is the checkout's environment

from stackctl.preflight.cli import main  # noqa: E402

typer.run(main)
