"""`python3 -m review`."""

import sys

from review.cli import main

sys.exit(main())
