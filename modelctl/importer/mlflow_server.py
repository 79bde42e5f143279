"""Fetch a model from an MLflow server, as it is stored there: https://mlflow.org/docs/latest/api_reference/rest-api.html."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel

from console.proxied import client
from modelctl import documents
from modelctl.documents import DocumentError
from modelctl.importer.mlflow_model import NotImported
from spec.wording import printable

_URI = re.compile(
    r"models:/(?P<logged>m-[0-9a-f]+)"
    r"|models:/(?P<name>[^/@]+)(?:/(?P<version>[1-9][0-9]*)|@(?P<alias>[^/@]+))"
    r"|runs:/(?P<run>[0-9A-Za-z_-]+)/(?P<path>[^/].*)"
)
_FORMS = "models:/NAME/VERSION, models:/NAME@ALIAS, models:/m-ID, runs:/RUN/PATH"
_API, _PROXY = "api/2.0/mlflow", "api/2.0/mlflow-artifacts/artifacts"
_KEPT_BY_THE_SERVER = "mlflow-artifacts:/"
_LARGEST_ANSWER = 16 * 1024**2
_MOST_FILES, _DEEPEST = 1000, 8
_LARGEST_MODEL = 64 * 1024**3
_LARGEST_REFUSAL = 64 * 1024
_SECONDS = 60.0


class _Location(BaseModel):
    artifact_uri: str


class _Logged(BaseModel):
    artifact_uri: str
    name: str = ""


class _LoggedModel(BaseModel):
    info: _Logged


class _Output(BaseModel):
    model_id: str


class _Outputs(BaseModel):
    model_outputs: list[_Output] = []


class _Run(BaseModel):
    info: _Location
    outputs: _Outputs = _Outputs()


class _Version(BaseModel):
    version: str


class _OfAlias(BaseModel):
    model_version: _Version


class _OfLogged(BaseModel):
    model: _LoggedModel


class _OfRun(BaseModel):
    run: _Run


class _File(BaseModel):
    path: str
    is_dir: bool = False


class _Listing(BaseModel):
    files: list[_File] = []


A = TypeVar("A", bound=BaseModel)


def is_uri(source: str) -> bool:
    """Return whether the source names a model on an MLflow server, and not a file."""
    return source.startswith(("models:/", "runs:/"))


def name_of(uri: str) -> str:
    """Return the model's name on the server. Raises NotImported."""
    found = _match(uri)
    return found["logged"] or found["name"] or PurePosixPath(str(found["path"])).name


def fetch(uri: str, server: str, directory: Path) -> None:
    """Copy all files of the model from MLflow into an empty directory. Raises NotImported.

    The server must deliver the files. If it only returns a location in a bucket, the model is refused.
    """
    found = _match(uri)
    with _Server(server) as mlflow:
        location = mlflow.location(found)
        if not location.startswith(_KEPT_BY_THE_SERVER) or location.startswith(f"{_KEPT_BY_THE_SERVER}/"):
            raise NotImported(
                f"{uri}: MLflow keeps it at {printable(location)}, and its server does not hand that out; run "
                f"`mlflow artifacts download --artifact-uri {uri} --dst-path DIR`, and import the directory"
            )
        root = location.removeprefix(_KEPT_BY_THE_SERVER).strip("/")
        files = list(islice(mlflow.files(root, PurePosixPath()), _MOST_FILES + 1))
        if len(files) > _MOST_FILES:
            raise NotImported(f"{uri}: has more than {_MOST_FILES} files; name the directory of a model")
        seen: dict[str, PurePosixPath] = {}
        for file in files:
            first = seen.setdefault(str(file).casefold(), file)
            if first is not file:
                what = (
                    f"{file} twice; is it one?" if first == file else f"{first} and {file}: rename one, disks may hold one"
                )
                raise NotImported(f"{uri}: MLflow's server lists {what}")
        if not files:
            raise NotImported(f"{uri}: MLflow keeps no file there; give one of {_FORMS} under which a model was logged")
        left = _LARGEST_MODEL
        for file in files:
            left = mlflow.download(f"{root}/{file}", directory / file, left)


def _match(uri: str) -> Mapping[str, str | None]:
    found = _URI.fullmatch(uri)
    if found is None:
        raise NotImported(f"{printable(uri)}: not a model of an MLflow server; give one of {_FORMS}")
    return found.groupdict()


