"""The models from packages: released for the shipped stacks and for CPUs, they answer as the packages do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import onnxruntime
import pytest
import tritonclient.grpc as grpc
from PIL import Image, ImageDraw, ImageFont
from ruamel.yaml import YAML
from tritonclient.grpc.model_config_pb2 import ModelInstanceGroup

from examples.packaged import build
from examples.tensors import to_inputs
from modelctl.release.progress import Silent
from modelctl.release.publish import Plan, prepare
from modelctl.repository import textproto
from modelctl.store.bucket import PART_BYTES
from spec import settings
from tests import waiting
from tests.modelctl.golden_inference import golden_difference
from tests.modelctl.stacks import write_stack
from tests.system.serving.pods import Pod, running_kubelet
from twin.host.home import REPOSITORY

ONNX = ("filetype", "speech", "text_detection", "text_direction", "text_recognition")
SHIPPED = ("dev", "prod", "staging")
SLO_MS = 4000
"""An image takes two seconds on two processors."""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build.build(tmp_path_factory.mktemp("packaged") / "models")


@pytest.fixture(scope="module")
def shipped(repository: Path) -> Plan:
    """Return the release that `modelctl release .models` would create now, for the stacks of this repository."""
    return prepare(repository, PART_BYTES, Silent(), REPOSITORY / "stacks")


@pytest.fixture(scope="module")
def plan(repository: Path) -> Plan:
    """Return a release for a stack with dev's settings, on CPUs."""
    stacks = repository.parent / "stacks"
    serving = YAML(typ="safe").load(REPOSITORY / "stacks" / "Pulumi.dev.yaml")["config"]["triton-eks:models"]["serving"]
    for entry in serving.values():
        entry.pop("gpuMemoryMiB", None)
    on_cpus = {"device": "cpu", "latencyHistogram": False, "sloP95Ms": SLO_MS}
    write_stack(stacks, {name: {**entry, **on_cpus} for name, entry in serving.items()}, stack="local")
    return prepare(repository, PART_BYTES, Silent(), stacks)


@pytest.fixture(scope="module")
def pod(plan: Plan, repository: Path, triton_cache: Path) -> Iterator[Pod]:
    """Return a pod that serves the release as the stack `local` does."""
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


@pytest.mark.parametrize("stack", SHIPPED)
def test_a_stack_pins_the_release_that_the_models_make(shipped: Plan, stack: str) -> None:
    pinned = settings.load_stack_file(REPOSITORY / "stacks" / f"Pulumi.{stack}.yaml").models.release
    assert pinned is not None
    made = shipped.manifest
    assert (pinned.id, pinned.bytes, dict(pinned.models)) == (made.id, made.bytes, made.versions)
    assert (pinned.serving, pinned.asks) == (made.serving[stack], {name: tuple(of) for name, of in made.asks.items()})


@pytest.mark.parametrize("stack", [*SHIPPED, "local"])
@pytest.mark.parametrize("model", ONNX)
def test_instances_are_on_gpus_but_for_speech_and_on_cpus_where_a_stack_says_so(
    shipped: Plan, plan: Plan, model: str, stack: str
) -> None:
    source = (plan if stack == "local" else shipped).objects[f"{model}/configs/{stack}.pbtxt"].source
    assert isinstance(source, bytes)
    config, problems = textproto.parse(Path("config.pbtxt"), source.decode())
    assert config is not None, problems
    on_cpu = stack == "local" or model == "speech"
    assert config.instance_group[0].kind == (ModelInstanceGroup.KIND_CPU if on_cpu else ModelInstanceGroup.KIND_GPU)


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


def test_the_states_of_two_voices_at_once_are_kept_from_request_to_request(
    client: grpc.InferenceServerClient, repository: Path
) -> None:
    times = np.arange(4 * 576) / 16000
    sound = (np.sin(2 * np.pi * 180 * times) * np.sin(2 * np.pi * 3 * times)).astype(np.float32).reshape(4, 1, 576)
    session = onnxruntime.InferenceSession(repository / "speech" / "1" / "model.onnx", providers=["CPUExecutionProvider"])
    state, expected = np.zeros((2, 1, 128), dtype=np.float32), []
    for chunk in sound:
        likelihood, state = session.run(None, {"input": chunk, "state": state, "sr": np.array(16000)})
        expected.append(likelihood.tolist())

    answers: dict[int, list[list[list[float]]]] = {1: [], 2: []}
    for number, chunk in enumerate(sound):
        given = to_inputs({"input": chunk, "sr": np.array([16000])})
        ends = {"sequence_start": number == 0, "sequence_end": number == len(sound) - 1}
        for voice, told in answers.items():
            told.append(
                client.infer("speech", given, client_timeout=30, sequence_id=voice, **ends).as_numpy("output").tolist()
            )
    assert np.allclose(answers[1], expected, atol=1e-6)
    assert answers[1] == answers[2]
    assert len({str(answer) for answer in expected}) == 4
