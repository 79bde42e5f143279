"""`python3 -m modelctl`."""

from console import virtual_environment

virtual_environment.enter("modelctl")

from modelctl.cli import app  # noqa: E402 - not before this is the checkout's environment
from modelctl.command_line import end_orderly_on_sigterm  # noqa: E402

end_orderly_on_sigterm()
app(prog_name="modelctl")
