"""`python3 -m stackctl.review`."""

import sys

from stackctl.review.cli import main

sys.exit(main())
