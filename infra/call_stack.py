"""Where in the program a resource is made, as the engine is told and keeps it in the state."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

from pulumi.runtime import resource
from pulumi.runtime.proto import source_pb2

_CONSTRUCTORS = 3
"""Of `Resource`, of a custom or component resource, and of the class itself: its caller is who makes the resource."""


def end_at(entry: str) -> None:
    """Leave out who called the file `entry`, the program's first: the launcher, asyncio and the SDK.

    The SDK tells all calls down to the interpreter's start (docs/facts/pulumi.md#stack-traces): a good part of a state,
    which `up` writes before and after each resource, with folders of the machine that ran the last one.
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
    """Return the position as the SDK does: none in code that has no file."""
    return source_pb2.SourcePosition(uri=Path(file).as_uri(), line=line) if Path(file).is_absolute() else None
