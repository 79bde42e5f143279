"""A real tritonserver loads and serves generated configs of all model kinds for its backends."""

import json
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tritonclient.grpc as grpc
from tritonclient.grpc.model_config_pb2 import ModelInstanceGroup, ModelQueuePolicy
from tritonclient.utils import InferenceServerException

from modelctl.release.progress import Silent
from modelctl.release.publish import Plan, prepare
from modelctl.store.bucket import PART_BYTES
from tests.modelctl.conftest import SAMPLES
from tests.modelctl.golden_inference import golden_difference
from tests.modelctl.servers import loopback_address, process, wait_until
from tests.modelctl.stacks import wants, write_stack
from tests.paths import ROOT
from twin.triton.tritonserver import tritonserver_command

EXAMPLES = ROOT / "examples" / "models"
STACK = "dev"


def _wants(**more: Any) -> dict[str, Any]:
    # Server 2.51 does not know model_metrics.
    return wants(latencyHistogram=False, **more)


SERVING = {
    "classify": _wants(maxBatchSize=4, instances=2, priorities={"levels": 3, "default": 2}, maxQueueDelayUs=200),
    "normalize": _wants(warmup=[], rateLimiter={"resources": {"slots": 1}, "priority": 2}),
    "pipeline": _wants(maxBatchSize=4),
    "clean_text": _wants(),
    "embed_cached": _wants(responseCache=True, rateLimiter={"resources": {"slots": 2}}),
    "embed_long": _wants(),
    "generate": _wants(decoupled=True),
    "running_sum": _wants(sequence={"strategy": "oldest", "maxIdleMs": 5000}),
    "to_gray": _wants(warmup=[]),
    "picture": _wants(),
    "picture_cold": _wants(),
}
"""pick_model and embed_clean use their own config.pbtxt."""

PICTURE = """
import io, json, zlib
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            content = pb_utils.get_input_tensor_by_name(request, "FILE").as_numpy().reshape(-1)
            pixels = [sum(zlib.decompress(bytes.fromhex(one.decode()))) for one in content]  # raises on an empty text
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("SUM", np.array(pixels, np.int64).reshape(-1, 1))]))
        return answers
"""
PICTURE_CONFIG = """
backend: "python" max_batch_size: 4
input [ { name: "FILE" data_type: TYPE_STRING dims: [ 1 ] } ]
output [ { name: "SUM" data_type: TYPE_INT64 dims: [ 1 ] } ]
instance_group [ { kind: KIND_CPU } ]
"""
"""A step that decodes compressed pixels, like a JPEG step, and fails for other input."""


def _add_picture_models(models: Path) -> None:
    """Write `picture` with a golden inference, and `picture_cold` without one."""
    for name in ("picture", "picture_cold"):
        (models / name / "1").mkdir(parents=True)
        (models / name / "1" / "model.py").write_text(PICTURE)
        (models / name / "config.pbtxt").write_text(PICTURE_CONFIG)
    picture = {"datatype": "BYTES", "shape": [1, 1], "data": [zlib.compress(bytes([1, 2, 3])).hex()]}
    answer = {"datatype": "INT64", "shape": [1, 1], "data": [6]}
    golden = {"inputs": {"FILE": picture}, "outputs": {"SUM": answer}}
    (models / "picture" / "1" / "golden.json").write_text(json.dumps(golden))


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """Return a release of all samples for a stack with different wants for each."""
    directory = tmp_path_factory.mktemp("release")
    ignored = shutil.ignore_patterns("__pycache__")
    models = Path(shutil.copytree(SAMPLES, directory / "models", ignore=ignored))
    shutil.copytree(EXAMPLES, models, ignore=ignored, dirs_exist_ok=True)
    _leave_open(models / "clean_text" / "config.pbtxt")
    _add_picture_models(models)
    file = write_stack(
        directory / "stacks",
        SERVING,
        stack=STACK,
        triton={"responseCacheMiB": 8, "rateLimiterResources": {"slots": 2}},
    )
    return prepare(models, PART_BYTES, Silent(), file.parent)


def _leave_open(config: Path) -> None:
    """Remove the fields that NVIDIA's examples omit: the backend, the queue bound, the number of instances."""
    text = config.read_text().replace('backend: "python"\n', "").replace(" count: 1", "")
    config.write_text(f"{text[: text.index('dynamic_batching')]}{text[text.index('instance_group') :]}")


