"""A generated config has the author's shape with the stack's scheduling, instances and warm-up, or a list of messages."""

import hashlib
import json
import struct
from typing import Any

import pytest
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from modelctl.repository.configure import ConfigureError, Facts, configure, render
from modelctl.repository.configure.warmup import data_files, without_data
from modelctl.repository.golden import Request
from spec.settings import ModelServing
from tests.modelctl.stacks import wants

PYTHON = """
backend: "python" max_batch_size: 8
input [ { name: "X" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "Y" data_type: TYPE_FP32 dims: [ 2 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
dynamic_batching {
  preferred_batch_size: [ 8 ] max_queue_delay_microseconds: 100000 preserve_ordering: true
  default_queue_policy { timeout_action: DELAY max_queue_size: 3 allow_timeout_override: true }
}
parameters { key: "threads" value { string_value: "2" } }
"""
ONNX = PYTHON.replace('"python"', '"onnxruntime"')
PLAN = PYTHON.replace('"python"', '"tensorrt"')
SEQUENCE = """
backend: "python" max_batch_size: 4
input [ { name: "X" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "Y" data_type: TYPE_FP32 dims: [ 1 ] } ]
instance_group [ { kind: KIND_CPU } ]
sequence_batching {
  max_sequence_idle_microseconds: 7
  control_input [ { name: "START" control [ { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } ] } ]
  direct { minimum_slot_utilization: 0.5 }
}
"""
ENSEMBLE = """
platform: "ensemble" max_batch_size: 8
input [ { name: "X" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "Y" data_type: TYPE_FP32 dims: [ 2 ] } ]
ensemble_scheduling { step [ { model_name: "m" model_version: -1
  input_map { key: "X" value: "X" } output_map { key: "Y" value: "Y" } } ] }
"""
GPU = {"device": "gpu", "gpuMemoryMiB": 900}


def _configure(
    base: str = PYTHON,
    /,
    *,
    files: tuple[str, ...] = (),
    capabilities: tuple[str, ...] = ("8.6",),
    server: str = "2.71.0",
    golden: Request | None = None,
    **more: Any,
) -> ModelConfig:
    serving = ModelServing.model_validate_json(json.dumps(wants(**more)))
    config = text_format.Parse(base, ModelConfig())
    untouched = text_format.MessageToString(config)
    made = configure(config, serving, Facts(capabilities, server, (3,), frozenset(files), golden))
    assert text_format.MessageToString(config) == untouched
    return made


def _problems(base: str = PYTHON, /, **more: Any) -> list[str]:
    with pytest.raises(ConfigureError) as failure:
        _configure(base, **more)
    return failure.value.problems


def test_the_shape_stays_and_the_scheduling_is_the_stacks() -> None:
    assert render(_configure(latencyHistogram=False, warmup=[])) == (
        """\
version_policy {
  specific {
    versions: 3
  }
}
max_batch_size: 8
input {
  name: "X"
  data_type: TYPE_FP32
  dims: 4
}
output {
  name: "Y"
  data_type: TYPE_FP32
  dims: 2
}
instance_group {
  count: 1
  kind: KIND_CPU
}
dynamic_batching {
  preserve_ordering: true
  default_queue_policy {
    default_timeout_microseconds: 150000
    allow_timeout_override: true
    max_queue_size: 18
  }
}
parameters {
  key: "threads"
  value {
    string_value: "2"
  }
}
backend: "python"
"""
    )


def test_a_comment_stands_above_the_text() -> None:
    assert render(ModelConfig(backend="python"), "one\n\ntwo") == '# one\n#\n# two\nbackend: "python"\n'


def test_given_values_win_over_derived_ones() -> None:
    made = _configure(PLAN, **GPU, maxBatchSize=16, maxQueueDelayUs=300, instances=3)

    assert made.max_batch_size == 16
    assert made.dynamic_batching.max_queue_delay_microseconds == 300
    assert made.dynamic_batching.default_queue_policy.max_queue_size == 2 * 16 * 3


