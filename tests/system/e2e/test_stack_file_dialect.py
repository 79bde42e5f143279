"""Compares `spec.yaml_reader` with the engine's own reading of the same files, through `pulumi config`."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from rich.console import Console

from spec import stack_file
from spec.stack_file import decoded
from spec.yaml_reader import YamlError, read, scalar
from tests.spec.engine_dialect import READ_AS, REFUSED
from twin.host import environment, tools

_EXAMPLES = 25
_AT_ONCE = 200
"""Values in one file: each query starts a process of the engine."""


@dataclass(frozen=True)
class Stack:
    """An empty stack in a separate backend."""

    pulumi: Path
    folder: Path

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        own = {
            "PULUMI_BACKEND_URL": f"file://{self.folder / 'state'}",
            "PULUMI_HOME": str(self.folder / "home"),
            "PULUMI_CONFIG_PASSPHRASE": "",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
        }
        mine = {name: value for name, value in os.environ.items() if name not in environment.foreign(os.environ)}
        return subprocess.run(
            [str(self.pulumi), *arguments],
            cwd=self.folder,
            env={**mine, **own},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def config(self, text: str) -> dict[str, Any] | None:
        """Return the engine's reading of a stack file: the values by their full names, as the program gets them.

        None if it refuses the file.
        """
        (self.folder / "Pulumi.dev.yaml").write_text(text, encoding="utf-8", newline="")
        done = self.run("config", "--stack", "dev", "--json")
        if done.returncode != 0:
            return None
        return {key: decoded(entry.get("value", "")) for key, entry in json.loads(done.stdout).items()}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("dialect")
    (folder / "state").mkdir()
    (folder / "Pulumi.yaml").write_text("name: triton-eks\nruntime: python\n")
    made = Stack(tools.ensure(("pulumi",), Console(stderr=True))["pulumi"], folder)
    done = made.run("stack", "init", "dev", "--non-interactive")
    assert done.returncode == 0, done.stderr
    yield made


def in_one_file(values: list[str]) -> str:
    return "config:\n  x:\n" + "".join(f"    - {value}\n" for value in values)


def exactly(value: Any) -> str:
    """Return the value with its types: to Python 1, 1.0 and true are equal."""
    return json.dumps(value, sort_keys=True)


def test_the_table_is_the_engines(stack: Stack) -> None:
    found = stack.config(in_one_file(list(READ_AS)))
    assert found is not None
    assert exactly(found["triton-eks:x"]) == exactly(list(READ_AS.values()))


def test_what_is_refused_is_something_else_to_the_engine_than_what_is_written(stack: Stack) -> None:
    """The engine reads another value or refuses it. It reads only texts that look too much like a date or number as text."""
    for text in REFUSED:
        found = stack.config(in_one_file([text]))
        is_text = found is not None and exactly(found["triton-eks:x"]) == exactly([text])
        assert is_text == (text in ("2026-02-31", "0xFFFFFFFFFFFFFFFFF")), text


def _is_taken(text: str) -> bool:
    try:
        scalar(text)
    except YamlError:
        return False
    return True


_NUMBER_LIKE = st.text("0123456789+-._eExXoObB", min_size=1, max_size=9)
_WORD_LIKE = st.text("yYnNoOfFtTrRuUeEsSaAlLiI~.01", min_size=1, max_size=5)
_NUMBERS = st.integers().map(str) | st.floats(allow_nan=False, allow_infinity=False).map(repr)
_PLAIN = (_NUMBER_LIKE | _WORD_LIKE | _NUMBERS).filter(lambda text: text.strip("-.+") != "" and text[:2] != "- ")


# No shrinking: every try calls the engine, and the assertion names each value that differs.
@settings(
    max_examples=_EXAMPLES,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(values=st.lists(_PLAIN.filter(_is_taken), min_size=_AT_ONCE, max_size=_AT_ONCE))
def test_a_value_that_is_taken_is_what_the_engine_makes_of_it(stack: Stack, values: list[str]) -> None:
    text = in_one_file(values)
    found = stack.config(text)
    assert found is not None
    both = zip(values, found["triton-eks:x"], read(text).value["config"]["x"], strict=True)
    assert [(value, theirs, ours) for value, theirs, ours in both if exactly(theirs) != exactly(ours)] == []


@pytest.mark.parametrize(
    "text",
    [
        "config:\n  network: 1\n  aws:region: x\n  aws:config:profile: y\n  triton-eks:empty:\n  triton-eks:text: ''\n",
        "config:\r\n  a: {b: [1, yes, ~], 5: x, true: y}\r\n",
        "config:\n  a: &a {b: 1, c: [1, 2]}\n  d: *a\n  e: {<<: *a, c: 3}\n  f: {<<: [*a, {b: 2, g: 1}]}\n",
        "config:\n  a: |\n    one\n    two\n  b: >-\n    one\n    two\n  c: \"\\u20ac\\t\"\n  d: 'it''s'\n",
        "\ufeffconfig: {a: 1}\n",
    ],
)
def test_a_file_that_is_taken_is_what_the_engine_makes_of_it(stack: Stack, text: str) -> None:
    found = stack.config(text)
    assert found is not None
    ours = stack_file.read(text).config
    assert ours is not None
    assert exactly(found) == exactly({key: decoded(value) for key, value in ours.items()})
