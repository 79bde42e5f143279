"""Tuned values in a stack file: only they change, and the measured config is the stack's."""

from pathlib import Path
from typing import Any

import pytest

from modelctl.repository.load import load
from modelctl.repository.model import Model
from modelctl.tune.candidate import Candidate
from modelctl.tune.errors import TuneError
from modelctl.tune.stack_file import check_slo, wanted, write, write_batch
from spec.settings import load_stack_file
from tests.modelctl.stacks import wants, write_stack

STACK = """\
# Development
config:
  triton-eks:models:
    oldReleaseDays: 90  # keep
    serving:
      normalize: {device: cpu, sloP95Ms: 50, expectedRate: 5, peakRate: 20}   # one line
      classify:
        device: cpu   # no GPU yet
        sloP95Ms: 50
        expectedRate: 40
        peakRate: 120
        maxBatchSize: 8   # by hand

  # Where Triton runs.
  triton-eks:triton:
    pool: g5
"""
EVIDENCE = "benchmarks/results/classify-2026-11-21-0123abcd.json"


def stack(directory: Path, text: str = STACK) -> Path:
    file = directory / "Pulumi.dev.yaml"
    file.write_text(text)
    return file


@pytest.fixture
def classify(models: Path) -> Model:
    found = next(model for model in load(models) if model.name == "classify")
    found.config.name = "classify"
    return found


def test_values_and_evidence_are_written_and_every_comment_stays(tmp_path: Path) -> None:
    file = stack(tmp_path)

    changes = write(file, "classify", Candidate(16, 250, 2), EVIDENCE)

    assert changes == [
        "classify.maxBatchSize 8 → 16",
        "classify.maxQueueDelayUs none → 250",
        "classify.instances none → 2",
        f"classify.tuned none → {EVIDENCE}",
    ]
    assert file.read_text() == STACK.replace(
        "maxBatchSize: 8   # by hand\n",
        f"maxBatchSize: 16  # by hand\n        maxQueueDelayUs: 250\n        instances: 2\n        tuned: {EVIDENCE}\n",
    )


def test_an_entry_in_one_line_stays_in_one_line(tmp_path: Path) -> None:
    file = stack(tmp_path)

    write(file, "normalize", Candidate(1, 0, 1), "e.json")

    line = (
        "      normalize: {device: cpu, sloP95Ms: 50, expectedRate: 5, peakRate: 20, maxBatchSize: 1, maxQueueDelayUs: 0, "
    )
    assert [text for text in file.read_text().splitlines() if "normalize" in text] == [
        line + "instances: 1, tuned: e.json} # one line"
    ]


def test_the_same_values_again_write_nothing(tmp_path: Path) -> None:
    file = stack(tmp_path)
    write(file, "classify", Candidate(16, 250, 2), EVIDENCE)
    inode = file.stat().st_ino

    assert write(file, "classify", Candidate(16, 250, 2), EVIDENCE) == []
    assert file.stat().st_ino == inode


def test_a_model_without_a_batch_dimension_gets_its_instances_only(tmp_path: Path) -> None:
    file = stack(tmp_path, STACK.replace("        maxBatchSize: 8   # by hand\n", ""))

    assert write(file, "classify", Candidate(0, 0, 3), EVIDENCE) == [
        "classify.instances none → 3",
        f"classify.tuned none → {EVIDENCE}",
    ]


