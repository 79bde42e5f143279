"""`modelctl import`: from an ONNX file or MLflow's files to a directory for a release, or a message."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml
from onnx import numpy_helper
from onnx.external_data_helper import set_external_data

from modelctl.importer.command import import_model
from modelctl.importer.mlflow_model import NotImported
from modelctl.repository import textproto
from modelctl.repository.load import validate
from tests import onnx_models


def written(path: Path, model: onnx.ModelProto) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString())
    return path


def with_weights(name: str) -> onnx.ModelProto:
    """Return a model whose weights are in another file."""
    model = onnx_models.sums()
    weight = numpy_helper.from_array(np.ones(6, np.float32), "W")
    set_external_data(weight, location=name)
    weight.ClearField("raw_data")
    model.graph.initializer.append(weight)
    return model


def kept_by_mlflow(folder: Path, flavors: Any, *, data: str = "model.onnx") -> Path:
    folder.mkdir(parents=True)
    (folder / "MLmodel").write_text(yaml.safe_dump({"artifact_path": "model", "flavors": flavors}))
    written(folder / data, with_weights("weights.bin"))
    (folder / data).with_name("weights.bin").write_bytes(bytes(24))
    return folder


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def config(folder: Path) -> Any:
    parsed, problems = textproto.parse(folder / "config.pbtxt", (folder / "config.pbtxt").read_text())
    assert problems == []
    return parsed


def shapes(tensors: Any) -> list[tuple[str, int, list[int]]]:
    return [(tensor.name, tensor.data_type, list(tensor.dims)) for tensor in tensors]


def test_an_onnx_file_becomes_a_model_that_a_release_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import_model(written(tmp_path / "sums.onnx", onnx_models.sums()), tmp_path / "models", None, None)

    assert files(tmp_path / "models") == ["sums/1/model.onnx", "sums/config.pbtxt"]
    assert validate(tmp_path / "models") == []
    made = config(tmp_path / "models" / "sums")
    assert (made.backend, made.max_batch_size) == ("onnxruntime", 8)
    assert shapes(made.input) == [("A", 11, [2]), ("B", 11, [2])]
    assert shapes(made.output) == [("SUM", 11, [2]), ("DIFFERENCE", 11, [2])]
    assert capsys.readouterr().out == (
        f"{tmp_path}/models/sums: 2 inputs, 2 outputs, batches of up to 8\n"
        "in a stack file:\n"
        "  triton-eks:models:\n"
        "    serving:\n"
        "      sums: {device: gpu, sloP95Ms: 100, expectedRate: 10, peakRate: 40}  # yours\n"
    )


@pytest.mark.parametrize(
    ("model", "wanted", "batch", "dims"),
    [
        (onnx_models.same("STRING", ["n", 2]), None, 8, [2]),
        (onnx_models.same("STRING", ["n", 2]), 0, 0, [-1, 2]),
        (onnx_models.same("STRING", ["n", 2]), 32, 32, [2]),
        (onnx_models.same("FLOAT16", [1, None]), None, 0, [1, -1]),
        (onnx_models.same("INT64", []), None, 0, [1]),
        (onnx_models.same("BOOL", [None]), None, 8, [1]),
    ],
)
def test_a_batch_is_the_first_size_where_it_varies(
    tmp_path: Path, model: onnx.ModelProto, wanted: int | None, batch: int, dims: list[int]
) -> None:
    import_model(written(tmp_path / "m.onnx", model), tmp_path / "models", "same", wanted)

    made = config(tmp_path / "models" / "same")
    assert (made.max_batch_size, list(made.input[0].dims), list(made.output[0].dims)) == (batch, dims, dims)


def test_sizes_that_the_file_leaves_open_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import_model(written(tmp_path / "m.onnx", onnx_models.same("FLOAT", ["n", None])), tmp_path / "models", "m", None)

    assert "the file leaves sizes of OUT open, and config.pbtxt has -1 there" in capsys.readouterr().out


def test_weights_behind_a_link_out_of_the_folder_are_refused(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(24))
    file = written(tmp_path / "net" / "net.onnx", with_weights("weights.bin"))
    (file.parent / "weights.bin").symlink_to("../secret")

    with pytest.raises(NotImported) as refused:
        import_model(file, tmp_path / "models", None, None)

    assert str(refused.value) == (
        f"{file.parent}/weights.bin: the weights of tensor 'W' are behind a link to {secret}, outside of {file.parent}; "
        "replace the link with the file"
    )
    assert not (tmp_path / "models").exists()


def test_weights_in_a_folder_behind_a_link_out_of_the_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "weights.bin").write_bytes(bytes(24))
    file = written(tmp_path / "net" / "net.onnx", with_weights("data/weights.bin"))
    (file.parent / "data").symlink_to(tmp_path / "private")

    with pytest.raises(NotImported, match=r"tensor 'W' are behind a link to .*/private/weights\.bin, outside of"):
        import_model(file, tmp_path / "models", None, None)


def test_a_link_inside_the_folder_is_followed(tmp_path: Path) -> None:
    file = written(tmp_path / "net" / "net.onnx", with_weights("weights.bin"))
    (file.parent / "blob").write_bytes(bytes(range(24)))
    (file.parent / "weights.bin").symlink_to("blob")

    import_model(file, tmp_path / "models", None, None)

    copied = tmp_path / "models" / "net" / "1" / "weights.bin"
    assert (copied.is_symlink(), copied.read_bytes()) == (False, bytes(range(24)))


def test_the_model_of_an_mlflow_folder_behind_a_link_out_of_it_is_refused(tmp_path: Path) -> None:
    source = kept_by_mlflow(tmp_path / "scores", {"onnx": {"data": "model.onnx"}})
    private = written(tmp_path / "private.onnx", onnx_models.sums())
    (source / "model.onnx").unlink()
    (source / "model.onnx").symlink_to(private)

    with pytest.raises(NotImported) as refused:
        import_model(source, tmp_path / "models", None, None)

    assert str(refused.value) == (
        f"{source}/model.onnx: the model is behind a link to {private}, outside of {source}; replace the link with the file"
    )


@pytest.mark.parametrize("data", ["model.onnx", "sub/net.onnx"])
def test_an_onnx_model_of_mlflow_comes_with_its_weights_under_the_name_of_its_directory(tmp_path: Path, data: str) -> None:
    source = kept_by_mlflow(tmp_path / "artifacts" / "scores", {"onnx": {"data": data}, "python_function": {}}, data=data)

    import_model(source, tmp_path / "models", None, None)

    assert files(tmp_path / "models") == ["scores/1/model.onnx", "scores/1/weights.bin", "scores/config.pbtxt"]
    assert validate(tmp_path / "models") == []


@pytest.mark.parametrize(
    ("flavors", "sentence"),
    [
        (
            {"python_function": {}, "sklearn": {}},
            "flavors: it has python_function, sklearn, and Triton loads none of them as MLflow keeps it; export it with "
            "skl2onnx (zipmap=False) and log it with mlflow.onnx",
        ),
        (
            {"python_function": {}},
            "flavors: it has python_function, and Triton loads none of them as MLflow keeps it; write a model.py for the "
            "backend python that calls it, with what it imports",
        ),
        (
            {"h2o": {}},
            "flavors: it has h2o, and Triton loads none of them as MLflow keeps it; export it to ONNX and log "
            "it with mlflow.onnx",
        ),
        ({}, "flavors: missing; it is to name how the model can be loaded. Log the model again"),
        ({"onnx": {"data": 3}}, "flavors.onnx.data: missing; it is to name the ONNX file. Log the model again"),
        ({"onnx": {"data": "../m.onnx"}}, "flavors.onnx.data: '../m.onnx' leads out of the directory of the model"),
    ],
)
def test_what_triton_cannot_load_of_mlflow_is_refused_with_what_it_could(
    tmp_path: Path, flavors: Any, sentence: str
) -> None:
    source = kept_by_mlflow(tmp_path / "scores", flavors)

    with pytest.raises(NotImported) as refused:
        import_model(source, tmp_path / "models", None, None)

    assert str(refused.value) == f"{source}/MLmodel: {sentence}"
    assert not (tmp_path / "models").exists()


@pytest.mark.parametrize("text", ["flavors: [", "a: &a [*a]\n", "\0", "!!python/object:os.system {}"])
def test_an_mlmodel_that_is_none_is_a_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "MLmodel").write_text(text)

    with pytest.raises(NotImported, match=r"MLmodel:"):
        import_model(tmp_path, tmp_path / "models", None, None)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "{file}: there is no such file; check the path"),
        (b"", "{file}: not an ONNX model: it is empty; copy or export it again"),
        (
            b"<html>",
            "{file}: not an ONNX model: at byte 0 stands no field of ONNX, so it is another file, or damaged; copy or "
            "export it again",
        ),
        (
            with_weights("gone.bin").SerializeToString(),
            "{file}: not an ONNX model: its weights lie in 'gone.bin', which is not beside it; copy or export it again",
        ),
        (
            onnx_models.same("FLOAT", None).SerializeToString(),
            "{file}: IN has no shape in the file; export it with one (onnx.shape_inference finds most)\n"
            "{file}: OUT has no shape in the file; export it with one (onnx.shape_inference finds most)",
        ),
        (
            onnx_models.same("COMPLEX64", [2]).SerializeToString(),
            "{file}: input IN has ONNX's type 14, which Triton has not; cast it in the model\n"
            "{file}: output OUT has ONNX's type 14, which Triton has not; cast it in the model",
        ),
    ],
)
def test_a_file_that_cannot_be_served_is_refused(tmp_path: Path, content: bytes | None, sentence: str) -> None:
    file = tmp_path / "net.onnx"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(NotImported) as refused:
        import_model(file, tmp_path / "models", None, None)

    assert str(refused.value) == sentence.format(file=file)


def test_a_batch_that_the_model_has_no_room_for_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path / "net.onnx", onnx_models.same("FLOAT", [1, 2]))

    with pytest.raises(NotImported) as refused:
        import_model(file, tmp_path / "models", None, 4)

    assert str(refused.value) == (
        f"{file}: no batch of 4: the first size of IN, OUT does not vary; leave out the batch size"
    )


def test_what_a_release_would_refuse_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    model = onnx_models.sums()
    model.opset_import[0].version = 99

    with pytest.raises(NotImported) as refused:
        import_model(written(tmp_path / "net.onnx", model), tmp_path / "models", None, None)

    assert str(refused.value).splitlines()[0] == "nothing was made; a release would refuse it:"
    assert str(refused.value).splitlines()[1].startswith(f"{tmp_path}/models/net/1/model.onnx: it needs operator set 99")
    assert list((tmp_path / "models").iterdir()) == []


@pytest.mark.parametrize("name", ["../net", "a/b", ".net", "", "n" * 129])
def test_a_name_that_no_model_has_is_refused(tmp_path: Path, name: str) -> None:
    file = written(tmp_path / "-.onnx", onnx_models.sums())

    with pytest.raises(NotImported, match="give one with --name"):
        import_model(file, tmp_path / "models", name, None)

    assert not (tmp_path / "models").exists()


def test_a_model_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "models" / "net").mkdir(parents=True)
    file = written(tmp_path / "net.onnx", onnx_models.sums())

    with pytest.raises(NotImported, match="net is there already; give another --name"):
        import_model(file, tmp_path / "models", None, None)

    assert list((tmp_path / "models" / "net").iterdir()) == []


@pytest.mark.parametrize("kind", ["pipe", "device", "link"])
def test_what_is_no_file_is_told_as_what_it_is(tmp_path: Path, kind: str) -> None:
    source = tmp_path / "m.onnx"
    if kind == "pipe":
        os.mkfifo(source)
    else:
        source.symlink_to("/dev/zero" if kind == "device" else "gone")
    said = {
        "pipe": "is a pipe, for which nobody may ever write; name a file",
        "device": "is a device; name a file",
        "link": "is a symbolic link to gone, which is not there; make it lead to a file",
    }
    with pytest.raises(NotImported) as refused:
        import_model(source, tmp_path / "models", None, None)
    assert str(refused.value) == f"{source}: {said[kind]}"
    assert not (tmp_path / "models").exists()