@pytest.fixture(scope="module")
def client(plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> Iterator[grpc.InferenceServerClient]:
    """Yield a client of a server that has loaded the whole release as that stack."""
    directory = tmp_path_factory.mktemp("server")
    for key, planned in plan.objects.items():
        target = directory / "repository" / key
        target.parent.mkdir(parents=True, exist_ok=True)
        source = planned.source
        target.write_bytes(source if isinstance(source, bytes) else source.read_bytes())
    address, log = loopback_address(), directory / "tritonserver.log"
    command = tritonserver_command(
        [
            f"--model-repository={directory / 'repository'}",
            f"--model-config-name={STACK}",
            "--disable-auto-complete-config",
            "--exit-on-error=true",
            "--cache-config=local,size=8388608",
            "--rate-limit=execution_count",
            "--rate-limit-resource=slots:2",
        ],
        address,
        directory / "cache",
        {},
    )
    assert command.dropped_flags == []
    with process(command.argv, command.env, log) as server, grpc.InferenceServerClient(f"{address}:8001") as client:

        def ready() -> bool:
            assert server.poll() is None, log.read_text(errors="replace")[-5000:]
            try:
                return bool(client.is_server_ready())
            except InferenceServerException:  # the port is closed while models load
                return False

        wait_until(ready, "the server to be ready", 150, log)
        yield client


def test_every_model_is_served_with_its_generated_config(plan: Plan, client: grpc.InferenceServerClient) -> None:
    index = {model.name: model.state for model in client.get_model_repository_index().models}
    assert index == dict.fromkeys(plan.manifest.models, "READY")

    classify = client.get_model_config("classify").config
    assert classify.max_batch_size == 4
    assert [(group.kind, group.count) for group in classify.instance_group] == [(ModelInstanceGroup.KIND_CPU, 2)]
    batching = classify.dynamic_batching
    assert (batching.priority_levels, batching.max_queue_delay_microseconds) == (3, 200)
    policy = batching.priority_queue_policy[3]
    assert (policy.timeout_action, policy.default_timeout_microseconds, policy.max_queue_size) == (
        ModelQueuePolicy.REJECT,
        150_000,
        18,
    )
    assert client.get_model_config("embed_cached").config.response_cache.enable
    running_sum = client.get_model_config("running_sum").config.sequence_batching
    assert running_sum.oldest.max_candidate_sequences == 16
    assert running_sum.max_sequence_idle_microseconds == 5_000_000
    assert client.get_model_config("generate").config.model_transaction_policy.decoupled


def test_a_model_without_wants_is_served_by_its_own_config(client: grpc.InferenceServerClient) -> None:
    assert [group.count for group in client.get_model_config("pick_model").config.instance_group] == [2]


@pytest.mark.parametrize("model", ["classify", "normalize", "pipeline"])
def test_the_golden_inference_holds(model: str, client: grpc.InferenceServerClient) -> None:
    assert golden_difference(client, model, SAMPLES / model / "1") is None


def test_a_step_that_decodes_pictures_is_warmed_up_with_its_golden_picture(
    plan: Plan, client: grpc.InferenceServerClient
) -> None:
    warmed, cold = (client.get_model_config(model).config.model_warmup for model in ("picture", "picture_cold"))
    (file,) = {sample.inputs["FILE"].input_data_file for sample in warmed}
    assert [sample.batch_size for sample in warmed] == [1, 4]
    assert f"picture/warmup/{file}" in plan.manifest.objects
    assert list(cold) == []
    golden = plan.objects["picture/1/golden.json"].source
    assert isinstance(golden, Path)
    for model in ("picture", "picture_cold"):
        assert golden_difference(client, model, golden.parent) is None


def test_the_release_warns_of_models_that_it_cannot_warm_up(plan: Plan) -> None:
    place = plan.objects["picture/1/golden.json"].source
    assert isinstance(place, Path)
    (warning,) = [text for text in plan.warnings if text.startswith("picture")]
    assert warning == (
        "picture_cold: its first requests will be slow, because FILE is text or has variable sizes and no request is known "
        f"to warm it up with; add {place.parents[2] / 'picture_cold' / '1' / 'golden.json'} (docs/your-model.md)"
    )
