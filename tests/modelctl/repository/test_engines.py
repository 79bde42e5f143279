"""NVIDIA's own language model configs are accepted; reasons that an engine cannot start are reported."""

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig, ModelInstanceGroup

from modelctl.release.stack_configs import stack_configs
from modelctl.release.stacks import read_stack
from modelctl.repository.configure import ConfigureError, Facts, configure
from modelctl.repository.load import load, validate
from modelctl.repository.rules import ensembles
from spec.settings import ModelServing
from tests.modelctl.stacks import wants, write_stack

VLLM = """
# As the backend's samples have it: tensors and policy are the backend's to add.
backend: "vllm"
instance_group [ { count: 1 kind: KIND_MODEL } ]
"""
ARGUMENTS = {"model": "facebook/opt-125m", "gpu_memory_utilization": 0.5}
_TEXT_IN = 'input [ { name: "text_input" data_type: TYPE_STRING dims: [ 1 ] } ]'
_TEXT_OUT = 'output [ { name: "text_output" data_type: TYPE_STRING dims: [ -1 ] } ]'
_TOKENS = 'name: "ids" data_type: TYPE_INT32 dims: [ -1 ]'
_CPU = "instance_group [ { count: 1 kind: KIND_CPU } ]"
# The form of NVIDIA's template: the fields of its fill_template.py, and unchanged optional parameters.
TENSORRT_LLM = {
    "preprocessing": f"""
        name: "preprocessing" backend: "python" max_batch_size: 8 {_TEXT_IN} output [ {{ {_TOKENS} }} ] {_CPU}
        parameters {{ key: "tokenizer_dir" value {{ string_value: "/engines/tokenizer" }} }}
        parameters {{ key: "gpt_model_path" value {{ string_value: "${{engine_dir}}" }} }}
        parameters {{ key: "max_num_images" value {{ string_value: "${{max_num_images}}" }} }}""",
    "tensorrt_llm": f"""
        name: "tensorrt_llm" backend: "tensorrtllm" max_batch_size: 8 model_transaction_policy {{ decoupled: true }}
        dynamic_batching {{ preferred_batch_size: [ 8 ] max_queue_delay_microseconds: 0
          default_queue_policy: {{ max_queue_size: 32 }} }}
        input [ {{ {_TOKENS} }} ] output [ {{ name: "output_ids" data_type: TYPE_INT32 dims: [ -1, -1 ] }} ] {_CPU}
        parameters {{ key: "gpt_model_type" value {{ string_value: "inflight_fused_batching" }} }}
        parameters {{ key: "gpt_model_path" value {{ string_value: "/engines/llama" }} }}
        parameters {{ key: "max_beam_width" value {{ string_value: "${{max_beam_width}}" }} }}
        parameters {{ key: "executor_worker_path"
          value {{ string_value: "/opt/tritonserver/backends/tensorrtllm/trtllmExecutorWorker" }} }}""",
    "postprocessing": f"""
        name: "postprocessing" backend: "python" max_batch_size: 8
        input [ {{ name: "tokens" data_type: TYPE_INT32 dims: [ -1, -1 ] }} ] {_TEXT_OUT} {_CPU}
        parameters {{ key: "tokenizer_dir" value {{ string_value: "/engines/tokenizer" }} }}""",
    "tensorrt_llm_bls": f"""
        name: "tensorrt_llm_bls" backend: "python" max_batch_size: 8 model_transaction_policy {{ decoupled: true }}
        {_TEXT_IN} {_TEXT_OUT} {_CPU}
        parameters {{ key: "tensorrt_llm_model_name" value {{ string_value: "${{tensorrt_llm_model_name}}" }} }}""",
    "ensemble": f"""
        name: "ensemble" platform: "ensemble" max_batch_size: 8 {_TEXT_IN} {_TEXT_OUT} {_TEXT_OUT}
        ensemble_scheduling {{ step [
          {{ model_name: "preprocessing" model_version: -1
            input_map {{ key: "text_input" value: "text_input" }} output_map {{ key: "ids" value: "_ids" }} }},
          {{ model_name: "tensorrt_llm" model_version: -1
            input_map {{ key: "ids" value: "_ids" }} output_map {{ key: "output_ids" value: "_out" }} }},
          {{ model_name: "postprocessing" model_version: -1
            input_map {{ key: "tokens" value: "_out" }} output_map {{ key: "text_output" value: "text_output" }} }} ] }}""",
}
MODEL_PY = "class TritonPythonModel:\n    def execute(self, requests):\n        return []\n"


