"""The models that come out of packages: released for GPUs and for CPUs, and asked for what the packages say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import tritonclient.grpc as grpc
from tritonclient.grpc.model_config_pb2 import ModelInstanceGroup

from examples.packaged import build
from modelctl.release.progress import Silent
from modelctl.release.publish import Plan, prepare
from modelctl.repository import textproto
from modelctl.store.bucket import PART_BYTES
from tests.modelctl.golden_inference import golden_difference
from tests.modelctl.stacks import wants, write_stack
from tests.system.serving.pods import Pod, running_kubelet

ONNX = ("filetype",)
KINDS = [("staging", ModelInstanceGroup.KIND_GPU), ("local", ModelInstanceGroup.KIND_CPU)]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build.build(tmp_path_factory.mktemp("packaged") / "models")


@pytest.fixture(scope="module")
def plan(repository: Path) -> Plan:
    """One release, for a stack with GPUs and for one that serves the same on CPUs."""
    stacks = repository.parent / "stacks"
    write_stack(stacks, {name: wants(device="gpu", gpuMemoryMiB=700) for name in ONNX}, stack="staging")
    write_stack(stacks, {name: wants(latencyHistogram=False) for name in ONNX}, stack="local")
    return prepare(repository, PART_BYTES, Silent(), stacks)


@pytest.fixture(scope="module")
def pod(plan: Plan, repository: Path, triton_cache: Path) -> Iterator[Pod]:
    """A pod that serves the release as the stack `local` does."""
    for key, planned in plan.objects.items():
        if isinstance(planned.source, bytes):
            (repository / key).parent.mkdir(parents=True, exist_ok=True)
            (repository / key).write_bytes(planned.source)
    (repository.parent / "node").mkdir()
    with running_kubelet(repository.parent / "node", triton_cache) as kubelet:
        values = {"release": {"configName": "local"}}
        yield kubelet.pod(plan.manifest.versions, repository, values).start().until_ready()


@pytest.fixture
def client(pod: Pod) -> Iterator[grpc.InferenceServerClient]:
    with grpc.InferenceServerClient(pod.grpc) as client:
        yield client


@pytest.mark.parametrize(
    ("stack", "kind"), [("staging", ModelInstanceGroup.KIND_GPU), ("local", ModelInstanceGroup.KIND_CPU)]
)
@pytest.mark.parametrize("model", ONNX)
def test_one_release_has_instances_on_gpus_and_on_cpus(plan: Plan, model: str, stack: str, kind: int) -> None:
    source = plan.objects[f"{model}/configs/{stack}.pbtxt"].source
    assert isinstance(source, bytes)
    config, problems = textproto.parse(Path("config.pbtxt"), source.decode())
    assert (problems, config is not None and config.instance_group[0].kind) == ([], kind)


@pytest.mark.parametrize("model", ONNX)
def test_a_model_answers_as_its_package_does(client: grpc.InferenceServerClient, repository: Path, model: str) -> None:
    assert golden_difference(client, model, repository / model / "1") is None


def test_a_type_of_file_is_told_by_its_name(pod: Pod) -> None:
    page = b"<!DOCTYPE html>\n<html><head><title>A page</title></head><body><p>text</p></body></html>"
    given = [*page[:1024], *[256] * (1024 - len(page)), *[256] * (1024 - len(page)), *page[-1024:]]
    body = {
        "inputs": [{"name": "bytes", "datatype": "INT32", "shape": [1, 2048], "data": given}],
        "outputs": [{"name": "target_label", "parameters": {"classification": 1}}],
    }

    answer = httpx.post(f"{pod.http}/v2/models/filetype/infer", json=body, timeout=30, trust_env=False).json()

    assert [entry.split(":")[2] for entry in answer["outputs"][0]["data"]] == ["html"]