def test_a_stack_says_after_how_long_a_request_is_rejected_and_the_queue_holds_no_more() -> None:
    policy = _configure(queueTimeoutMs=25, peakRate=4000).dynamic_batching.default_queue_policy
    assert (policy.default_timeout_microseconds, policy.max_queue_size) == (25_000, 100)


def test_a_high_rate_gets_a_delay() -> None:
    assert _configure(expectedRate=14_000, peakRate=20_000).dynamic_batching.max_queue_delay_microseconds == 500


def test_every_priority_level_has_a_bound_of_its_own() -> None:
    batching = _configure(priorities={"levels": 3, "default": 2}).dynamic_batching

    assert (batching.priority_levels, batching.default_priority_level) == (3, 2)
    sizes = {level: policy.max_queue_size for level, policy in batching.priority_queue_policy.items()}
    assert sizes == {1: 18, 2: 18, 3: 18}
    assert {policy.default_timeout_microseconds for policy in batching.priority_queue_policy.values()} == {150_000}


def test_instances_are_counted_per_gpu_and_never_bound_to_gpus() -> None:
    base = PYTHON.replace("KIND_CPU count: 1", 'KIND_GPU count: 4 gpus: [ 0, 1 ] host_policy: "numa0"')

    (group,) = _configure(base, **GPU, instances=2).instance_group

    assert text_format.MessageToString(group) == 'count: 2\nkind: KIND_GPU\nhost_policy: "numa0"\n'


def test_a_model_that_places_itself_keeps_doing_so() -> None:
    (group,) = _configure(PYTHON.replace("KIND_CPU", "KIND_MODEL"), **GPU).instance_group

    assert text_format.MessageToString(group) == "count: 1\nkind: KIND_MODEL\n"


def test_an_execution_holds_resources_of_the_rate_limiter() -> None:
    (group,) = _configure(rateLimiter={"resources": {"slots": 2, "bus": 1}, "priority": 3}).instance_group

    resources = [(resource.name, resource.count, getattr(resource, "global")) for resource in group.rate_limiter.resources]
    assert resources == [("bus", 1, True), ("slots", 2, True)]
    assert group.rate_limiter.priority == 3


def test_the_authors_rate_limiter_is_not_the_stacks() -> None:
    base = PYTHON.replace("count: 1 }", 'count: 1 rate_limiter { resources [ { name: "bus" count: 1 } ] } }')

    (group,) = _configure(base).instance_group

    assert not group.HasField("rate_limiter")


def test_the_authors_tensorrt_stays_and_gets_a_profile_for_the_batches_of_the_stack() -> None:
    accelerator = (
        "optimization { execution_accelerators { gpu_execution_accelerator [ "
        '{ name: "tensorrt" parameters { key: "precision_mode" value: "FP16" } } ] } }'
    )
    made = _configure(ONNX + accelerator, **GPU)

    (kept,) = made.optimization.execution_accelerators.gpu_execution_accelerator
    profile = {"trt_profile_min_shapes": "X:1x4", "trt_profile_opt_shapes": "X:8x4", "trt_profile_max_shapes": "X:8x4"}
    assert (kept.name, dict(kept.parameters)) == ("tensorrt", {"precision_mode": "FP16", **profile})
    assert [sample.batch_size for sample in made.model_warmup] == [8, 1]


def test_the_authors_cuda_graphs_stay() -> None:
    assert _configure(PLAN + "optimization { cuda { graphs: true } }", **GPU).optimization.cuda.graphs


def test_a_plan_is_chosen_by_the_gpus_of_the_pool() -> None:
    files = ("model_cc75.plan", "model_cc86.plan", "model_cc100.plan", "other_cc89.plan", "model_cc90.txt")

    made = _configure(PLAN, **GPU, files=files, capabilities=("8.6", "10.0"))

    assert dict(made.cc_model_filenames) == {"8.6": "model_cc86.plan", "10.0": "model_cc100.plan"}


