"""`python3 -m infra.platform.rules STACK`."""

import virtual_environment

virtual_environment.enter("infra.platform.rules")

import typer  # noqa: E402 - not before this is the checkout's environment

from infra.platform.rules.cli import main  # noqa: E402

typer.run(main)