class _Server:
    """The HTTP API of MLflow. The variables of MLflow's own client provide the credentials."""

    def __init__(self, url: str) -> None:
        if "@" in url.partition("://")[2].partition("/")[0]:
            raise NotImported(
                "the address of the MLflow server: has a user or a password in it, which would be printed; take them out, "
                "and set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
            )
        if re.fullmatch(r"https?://[^/?#\s]+[^?#\s]*", url) is None:
            raise NotImported(
                f"{printable(url)}: not the address of an MLflow server; give one like https://mlflow.example.com"
            )
        self._url = url.rstrip("/")
        token, user = os.environ.get("MLFLOW_TRACKING_TOKEN"), os.environ.get("MLFLOW_TRACKING_USERNAME")
        if token and not user and re.fullmatch(r"[!-~]+", token) is None:
            # The error of httpx would contain the token.
            raise NotImported(
                "MLFLOW_TRACKING_TOKEN: has a space, a line's end or another character that no header takes; set it to the "
                "token alone"
            )
        auth = (user, os.environ.get("MLFLOW_TRACKING_PASSWORD", "")) if user else None
        # A truncated compressed response looks complete to the library that decompresses it.
        headers = {"Accept-Encoding": "identity"}
        if token and not user:
            headers["Authorization"] = f"Bearer {token}"
        self._http = client(timeout=_SECONDS, auth=auth, headers=headers)

    def __enter__(self) -> _Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def location(self, found: Mapping[str, str | None]) -> str:
        """Return the URI of a model's directory."""
        if logged := found["logged"]:
            return self._logged(logged).artifact_uri
        if run := found["run"]:
            return self._of_run(self._ask(f"{_API}/runs/get", _OfRun, run_id=run).run, str(found["path"]))
        name, version = str(found["name"]), found["version"]
        if alias := found["alias"]:
            version = self._ask(f"{_API}/registered-models/alias", _OfAlias, name=name, alias=alias).model_version.version
        asked = {"name": name, "version": str(version)}
        return self._ask(f"{_API}/model-versions/get-download-uri", _Location, **asked).artifact_uri

    def _logged(self, model_id: str) -> _Logged:
        return self._ask(f"{_API}/logged-models/{quote(model_id, safe='')}", _OfLogged).model.info

    def _of_run(self, run: _Run, path: str) -> str:
        """Return the location of a run's model. Since MLflow 3 it is outside the run's own files, and linked by its name."""
        models = (self._logged(output.model_id) for output in run.outputs.model_outputs)
        return next((model.artifact_uri for model in models if model.name == path), f"{run.info.artifact_uri}/{path}")

    def files(self, root: str, folder: PurePosixPath) -> Iterator[PurePosixPath]:
        """Yield the files of a directory and its subdirectories, by their paths below `root`."""
        if len(folder.parts) > _DEEPEST:
            raise NotImported(f"{self._url}: {folder} lies deeper than {_DEEPEST} directories; name that of a model")
        for entry in self._ask(_PROXY, _Listing, path=f"{root}/{folder}" if folder.parts else root).files:
            if entry.path in ("", ".", "..") or not entry.path.isprintable() or {"/", "\\"} & set(entry.path):
                raise NotImported(f"{self._url}: {printable(entry.path)!r} is no name of a file in a directory")
            if entry.is_dir:
                yield from self.files(root, folder / entry.path)
            else:
                yield folder / entry.path

    def download(self, path: str, to: Path, left: int) -> int:
        """Write one file as it arrives; return how many of the `left` bytes remain. Raises NotImported."""
        to.parent.mkdir(parents=True, exist_ok=True)
        with self._answer(f"{_PROXY}/{quote(path)}") as answer, to.open("wb") as file:
            for piece in answer.iter_bytes():
                left -= len(piece)
                if left < 0:
                    raise NotImported(
                        f"{self._url}/{path}: with it the model has more than {_LARGEST_MODEL} bytes; download it by "
                        "`mlflow artifacts download`, and import the directory"
                    )
                file.write(piece)
        return left

    def _ask(self, path: str, form: type[A], /, **parameters: str) -> A:
        with self._answer(path, parameters) as answer:
            content = _content(answer, _LARGEST_ANSWER)
        if content is None:
            raise NotImported(f"{self._url}/{path}: answers with more than {_LARGEST_ANSWER} bytes")
        try:
            return documents.read(form, content)
        except DocumentError as error:
            raise NotImported(f"{self._url}/{path}: not what an MLflow server answers: {error}; is it one?") from None

    @contextmanager
    def _answer(self, path: str, parameters: Mapping[str, str] | None = None) -> Iterator[httpx.Response]:
        try:
            with self._http.stream("GET", f"{self._url}/{path}", params=parameters) as answer:
                if answer.status_code != httpx.codes.OK:
                    raise NotImported(f"{self._url}/{path}: {_refusal(answer)}")
                if (encoding := answer.headers.get("Content-Encoding", "identity").lower()) != "identity":
                    raise NotImported(
                        f"{self._url}/{path}: answers in Content-Encoding {printable(encoding)}, which was not asked for, "
                        "so that a missing end could not be told; have the proxy before it pass files on as they are"
                    )
                yield answer
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            why = str(error) or type(error).__name__
            raise NotImported(
                f"{self._url}: cannot be asked ({why}); give the address of the MLflow server that has it"
            ) from None


def _content(answer: httpx.Response, most: int) -> bytes | None:
    """Return the body of a response; None if it has more than `most` bytes."""
    content = b""
    for piece in answer.iter_bytes():
        content += piece
        if len(content) > most:
            return None
    return content


def _refusal(answer: httpx.Response) -> str:
    status = answer.status_code
    if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        return (
            f"answers {status}; set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN, of "
            "somebody who may read the model"
        )
    try:
        said: Any = json.loads(_content(answer, _LARGEST_REFUSAL) or b"")
    except (ValueError, RecursionError):
        said = None
    message = said.get("message") if isinstance(said, dict) else None
    return f"answers {status}{f': {printable(message[:300])}' if isinstance(message, str) else ''}"
