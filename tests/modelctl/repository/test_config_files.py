"""Files that a config names: inside the model, and in the release."""

import io
import os
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from modelctl.repository.load import validate

CONFIG = "normalize/config.pbtxt"
_OUT = "leads out with ..; it has to be in the model's directory"
_ABSOLUTE = "is absolute; it has to be in the model's directory, and relative to it"
_BACKSLASH = "has a backslash; directories are separated by /"


def _messages(models: Path) -> list[str]:
    return [str(problem).removeprefix(f"{models}/") for problem in validate(models)]


def _append(models: Path, text: str) -> None:
    config = models / CONFIG
    config.write_text(f"{config.read_text()}\n{text}\n")


WARMUP = (
    'model_warmup [ {{ name: "w" batch_size: 1 inputs {{ key: "{0}" value {{ data_type: {1} dims: [ 4 ] '
    'input_data_file: "{2}" }} }} }} ]'
)


@pytest.mark.parametrize(
    ("name", "said"), [("../x", _OUT), ("/etc/passwd", _ABSOLUTE), ("a/../../b", _OUT), ("a\\\\b", _BACKSLASH)]
)
def test_a_name_that_leads_out_of_the_model_is_refused_wherever_it_stands(models: Path, name: str, said: str) -> None:
    shown = name.replace("\\\\", "\\")
    _append(models, f'default_model_filename: "{name}"')
    assert _messages(models) == [f'{CONFIG}: default_model_filename: "{shown}" {said}']


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('cc_model_filenames { key: "8.6" value: "../model.py" }', f'cc_model_filenames: "../model.py" {_OUT}'),
        ('default_model_filename: "."', 'default_model_filename: "." is no name of a file'),
        (
            f'default_model_filename: "{"a" * 256}"',
            f'default_model_filename: "{"a" * 100}…" has a name of 256 bytes in it; a file\'s has at most 255',
        ),
        ('cc_model_filenames { key: "8.6" value: "" }', 'cc_model_filenames: "" is empty'),
        (
            'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "$$TRITON_MODEL_DIRECTORY/../env.tar.gz" } }',
            f'parameters[EXECUTION_ENV_PATH]: "$$TRITON_MODEL_DIRECTORY/../env.tar.gz" {_OUT}',
        ),
        (
            'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "$$TRITON_MODEL_DIRECTORY/env.tar.gz" } }',
            "parameters[EXECUTION_ENV_PATH]: normalize/env.tar.gz is missing",
        ),
        (
            'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "/opt/env.tar.gz" } }',
            'parameters[EXECUTION_ENV_PATH]: "/opt/env.tar.gz" is not in the model; put the archive there and write '
            "$$TRITON_MODEL_DIRECTORY/<its name>",
        ),
        (
            'parameters { key: "labels_file" value { string_value: "/etc/passwd" } }',
            f'parameters[labels_file]: "/etc/passwd" {_ABSOLUTE}',
        ),
        (
            'parameters { key: "tokenizer_dir" value { string_value: "../tokenizer" } }',
            f'parameters[tokenizer_dir]: "../tokenizer" {_OUT}',
        ),
    ],
)
def test_a_file_of_the_config_is_in_the_model(models: Path, text: str, said: str) -> None:
    _append(models, text)
    assert _messages(models) == [f"{CONFIG}: {said}"]


@pytest.mark.parametrize(
    "text",
    [
        'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "$$TRITON_MODEL_DIRECTORY/env.bin" } }',
        'parameters { key: "labels_file" value { string_value: "labels.txt" } }',
        'parameters { key: "tokenizer_dir" value { string_value: "/opt/tokenizer" } }',
        'parameters { key: "temperature" value { string_value: "../0.5" } }',
        'default_model_filename: "./model.py"',
    ],
)
def test_what_is_in_the_model_or_names_no_file_is_let_be(models: Path, text: str) -> None:
    (models / "normalize" / "env.bin").write_bytes(b"\0")
    _append(models, text)
    assert _messages(models) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "response_cache { enable: true } model_transaction_policy { decoupled: true }",
            "response_cache: a decoupled model is not cached, and the server does not load it; leave one of the two out",
        ),
        (
            'input [ { name: "I" data_type: TYPE_FP32 format: FORMAT_NCHW dims: [ 3, 4 ] optional: true } ]',
            "input[1].format: FORMAT_NCHW needs 3 dims, and there are 2",
        ),
        *(
            (
                f'input [ {{ name: "I" data_type: TYPE_FP32 dims: {dims} reshape {{ shape: {shape} }} optional: true }} ]',
                f"input[1].reshape: {shape} {said}",
            )
            for dims, shape, said in (
                ([4], [3], "has not as many elements as dims [4]"),
                ([-1], [4], "has not as many elements as dims [-1]"),
            )
        ),
        (
            'model_operations { op_library_filename: "../lib.so" }',
            f'model_operations.op_library_filename: "../lib.so" {_OUT}',
        ),
    ],
)
def test_what_the_server_would_refuse_is_told_before(models: Path, text: str, said: str) -> None:
    golden = models / "normalize" / "1" / "golden.json"
    golden.unlink()
    _append(models, text)
    assert [message for message in _messages(models) if message.startswith("normalize")] == [f"{CONFIG}: {said}"]


