"""The models that come out of packages: released for GPUs and for CPUs, and asked for what the packages say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import onnxruntime
import pytest
import tritonclient.grpc as grpc
from PIL import Image, ImageDraw, ImageFont
from tritonclient.grpc.model_config_pb2 import ModelInstanceGroup

from examples.packaged import build
from examples.tensors import to_inputs
from modelctl.release.progress import Silent
from modelctl.release.publish import Plan, prepare
from modelctl.repository import textproto
from modelctl.store.bucket import PART_BYTES
from tests import waiting
from tests.modelctl.golden_inference import golden_difference
from tests.modelctl.stacks import wants, write_stack
from tests.system.serving.pods import Pod, running_kubelet

ONNX = ("filetype", "speech", "text_detection", "text_direction", "text_recognition")
WANTS = {"sloP95Ms": 5000, "warmup": []}
"""A picture takes two seconds on two processors."""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build.build(tmp_path_factory.mktemp("packaged") / "models")


@pytest.fixture(scope="module")
def plan(repository: Path) -> Plan:
    """One release, for a stack with GPUs and for one that serves the same on CPUs."""
    stacks = repository.parent / "stacks"
    serving = {name: {**WANTS, **({"sequence": {"strategy": "direct"}} if name == "speech" else {})} for name in ONNX}
    on_gpus = {name: wants(device="gpu", gpuMemoryMiB=700, **more) for name, more in serving.items()}
    write_stack(stacks, on_gpus, stack="staging")
    write_stack(stacks, {name: wants(latencyHistogram=False, **more) for name, more in serving.items()}, stack="local")
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


def test_a_repository_that_is_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()

    with pytest.raises(build.NotBuilt, match="is there already; remove it, or name another directory"):
        build.build(tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("stack", "kind"), [("staging", ModelInstanceGroup.KIND_GPU), ("local", ModelInstanceGroup.KIND_CPU)]
)
@pytest.mark.parametrize("model", ONNX)
def test_one_release_has_instances_on_gpus_and_on_cpus(plan: Plan, model: str, stack: str, kind: int) -> None:
    source = plan.objects[f"{model}/configs/{stack}.pbtxt"].source
    assert isinstance(source, bytes)
    config, problems = textproto.parse(Path("config.pbtxt"), source.decode())
    assert (problems, config is not None and config.instance_group[0].kind) == ([], kind)


@pytest.mark.parametrize("model", ["filetype", "text_in_picture"])
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


@pytest.mark.parametrize("is_turned", [False, True])
def test_the_text_of_a_picture_is_read_from_top_to_bottom(client: grpc.InferenceServerClient, is_turned: bool) -> None:
    lines = ["Triton on EKS", "reads the text of a picture", "0123456789"]
    image = Image.new("RGB", (620, 220), "white")
    for index, line in enumerate(lines):
        ImageDraw.Draw(image).text((24, 24 + 60 * index), line, "black", ImageFont.load_default(36))
    picture = np.array(image.rotate(180 if is_turned else 0))

    answer = waiting.answer(client, "text_in_picture", to_inputs({"PICTURE": picture}))

    read = [text.decode().replace(" ", "") for text in answer.as_numpy("TEXT")]
    assert read == [line.replace(" ", "") for line in (reversed(lines) if is_turned else lines)]
    boxes = answer.as_numpy("BOX")
    assert (answer.as_numpy("SCORE").min() > 0.8, boxes.shape, (np.diff(boxes[:, 1]) > 50).all()) == (True, (3, 4), True)


def test_a_picture_without_text_has_none(client: grpc.InferenceServerClient) -> None:
    blank = np.full((40, 60, 3), 255, dtype=np.uint8)

    answer = waiting.answer(client, "text_in_picture", to_inputs({"PICTURE": blank}))

    assert [answer.as_numpy(name).shape for name in ("TEXT", "SCORE", "BOX")] == [(0,), (0,), (0, 4)]


def test_the_state_of_a_voice_is_kept_from_request_to_request_and_begins_anew(
    client: grpc.InferenceServerClient, repository: Path
) -> None:
    times = np.arange(4 * 576) / 16000
    sound = (np.sin(2 * np.pi * 180 * times) * np.sin(2 * np.pi * 3 * times)).astype(np.float32).reshape(4, 1, 576)
    session = onnxruntime.InferenceSession(repository / "speech" / "1" / "model.onnx", providers=["CPUExecutionProvider"])
    state, expected = np.zeros((2, 1, 128), dtype=np.float32), []
    for chunk in sound:
        likelihood, state = session.run(None, {"input": chunk, "state": state, "sr": np.array(16000)})
        expected.append(likelihood.tolist())

    for sequence in (1, 2):
        answers = []
        for number, chunk in enumerate(sound):
            given = to_inputs({"input": chunk, "sr": np.array([16000])})
            more = {"sequence_id": sequence, "sequence_start": number == 0, "sequence_end": number == len(sound) - 1}
            answers.append(client.infer("speech", given, client_timeout=30, **more).as_numpy("output").tolist())
        assert np.allclose(answers, expected, atol=1e-6)
    assert len({str(answer) for answer in expected}) == 4
