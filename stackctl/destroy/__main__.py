"""`python3 -m stackctl.destroy STACK`."""

import virtual_environment

virtual_environment.enter("stackctl.destroy")

import typer  # noqa: E402 - not before this is the checkout's environment

from stackctl.destroy.cli import main  # noqa: E402

typer.run(main)
