"""Where in the program a resource is made, as the engine is told and keeps it in the state."""

from __future__ import annotations

from pathlib import Path

from pulumi.runtime import resource
from pulumi.runtime.proto import source_pb2


def end_at(entry: str) -> None:
    """Leave out who called the file `entry`, the program's first: the launcher, asyncio and the SDK.

    The SDK tells all calls down to the interpreter's start (docs/facts/pulumi.md#stack-traces): a quarter of a state,
    which `up` writes before and after each resource, with folders of the machine that ran the last one.
    """
    whole, first = resource._get_stack_trace, Path(entry).absolute().as_uri()

    def of_program() -> source_pb2.StackTrace:
        trace = whole()
        of_file = [place for place, frame in enumerate(trace.frames) if frame.pc.uri == first]
        if of_file:
            del trace.frames[of_file[-1] + 1 :]
        return trace

    resource._get_stack_trace = of_program