@pytest.fixture
def vllm(tmp_path: Path) -> Path:
    """Return a repository with one vLLM model."""
    folder = tmp_path / "repository" / "llm" / "1"
    folder.mkdir(parents=True)
    (folder / "model.json").write_text(json.dumps(ARGUMENTS))
    (folder.parent / "config.pbtxt").write_text(VLLM)
    return tmp_path / "repository"


@pytest.fixture
def tensorrt_llm(tmp_path: Path) -> Path:
    """Return a repository with TensorRT-LLM's five models."""
    for name, config in TENSORRT_LLM.items():
        folder = tmp_path / "repository" / name / "1"
        folder.mkdir(parents=True)
        (folder.parent / "config.pbtxt").write_text(config)
        python = name not in ("ensemble", "tensorrt_llm")
        (folder / ("model.py" if python else ".tmp")).write_text(MODEL_PY if python else "")
    return tmp_path / "repository"


def _messages(repository: Path) -> list[str]:
    return [str(problem).removeprefix(f"{repository}/") for problem in validate(repository)]


def test_a_vllm_model_is_released_with_what_the_backend_would_add(vllm: Path) -> None:
    (model,) = load(vllm)

    released = text_format.Parse(model.config_text, ModelConfig())
    assert [(tensor.name, tensor.optional) for tensor in released.input][:3] == [
        ("text_input", False),
        ("image", True),
        ("stream", True),
    ]
    assert [tensor.name for tensor in released.output][:2] == ["text_output", "finish_reason"]
    assert (released.model_transaction_policy.decoupled, released.max_batch_size) == (True, 0)
    assert [(group.kind, group.count) for group in released.instance_group] == [(ModelInstanceGroup.KIND_MODEL, 1)]
    assert not released.HasField("dynamic_batching")


