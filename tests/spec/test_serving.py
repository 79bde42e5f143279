"""A stack's wants for its models: defaults, and the digest that ties a release to them."""

import math
from typing import Any

import pytest

from spec.problem import SettingsError
from spec.settings import ModelServing, serving_digest
from spec.settings.serving import TIMEOUT_PER_SLO
from tests.spec.stack_config import settings

CPU = {"device": "cpu", "sloP95Ms": 50, "expectedRate": 40, "peakRate": 120}
UNPINNED = {"models.release": None}


def digest(serving: dict[str, Any], changes: dict[str, Any] | None = None) -> str:
    return serving_digest(settings({**UNPINNED, "models.serving": serving, **(changes or {})}))


def test_a_model_needs_four_values_and_has_defaults_for_the_rest() -> None:
    model = settings({**UNPINNED, "models.serving": {"a": CPU}}).models.serving["a"]
    assert isinstance(model, ModelServing)
    assert model.model_dump() == {
        "device": "cpu",
        "slo_p95_ms": 50,
        "slo_p99_ms": None,
        "expected_rate": 40.0,
        "peak_rate": 120.0,
        "instances": None,
        "gpu_memory_mib": None,
        "max_batch_size": None,
        "max_queue_delay_us": None,
        "queue_timeout_ms": None,
        "warmup": None,
        "priorities": None,
        "sequence": None,
        "decoupled": False,
        "longest_stream_seconds": None,
        "llm": None,
        "response_cache": False,
        "rate_limiter": None,
        "latency_histogram": True,
        "tuned": None,
    }


def test_every_value_is_read() -> None:
    serving = {
        "plan": {
            **CPU,
            "device": "gpu",
            "instances": 2,
            "gpuMemoryMiB": 900,
            "maxBatchSize": 8,
            "maxQueueDelayUs": 500,
            "warmup": [],
            "priorities": {"levels": 2, "default": 1},
            "rateLimiter": {"resources": {"slots": 2}, "priority": 3},
            "latencyHistogram": False,
            "tuned": "benchmarks/results/plan.json",
        },
        "sequence": {**CPU, "sequence": {"strategy": "oldest", "maxIdleMs": 51, "maxCandidates": 7}, "decoupled": True},
        "cached": {**CPU, "responseCache": True},
    }
    triton = {"triton.responseCacheMiB": 64, "triton.rateLimiterResources": {"slots": 4}, "triton.rollout": "in-place"}
    triton["triton.version"] = "26.08"  # older ones starve a batcher with a delay and two instances
    read = settings({**UNPINNED, "models.serving": serving, **triton})
    plan, sequence = read.models.serving["plan"], read.models.serving["sequence"]
    assert (plan.warmup, plan.gpu_memory_mib) == ((), 900)
    assert plan.priorities is not None and (plan.priorities.levels, plan.priorities.default) == (2, 1)
    assert plan.rate_limiter is not None and (plan.rate_limiter.resources, plan.rate_limiter.priority) == ({"slots": 2}, 3)
    assert sequence.sequence is not None and sequence.sequence.max_candidates == 7
    assert read.triton.response_cache_mib == 64
    assert read.triton.rate_limiter_resources == {"slots": 4}
    assert read.triton.rollout == "in-place"


def test_a_stack_without_wants_has_none() -> None:
    read = settings()
    assert (read.models.serving, read.triton.rate_limiter_resources, read.triton.rollout) == ({}, {}, "rolling")
    assert (read.triton.response_cache_mib, read.models.release and read.models.release.serving) == (None, None)


def test_a_sequence_is_over_after_a_minute_and_candidates_are_derived() -> None:
    serving = {"a": {**CPU, "sequence": {"strategy": "oldest"}}}
    sequence = settings({**UNPINNED, "models.serving": serving}).models.serving["a"].sequence
    assert sequence is not None and (sequence.max_idle_ms, sequence.max_candidates) == (60_000, None)


def test_the_digest_does_not_change_between_versions_of_this_program() -> None:
    """A changed digest makes every pinned release look stale: change this expectation only together with new pins."""
    assert digest({"a": CPU}) == "8ebec717d8ad"


@pytest.mark.parametrize(
    "same",
    [
        {"b": CPU, "a": CPU},
        {"a": {**CPU, "instances": 1, "warmup": None, "latencyHistogram": True}, "b": CPU},
        {"a": {**CPU, "expectedRate": 40.0}, "b": CPU},
        {"a": {**CPU, "sloP99Ms": None}, "b": CPU},
        {"a": {**CPU, "tuned": "benchmarks/results/a.json"}, "b": CPU},
    ],
    ids=["order", "defaults", "fraction", "no p99", "evidence"],
)
def test_the_same_wants_have_the_same_digest(same: dict[str, Any]) -> None:
    assert digest(same) == digest({"a": CPU, "b": CPU})


@pytest.mark.parametrize(
    "other",
    [
        {"a": CPU, "b": CPU},
        {"c": CPU},
        {"a": {**CPU, "sloP95Ms": 51}},
        {"a": {**CPU, "sloP99Ms": 100}},
        {"a": {**CPU, "warmup": []}},
        {"a": {**CPU, "latencyHistogram": False}},
        {"a": {**CPU, "sequence": {"strategy": "direct"}}},
    ],
    ids=str,
)
def test_other_wants_have_another_digest(other: dict[str, Any]) -> None:
    assert digest(other) != digest({"a": CPU})


