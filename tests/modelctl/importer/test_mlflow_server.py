"""`modelctl import models:/…`: a fake MLflow server that answers like MLflow 3.17.2."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
import yaml

from modelctl.importer import mlflow_server
from modelctl.importer.command import import_from_server
from modelctl.importer.mlflow_model import NotImported
from modelctl.repository.load import validate
from tests import http_server, onnx_models
from tests.modelctl.importer.test_import import files

MODEL, RUN = "m-a8895c0666c548df8c2081e3e6782dca", "019b34adac814f629699eb4799e0a248"
ROOT = f"0/models/{MODEL}/artifacts"
MISSING = {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "Model Version (name=scores, version=9) not found"}
MLMODEL = {"artifact_path": f"mlflow-artifacts:/{ROOT}", "flavors": {"onnx": {"data": "model.onnx"}, "python_function": {}}}


class MlflowServer:
    """Answers by path and query; `kept` are the files below ROOT, `user` is the allowed user."""

    def __init__(self) -> None:
        self.location = f"mlflow-artifacts:/{ROOT}"
        self.kept = {"MLmodel": yaml.safe_dump(MLMODEL).encode(), "model.onnx": onnx_models.sums().SerializeToString()}
        self.user: str | None = None
        self.raw: bytes | None = None
        self.encoding: str | None = None
        self.accepted: set[str | None] = set()

    def answer(self, path: str, query: dict[str, str], authorization: str | None) -> tuple[int, bytes]:
        if self.user is not None and authorization != self.user:
            return 401, b"You are not authenticated."
        if self.raw is not None:
            return 200, self.raw
        inner = path.removeprefix("/behind/api/2.0/")
        if inner.startswith(f"mlflow-artifacts/artifacts/{ROOT}/"):
            return 200, self.kept[unquote(inner).removeprefix(f"mlflow-artifacts/artifacts/{ROOT}/")]
        found = self._json(inner, query)
        return (404, json.dumps(MISSING).encode()) if found is None else (200, json.dumps(found).encode())

    def _json(self, path: str, query: dict[str, str]) -> Any:
        logged = {"info": {"model_id": MODEL, "name": "model", "artifact_uri": self.location, "model_type": ""}}
        run = {"artifact_uri": f"mlflow-artifacts:/0/{RUN}/artifacts", "run_id": RUN}
        outputs = {"model_outputs": [{"model_id": MODEL, "step": 0}]}
        known: dict[tuple[str, str], Any] = {
            ("mlflow/model-versions/get-download-uri", "name=scores&version=1"): {"artifact_uri": self.location},
            ("mlflow/registered-models/alias", "alias=champion&name=scores"): {
                "model_version": {"name": "scores", "version": "1", "source": f"models:/{MODEL}", "aliases": ["champion"]}
            },
            (f"mlflow/logged-models/{MODEL}", ""): {"model": logged},
            ("mlflow/runs/get", f"run_id={RUN}"): {"run": {"info": run, "inputs": {}, "outputs": outputs}},
            ("mlflow-artifacts/artifacts", f"path=0/{RUN}/artifacts/notes"): {},
        }
        for folder in ("", "/sub"):
            listed = {name.removeprefix(f"{folder[1:]}/") for name in self.kept if name.startswith(folder[1:])}
            entries = [{"path": name, "is_dir": False, "file_size": 1} for name in sorted(listed) if "/" not in name]
            entries += [{"path": "sub", "is_dir": True}] if any("/" in name for name in listed) else []
            known["mlflow-artifacts/artifacts", f"path={ROOT}{folder}"] = {"files": entries}
        return known.get((path, "&".join(f"{key}={value}" for key, value in sorted(query.items()))))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[MlflowServer, str]]:
    """Yield an MLflow server behind a proxy path, and its address."""
    for name in ("TOKEN", "USERNAME", "PASSWORD"):
        monkeypatch.delenv(f"MLFLOW_TRACKING_{name}", raising=False)
    mlflow = MlflowServer()

    class Answers(http_server.Handler):
        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            status, content = mlflow.answer(asked.path, dict(parse_qsl(asked.query)), self.headers["Authorization"])
            mlflow.accepted.add(self.headers["Accept-Encoding"])
            self.answer(status, content, **({"Content_Encoding": mlflow.encoding} if mlflow.encoding else {}))

    with http_server.listening(Answers) as server:
        yield mlflow, f"{server.url}/behind/"


def refusal(uri: str, url: str | None, models: Path) -> str:
    """Return why the import of a model is refused; it leaves no files."""
    with pytest.raises(NotImported) as refused:
        import_from_server(uri, url, models, None, None)
    assert [*models.parent.rglob("*")] == []
    return str(refused.value)


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("models:/scores/1", "scores"),
        ("models:/scores@champion", "scores"),
        (f"models:/{MODEL}", MODEL),
        (f"runs:/{RUN}/model", "model"),
    ],
)
def test_a_model_of_a_server_becomes_one_that_a_release_takes(
    uri: str, name: str, server: tuple[MlflowServer, str], tmp_path: Path
) -> None:
    import_from_server(uri, server[1], tmp_path / "models", None, None)
    assert files(tmp_path) == [f"models/{name}/1/model.onnx", f"models/{name}/config.pbtxt"]
    assert validate(tmp_path / "models") == []


def test_files_in_directories_of_the_model_come_too(server: tuple[MlflowServer, str], tmp_path: Path) -> None:
    mlflow, url = server
    mlflow.kept["sub/net work.onnx"] = mlflow.kept.pop("model.onnx")
    mlflow.kept["MLmodel"] = b"flavors: {onnx: {data: sub/net work.onnx}}"
    import_from_server("models:/scores/1", url, tmp_path / "models", "mine", 4)
    assert files(tmp_path) == ["models/mine/1/model.onnx", "models/mine/config.pbtxt"]


@pytest.mark.parametrize(
    ("variables", "sent"),
    [
        ({"USERNAME": "me", "PASSWORD": "it"}, f"Basic {base64.b64encode(b'me:it').decode()}"),
        ({"TOKEN": "abc"}, "Bearer abc"),
    ],
)
def test_who_asks_is_said_by_the_variables_of_mlflows_own_client(
    variables: dict[str, str], sent: str, server: tuple[MlflowServer, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow, url = server
    mlflow.user = sent
    said = refusal("models:/scores/1", url, tmp_path / "models")
    assert said == (
        f"{url}api/2.0/mlflow/model-versions/get-download-uri: answers 401; set MLFLOW_TRACKING_USERNAME and "
        "MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN, of somebody who may read the model"
    )
    for name, value in variables.items():
        monkeypatch.setenv(f"MLFLOW_TRACKING_{name}", value)
    import_from_server("models:/scores/1", url, tmp_path / "models", None, None)


@pytest.mark.parametrize("token", ["secret\n", "secret\u00e9"])
def test_a_token_that_no_header_takes_is_a_sentence_without_it(
    token: str, server: tuple[MlflowServer, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", token)
    assert refusal("models:/scores/1", server[1], tmp_path / "models") == (
        "MLFLOW_TRACKING_TOKEN: has a space, a line's end or another character that no header takes; set it to the token "
        "alone"
    )


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("models:/scores/9", "{url}api/2.0/mlflow/model-versions/get-download-uri: answers 404: " + MISSING["message"]),
        (
            "models:/scores/latest",
            "models:/scores/latest: not a model of an MLflow server; give one of models:/NAME/VERSION, models:/NAME@ALIAS, "
            "models:/m-ID, runs:/RUN/PATH",
        ),
        (
            f"runs:/{RUN}/notes",
            f"runs:/{RUN}/notes: MLflow keeps no file there; give one of models:/NAME/VERSION, models:/NAME@ALIAS, "
            "models:/m-ID, runs:/RUN/PATH under which a model was logged",
        ),
    ],
)
def test_a_model_that_is_not_there_is_a_sentence(
    uri: str, said: str, server: tuple[MlflowServer, str], tmp_path: Path
) -> None:
    assert refusal(uri, server[1], tmp_path / "models") == said.format(url=server[1])


def test_a_model_of_which_the_server_tells_the_place_alone_is_refused(
    server: tuple[MlflowServer, str], tmp_path: Path
) -> None:
    server[0].location = "s3://bucket/0/model"
    assert refusal("models:/scores/1", server[1], tmp_path / "models") == (
        "models:/scores/1: MLflow keeps it at s3://bucket/0/model, and its server does not hand that out; run `mlflow "
        "artifacts download --artifact-uri models:/scores/1 --dst-path DIR`, and import the directory"
    )


def test_a_model_of_another_flavour_is_told_by_the_name_that_was_given(
    server: tuple[MlflowServer, str], tmp_path: Path
) -> None:
    server[0].kept["MLmodel"] = b"flavors: {sklearn: {}}"
    assert refusal("models:/scores/1", server[1], tmp_path / "models").startswith(
        "models:/scores/1/MLmodel: flavors: it has"
    )


@pytest.mark.parametrize("name", ["..", "a/b", "a\\b", ""])
def test_a_name_that_leads_out_of_the_directory_is_refused(
    name: str, server: tuple[MlflowServer, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = {"files": [{"path": name, "is_dir": False}], "artifact_uri": server[0].location}
    server[0].raw = json.dumps(listing).encode()
    said = refusal("models:/scores/1", server[1], tmp_path / "models")
    assert said.endswith("is no name of a file in a directory")


def test_a_file_that_is_listed_twice_is_refused(server: tuple[MlflowServer, str], tmp_path: Path) -> None:
    listing = {"files": [{"path": "a", "is_dir": False}] * 2, "artifact_uri": server[0].location}
    server[0].raw = json.dumps(listing).encode()
    said = refusal("models:/scores/1", server[1], tmp_path / "models")
    assert said == "models:/scores/1: MLflow's server lists a twice; is it one?"


@pytest.mark.parametrize("cut", [1, 10, None])
def test_a_file_that_comes_compressed_is_refused_as_its_end_may_be_missing(
    cut: int | None, server: tuple[MlflowServer, str], tmp_path: Path
) -> None:
    mlflow, url = server
    mlflow.raw, mlflow.encoding = gzip.compress(json.dumps({"artifact_uri": mlflow.location}).encode())[:cut], "gzip"
    said = refusal("models:/scores/1", url, tmp_path / "models")
    assert "answers in Content-Encoding gzip, which was not asked for" in said
    assert mlflow.accepted == {"identity"}


def test_files_that_differ_in_case_only_are_refused_before_one_takes_the_others_place(
    server: tuple[MlflowServer, str], tmp_path: Path
) -> None:
    listing = {"files": [{"path": name} for name in "aA"], "artifact_uri": server[0].location}
    server[0].raw = json.dumps(listing).encode()
    said = refusal("models:/scores/1", server[1], tmp_path / "models")
    assert said == "models:/scores/1: MLflow's server lists a and A: rename one, disks may hold one"


def test_a_password_in_the_address_is_refused_and_not_printed(tmp_path: Path) -> None:
    address = "https://someone:{}@mlflow.example.com/path".format("hunter2")
    said = refusal("models:/scores/1", address, tmp_path / "models")
    assert "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD" in said
    assert "hunter2" not in said


def test_a_directory_of_too_many_files_is_refused_by_its_first_listing(
    server: tuple[MlflowServer, str], tmp_path: Path
) -> None:
    """Each directory in it has as many files again, and one more directory."""
    entries: list[dict[str, object]] = [{"path": f"file-{number}"} for number in range(1001)]
    listing = {"files": [*entries, {"path": "deeper", "is_dir": True}], "artifact_uri": server[0].location}
    server[0].raw = json.dumps(listing).encode()
    assert refusal("models:/scores/1", server[1], tmp_path / "models") == (
        "models:/scores/1: has more than 1000 files; name the directory of a model"
    )


def test_a_model_that_cannot_be_made_is_refused_before_anything_is_copied(tmp_path: Path) -> None:
    nobody = "http://127.0.0.1:1"
    there = tmp_path / "scores"
    there.mkdir()
    with pytest.raises(NotImported, match=re.escape(f"{there} is there already; give another --name")):
        import_from_server("models:/scores/1", nobody, tmp_path, None, None)
    with pytest.raises(NotImported, match="; give one with --name"):
        import_from_server("models:/scores/1", nobody, tmp_path, "a b", None)


def test_what_is_no_mlflow_server_is_a_sentence(server: tuple[MlflowServer, str], tmp_path: Path) -> None:
    mlflow, url = server
    mlflow.raw = b"<html>"
    assert ": not what an MLflow server answers: " in refusal("models:/scores/1", url, tmp_path / "models")
    gone = "http://127.0.0.1:1"
    assert refusal("models:/scores/1", gone, tmp_path / "models").startswith(f"{gone}: cannot be asked (")
    assert refusal("models:/scores/1", "mlflow:5000", tmp_path / "models") == (
        "mlflow:5000: not the address of an MLflow server; give one like https://mlflow.example.com"
    )
    assert refusal("models:/scores/1", None, tmp_path / "models") == (
        "models:/scores/1: on which MLflow server? Give --tracking-uri, or set MLFLOW_TRACKING_URI"
    )


@pytest.mark.parametrize("more", [0, 1])
def test_a_model_may_have_so_many_bytes_and_not_one_more(
    more: int, server: tuple[MlflowServer, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow, url = server
    size = sum(map(len, mlflow.kept.values()))
    monkeypatch.setattr(mlflow_server, "_LARGEST_MODEL", size - more)
    if more:
        assert refusal("models:/scores/1", url, tmp_path / "models") == (
            f"{url}{ROOT}/model.onnx: with it the model has more than "
            f"{size - 1} bytes; download it by `mlflow artifacts download`, and import the directory"
        )
    else:
        import_from_server("models:/scores/1", url, tmp_path / "models", None, None)
        assert (tmp_path / "models/scores/1/model.onnx").stat().st_size == len(mlflow.kept["model.onnx"])


@pytest.mark.parametrize(("size", "shown"), [(64 * 1024, True), (64 * 1024 + 1, False)])
def test_of_a_refusal_so_many_bytes_are_read_and_not_one_more(
    size: int, shown: bool, server: tuple[MlflowServer, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow, url = server
    content = json.dumps({"message": "gone"}).encode()
    monkeypatch.setattr(mlflow, "answer", lambda *_: (500, content + b" " * (size - len(content))))
    said = refusal("models:/scores/1", url, tmp_path / "models")
    assert said.endswith(": answers 500: gone" if shown else ": answers 500")