def test_tensors_that_the_author_wrote_are_not_added_again(vllm: Path) -> None:
    config = vllm / "llm" / "config.pbtxt"
    config.write_text(config.read_text() + _TEXT_IN + _TEXT_OUT)

    (model,) = load(vllm)

    names = [tensor.name for tensor in (*model.config.input, *model.config.output)]
    assert (len(names), len(set(names))) == (17, 17)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], 'not the arguments of an engine; write {"model": "<name or directory>", …}'),
        ({}, "model: missing; the name of a model on a hub, or the directory of one"),
        ({"model": 3}, "model: missing; the name of a model on a hub, or the directory of one"),
        ({"model": "/models/../etc"}, 'model: "/models/../etc" leads out with ..; write the directory as the pods see it'),
        (
            {"model": "./weights"},
            'model: "./weights" is neither a name on a hub nor an absolute directory: vLLM would look for it below the '
            "directory that the server was started in; write the directory as the pods see it",
        ),
        ({**ARGUMENTS, "tensor_parallel_size": 0}, "tensor_parallel_size: 0 is no number of GPUs; a whole number from 1"),
        (
            {**ARGUMENTS, "tensor_parallel_size": "2"},
            "tensor_parallel_size: '2' is no number of GPUs; a whole number from 1",
        ),
        (
            {**ARGUMENTS, "gpu_memory_utilization": 1.5},
            "gpu_memory_utilization: 1.5 is no share of a GPU's memory; more than 0, up to 1",
        ),
        (
            {**ARGUMENTS, "enable_lora": "true"},
            "enable_lora: there is no 1/multi_lora.json; it names the adapters, or leave enable_lora out",
        ),
    ],
)
def test_arguments_that_no_engine_starts_with_are_told(vllm: Path, arguments: Any, said: str) -> None:
    (vllm / "llm" / "1" / "model.json").write_text(json.dumps(arguments))
    assert _messages(vllm) == [f"llm/1/model.json: {said}"]


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (
            "weights",
            '"weights" is relative to where the server was started; write "/models/current/llm/1/weights", which the pods '
            "have (access: local)",
        ),
        ("/models/current/llm/1/weights", None),
        ("/models/current/llm/2/weights", "is not in the release, which has no llm/2/weights"),
        ("/models/current", "is not in the release, which has no ."),
        (
            "/models/llm/1/weights",
            "is not where pods have a release; they have it at /models/current/<model>/<version>/ (models.access: local)",
        ),
    ],
)
def test_weights_of_the_release_are_named_where_the_pods_have_them(vllm: Path, model: str, said: str | None) -> None:
    folder = vllm / "llm" / "1"
    (folder / "weights").mkdir()
    (folder / "weights" / "config.json").write_text("{}")
    (folder / "model.json").write_text(json.dumps({"model": model}))
    shown = said if said is None or said.startswith('"') else f'"{model}" {said}'
    assert _messages(vllm) == ([f"llm/1/model.json: model: {shown}"] if shown else [])


def test_an_engine_of_the_release_is_in_it(tensorrt_llm: Path) -> None:
    config = tensorrt_llm / "tensorrt_llm" / "config.pbtxt"
    config.write_text(config.read_text().replace("/engines/llama", "/models/current/tensorrt_llm/1/engine"))
    assert _messages(tensorrt_llm) == [
        'tensorrt_llm/config.pbtxt: parameters[gpt_model_path]: "/models/current/tensorrt_llm/1/engine" is not in the '
        "release, which has no tensorrt_llm/1/engine"
    ]
    (tensorrt_llm / "tensorrt_llm" / "1" / "engine").mkdir()
    (tensorrt_llm / "tensorrt_llm" / "1" / "engine" / "rank0.bin").write_bytes(b"x")
    assert _messages(tensorrt_llm) == []


@pytest.mark.parametrize(
    "arguments",
    [
        {"model": "/opt/weights/llama"},
        {"model": "gpt2", "tensor_parallel_size": 4},
        {**ARGUMENTS, "gpu_memory_utilization": 1, "enforce_eager": True},
    ],
)
def test_arguments_of_an_engine_are_vllms_own(vllm: Path, arguments: Any) -> None:
    (vllm / "llm" / "1" / "model.json").write_text(json.dumps(arguments))
    assert _messages(vllm) == []


def test_an_engine_on_several_gpus_places_itself(vllm: Path) -> None:
    (vllm / "llm" / "1" / "model.json").write_text(json.dumps({**ARGUMENTS, "tensor_parallel_size": 2}))
    config = vllm / "llm" / "config.pbtxt"
    config.write_text(config.read_text().replace("KIND_MODEL", "KIND_GPU"))
    assert _messages(vllm) == ["llm/1/model.json: 2 GPUs, and KIND_GPU in config.pbtxt is for one; write KIND_MODEL there"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "model_transaction_policy { decoupled: false }",
            "model_transaction_policy: the vllm backend loads decoupled models alone; write decoupled: true",
        ),
        ("max_batch_size: 8", "max_batch_size: 8, but vLLM makes the batches; leave it out"),
    ],
)
def test_a_config_that_vllm_does_not_load_is_told(vllm: Path, text: str, said: str) -> None:
    config = vllm / "llm" / "config.pbtxt"
    config.write_text(config.read_text() + text)
    assert _messages(vllm) == [f"llm/config.pbtxt: {said}"]


