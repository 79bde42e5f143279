"""Where a resource is made, as the engine is told it."""

from __future__ import annotations

import runpy
from pathlib import Path
from unittest import mock

import pytest
from pulumi.runtime import resource

PROGRAM = """
from infra import call_stack
from made import Bucket

call_stack.end_at(__file__)


def main():
    return Bucket()


made = main()
"""
RESOURCES = """
from pulumi.runtime import resource


class Resource:
    def __init__(self):
        self.trace = resource._get_stack_trace()


class CustomResource(Resource):
    def __init__(self):
        super().__init__()


class Bucket(CustomResource):
    def __init__(self):
        super().__init__()
"""


def _frames(made: object) -> list[tuple[str, int]]:
    trace = made.trace  # type: ignore[attr-defined]
    return [(frame.pc.uri, frame.pc.line) for frame in trace.frames]


def test_the_stack_ends_with_the_programs_first_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "made.py").write_text(RESOURCES)
    entry = tmp_path / "__main__.py"
    entry.write_text(PROGRAM)
    monkeypatch.syspath_prepend(str(tmp_path))
    with mock.patch.object(resource, "_get_stack_trace", resource._get_stack_trace):
        made = runpy.run_path(str(entry))["made"]
        outside = type(made)()
    assert _frames(made) == [(entry.as_uri(), 9), (entry.as_uri(), 12)]
    assert _frames(outside)[0][0] == Path(__file__).as_uri()
    assert len(_frames(outside)) > 2
