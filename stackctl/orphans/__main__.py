"""`python3 -m stackctl.orphans STACK`."""

import virtual_environment

virtual_environment.enter("stackctl.orphans")

import typer  # noqa: E402 - not before this is the checkout's environment

from stackctl.orphans.cli import main  # noqa: E402

typer.run(main)
