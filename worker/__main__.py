"""The worker's door: `python -m worker`."""

import asyncio
import os
import sys

from worker import log
from worker.service import serve
from worker.settings import InvalidSettings, from_environment


def main() -> int:
    """Runs until SIGTERM or SIGINT. 2: the environment does not say everything that it has to."""
    log.configure()
    try:
        asyncio.run(serve(from_environment(os.environ)))
    except InvalidSettings as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
