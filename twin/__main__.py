"""`python3 -m twin`."""

import sys

from console import virtual_environment

virtual_environment.enter("twin")
try:
    from twin.cli import main
except KeyboardInterrupt:
    sys.exit("error: stopped by Ctrl-C before anything was begun")
main()
