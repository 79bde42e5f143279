"""The source position of each resource, which the engine keeps in the state."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

from pulumi.runtime import resource
from pulumi.runtime.proto import source_pb2

_CONSTRUCTORS = 3
"""The constructors of `Resource`, of a custom or component resource, and of the class itself. The next frame is the caller
that creates the resource."""


def end_at(entry: str) -> None:
    """Remove the callers of `entry`, the program's first file, from stack traces: the launcher, asyncio and the SDK.

    The SDK reports all calls down to the interpreter's start (docs/facts/pulumi.md#stack-traces). They are a large part of
    the state, which `up` writes before and after each resource, and contain folders of the machine of the last run.
    """

    def of_program() -> source_pb2.StackTrace:
        frame, constructors = sys._getframe(), 0
        while frame.f_back is not None and constructors < _CONSTRUCTORS:
            frame = frame.f_back
            constructors += frame.f_code.co_name == "__init__"
        frames = []
        while frame.f_back is not None and (frame.f_code.co_filename, frame.f_code.co_name) != (entry, "<module>"):
            frame = frame.f_back
            frames.append(source_pb2.StackFrame(pc=_position(frame.f_code.co_filename, frame.f_lineno)))
        return source_pb2.StackTrace(frames=frames)

    resource._get_stack_trace = of_program


@cache
def _position(file: str, line: int) -> source_pb2.SourcePosition | None:
    """Return the position like the SDK: None for code without a file."""
    return source_pb2.SourcePosition(uri=Path(file).as_uri(), line=line) if Path(file).is_absolute() else None