def test_files_that_the_author_named_are_chosen_from_too() -> None:
    base = PLAN + 'cc_model_filenames [ { key: "7.5" value: "t4" }, { key: "8.6" value: "a10" } ]'

    assert dict(_configure(base, **GPU).cc_model_filenames) == {"8.6": "a10"}


def test_each_batch_size_is_warmed_up_with_zeros_of_the_shape_without_the_batch() -> None:
    made = _configure()

    assert [(sample.batch_size, sample.count) for sample in made.model_warmup] == [(1, 1), (8, 1)]
    for sample in made.model_warmup:
        assert text_format.MessageToString(sample.inputs["X"]) == "data_type: TYPE_FP32\ndims: 4\nzero_data: true\n"


def test_the_authors_sample_gives_the_sizes_of_variable_inputs() -> None:
    base = PYTHON.replace("[ 4 ]", "[ -1 ]") + (
        'model_warmup [ { name: "x" batch_size: 2 inputs { key: "X" value '
        '{ data_type: TYPE_FP32 dims: [ 7 ] input_data_file: "seven" } } } ]'
    )

    made = _configure(base, warmup=[4, 1, 4])

    assert [(sample.name, sample.batch_size) for sample in made.model_warmup] == [("batch of 1", 1), ("batch of 4", 4)]
    for sample in made.model_warmup:
        assert (list(sample.inputs["X"].dims), sample.inputs["X"].input_data_file) == ([7], "seven")


def _request(**inputs: tuple[str, list[int], list[Any]]) -> Request:
    tensors = {name: {"datatype": kind, "shape": shape, "data": data} for name, (kind, shape, data) in inputs.items()}
    return Request.parse("golden.json", json.dumps({"inputs": tensors}))


def test_a_variable_size_is_warmed_up_with_the_first_request_of_the_golden_inference() -> None:
    base = PYTHON.replace("[ 4 ]", "[ -1 ]")
    golden = _request(X=("FP32", [2, 3], [1, 2, 3, 4, 5, 6]))

    made = _configure(base, golden=golden)

    content = struct.pack("<3f", 1, 2, 3)
    name = f"golden-{hashlib.sha256(content).hexdigest()[:12]}"
    assert [(one.batch_size, list(one.inputs["X"].dims), one.inputs["X"].input_data_file) for one in made.model_warmup] == [
        (1, [3], name),
        (8, [3], name),
    ]
    assert data_files(made, golden) == {name: content}


def test_text_is_warmed_up_as_the_server_reads_it_from_a_file() -> None:
    base = PYTHON.replace("max_batch_size: 8", "").replace("TYPE_FP32 dims: [ 4 ]", "TYPE_STRING dims: [ 2 ]", 1)
    golden = _request(X=("BYTES", [2], ["ab", "é"]))

    made = _configure(base, golden=golden)

    # Each element is preceded by its length, as in a request (docs/facts/triton-configuration.md#warm-up).
    (content,) = data_files(made, golden).values()
    assert content == b"\x02\0\0\0ab" + b"\x02\0\0\0" + "é".encode()


@pytest.mark.parametrize("shape", ["TYPE_STRING dims: [ 1 ]", "TYPE_FP32 dims: [ -1 ]"])
def test_text_and_variable_sizes_are_not_warmed_up_without_data(shape: str) -> None:
    base = PYTHON.replace("TYPE_FP32 dims: [ 4 ]", shape, 1)

    assert not _configure(base).model_warmup
    assert without_data(text_format.Parse(base, ModelConfig()), None) == ["X"]


def test_the_authors_sample_comes_before_the_golden_inference() -> None:
    base = PYTHON + (
        'model_warmup [ { batch_size: 1 inputs { key: "X" value { data_type: TYPE_FP32 dims: [ 4 ] random_data: true } } } ]'
    )

    made = _configure(base, golden=_request(X=("FP32", [1, 4], [1, 2, 3, 4])))

    assert all(one.inputs["X"].random_data and not one.inputs["X"].input_data_file for one in made.model_warmup)
    assert data_files(made, _request(X=("FP32", [1, 4], [1, 2, 3, 4]))) == {}