def test_the_models_of_tensorrt_llm_are_taken_as_they_are(tensorrt_llm: Path) -> None:
    assert _messages(tensorrt_llm) == []
    assert {model.name: model.backend for model in load(tensorrt_llm)} == {
        "preprocessing": "python",
        "tensorrt_llm": "tensorrtllm",
        "postprocessing": "python",
        "tensorrt_llm_bls": "python",
        "ensemble": "ensemble",
    }


def test_an_output_that_is_declared_twice_is_declared_alike(tensorrt_llm: Path) -> None:
    config = tensorrt_llm / "ensemble" / "config.pbtxt"
    config.write_text(config.read_text().replace(_TEXT_OUT, _TEXT_OUT.replace("STRING", "UINT8"), 1))
    assert "ensemble/config.pbtxt: output: text_output is declared 2 times; a name is used once" in _messages(tensorrt_llm)


def test_the_engine_of_tensorrt_llm_in_python_is_taken_as_it_is(tensorrt_llm: Path) -> None:
    engine = tensorrt_llm / "tensorrt_llm"
    config = engine / "config.pbtxt"
    tokenizer = 'parameters { key: "tokenizer_dir" value { string_value: "${tokenizer_dir}" } }'
    config.write_text(config.read_text().replace('"tensorrtllm"', '"python"', 1) + tokenizer)
    (engine / "1" / "model.py").write_text(MODEL_PY)
    assert _messages(tensorrt_llm) == []

    config.write_text(config.read_text().replace("/engines/llama", "${engine_dir}"))
    assert _messages(tensorrt_llm) == [
        "tensorrt_llm/config.pbtxt: parameters[gpt_model_path]: ${engine_dir} is a place of a template that is not filled; "
        "fill it, as TensorRT-LLM's fill_template.py does"
    ]


def test_without_an_engine_beside_it_a_python_model_needs_a_bound_queue(tensorrt_llm: Path) -> None:
    for name in ("tensorrt_llm", "tensorrt_llm_bls", "ensemble", "postprocessing"):
        (tensorrt_llm / name).rename(tensorrt_llm.parent / name)
    (message,) = _messages(tensorrt_llm)
    assert message.startswith("preprocessing/config.pbtxt: dynamic_batching: missing, so the queue grows without bound")


@pytest.mark.parametrize(
    ("model", "old", "new", "said"),
    [
        (
            "tensorrt_llm",
            "max_batch_size: 8 model_",
            "max_batch_size: ${triton_max_batch_size} model_",
            ":2:69: ${triton_max_batch_size} is a place of a template that is not filled; fill it, as TensorRT-LLM's "
            "fill_template.py does",
        ),
        (
            "tensorrt_llm",
            '"/engines/llama"',
            '"${engine_dir}"',
            ": parameters[gpt_model_path]: ${engine_dir} is a place of a template that is not filled; fill it, as "
            "TensorRT-LLM's fill_template.py does",
        ),
        (
            "tensorrt_llm",
            '"gpt_model_type"',
            '"model_type"',
            ": parameters[gpt_model_type]: missing; an engine of TensorRT-LLM does not start without it",
        ),
        (
            "preprocessing",
            '"/engines/tokenizer"',
            '"${tokenizer_dir}"',
            ": parameters[tokenizer_dir]: ${tokenizer_dir} is a place of a template that is not filled; fill it, as "
            "TensorRT-LLM's fill_template.py does",
        ),
    ],
)
def test_places_of_the_template_that_a_start_needs_are_told(
    tensorrt_llm: Path, model: str, old: str, new: str, said: str
) -> None:
    config = tensorrt_llm / model / "config.pbtxt"
    assert old in config.read_text()
    config.write_text(config.read_text().replace(old, new, 1))
    assert [message for message in _messages(tensorrt_llm) if message.startswith(f"{model}/")] == [
        f"{model}/config.pbtxt{said}"
    ]


