"""For any valid stack, a generated config keeps every rule, and its text parses to the same config."""

import json
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc.model_config_pb2 import ModelConfig

from modelctl.repository.configure import Facts, configure, render
from modelctl.repository.configure.derive import LARGEST_QUEUE, LONGEST_DELAY_US
from modelctl.repository.rules import config as config_rules
from spec.settings import ModelServing

MODEL = Path("models/m")
BASES = {
    backend: text_format.Parse(
        f'backend: "{backend}" max_batch_size: 8 input [ {{ name: "X" data_type: TYPE_FP32 dims: [ 4 ] }} ] '
        'output [ { name: "Y" data_type: TYPE_FP32 dims: [ 2 ] } ]',
        ModelConfig(),
    )
    for backend in ("python", "onnxruntime", "tensorrt")
}


@st.composite
def wanted(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """Draw a backend and wants that its model can fulfil, as in a stack file."""
    backend = draw(st.sampled_from(sorted(BASES)))
    device = "gpu" if backend == "tensorrt" else draw(st.sampled_from(["cpu", "gpu"]))
    expected = draw(st.floats(0.001, 1_000_000))
    largest = draw(st.none() | st.integers(1, 4096))
    sizes = st.lists(st.integers(1, largest or 8), max_size=4)
    levels = draw(st.integers(1, 100))
    slo_ms = draw(st.integers(2, 600_000))
    serving: dict[str, Any] = {
        "device": device,
        "sloP95Ms": slo_ms,
        "expectedRate": expected,
        "peakRate": draw(st.floats(expected, 1_000_000)),
        "instances": draw(st.integers(1, 64)),
        "warmup": draw(st.none() | sizes),
        "maxBatchSize": largest,
        "maxQueueDelayUs": draw(st.none() | st.integers(0, slo_ms * 1000 - 1)),
        "priorities": draw(st.none() | st.integers(1, levels).map(lambda default: {"levels": levels, "default": default})),
        "decoupled": backend == "python" and draw(st.booleans()),
        "rateLimiter": draw(
            st.none()
            | st.builds(
                lambda resources, priority: {"resources": resources, "priority": priority},
                st.dictionaries(
                    st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,8}", fullmatch=True), st.integers(1, 100), min_size=1
                ),
                st.integers(1, 1000),
            )
        ),
        "latencyHistogram": draw(st.booleans()),
    }
    if serving["decoupled"]:
        serving["warmup"] = draw(st.sampled_from([None, []]))
    serving["responseCache"] = not serving["decoupled"] and draw(st.booleans())
    if device == "gpu":
        serving["gpuMemoryMiB"] = draw(st.integers(1, 80_000))
    return backend, serving


@given(wanted())
def test_a_generated_config_keeps_every_rule_and_reads_back_as_itself(wants: tuple[str, dict[str, Any]]) -> None:
    backend, serving = wants
    wanted_of = ModelServing.model_validate_json(json.dumps(serving))
    facts = Facts(("8.6",), "2.71.0", (1,), frozenset({"model_cc86.plan"} if backend == "tensorrt" else ()))

    made = configure(BASES[backend], wanted_of, facts)

    text = render(made, "one\ntwo")
    assert text_format.Parse(text, ModelConfig()) == made
    assert render(configure(BASES[backend], wanted_of, facts), "one\ntwo") == text
    assert [*config_rules.check(made, MODEL, (1,)), *config_rules.left_open(made)] == []
    policies = [made.dynamic_batching.default_queue_policy, *made.dynamic_batching.priority_queue_policy.values()]
    assert all(0 < policy.max_queue_size <= LARGEST_QUEUE for policy in policies)
    assert all(policy.default_timeout_microseconds >= wanted_of.slo_p95_ms * 1000 for policy in policies)
    if wanted_of.max_queue_delay_us is None:
        assert made.dynamic_batching.max_queue_delay_microseconds <= LONGEST_DELAY_US
