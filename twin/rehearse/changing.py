"""Make a change on a twin that serves while requests are sent to it, and account for each of them."""

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
"""How long requests are sent before the change, and after it."""


def under_load(
    servers: Servers, stack: str, model: Model, parts: Mapping[str, int], change: Callable[[], object]
) -> Measured:
    """Return what became of the requests, the pods and the stack's resources; of a change that fails, why it did.

    `parts`: by Service, its part of the requests. Raises what `load.load` does.
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
    """Have everything in the block, programs too, write to standard error: standard output is for what is found."""
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
    """Return the UIDs of Triton's pods."""
    return frozenset(pod.uid for pod in servers.cluster().pods() if pod.namespace == TRITON_NAMESPACE and not pod.ending)
