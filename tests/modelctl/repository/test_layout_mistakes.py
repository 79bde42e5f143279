"""Mistakes in a repository's files: each is reported with its path, and no other mistake with it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from modelctl.repository.load import load, validate
from spec.names import MAX_OBJECT_BYTES


def _messages(models: Path) -> list[str]:
    return [str(problem).removeprefix(f"{models}/") for problem in validate(models)]


def _write(relative: str, text: str) -> Callable[[Path], None]:
    def change(models: Path) -> None:
        (models / relative).parent.mkdir(parents=True, exist_ok=True)
        (models / relative).write_text(text)

    return change


def _write_bytes(relative: str, content: bytes) -> Callable[[Path], None]:
    def change(models: Path) -> None:
        (models / relative).write_bytes(content)

    return change


def _remove(*relative: str) -> Callable[[Path], None]:
    def change(models: Path) -> None:
        for path in relative:
            (models / path).unlink()

    return change


def _replace(relative: str, old: str, new: str) -> Callable[[Path], None]:
    def change(models: Path) -> None:
        text = (models / relative).read_text()
        assert old in text
        (models / relative).write_text(text.replace(old, new))

    return change


def _rename(old: str, new: str) -> Callable[[Path], None]:
    def change(models: Path) -> None:
        (models / old).rename(models / new)

    return change


def _link(relative: str, target: str) -> Callable[[Path], None]:
    return lambda models: (models / relative).symlink_to(target)


def _oversized(relative: str) -> Callable[[Path], None]:
    def change(models: Path) -> None:
        with (models / relative).open("wb") as file:
            file.truncate(MAX_OBJECT_BYTES + 1)  # a sparse file, which needs no disk space

    return change


NO_MODEL_PY = "normalize/1/model.py: missing; the python backend loads it, and 1/ holds "
MISTAKES: dict[str, tuple[Callable[[Path], None], list[str]]] = {
    "model.py missing": (_remove("normalize/1/model.py"), [NO_MODEL_PY + "nothing"]),
    "model.py misspelt": (_rename("normalize/1/model.py", "normalize/1/Model.py"), [NO_MODEL_PY + "Model.py"]),
    "another default file": (
        _replace("normalize/config.pbtxt", 'backend: "python"', 'backend: "python" default_model_filename: "main.py"'),
        ["normalize/1/main.py: missing; default_model_filename loads it, and 1/ holds model.py"],
    ),
    "onnx without a model": (
        _replace("normalize/config.pbtxt", 'backend: "python"', 'platform: "onnxruntime_onnx"'),
        ["normalize/1/model.onnx: missing; the onnxruntime backend loads it, and 1/ holds model.py"],
    ),
    "model.py empty": (_write("normalize/1/model.py", ""), ["normalize/1/model.py: empty; a model file cannot be"]),
    "no valid python": (
        _write("normalize/1/model.py", "class TritonPythonModel:\n    def execute(self, requests)\n        pass\n"),
        ["normalize/1/model.py:2:32: not valid Python: expected ':'"],
    ),
    "a broken helper module": (
        _write("normalize/1/helpers/scale.py", "x = (\n"),
        ["normalize/1/helpers/scale.py:1:5: not valid Python: '(' was never closed"],
    ),
    "null bytes in python": (
        _write("normalize/1/extra.py", "x = 1\0\n"),
        ["normalize/1/extra.py: not valid Python: source code string cannot contain null bytes"],
    ),
    "no class": (
        _write("normalize/1/model.py", "class Model:\n    pass\n"),
        ["normalize/1/model.py: no class TritonPythonModel; the python backend needs it"],
    ),
    "no execute": (
        _write("normalize/1/model.py", "class TritonPythonModel:\n    def initialize(self, args):\n        pass\n"),
        ["normalize/1/model.py:1: TritonPythonModel has no method execute(self, requests)"],
    ),
    "no config": (
        _remove("normalize/config.pbtxt"),
        ["normalize/config.pbtxt: missing; the server completes no config by itself here"],
    ),
    "no version": (
        _rename("normalize/1", "normalize/v1"),
        [
            "normalize: has no version; the model's files belong in a directory named 1",
            "normalize/v1: not a version, the server ignores it; versions are named 1, 2, 3 …",
        ],
    ),
    "a version with a leading zero": (
        _write("normalize/02/model.py", "x = 1\n"),
        ["normalize/02: not a version, the server ignores it; versions are named 1, 2, 3 …"],
    ),
    **{
        f"a version named {name}": (
            _write(f"normalize/{name}/model.py", "x = 1\n"),
            [f"normalize/{name}: not a version, the server ignores it; versions are named 1, 2, 3 …"],
        )
        for name in ("1.0", "version2", "V2", "v-2", "2.1.0")
    },
    "an ensemble's version directory is empty": (
        _remove("pipeline/1/.keep", "pipeline/1/golden.json"),
        [
            "pipeline/1: empty; an ensemble needs its version directory, and neither git nor S3 keeps an empty one: "
            "put a file into it, for example .keep"
        ],
    ),
    "a config at the top": (
        _write("config.pbtxt", "x"),
        ["config.pbtxt: belongs to no model; a model's files lie in <model>/ and <model>/<version>/"],
    ),
    "a name with a blank": (
        _rename("pipeline", "my pipeline"),
        ["my pipeline: not a name for a model; letters, digits, '.', '_' and '-', no leading punctuation"],
    ),
    "a link to nothing": (
        _link("normalize/1/weights.bin", "nowhere"),
        ["normalize/1/weights.bin: a link to nowhere, where nothing is; put the file itself here"],
    ),
    "a link to a directory": (
        _link("normalize/shared", "../classify"),
        ["normalize/shared: a link to the directory ../classify; only links to files are followed"],
    ),
    "an object that S3 cannot hold": (
        _oversized("normalize/1/weights.bin"),
        ["normalize/1/weights.bin: 5497558138881 bytes; an S3 object holds at most 5497558138880 (5 TiB)"],
    ),
    "a config that is not text": (
        _write_bytes("normalize/config.pbtxt", b'name: "\xff"'),
        ["normalize/config.pbtxt:1:8: not UTF-8; save the file in that encoding"],
    ),
    "a version that does not exist": (
        _write("release.yaml", "versions: {classify: 3}\n"),
        ["release.yaml: versions.classify: there is no version 3; there is 1, 2"],
    ),
    "a version that is no number": (
        _write("release.yaml", "versions: {classify: latest}\n"),
        ["release.yaml: versions.classify: 'latest' is no version; a whole number from 1, or a list of them"],
    ),
    "a list with a version that is not there": (
        _write("release.yaml", "versions: {classify: [1, 3, 4]}\n"),
        [
            "release.yaml: versions.classify: there is no version 3; there is 1, 2",
            "release.yaml: versions.classify: there is no version 4; there is 1, 2",
        ],
    ),
    "a version named twice": (
        _write("release.yaml", "versions: {classify: [2, 2]}\n"),
        ["release.yaml: versions.classify: [2, 2] names a version twice"],
    ),
    "a list with something else than versions": (
        _write("release.yaml", "versions: {classify: [1, two]}\n"),
        ["release.yaml: versions.classify: 'two' is no version; a whole number from 1, or a list of them"],
    ),
    "an empty list of versions": (
        _write("release.yaml", "versions: {classify: []}\n"),
        [
            "release.yaml: versions.classify: an empty list; give at least one version, or leave the model out for its "
            "highest"
        ],
    ),
    "a version of another model": (
        _write("release.yaml", "versions: {clasify: 1}\n"),
        ["release.yaml: versions.clasify: there is no such model; models: classify, normalize, pipeline"],
    ),
    "an unknown key": (
        _write("release.yaml", "version: {classify: 1}\n"),
        ["release.yaml: version: unknown key; there are versions and backends"],
    ),
    "an empty list for the versions": (
        _write("release.yaml", "versions: []\n"),
        ["release.yaml: versions: not a mapping of model to version"],
    ),
    "no as versions": (
        _write("release.yaml", "versions: false\n"),
        ["release.yaml: versions: not a mapping of model to version"],
    ),
    "a list of versions": (
        _write("release.yaml", "versions: [1]\n"),
        ["release.yaml: versions: not a mapping of model to version"],
    ),
    "a release.yaml that is no mapping": (
        _write("release.yaml", "classify\n"),
        ["release.yaml: not a mapping; write versions: {<model>: <version>}"],
    ),
    "a release.yaml that is no YAML": (
        _write("release.yaml", "versions: {classify: 1\n"),
        ["release.yaml:2:1: not valid YAML: did not find expected ',' or '}'"],
    ),
}


def _in_its_place(make: Callable[[Path], None]) -> Callable[[Path], None]:
    def change(models: Path) -> None:
        (models / "release.yaml").unlink()
        make(models / "release.yaml")

    return change


MISTAKES |= {
    "a release.yaml that is a directory": (_in_its_place(Path.mkdir), ["release.yaml: is a directory; name a file"]),
    "a release.yaml that is a pipe": (
        _in_its_place(os.mkfifo),
        ["release.yaml: is a pipe, for which nobody may ever write; name a file"],
    ),
    "a release.yaml that leads to nothing": (
        _in_its_place(lambda path: path.symlink_to("gone")),
        ["release.yaml: is a symbolic link to gone, which is not there; make it lead to a file"],
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_reported_exactly(models: Path, name: str) -> None:
    change, expected = MISTAKES[name]
    change(models)

    assert _messages(models) == expected


_EXECUTE = "    def execute(self, requests):\n        return []\n"


@pytest.mark.parametrize(
    "code",
    [
        f"try:\n  import torch\nexcept ImportError:\n  pass\nif True:\n  class TritonPythonModel:\n{_EXECUTE}",
        f"class Model:\n{_EXECUTE}\nTritonPythonModel = Model\n",
        f"class Model:\n{_EXECUTE}\nTritonPythonModel: type = Model\n",
        "def run(self, requests):\n    return []\nclass TritonPythonModel:\n    execute = run\n",
        "class TritonPythonModel:\n  if True:\n    def execute(self, requests):\n      return []\n",
        "import model as TritonPythonModel\n",
        "@made\nclass TritonPythonModel:\n    pass\n",
    ],
)
def test_a_class_of_python_may_be_defined_in_any_way(models: Path, code: str) -> None:
    (models / "normalize/1/model.py").write_text(code)
    assert validate(models) == []


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    problems = [str(problem) for problem in validate(tmp_path / "model")]

    assert problems == [f"{tmp_path}/model: no such directory; it is the one that holds a directory per model"]


def test_a_directory_without_models(tmp_path: Path) -> None:
    problems = [str(problem) for problem in validate(tmp_path)]

    assert problems == [f"{tmp_path}: holds no model; a model is a directory with a config.pbtxt"]


def test_the_samples_are_right_and_version_1_of_classify_is_served(models: Path) -> None:
    assert validate(models) == []
    assert {m.name: (m.version, m.backend, [str(f) for f in m.files]) for m in load(models)} == {
        "classify": (1, "python", ["1/golden.json", "1/model.py"]),
        "normalize": (1, "python", ["1/golden.json", "1/model.py"]),
        "pipeline": (1, "ensemble", ["1/.keep", "1/golden.json"]),
    }


def test_without_a_release_file_the_highest_version_is_served(models: Path) -> None:
    (models / "release.yaml").unlink()
    (models / "classify" / "10").mkdir()
    (models / "classify" / "10" / "model.py").write_bytes((models / "classify" / "2" / "model.py").read_bytes())

    assert {m.name: m.version for m in load(models)} == {"classify": 10, "normalize": 1, "pipeline": 1}


def test_files_shared_by_versions_are_released_and_leftovers_are_not(models: Path) -> None:
    for relative in ("labels.txt", "warmup/sample", "1/lib/scale.py", "1/__pycache__/model.pyc", ".DS_Store"):
        path = models / "normalize" / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n")

    (normalize,) = (m for m in load(models) if m.name == "normalize")

    files = ["1/golden.json", "1/lib/scale.py", "1/model.py", "labels.txt", "warmup/sample"]
    assert [str(f) for f in normalize.files] == files


def test_the_served_version_is_written_into_a_config_that_names_none(models: Path) -> None:
    (classify,) = (m for m in load(models) if m.name == "classify")

    original = (models / "classify" / "config.pbtxt").read_text()
    assert classify.config_text == original + (
        "\n# Added by modelctl: what only the release knows.\nversion_policy {\n  specific {\n    versions: 1\n  }\n}\n"
    )


def test_a_config_that_names_the_served_version_is_left_as_it_is(models: Path) -> None:
    config = models / "classify" / "config.pbtxt"
    config.write_text(config.read_text() + "version_policy { specific { versions: 1 } }\n")

    (classify,) = (m for m in load(models) if m.name == "classify")

    assert classify.config_text == config.read_text()