_TENSORRT = 'optimization { execution_accelerators { gpu_execution_accelerator [ { name: "tensorrt"%s } ] } }'


def test_a_further_variable_size_gets_no_profile_and_two_sizes() -> None:
    golden = _request(X=("FP32", [1, 7], [0] * 7))

    made = _configure(ONNX.replace("[ 4 ]", "[ -1 ]") + _TENSORRT % "", **GPU, golden=golden)

    (accelerator,) = made.optimization.execution_accelerators.gpu_execution_accelerator
    assert dict(accelerator.parameters) == {}
    assert [one.batch_size for one in made.model_warmup] == [8, 1]


def test_a_profile_of_the_author_stays() -> None:
    written = ' parameters { key: "trt_profile_min_shapes" value: "X:2x4" }'

    made = _configure(ONNX + _TENSORRT % written, **GPU)

    (accelerator,) = made.optimization.execution_accelerators.gpu_execution_accelerator
    assert dict(accelerator.parameters) == {"trt_profile_min_shapes": "X:2x4"}


def test_on_the_cpu_nothing_builds_engines() -> None:
    made = _configure(ONNX + _TENSORRT % "")

    (accelerator,) = made.optimization.execution_accelerators.gpu_execution_accelerator
    assert dict(accelerator.parameters) == {}
    assert [one.batch_size for one in made.model_warmup] == [1, 8]


def test_a_sequence_model_is_not_warmed_up() -> None:
    """Server 2.51 refused to load such a model: it got no control inputs."""
    assert not _configure(SEQUENCE, sequence={"strategy": "direct"}).model_warmup


def test_a_decoupled_model_is_warmed_up_with_its_authors_sample_only() -> None:
    """Server 2.51 crashed while loading a model that answered zeros with an error."""
    sample = (
        'model_warmup [ { batch_size: 1 inputs { key: "X" value { data_type: TYPE_FP32 dims: [ 4 ] random_data: true } } } ]'
    )

    assert not _configure(decoupled=True).model_warmup
    made = _configure(PYTHON + sample, decoupled=True)
    assert [(warmup.batch_size, warmup.inputs["X"].random_data) for warmup in made.model_warmup] == [(1, True), (8, True)]


def test_no_warmup_is_none() -> None:
    assert not _configure(PYTHON.replace("[ 4 ]", "[ -1 ]"), warmup=[]).model_warmup


def test_a_model_that_does_not_batch_is_warmed_up_once() -> None:
    made = _configure(PYTHON.replace("max_batch_size: 8", ""))

    assert [sample.batch_size for sample in made.model_warmup] == [1]


@pytest.mark.parametrize(
    ("sequence", "expected"),
    [
        ({"strategy": "direct"}, "direct {\n  minimum_slot_utilization: 0.5\n}\nmax_sequence_idle_microseconds: 60000000\n"),
        (
            {"strategy": "oldest", "maxIdleMs": 5},
            "max_sequence_idle_microseconds: 5000\noldest {\n  max_candidate_sequences: 16\n}\n",
        ),
        (
            {"strategy": "oldest", "maxCandidates": 9},
            "max_sequence_idle_microseconds: 60000000\noldest {\n  max_candidate_sequences: 9\n}\n",
        ),
    ],
)
def test_sequences_take_the_place_of_dynamic_batching(sequence: dict[str, Any], expected: str) -> None:
    made = _configure(SEQUENCE, sequence=sequence)

    assert not made.HasField("dynamic_batching")
    (control,) = made.sequence_batching.control_input
    assert control.name == "START"
    del made.sequence_batching.control_input[:]
    assert sorted(text_format.MessageToString(made.sequence_batching).splitlines()) == sorted(expected.splitlines())


def test_the_strategy_is_the_stacks_whatever_the_author_chose() -> None:
    base = SEQUENCE.replace("direct { minimum_slot_utilization: 0.5 }", "oldest { max_candidate_sequences: 3 }")

    made = _configure(base, sequence={"strategy": "direct"})

    assert made.sequence_batching.WhichOneof("strategy_choice") == "direct"