@pytest.mark.parametrize(("dims", "shape"), [([4], [2, 2]), ([1], []), ([-1, 2], [2, -1])])
def test_a_shape_of_as_many_elements_is_let_be(models: Path, dims: list[int], shape: list[int]) -> None:
    _append(
        models, f'input [ {{ name: "I" data_type: TYPE_FP32 dims: {dims} reshape {{ shape: {shape} }} optional: true }} ]'
    )
    assert [message for message in _messages(models) if "reshape" in message] == []


def _label(models: Path, name: str) -> None:
    config = models / CONFIG
    text = config.read_text()
    place = text.index("output")
    end = text.index("dims", place)
    config.write_text(f'{text[:end]}label_filename: "{name}" {text[end:]}')


def test_labels_are_in_the_model_and_in_the_release(models: Path) -> None:
    _label(models, "../labels.txt")
    assert _messages(models) == [f'{CONFIG}: label_filename: "../labels.txt" {_OUT}']


def test_what_is_left_out_of_the_release_cannot_be_named(models: Path) -> None:
    (models / "normalize" / ".labels.txt").write_text("a\n")
    _label(models, ".labels.txt")
    (said,) = _messages(models)
    assert said.startswith(
        "normalize/.labels.txt: left out of the release, as its name begins with a dot or is that of a backup"
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("../secret", f'"../secret" {_OUT}'),
        ("/etc/passwd", f'"/etc/passwd" {_ABSOLUTE}'),
        ("gone", "there is no normalize/warmup/gone"),
    ],
)
def test_data_of_a_warm_up_is_in_its_folder(models: Path, name: str, said: str) -> None:
    _append(models, WARMUP.format("FEATURES", "TYPE_FP32", name))
    assert _messages(models) == [f"{CONFIG}: model_warmup[1].inputs[FEATURES].input_data_file: {said}"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("instance_group [ { kind: 99 count: 1 } ]", "instance_group[1].kind: there is no 99; valid: KIND_AUTO"),
        (
            'input [ { name: "B" data_type: 77 dims: [ 1 ] } ]',
            "input[1].data_type: there is no 77; valid: TYPE_INVALID, TYPE_BOOL",
        ),
    ],
)
def test_a_number_that_stands_for_nothing_is_told(models: Path, text: str, said: str) -> None:
    _append(models, text)
    (message,) = _messages(models)
    assert message.startswith(f"{CONFIG}: {said}")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"# " + b"x" * 1024 * 1024, "normalize/config.pbtxt: longer than 1048576 bytes, which is the most that is read"),
        (b"\xff\xfe", "normalize/config.pbtxt: UTF-16 or UTF-32, and not UTF-8; save the file in that encoding"),
        (b"{" * 100_000, "normalize/config.pbtxt:1:1: not valid protobuf text: Expected identifier or number, got {"),
        (b"input [ " * 50_000, "normalize/config.pbtxt:1:9: not valid protobuf text: "),
        (b"name: 1\0", "normalize/config.pbtxt:1:8: a NUL character, which no text has; is it another kind of file?"),
    ],
)
def test_a_config_that_cannot_be_read_is_told_in_a_line(models: Path, content: bytes, said: str) -> None:
    (models / CONFIG).write_bytes(content)
    (message,) = [message for message in _messages(models) if message.startswith("normalize")]
    assert message.startswith(said)
    assert len(message) < 500