def _configured(config: ModelConfig, **more: Any) -> ModelConfig:
    given = {"device": "gpu", "gpuMemoryMiB": 900, "decoupled": True, "latencyHistogram": False, **more}
    serving = ModelServing.model_validate_json(json.dumps(wants(**given)))
    return configure(config, serving, Facts(("8.6",), "2.71.0", (1,), frozenset({"model.json"})))


@pytest.mark.parametrize("name", ["llm", "tensorrt_llm"])
def test_a_stack_leaves_scheduling_and_instances_to_the_engine(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    request.getfixturevalue("vllm" if name == "llm" else "tensorrt_llm")
    base = next(model.config for model in load(tmp_path / "repository") if model.name == name)

    made = _configured(base)

    assert made.instance_group == base.instance_group
    assert made.dynamic_batching == base.dynamic_batching
    assert made.max_batch_size == base.max_batch_size


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("instances", 2),
        ("maxBatchSize", 4),
        ("maxQueueDelayUs", 0),
        ("priorities", {"levels": 2, "default": 1}),
        ("rateLimiter", {"resources": {"slots": 1}}),
    ],
)
def test_what_an_engine_does_by_itself_cannot_be_wanted(vllm: Path, key: str, value: Any) -> None:
    (model,) = load(vllm)
    with pytest.raises(ConfigureError) as failure:
        _configured(model.config, **{key: value})
    assert failure.value.problems == [
        f"{key}: the vllm backend batches, queues and places its model by itself; leave it out"
    ]


LLM = {"concurrentStreams": 8, "contextTokens": 2048, "weightsMiB": 200, "kvBytesPerToken": 1024}


def test_a_stack_that_scales_on_what_vllm_exports_has_it_exported(vllm: Path) -> None:
    (model,) = load(vllm)
    assert "REPORT_CUSTOM_METRICS" not in _configured(model.config).parameters
    made = _configured(model.config, llm=LLM)
    assert made.parameters["REPORT_CUSTOM_METRICS"].string_value == "true"


def test_what_the_author_says_against_it_is_told(vllm: Path) -> None:
    config = vllm / "llm" / "config.pbtxt"
    config.write_text(f'{config.read_text()}parameters {{ key: "REPORT_CUSTOM_METRICS" value {{ string_value: "no" }} }}')
    (model,) = load(vllm)
    with pytest.raises(ConfigureError) as failure:
        _configured(model.config, llm=LLM)
    assert failure.value.problems == [
        "llm: the stack scales on and watches what vLLM exports, and config.pbtxt says REPORT_CUSTOM_METRICS: no; write "
        "true there, or leave it out"
    ]


def test_no_other_backend_has_language_models(tensorrt_llm: Path) -> None:
    models = {model.name: model for model in load(tensorrt_llm)}
    assert _configured(models["tensorrt_llm"].config, llm=LLM).parameters.keys() == (
        models["tensorrt_llm"].config.parameters.keys()
    )
    with pytest.raises(ConfigureError) as failure:
        _configured(models["tensorrt_llm_bls"].config, llm=LLM)
    assert failure.value.problems == [
        "llm: the python backend is none of language models (tensorrtllm, vllm are); leave it out"
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, []),
        ({"tensor_parallel_size": 2}, ["llm.gpus: 1, but 1/model.json splits the model over 2; give the same"]),
        (
            {"max_model_len": 1024, "max_num_seqs": 4},
            [
                "llm.contextTokens: 2048 are more than max_model_len 1024 of 1/model.json; give up to 1024, or raise it "
                "there",
                "llm.concurrentStreams: 8 are more than max_num_seqs 4 of 1/model.json; give up to 4, or raise it there",
            ],
        ),
        ({"max_model_len": 2048, "max_num_seqs": 8}, []),
        (
            {"disable_log_stats": True},
            [
                "llm: 1/model.json has disable_log_stats, and the stack scales on what vLLM exports; leave it out there",
            ],
        ),
    ],
)
def test_the_arguments_of_vllm_allow_what_a_stack_wants(vllm: Path, tmp_path: Path, arguments: Any, said: list[str]) -> None:
    (vllm / "llm" / "1" / "model.json").write_text(json.dumps({**ARGUMENTS, **arguments}))
    given = wants(device="gpu", gpuMemoryMiB=900, decoupled=True, llm=LLM)
    file = write_stack(tmp_path / "stacks", {"llm": given})
    stack, problems = read_stack(file)
    assert (stack is not None, problems) == (True, [])
    found = [problem.message for problem in stack_configs(load(vllm), [stack] if stack is not None else []).problems]
    assert found == [f"models.serving.llm.{line} [{vllm / 'llm' / 'config.pbtxt'}]" for line in said]