def test_a_state_that_begins_anew_tells_of_sequences_what_control_inputs_would() -> None:
    control = '  control_input [ { name: "START" control [ { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } ] } ]'
    state = '  state [ { input_name: "X" output_name: "Y" data_type: TYPE_FP32 dims: [ 1 ] %s } ]'
    begun = 'initial_state { name: "zero" data_type: TYPE_FP32 dims: [ 1 ] zero_data: true }'

    made = _configure(SEQUENCE.replace(control, state % begun), sequence={"strategy": "direct"})

    assert made.sequence_batching.HasField("direct")
    (problem,) = _problems(SEQUENCE.replace(control, state % ""), sequence={"strategy": "direct"})
    assert problem.startswith("sequence: config.pbtxt declares no control inputs")


def test_sequences_wait_for_a_batch_only_at_a_high_rate() -> None:
    made = _configure(SEQUENCE, sequence={"strategy": "oldest"}, expectedRate=6000, peakRate=9000)

    assert made.sequence_batching.oldest.max_queue_delay_microseconds == 500


def test_the_response_cache_is_what_the_stack_says() -> None:
    base = PYTHON + "response_cache { enable: true }"

    assert _configure(responseCache=True).response_cache.enable
    assert not _configure(base).HasField("response_cache")


def test_a_decoupled_model_says_so() -> None:
    assert _configure(decoupled=True).model_transaction_policy.decoupled
    assert not _configure().HasField("model_transaction_policy")


def test_latency_is_counted_in_buckets_around_the_slo() -> None:
    base = PYTHON + (
        'model_metrics { metric_control [ { metric_identifier { family: "nv_inference_first_response_histogram_ms" } '
        'histogram_options { buckets: [ 1 ] } }, { metric_identifier { family: "mine" } } ] }'
    )
    controls = _configure(base).model_metrics.metric_control

    assert [control.metric_identifier.family for control in controls] == ["mine", "nv_inference_first_response_histogram_ms"]
    assert 50 in controls[1].histogram_options.buckets
    both = _configure(base, sloP99Ms=119).model_metrics.metric_control[1].histogram_options.buckets
    assert {50, 119} <= set(both)
    assert not _configure(latencyHistogram=False).HasField("model_metrics")


def test_the_version_is_the_released_one() -> None:
    for policy in ("latest { num_versions: 2 }", "specific { versions: 2 }"):
        made = _configure(PYTHON + f"version_policy {{ {policy} }}")

        assert list(made.version_policy.specific.versions) == [3]


def test_an_ensemble_gets_a_batch_size_and_a_histogram_and_nothing_else() -> None:
    made = _configure(ENSEMBLE, maxBatchSize=4, responseCache=True)

    assert made.max_batch_size == 4
    assert made.response_cache.enable
    assert 50 in made.model_metrics.metric_control[0].histogram_options.buckets
    assert not made.instance_group
    assert not made.model_warmup
    assert made.WhichOneof("scheduling_choice") == "ensemble_scheduling"


_LEAVE = "say it of the models of its steps and leave it out here"