def test_directories_in_the_place_of_files_are_told(models: Path) -> None:
    for path in (models / CONFIG, models / "classify" / "1" / "golden.json"):
        path.unlink()
        path.mkdir()
    assert _messages(models)[:2] == [
        "classify/1/golden.json: not a file; it is to be one inference and its answer",
        "normalize/config.pbtxt: a directory; it is to be the file with the model's config",
    ]


def test_a_config_of_nothing_but_mistakes_is_told_up_to_a_bound(models: Path) -> None:
    (models / CONFIG).write_text("nonsense: 1\n" * 10_000)
    assert len([message for message in _messages(models) if "no field nonsense" in message]) == 50


@pytest.mark.parametrize("expression", ["-" * 100_000 + "1", "x" + ".a" * 100_000, "(" * 100_000, "1+" * 100_000 + "1"])
def test_python_that_is_too_deep_is_told_with_its_line(models: Path, expression: str) -> None:
    (models / "normalize" / "1" / "helper.py").write_text(f"# one\nx = {expression}\n")
    (message,) = _messages(models)
    assert message.startswith("normalize/1/helper.py:2:")
    assert "not valid Python: " in message


_ENTRY = '{{ key: "{0}" value {{ string_value: "1" }} }}'


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (f"parameters {_ENTRY.format('a')} parameters {_ENTRY.format('a')}", 1),
        (f"parameters: {_ENTRY.format('a')}\n# parameters\nparameters {_ENTRY.format('b')}", 0),
        (f"parameters [ {_ENTRY.format('a')}, {_ENTRY.format('a')} ]", 1),
        (f"parameters: [ {_ENTRY.format('a')}, {_ENTRY.format('b')} ]", 0),
        (f"parameters [ {_ENTRY.format('a')} ]\nparameters {_ENTRY.format('a')} parameters {_ENTRY.format('a')}", 2),
        ('parameters { key: "a" value { string_value: "key: a" } } parameters { key: "key" }', 0),
        ("parameters < key: 'a' > parameters { key: \"a\" }", 1),
        (
            'model_warmup [ { name: "a" batch_size: 1 inputs { key: "I" value { zero_data: true } } }, '
            '{ name: "b" batch_size: 1 inputs { key: "I" value { zero_data: true } } } ]',
            0,
        ),
        (
            'model_warmup { name: "a" inputs { key: "I" value { dims: [ 1 ] } } inputs { key: "I" value { dims: [ 1 ] } } }',
            1,
        ),
    ],
)
def test_a_key_that_is_there_twice_is_told(models: Path, text: str, count: int) -> None:
    _append(models, text)
    assert (
        len([message for message in _messages(models) if "twice, and the server takes the last; keep one" in message])
        == count
    )


def _archive(file: Path, *names: str) -> None:
    with tarfile.open(file, "w:gz") as packed:
        for name in names:
            packed.addfile(tarfile.TarInfo(name))


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["./bin/activate", "./lib/python3.12/site-packages/a.py"], []),
        (["bin/activate"], []),
        (
            ["environment/bin/activate"],
            [
                "normalize/env.tar.gz: EXECUTION_ENV_PATH: it has no bin/activate, with which the backend starts the model; "
                "pack what is in the environment, not its folder: tar -C <environment> -czf env.tar.gz ."
            ],
        ),
        (
            ["a", "../x"],
            [
                "normalize/env.tar.gz: EXECUTION_ENV_PATH: its member '../x' would be written outside of the folder that it "
                "is unpacked in; pack it anew, from inside the environment; it has no bin/activate, with which the backend "
                "starts the model; pack what is in the environment, not its folder: tar -C <environment> -czf env.tar.gz ."
            ],
        ),
    ],
)
def test_the_archive_of_an_environment_has_what_the_backend_starts_it_with(
    models: Path, names: list[str], said: list[str]
) -> None:
    _archive(models / "normalize" / "env.tar.gz", *names)
    _append(models, 'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "$$TRITON_MODEL_DIRECTORY/env.tar.gz" } }')
    assert _messages(models) == said


