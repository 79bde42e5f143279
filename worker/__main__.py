"""Entry point of the worker: `python -m worker`."""

import asyncio
import os
import sys

from worker import log
from worker.aws import Aws
from worker.service import serve
from worker.settings import InvalidSettings, WorkerSettings, from_environment


def main() -> int:
    """Run until SIGTERM or SIGINT. Returns 2 if the environment is incomplete or wrong."""
    log.configure()
    try:
        asyncio.run(serve(_settings()))
    except InvalidSettings as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _settings() -> WorkerSettings:
    """Return the settings of the environment. Raises InvalidSettings, including the errors of the AWS client."""
    try:
        return from_environment(os.environ)
    except InvalidSettings as error:
        try:
            Aws(concurrency=1).close()
        except InvalidSettings as another:
            raise InvalidSettings(f"{error}\n{another}") from None
        raise


if __name__ == "__main__":
    sys.exit(main())