@pytest.mark.parametrize(
    ("base", "more", "problems"),
    [
        (
            PYTHON.replace("max_batch_size: 8", ""),
            {"maxBatchSize": 4},
            [
                "maxBatchSize: 4, but config.pbtxt says max_batch_size: 0: the dims of its tensors hold everything and "
                "there is no batch to grow; leave it out"
            ],
        ),
        (
            PYTHON.replace("KIND_CPU count: 1 }", "KIND_CPU count: 1 }, { kind: KIND_CPU }"),
            {},
            [
                "device: config.pbtxt has 2 instance groups, and one follows from device and instances; leave one there",
            ],
        ),
        (PLAN, {}, ["device: cpu, but the tensorrt backend runs on GPUs only; write gpu"]),
        (
            PLAN,
            {**GPU, "files": ("model_cc75.plan", "model_cc80.plan"), "capabilities": ("8.6", "8.9")},
            [
                f"device: no model file for compute capability {capability} of the pool's GPUs in version 3, which has "
                f"model_cc75.plan, model_cc80.plan; build one there and name it like model_cc{digits}.plan"
                for capability, digits in (("8.6", "86"), ("8.9", "89"))
            ],
        ),
        (
            PLAN,
            {**GPU, "files": ("model.plan",), "capabilities": ("8.6", "8.9")},
            [
                "device: the pool's GPUs have compute capabilities 8.6, 8.9, and a TensorRT plan runs on one; build a plan "
                "on each and name them model_cc86.plan, model_cc89.plan"
            ],
        ),
        (
            PYTHON,
            {"warmup": [1, 9]},
            ["warmup: a batch of 9, but the largest batch is 8"],
        ),
        (
            PYTHON.replace("max_batch_size: 8", ""),
            {"warmup": [2]},
            ["warmup: a batch of 2, but the model does not batch (max_batch_size 0)"],
        ),
        (
            PYTHON.replace("[ 4 ]", "[ -1 ]"),
            {"warmup": [1]},
            [
                "warmup: input X has variable dims [-1], so no sample can be made of them; add a golden.json to the "
                "version, or a sample to model_warmup of config.pbtxt (its dims serve every batch size), or write warmup: []"
            ],
        ),
        (
            PYTHON,
            {"sequence": {"strategy": "direct"}},
            [
                "sequence: config.pbtxt declares no control inputs, so the model would not learn where a sequence starts "
                "and ends; write sequence_batching { control_input [ … ] } there, with CONTROL_SEQUENCE_START at least"
            ],
        ),
        (
            SEQUENCE,
            {},
            [
                "sequence: missing, but config.pbtxt has sequence_batching: requests of one sequence must reach the same "
                "instance; write sequence: {strategy: direct} or {strategy: oldest}"
            ],
        ),
        (
            SEQUENCE,
            {"sequence": {"strategy": "direct"}, "warmup": [1]},
            [
                "warmup: a warm-up request passes the sequence batcher by, so the model gets no control inputs and fails; "
                "write warmup: [] or leave it out"
            ],
        ),
        (
            PYTHON,
            {"decoupled": True, "warmup": [1]},
            [
                "warmup: a decoupled model that answers its warm-up with an error crashes the server, and zeros as X may "
                "well be one; give a sample in model_warmup of config.pbtxt, or write warmup: []"
            ],
        ),
        (
            PYTHON + "model_transaction_policy { decoupled: true }",
            {},
            [
                "decoupled: false, but config.pbtxt says decoupled: true, so its clients must expect any number of "
                "responses; write decoupled: true"
            ],
        ),
        (
            ONNX,
            {"decoupled": True},
            ["decoupled: a model of the onnxruntime backend answers each request once; leave it out"],
        ),
        (
            PYTHON,
            {"server": "2.51.0"},
            [
                "latencyHistogram: it needs the field model_metrics, which came with server 2.54, and this stack's is "
                "2.51.0; write latencyHistogram: false"
            ],
        ),
        (
            ENSEMBLE.replace("ensemble_scheduling {", "ensemble_scheduling { max_inflight_requests: 3"),
            {"server": "2.60.0"},
            ["config.pbtxt: max_inflight_requests came with server 2.65, and this stack's is 2.60.0; leave it out"],
        ),
        (
            ENSEMBLE,
            {**GPU, "instances": 2, "maxQueueDelayUs": 0, "warmup": [1], "rateLimiter": {"resources": {"slots": 1}}},
            [
                "device: an ensemble has neither queue nor instances, only its steps have; write cpu",
                *(
                    f"{key}: an ensemble has neither queue nor instances, only its steps have; {_LEAVE}"
                    for key in ("instances", "maxQueueDelayUs", "warmup", "rateLimiter")
                ),
            ],
        ),
    ],
)
def test_what_a_model_cannot_do_is_said_all_at_once(base: str, more: dict[str, Any], problems: list[str]) -> None:
    assert _problems(base, **more) == problems
