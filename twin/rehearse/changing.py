"""Make a change on a serving twin while requests are sent to it, and account for each request."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping

from modelctl.repository.model import Model
from spec.failure import Failure
from spec.names import TRITON_NAMESPACE
from twin.rehearse import load, measured
from twin.rehearse.measured import Measured
from twin.services.servers import Servers

_AROUND_SECONDS = 5.0
"""Seconds of requests before the change, and again after it."""


def under_load(
    servers: Servers, stack: str, model: Model, parts: Mapping[str, int], change: Callable[[], object]
) -> Measured:
    """Make the change under load; return the outcome of the requests, the pods and the stack's resources.

    If the change fails, `ended` of the result holds the reason. `parts`: by Service, its share of the requests.
    Raises what `load.load` raises.
    """
    engine = servers.engine()
    there, earlier, ended = _pods(servers), engine.last_update(stack), None
    with load.load(servers.home, model, parts) as sent:
        time.sleep(_AROUND_SECONDS)
        try:
            change()
        except Failure as failure:
            ended = str(failure)
        time.sleep(_AROUND_SECONDS)
    return dataclasses.replace(
        measured.account(sent.outcomes),
        pods=len(there),
        kept=len(there & _pods(servers)),
        resources=engine.changes_since(stack, earlier),
        ended=ended,
    )


@contextlib.contextmanager
def on_standard_error() -> Iterator[None]:
    """Send the standard output of the block and its programs to standard error.

    Standard output is reserved for the result.
    """
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def _pods(servers: Servers) -> frozenset[str]:
    return frozenset(pod.uid for pod in servers.cluster().pods() if pod.namespace == TRITON_NAMESPACE and not pod.ending)
