"""Custom backends, in the release or in the image, and the platforms of Triton's core."""

from pathlib import Path

import onnx
import pytest
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from modelctl.repository.backends import model_file_of
from modelctl.repository.load import load, validate
from modelctl.repository.problems import ValidationFailed
from tests import onnx_models

CONFIG = "normalize/config.pbtxt"


def _use(models: Path, backend: str) -> None:
    config = models / CONFIG
    config.write_text(config.read_text().replace('backend: "python"', backend))


def _messages(models: Path) -> list[str]:
    return [str(problem).removeprefix(f"{models}/") for problem in validate(models)]


def _backend_of(models: Path, name: str) -> str:
    return next(model.backend for model in load(models) if model.name == name)


@pytest.mark.parametrize("place", ["libtriton_resize.so", "1/libtriton_resize.so"])
def test_a_backend_lies_beside_the_config_or_a_version(models: Path, place: str) -> None:
    _use(models, 'backend: "resize"')
    (models / "normalize" / place).write_bytes(b"\x7fELF" + b"\0" * 60)
    assert (_messages(models), _backend_of(models, "normalize")) == ([], "resize")


@pytest.mark.parametrize("place", ["libtriton_other.so", "1/lib/libtriton_resize.so", "../classify/libtriton_resize.so"])
def test_a_library_where_triton_does_not_look_is_none(models: Path, place: str) -> None:
    _use(models, 'backend: "resize"')
    library = models / "normalize" / place
    library.parent.mkdir(exist_ok=True)
    library.write_bytes(b"\x7fELF" + b"\0" * 60)
    assert _messages(models) == [
        f'{CONFIG}: backend: there is no "resize"; known: dali, fil, onnxruntime, openvino, python, pytorch, tensorrt, '
        "tensorrtllm, vllm; one of your own is the file libtriton_resize.so of the model, or in the image and named in "
        "release.yaml (backends: [resize])"
    ]


def test_a_backend_of_the_image_is_named_in_release_yaml(models: Path) -> None:
    _use(models, 'backend: "resize"')
    (models / "release.yaml").write_text("backends: [resize]\n")
    assert (_messages(models), _backend_of(models, "normalize")) == ([], "resize")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("resize", "backends: not a list of names; write [<name>], or remove it"),
        ("[]", "backends: not a list of names; write [<name>], or remove it"),
        ("[../x]", "backends[0]: '../x' is no name of a backend; its library is libtriton_<name>.so"),
        ("[3]", "backends[0]: 3 is no name of a backend; its library is libtriton_<name>.so"),
        ("[python]", "backends[0]: python is NVIDIA's own; remove it"),
        ("[a, a]", "backends[1]: a is listed twice; list it once"),
    ],
)
def test_names_of_backends_are_names(models: Path, given: str, said: str) -> None:
    (models / "release.yaml").write_text(f"backends: {given}\n")
    assert _messages(models) == [f"release.yaml: {said}"]


@pytest.mark.parametrize(
    ("platform", "file"),
    [
        ("torch_aoti", "model.pt2"),
        ("pytorch_libtorch", "model.pt"),
        ("libtorch", "model.pt"),
        ("tensorrt_plan", "model.plan"),
    ],
)
def test_a_platform_looks_for_its_own_file(models: Path, platform: str, file: str) -> None:
    _use(models, f'platform: "{platform}"')
    backend = "tensorrt" if platform == "tensorrt_plan" else "pytorch"
    assert _messages(models) == [f"normalize/1/{file}: missing; the {backend} backend loads it, and 1/ holds model.py"]


@pytest.mark.parametrize("given", ["", 'default_model_filename: "model.py"'])
def test_a_backend_that_is_not_named_follows_from_the_model_file(models: Path, given: str) -> None:
    _use(models, given)
    (model,) = (model for model in load(models) if model.name == "normalize")
    assert (model.backend, model.config.backend) == ("python", "python")
    assert "\n# Added by modelctl: what only the release knows.\n" in model.config_text
    assert text_format.Parse(model.config_text, ModelConfig()).backend == "python"


def test_of_several_model_files_the_server_takes_the_same_one(models: Path) -> None:
    _use(models, "")
    onnx.save(onnx_models.same("FLOAT", ["batch", 4]), str(models / "normalize" / "1" / "model.onnx"))
    with pytest.raises(ValidationFailed) as failure:
        load(models)
    # The file's tensors are checked against the config: it was read as an onnxruntime model.
    assert "the model has no output NORMALIZED; it has OUT" in str(failure.value)


@pytest.mark.parametrize(
    ("backend", "file"),
    [
        ("dali", "model.dali"),
        ("onnxruntime", "model.onnx"),
        ("openvino", "model.xml"),
        ("python", "model.py"),
        ("pytorch", "model.pt"),
        ("tensorrt", "model.plan"),
        ("vllm", "model.json"),
        ("fil", None),
        ("tensorrtllm", None),
    ],
)
def test_each_backend_looks_for_the_file_that_its_documentation_names(backend: str, file: str | None) -> None:
    """Documentation: the READMEs of the backends, and
    https://github.com/triton-inference-server/server/blob/v2.71.0/docs/user_guide/model_repository.md#model-files.
    """
    assert model_file_of(ModelConfig(backend=backend)) == file
