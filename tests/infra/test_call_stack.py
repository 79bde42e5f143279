"""The place in the program that creates a resource, as the engine gets it."""

from __future__ import annotations

import runpy
from pathlib import Path

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
        self.told, self.whole = resource._get_stack_trace(), resource._whole()


class CustomResource(Resource):
    def __init__(self):
        super().__init__()


class Bucket(CustomResource):
    def __init__(self):
        super().__init__()
"""


def test_the_stack_is_that_of_the_sdk_up_to_the_programs_first_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "made.py").write_text(RESOURCES)
    entry = tmp_path / "__main__.py"
    entry.write_text(PROGRAM)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(resource, "_whole", resource._get_stack_trace, raising=False)
    monkeypatch.setattr(resource, "_get_stack_trace", resource._get_stack_trace)
    made = runpy.run_path(str(tmp_path))["made"]
    told = list(made.told.frames)
    assert [(frame.pc.uri, frame.pc.line) for frame in told] == [(entry.as_uri(), 9), (entry.as_uri(), 12)]
    assert told == list(made.whole.frames)[:2]
    assert len(made.whole.frames) > 2
    outside = type(made)()  # as in a callback, which has no program below it
    assert outside.told == outside.whole