def test_the_openai_front_end_reads_the_authors_config_which_has_to_be_whole(vllm: Path, tmp_path: Path) -> None:
    given = wants(device="gpu", gpuMemoryMiB=900, decoupled=True, latencyHistogram=False, warmup=[], llm=LLM)
    file = write_stack(tmp_path / "stacks", {"llm": given}, triton={"openai": {"tokenizer": "gpt2"}})
    stack, problems = read_stack(file)
    assert stack is not None
    assert problems == []
    config = vllm / "llm" / "config.pbtxt"
    lacks = 'parameters { key: "REPORT_CUSTOM_METRICS" value { string_value: "true" } }'
    (problem,) = stack_configs(load(vllm), [stack]).problems
    assert problem.message == (
        "models.serving.llm.llm: the front end of triton.openai reads config.pbtxt alone, and the stack's config differs; "
        f"write this into it: {lacks} [{config}]"
    )
    config.write_text(config.read_text() + lacks)
    assert stack_configs(load(vllm), [stack]).problems == []
    sample = 'inputs { key: "text_input" value { data_type: TYPE_STRING dims: [ 1 ] zero_data: true } }'
    config.write_text(f'{config.read_text()} model_warmup {{ name: "mine" {sample} }}')
    (problem,) = stack_configs(load(vllm), [stack]).problems
    assert problem.message == (
        "models.serving.llm.llm: the front end of triton.openai reads config.pbtxt alone, and the stack's config differs; "
        f"take this out of it: model_warmup [{config}]"
    )


@pytest.mark.parametrize(
    ("dims", "said"),
    [
        ("[ -1, -1 ]", []),
        (
            "[ -1 ]",
            [
                "ensemble_scheduling.step[0].input_map: tensor text has shape [-1, 1] in chat but [-1] in llm",
                "output: tensor text_output has shape [-1] in llm but [-1, -1] in chat",
            ],
        ),
    ],
)
def test_a_step_that_does_not_batch_has_the_batch_in_its_dims(dims: str, said: list[str]) -> None:
    tensor = 'name: "text{}" data_type: TYPE_STRING dims: {}'
    step = text_format.Parse(
        f"input {{ {tensor.format('', dims)} }} output {{ {tensor.format('_output', dims)} }}", ModelConfig()
    )
    chat = text_format.Parse(
        f"""platform: "ensemble" max_batch_size: 8
        input {{ {tensor.format("", "[ 1 ]")} }} output {{ {tensor.format("_output", "[ -1 ]")} }}
        ensemble_scheduling {{ step {{ model_name: "llm" model_version: -1
          input_map {{ key: "text" value: "text" }} output_map {{ key: "text_output" value: "text_output" }} }} }}""",
        ModelConfig(),
    )
    peers = {"llm": ensembles.Peer(step, (1,)), "chat": ensembles.Peer(chat, (1,))}
    assert list(ensembles.check("chat", chat, peers)) == said
