"""`modelctl tune`: its messages before it measures."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command import run


@pytest.fixture
def nobody() -> Iterator[str]:
    """Yield an address on which no process listens, reserved meanwhile."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def said(*arguments: str) -> tuple[int, str]:
    result = run("modelctl", "tune", *arguments)
    assert result.stdout == ""
    return result.exit_code, result.stderr


def test_a_model_that_is_not_there_is_named_with_those_that_are(models: Path) -> None:
    assert said("clasify", "--slo-p95-ms", "50", "--models", str(models)) == (
        1,
        f"error: {models} has no model clasify; it has classify, normalize, pipeline\n",
    )


def test_an_slo_of_p99_is_no_shorter_than_that_of_p95(models: Path) -> None:
    assert said("classify", "--slo-p95-ms", "50", "--slo-p99-ms", "49.5", "--models", str(models)) == (
        1,
        "error: --slo-p99-ms 49.5 is less than --slo-p95-ms 50; give 50 or more\n",
    )


def test_a_broken_repository_is_said_first(models: Path) -> None:
    (models / "classify" / "config.pbtxt").write_text("max_batch: 3\n")

    code, text = said("classify", "--slo-p95-ms", "50", "--models", str(models))

    assert code == 1
    assert text.startswith(f"error: {models} cannot be served:\n{models}/classify/config.pbtxt: ")
    assert f"\n{models}/classify/config.pbtxt:1:1: ModelConfig has no field max_batch" in text


SEQUENCES = "sequence_batching { oldest { max_candidate_sequences: 8 } }\n"
PACE = ("--sequence-requests", "20", "--sequence-gap-ms", "32")


def _keeps_sequences(models: Path, name: str) -> None:
    config = models / name / "config.pbtxt"
    text = config.read_text()
    config.write_text(text[: text.index("dynamic_batching")] + SEQUENCES + text[text.index("instance_group") :])
    (models / name / "1" / "golden.json").unlink()


def test_a_model_of_sequences_is_told_how_they_come(models: Path) -> None:
    _keeps_sequences(models, "classify")
    assert said("classify", "--slo-p95-ms", "50", "--models", str(models)) == (
        1,
        "error: classify keeps sequences, and how many of them are open follows from how its clients send: give "
        "--sequence-requests, the requests of one sequence, and --sequence-gap-ms, the time between two of them\n",
    )
    assert said("normalize", "--slo-p95-ms", "50", "--models", str(models), *PACE) == (
        1,
        "error: normalize keeps no sequences; leave --sequence-requests and --sequence-gap-ms out\n",
    )
    code, text = said("classify", "--slo-p95-ms", "50", "--models", str(models), *PACE[:2])
    assert (code, "give --sequence-requests and --sequence-gap-ms together" in text) == (2, True)


def test_a_pipeline_with_a_part_of_sequences_is_refused(models: Path) -> None:
    _keeps_sequences(models, "classify")
    assert said("pipeline", "--slo-p95-ms", "50", "--models", str(models)) == (
        1,
        "error: pipeline asks classify, which keeps sequences: a load of pipeline begins none\n",
    )


def test_a_server_that_is_not_there_is_said_with_how_to_start_one(models: Path, nobody: str) -> None:
    assert said("classify", "--slo-p95-ms", "50", "--models", str(models), "--server", nobody) == (
        1,
        f"error: no Triton answers at {nobody} over gRPC; start one (`python -m twin triton MODELS_DIR`) or forward a "
        "pod's port, and name it with --server HOST:PORT\n",
    )


def test_a_stack_file_that_is_not_there_is_said_before_the_server_is_asked(
    models: Path, nobody: str, tmp_path: Path
) -> None:
    stack = tmp_path / "Pulumi.dev.yaml"

    code, text = said("classify", "--slo-p95-ms", "50", "--models", str(models), "--server", nobody, "--file", str(stack))

    assert code == 1
    assert text == f"error: {stack}: there is no such file; check the path\n"
