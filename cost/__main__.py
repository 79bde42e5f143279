"""`python3 -m cost`."""

import virtual_environment

virtual_environment.enter("cost")

from cost.cli import main  # noqa: E402 - not before this is the checkout's environment

main()
