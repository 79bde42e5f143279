"""`python3 -m stackctl.rules STACK`."""

import virtual_environment

virtual_environment.enter("stackctl.rules")

import typer  # noqa: E402 - not before this is the checkout's environment

from stackctl.rules.cli import main  # noqa: E402

typer.run(main)