def test_the_digest_depends_on_the_gpus_of_the_pool_and_on_nothing_else_of_it() -> None:
    wants = {"a": CPU}
    assert digest(wants, {"triton.pool": "p4d", "gpu.pools[1].desired": 2}) != digest(wants)
    assert digest(wants, {"gpu.pools[0].instanceTypes": ["g5.2xlarge", "g5.xlarge"]}) == digest(wants)
    assert digest(wants, {"triton.replicas": 1}) == digest(wants)


def test_a_release_made_of_these_wants_is_accepted() -> None:
    name = "resnet50"
    pinned = {"models.serving": {name: CPU}, "models.release.serving": digest({name: CPU})}
    release = settings({**pinned, "models.release.previous": "0123456789ab" + 52 * "0"}).models.release
    assert release is not None
    assert (release.serving, release.previous) == (digest({name: CPU}), "0123456789ab" + 52 * "0")


@pytest.mark.parametrize(
    "changes",
    [
        {"a": {**CPU, "peakRate": 40}},
        {"a": {**CPU, "maxQueueDelayUs": 49_999}},
        {"a": {**CPU, "device": "gpu", "gpuMemoryMiB": 22 * 1024 - 764}},
        {"a": {**CPU, "priorities": {"levels": 2, "default": 2}, "maxBatchSize": 8, "warmup": [1, 8]}},
        {"a": {**CPU, "sequence": {"strategy": "direct"}, "decoupled": True}},
    ],
    ids=str,
)
def test_what_just_fits_is_accepted(changes: dict[str, Any]) -> None:
    assert settings({**UNPINNED, "models.serving": changes}).models.serving


@pytest.mark.parametrize(
    ("slo_ms", "timeout_us", "seconds"),
    [
        (2, 100_000, 1),
        (33, 100_000, 1),
        (50, 150_000, 1),
        (3000, 9_000_000, 12),
        (5000, 10_000_000, 15),
        (60_000, 60_000_000, 120),
    ],
)
def test_a_request_is_rejected_after_three_times_the_slo(slo_ms: int, timeout_us: int, seconds: int) -> None:
    model = settings({**UNPINNED, "models.serving": {"a": {**CPU, "sloP95Ms": slo_ms}}}).models.serving["a"]
    assert (model.queue_timeout_us, model.longest_request_seconds) == (timeout_us, seconds)


@pytest.mark.parametrize(
    ("timeout_ms", "slo_ms", "bounded", "seconds"), [(25, 50, True, 1), (50, 50, False, 1), (2000, 50, False, 3)]
)
def test_a_stack_says_after_how_long_in_the_queue_a_request_is_rejected(
    timeout_ms: int, slo_ms: int, bounded: bool, seconds: int
) -> None:
    wants = {**CPU, "sloP95Ms": slo_ms, "queueTimeoutMs": timeout_ms}
    model = settings({**UNPINNED, "models.serving": {"a": wants}}).models.serving["a"]
    assert (model.queue_timeout_us, model.queue_is_bounded) == (timeout_ms * 1000, bounded)
    assert model.longest_request_seconds == seconds
    assert not settings({**UNPINNED, "models.serving": {"a": CPU}}).models.serving["a"].queue_is_bounded
    assert digest({"a": wants}) != digest({"a": {**CPU, "sloP95Ms": slo_ms}}), "the model's config has it"


def test_the_timeout_is_where_an_exponential_tail_leaves_one_request_in_8000() -> None:
    assert round(1 / math.exp(-TIMEOUT_PER_SLO * math.log(20))) == 8000


def starved(version: str, **model: object) -> str:
    """Return the errors of a stack with one model of two instances."""
    serving = {"a": {**CPU, "instances": 2, **model}}
    try:
        settings({**UNPINNED, "models.serving": serving, "triton.version": version})
    except SettingsError as error:
        return str(error)
    return ""


# https://github.com/triton-inference-server/server/issues/8870: a queue timeout, a delay above 0 and two queued payloads.
@pytest.mark.parametrize(
    ("version", "model", "is_refused"),
    [
        ("26.07", {"maxQueueDelayUs": 100}, True),
        ("26.07", {"expectedRate": 1000, "peakRate": 2000}, True),
        ("26.07", {"expectedRate": 999, "peakRate": 2000}, False),
        ("26.07", {"expectedRate": 1000, "peakRate": 2000, "maxQueueDelayUs": 0}, False),
        ("26.07", {"maxQueueDelayUs": 100, "instances": 1}, False),
        ("26.08", {"maxQueueDelayUs": 100}, False),
    ],
)
def test_a_batcher_that_older_servers_starve_is_refused(version: str, model: dict[str, object], is_refused: bool) -> None:
    problem = starved(version, **model)
    assert ("models.serving.a.maxQueueDelayUs: with a queue delay" in problem) is is_refused
    assert problem.endswith('use triton.version "26.08" or newer, or maxQueueDelayUs: 0') is is_refused


def test_a_newer_release_than_any_known_is_accepted_with_a_warning() -> None:
    read = settings(
        {"triton.version": "27.01", "triton.server": "2.77.0", "triton.cuda": "13.6", "triton.tensorrt": "11.3.0"}
    )
    release = read.triton.ngc_release
    assert (release.server, release.cuda, release.tensorrt, release.minimum_driver) == (
        "2.77.0",
        "13.6",
        "11.3.0",
        "580.65.06",
    )
    assert [str(warning) for warning in read.warnings if "27.01" in str(warning)] == [
        "triton.version: spec/versions.py does not know 27.01; its flags, GPUs and ONNX Runtime are checked as in "
        "26.11. Read its release notes"
    ]
