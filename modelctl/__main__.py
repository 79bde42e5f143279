"""`python3 -m modelctl`."""

import virtual_environment

virtual_environment.enter("modelctl")

from modelctl.cli import app  # noqa: E402 - not before this is the checkout's environment

app(prog_name="modelctl")
