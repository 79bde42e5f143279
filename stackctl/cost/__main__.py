"""`python3 -m stackctl.cost`."""

import virtual_environment

virtual_environment.enter("stackctl.cost")

from stackctl.cost.cli import main  # noqa: E402 - not before this is the checkout's environment

main()
