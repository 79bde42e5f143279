"""A rollout in a separate process, which kills itself after a given number of steps.

`python -m tests.system.serving.rollout_driver ENDPOINT BUCKET FLEET_DIRECTORY RELEASE|--back [STEPS]`; every step is a line
on standard output, the result is the last line.
"""

import os
import signal
import sys
from pathlib import Path

from benchmarks.rollout_servers import LocalFleet
from modelctl.rollout.controller import Controller, Wanted
from modelctl.rollout.lease import Lease, LockTaken
from modelctl.rollout.limits import Limits, Terms
from modelctl.rollout.plan import Refused
from modelctl.store.bucket import open_store
from modelctl.store.live import LiveRepository

TERMS = Terms(requests=20, seconds=0, failing=0.02, slower=10.0)
"""30 requests without a failure are enough. The times of two servers differ on a busy machine, so a version may take 11
times as long; tests/modelctl/rollout/test_gate.py and test_blue_green.py have slower ones.
"""
LIMITS = Limits(load=60, restart=120, canary=120, watch=0, drain=60, quiet=0.3, settle=60, poll=0.1, terms=TERMS)
"""Deadlines that no test reaches, except `quiet` and `poll`."""


def main(endpoint: str, bucket: str, fleet: str, release: str, steps: int | None = None) -> None:
    told = 0

    def tell(line: str) -> None:
        nonlocal told
        told += 1
        print(line, flush=True)
        if told == steps:
            os.kill(os.getpid(), signal.SIGKILL)

    store = open_store(bucket, endpoint)
    controller = Controller(store, LocalFleet(Path(fleet)), Wanted("local"), limits=LIMITS, tell=tell)
    try:
        with Lease(LiveRepository(store)) as lease:
            result = controller.back(lease) if release == "--back" else controller.rollout(release, lease)
    except (Refused, LockTaken) as refusal:
        print(f"refused: {refusal}")
        sys.exit(1)
    print(f"{result.outcome}: {result.reason or result.release}")


if __name__ == "__main__":
    main(*sys.argv[1:5], *map(int, sys.argv[5:]))
