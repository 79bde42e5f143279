"""`modelctl rollout --mirror` of a stack that compares answers: its file changes, and the candidate's outcome.

On a real gateway: tests/system/e2e/test_gateway_blue_green.py.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from modelctl.release import candidate
from modelctl.rollout.controller import Outcome
from modelctl.rollout.fleet import Pod
from modelctl.rollout.metrics import Counters
from modelctl.rollout.pod_client import PodClient
from spec.settings import load_stack_file
from tests import http_server
from tests.modelctl.rollout.answering_pod import answering_pod, out
from tests.modelctl.rollout.releases import CONFIG, model, publish
from tests.modelctl.rollout.test_blue_green import LIMITS, Stage, served, stage
from tests.spec.stack_config import DIGEST, ECR

__all__ = ["stage"]  # the fixture
IMAGE = f"{ECR}/modelctl@{DIGEST}"
Counted = Callable[[int], tuple[int, int, int, int]]


@contextmanager
def comparer(counted: Counted) -> Iterator[Pod]:
    """Yield a comparer with these counts at each look: same, different, unanswered, dropped."""
    looks = itertools.count(1)

    class Answers(http_server.Handler):
        def do_GET(self) -> None:
            numbers = dict(zip(("same", "different", "unanswered", "dropped"), counted(next(looks)), strict=True))
            lines = [f'triton_copies_total{{model="adder",result="{name}"}} {count}' for name, count in numbers.items()]
            self.answer(200, "\n".join(["# TYPE triton_copies counter", *lines, ""]).encode())

    with http_server.listening(Answers) as server:
        yield Pod("compare", "uid-compare", http=server.url, metrics=server.url, admin_key=lambda: "")


@pytest.fixture
def compares(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """Return a stage whose stack compares answers, and whose releases get 200 requests between two looks."""
    text = stage.file.read_text()
    assert text.count("rollout: blue-green") == 1
    stage.file.write_text(text.replace("rollout: blue-green", f"rollout: blue-green\n    comparerImage: {IMAGE}"))
    looks: dict[str, Iterator[int]] = {}

    def counters(client: PodClient) -> dict[Any, Counters]:
        number = 200.0 * next(looks.setdefault(client.pod.name, itertools.count(1)))
        return {
            ("adder", 1 if client.pod.name == "old" else 2): Counters(number, duration_us=number * (1000 + number % 3 * 10))
        }

    monkeypatch.setattr(PodClient, "counters", counters)
    stage.stable = [stage.pods.enter_context(answering_pod(lambda _: out(1.0), "old"))]
    stage.limits = replace(LIMITS, canary=5)
    return stage


def run(stage: Stage, counted: Counted, **wanted: Any) -> Any:
    stage.comparers = [stage.pods.enter_context(comparer(counted))]
    return stage.rollout(mirror=100, **wanted)


def test_a_candidate_that_answers_alike_is_taken_and_its_tolerances_leave_the_file(compares: Stage) -> None:
    before = compares.file.read_text()
    result = run(compares, lambda look: (50 * look, 0, 0, 0))
    assert (result.outcome, result.reason) == (Outcome.DONE, None)
    assert compares.compared == [{}, {"adder": 1e-5}, {}, {}]
    assert compares.mirrored == [0, 100, 0, 0]
    assert served(compares)[:2] == ("green", compares.new.id)
    assert len(set(before.splitlines()) ^ set(compares.file.read_text().splitlines())) <= 7, "the pin and the slot alone"


@pytest.mark.parametrize(
    ("counted", "may_differ", "reason"),
    [
        (
            lambda look: (50 * look, look, 0, 0),
            0.0,
            "1 of 51 copies (2.0%) answered otherwise than by release {old}, 0% may; ",
        ),
        (
            lambda look: (80 * look, 20 * look, 0, 0),
            0.05,
            "20 of 100 copies (20.0%) answered otherwise than by release {old}, 5% may; ",
        ),
    ],
)
def test_one_that_answers_otherwise_is_taken_back_before_a_client_has_an_answer_of_it(
    compares: Stage, counted: Counted, may_differ: float, reason: str
) -> None:
    before = compares.file.read_text()
    result = run(compares, counted, may_differ=may_differ, canary=(5,))
    assert result.outcome is Outcome.UNDONE
    assert result.reason.startswith(f"adder version 2: {reason.format(old=compares.old.id)}")
    assert [percent for *_, percent in compares.ups] == [0, 0, None]
    assert compares.file.read_text() == before


def test_as_many_may_differ_as_are_told(compares: Stage) -> None:
    assert run(compares, lambda look: (96 * look, 4 * look, 0, 0), may_differ=0.05).outcome is Outcome.DONE


@pytest.mark.parametrize(
    ("counted", "seen"),
    [
        (lambda _: (0, 0, 0, 0), "0 of 0 copies answered otherwise than by release {old}, 0% may, of the 100 that it takes"),
        (
            lambda _: (20, 0, 500, 7),
            "0 of 20 copies answered otherwise than by release {old}, 0% may (500 have no two answers and 7 were too many "
            "at once or too large), of the 100 that it takes",
        ),
        (
            lambda _: (200, 0, 0, 0),
            "0 of 200 copies answered otherwise than by release {old}, 0% may; they do not tell whether 1% are",
        ),
    ],
)
def test_too_few_compared_answers_take_it_back_and_are_told(compares: Stage, counted: Counted, seen: str) -> None:
    compares.limits = replace(LIMITS, canary=0.5, poll=0.01)
    result = run(compares, counted)
    assert result.outcome is Outcome.NO_TRAFFIC
    # With so few looks, another check may also be undecided.
    assert result.reason.endswith(f"adder version 2: {seen.format(old=compares.old.id)}")


def test_a_comparer_that_nothing_answers_for_is_told_as_too_few(compares: Stage) -> None:
    compares.comparers = [
        Pod("compare", "uid", http="http://127.0.0.1:9", metrics="http://127.0.0.1:9", admin_key=lambda: "")
    ]
    compares.limits = replace(LIMITS, canary=0.5, poll=0.01)
    result = compares.rollout(mirror=100)
    assert result.outcome is Outcome.NO_TRAFFIC
    assert "adder version 2: 0 of 0 copies answered otherwise" in result.reason


def test_without_an_image_nothing_is_compared(compares: Stage) -> None:
    lines = [line for line in compares.file.read_text().splitlines(keepends=True) if "comparerImage" not in line]
    compares.file.write_text("".join(lines))
    assert run(compares, lambda look: (0, look, 0, 0)).outcome is Outcome.DONE
    assert compares.compared == [{}] * 4


@pytest.mark.parametrize("more", ["sequence_batching { }\n", "model_transaction_policy { decoupled: true }\n"])
def test_a_model_of_sequences_or_streams_gets_copies_as_ever(compares: Stage, tmp_path: Path, more: str) -> None:
    config = CONFIG.replace("dynamic_batching", "dynamic_batching" if "decoupled" in more else "# dynamic_batching")
    config = more + (config if "decoupled" in more else config.partition("# dynamic")[0])
    files = {path: text for path, text in model(version=2, config=config).items() if not path.endswith("golden.json")}
    compares.new = publish(compares.store, tmp_path / "repository", files)
    assert run(compares, lambda _: (0, 9, 0, 0)).outcome is Outcome.DONE
    assert compares.compared == [{}] * 4


def test_the_tolerance_is_that_of_the_candidates_golden_inference(compares: Stage, tmp_path: Path) -> None:
    files = model(version=2)
    golden = json.loads(files["adder/2/golden.json"])
    compares.new = publish(
        compares.store, tmp_path / "repository", {**files, "adder/2/golden.json": json.dumps({**golden, "tolerance": 0.25})}
    )
    assert run(compares, lambda look: (400 * look, 0, 0, 0)).outcome is Outcome.DONE
    assert compares.compared[1] == {"adder": 0.25}


@pytest.mark.parametrize("tolerances", [{}, {"adder": 1e-5}, {"adder": 0.0}])
def test_what_is_written_is_what_is_read_and_goes_with_the_copies(compares: Stage, tolerances: dict[str, float]) -> None:
    candidate.add(compares.file, compares.new, None)
    alone = compares.file.read_text()
    for percent in (20, 30):  # a continued rollout writes it again
        candidate.mirror(compares.file, percent, tolerances)
        tried = load_stack_file(compares.file).models.candidate
        assert tried is not None
        assert (tried.mirror_percent, tried.mirror_tolerances) == (percent, tolerances)
    candidate.give(compares.file, 0)
    assert compares.file.read_text() == alone