def test_an_environment_that_leads_out_behind_what_is_read_of_other_archives_is_told(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The backend writes members under their names, at any position in gigabytes."""
    monkeypatch.setattr("modelctl.repository.rules.formats._UNPACKED_BYTES", 512)
    with tarfile.open(models / "normalize" / "env.tar.gz", "w:gz") as packed:
        for name, size in (("bin/activate", 1), ("lib/libtorch.so", 3 * 1024**2), ("../../opt/tritonserver/x", 1)):
            member = tarfile.TarInfo(name)
            member.size = size
            packed.addfile(member, io.BytesIO(bytes(size)))
    _append(models, 'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "$$TRITON_MODEL_DIRECTORY/env.tar.gz" } }')
    assert _messages(models) == [
        "normalize/env.tar.gz: EXECUTION_ENV_PATH: its member '../../opt/tritonserver/x' would be written outside of the "
        "folder that it is unpacked in; pack it anew, from inside the environment"
    ]


_ENVIRONMENT = 'parameters {{ key: "EXECUTION_ENV_PATH" value {{ string_value: "$$TRITON_MODEL_DIRECTORY/{0}" }} }}'
_UNREADABLE = "EXECUTION_ENV_PATH: it is no tar archive, or is cut off or damaged; pack it again"


def _environment(models: Path, name: str, mode: Any) -> Path:
    """Create a model's archive with 100 KB of incompressible data, with the backend's files."""
    archive = models / "normalize" / name
    with tarfile.open(archive, mode) as packed:
        member = tarfile.TarInfo("bin/activate")
        member.size = 100_000
        packed.addfile(member, io.BytesIO(os.urandom(100_000)))
    _append(models, _ENVIRONMENT.format(name))
    return archive


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/x"])
def test_an_environment_that_leads_out_is_told_once(models: Path, name: str) -> None:
    """The check for a model's archive would report it too, with advice on packing."""
    _archive(models / "normalize" / "env.tar.gz", "bin/activate", name)
    _append(models, _ENVIRONMENT.format("env.tar.gz"))
    assert _messages(models) == [
        f"normalize/env.tar.gz: EXECUTION_ENV_PATH: its member {name!r} would be written outside of the folder that it is "
        "unpacked in; pack it anew, from inside the environment"
    ]


@pytest.mark.parametrize(("name", "mode"), [("env.tar.bz2", "w:bz2"), ("env.tar.xz", "w:xz"), ("env.txz", "w:xz")])
@pytest.mark.parametrize("damage", ["cut off", "changed"])
def test_an_environment_in_another_compression_is_read_to_its_end(models: Path, name: str, mode: Any, damage: str) -> None:
    archive = _environment(models, name, mode)
    assert _messages(models) == []
    content = archive.read_bytes()
    changed = bytes(byte ^ 0xFF for byte in content[40_000:41_000])
    archive.write_bytes(content[:50_000] if damage == "cut off" else content[:40_000] + changed + content[41_000:])
    assert _messages(models) == [f"normalize/{name}: {_UNREADABLE}"]


@pytest.mark.parametrize(
    ("name", "mode", "said"),
    [
        ("env.tar.gz", "w:gz", "not a compressed tar archive: it is cut off; copy or export it again"),
        ("env.tar", "w", "not a tar archive: it is cut off"),
    ],
)
def test_an_environment_that_is_cut_off_is_told_as_any_archive_is(models: Path, name: str, mode: Any, said: str) -> None:
    archive = _environment(models, name, mode)
    archive.write_bytes(archive.read_bytes()[:50_000])
    (message,) = _messages(models)
    assert message.startswith(f"normalize/{name}: {said}")


def test_an_environment_that_is_damaged_behind_what_is_read_of_other_archives_is_told(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modelctl.repository.rules.formats._UNPACKED_BYTES", 512)
    archive = _environment(models, "env.tar.gz", "w:gz")
    archive.write_bytes(archive.read_bytes()[:-8] + bytes(8))  # its checksum, and its size
    assert _messages(models) == [f"normalize/env.tar.gz: {_UNREADABLE}"]


def test_an_environment_that_is_a_pointer_is_told_as_one_alone(models: Path) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n"
    (models / "normalize" / "env.tar.bz2").write_text(pointer)
    _append(models, _ENVIRONMENT.format("env.tar.bz2"))
    assert _messages(models) == ["normalize/env.tar.bz2: a pointer of Git LFS, not the file itself; `git lfs pull` gets it"]


def test_an_environment_of_a_kind_that_python_does_not_read_is_judged_as_a_file_of_its_name(models: Path) -> None:
    """The backend's libarchive also reads zip."""
    archive = models / "normalize" / "env.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("bin/activate", "")
    _append(models, _ENVIRONMENT.format("env.zip"))
    assert _messages(models) == []
    archive.write_bytes(b"no zip")
    (message,) = _messages(models)
    assert message.startswith("normalize/env.zip: not a zip archive: ")
