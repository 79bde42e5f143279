"""`python3 -m infra.teardown STACK`."""

import virtual_environment

virtual_environment.enter("infra.teardown")

import typer  # noqa: E402 - not before this is the checkout's environment

from infra.teardown.cli import main  # noqa: E402

typer.run(main)