def test_a_candidate_is_configured_as_a_release_would_be_for_the_stack(tmp_path: Path, classify: Model) -> None:
    entry = wants(
        maxBatchSize=8,
        priorities={"levels": 3, "default": 2},
        warmup=[1, 8],
        responseCache=True,
        rateLimiter={"resources": {"slots": 1}},
    )
    triton = {"responseCacheMiB": 8, "rateLimiterResources": {"slots": 2}}
    file = write_stack(tmp_path, {"classify": entry}, triton=triton)

    config = wanted(file, classify)(Candidate(4, 500, 3))

    assert (config.name, config.max_batch_size, config.instance_group[0].count) == ("classify", 4, 3)
    assert config.dynamic_batching.max_queue_delay_microseconds == 500
    assert config.dynamic_batching.priority_levels == 3
    assert [sample.batch_size for sample in config.model_warmup] == [1]
    # Left out: the cache would answer equal requests, and a separate server has neither slots nor histograms.
    assert not config.response_cache.enable
    assert not config.instance_group[0].HasField("rate_limiter")
    assert not config.HasField("model_metrics")


def refused(file: Path, model: Model, slo: float = 50) -> str:
    with pytest.raises(TuneError) as failure:
        check_slo(file, model.name, slo)
        wanted(file, model)
    return str(failure.value)


def test_a_stack_that_does_not_know_the_model_is_refused(tmp_path: Path, classify: Model) -> None:
    file = write_stack(tmp_path, {"normalize": wants()})

    assert refused(file, classify) == (
        f"{file}: config.triton-eks:models.serving has no classify; say first what the stack wants of it: device, sloP95Ms, "
        "expectedRate and peakRate"
    )


def test_another_slo_than_that_of_the_stack_is_refused(tmp_path: Path, classify: Model) -> None:
    file = write_stack(tmp_path, {"classify": wants()})

    assert refused(file, classify, 60) == (
        f"{file}: config.triton-eks:models.serving.classify.sloP95Ms is 50, and --slo-p95-ms 60; tune for the SLO that the "
        "stack has"
    )


@pytest.mark.parametrize(
    ("own", "asked", "said"),
    [
        (120, None, "is 120, and there is no --slo-p99-ms"),
        (None, 120, "has none, and --slo-p99-ms 120"),
        (100, 120, "is 100, and --slo-p99-ms 120"),
    ],
)
def test_another_slo_of_p99_is_refused_too(
    own: int | None, asked: float | None, said: str, tmp_path: Path, classify: Model
) -> None:
    file = write_stack(tmp_path, {"classify": wants(**({"sloP99Ms": own} if own else {}))})

    with pytest.raises(TuneError) as failure:
        check_slo(file, "classify", 50, asked)

    assert str(failure.value) == (
        f"{file}: config.triton-eks:models.serving.classify.sloP99Ms {said}; tune for the SLOs that the stack has"
    )


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        (wants(warmth=1), "models.serving.classify.warmth"),
        (
            wants(
                device="gpu",
                gpuMemoryMiB=100,
                llm={"concurrentStreams": 1, "contextTokens": 16, "weightsMiB": 1, "kvBytesPerToken": 1},
            ),
            "models.serving.classify.llm: the python backend is none of language models",
        ),
    ],
)
def test_what_is_wrong_with_the_stack_is_said_before_anything_is_measured(
    tmp_path: Path, classify: Model, entry: dict[str, Any], sentence: str
) -> None:
    file = write_stack(tmp_path, {"classify": entry})

    assert sentence in refused(file, classify)


def test_a_file_that_is_no_stack_by_its_name_is_said_to_be_none(tmp_path: Path, classify: Model) -> None:
    file = tmp_path / "copy.yaml"
    file.write_text(STACK)
    with pytest.raises(TuneError) as failure:
        wanted(file, classify)
    assert str(failure.value) == f"{file}: is no stack file by its name; a stack file is named Pulumi.<stack>.yaml"


def test_the_batch_of_an_ensemble_is_written_where_the_stack_has_an_entry_for_it(tmp_path: Path) -> None:
    file = write_stack(tmp_path, {"pipeline": wants(maxBatchSize=8)})
    assert write_batch(file, "pipeline", 4) == ["pipeline.maxBatchSize 8 → 4"]
    assert (write_batch(file, "pipeline", 4), write_batch(file, "other", 4)) == ([], [])
    assert load_stack_file(file).models.serving["pipeline"].max_batch_size == 4
