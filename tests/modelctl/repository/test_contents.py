"""Files with unexpected content: placeholders, error pages, truncated or damaged models and archives."""

import gzip
import io
import json
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelctl.repository.load import validate
from modelctl.repository.rules import contents


def _varint(number: int) -> bytes:
    return bytes([number]) if number < 0x80 else bytes([number & 0x7F | 0x80]) + _varint(number >> 7)


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _onnx(initializer: bytes = b"") -> bytes:
    """Return a ModelProto with a one-node graph, as the ONNX libraries write it."""
    node = _field(1, b"x") + _field(2, b"y") + _field(4, b"Identity")
    graph = _field(1, node) + _field(2, b"graph") + (_field(5, initializer) if initializer else b"")
    return _field(1, 8) + _field(2, b"pytorch") + _field(7, graph) + _field(8, _field(2, 17))


def _external(location: str) -> bytes:
    return _field(8, b"weight") + _field(13, _field(1, b"location") + _field(2, location.encode())) + _field(14, 1)


def _zip() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("model/data.pkl", "x" * 1000)
        archive.writestr("model/code/__torch__.py", "x" * 1000)
    return buffer.getvalue()


def _tar() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        member = tarfile.TarInfo("bin/python")
        member.size = 5000
        archive.addfile(member, io.BytesIO(b"x" * 5000))
    return buffer.getvalue()


def _safetensors() -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    return len(header).to_bytes(8, "little") + header + b"\0" * 8


def _npy() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.arange(3))
    return buffer.getvalue()


_LEADS_OUT = "which leads out of the directory of the model"
RIGHT = {
    "model.onnx": _onnx(),
    "model.plan": b"ftrt" + b"\0" * 24,
    "model.engine": b"ftrt" + b"\0" * 24,
    "model.trt": b"ftrt" + b"\0" * 24,
    "model.tflite": b"\x1c\0\0\0TFL3" + b"\0" * 16,
    "saved_model.pb": b"\x08\x01\x12\x02\x0a\x00",
    "model.pt": _zip(),
    "weights.pth": b"\x80\x02}q\x00.",
    "weights.npz": _zip(),
    "weights.npy": _npy(),
    "env.tar.gz": gzip.compress(_tar()),
    "env.tgz": gzip.compress(_tar()[:5120]) + gzip.compress(_tar()[5120:]),
    "data.gz": gzip.compress(b""),
    "env.tar": _tar(),
    "code.zip": _zip(),
    "model.safetensors": _safetensors(),
    "model.xml": b'<?xml version="1.0"?>\n<net name="m" version="11"></net>',
    "data.parquet": b"PAR1" + b"\0" * 16 + b"PAR1",
    "sample.png": b"\x89PNG\r\n\x1a\n" + b"\0" * 16,
    "sample.jpg": b"\xff\xd8\xff\xe0" + b"\0" * 16,
    "page.html": b"<!DOCTYPE html><html></html>",
    "anything.bin": b"\0\1\2",
    "__init__.py": b"",
}


def _said(path: Path, content: bytes) -> list[str]:
    path.write_bytes(content)
    return [problem.message for problem in contents.check(path)]


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_let_be(tmp_path: Path, name: str) -> None:
    assert _said(tmp_path / name, RIGHT[name]) == []


def test_a_plan_of_an_old_tensorrt_is_told_by_how_it_begins(tmp_path: Path) -> None:
    assert _said(tmp_path / "model.plan", b"ptrt, and so on until here and further") == [
        "not a TensorRT plan: it begins with 'ptrt, and so on '…, and plans of TensorRT 8.6 and newer begin with 'ftrt'; "
        "copy or export it again"
    ]


@pytest.mark.parametrize("name", ["model.onnx", "model.pt", "env.tar.gz", "env.tar", "code.zip", "model.safetensors"])
def test_what_is_cut_off_is_told(tmp_path: Path, name: str) -> None:
    whole = RIGHT[name]
    (said,) = _said(tmp_path / name, whole[: len(whole) // 2])
    assert said.startswith("not a"), said
    assert said.endswith("copy or export it again"), said
    assert "cut off" in said, said


@pytest.mark.parametrize("name", sorted(set(RIGHT) - {"page.html", "anything.bin", "__init__.py", "weights.pth"}))
@pytest.mark.parametrize(
    "content", [b"hello, this is no model", b'{"message": "Unauthorized"}', b"\x7fELF\x02\x01\x01" + b"\0" * 60]
)
def test_what_begins_with_something_else_is_told(tmp_path: Path, name: str, content: bytes) -> None:
    (said,) = _said(tmp_path / name, content)
    assert said.startswith("not a"), said


@pytest.mark.parametrize("content", [b"hello, this is no model", b"PK\x03\x04"])
def test_a_library_that_is_none_is_told(tmp_path: Path, content: bytes) -> None:
    (said,) = _said(tmp_path / "libops.so", content)
    assert said.startswith("not a shared library"), said
    assert _said(tmp_path / "libops.so", b"\x7fELF\x02\x01\x01" + b"\0" * 60) == []


def test_an_archive_that_torch_has_not_written_is_told(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("model/weights.bin", "x")
    (said,) = _said(tmp_path / "model.pt", buffer.getvalue())
    assert said == (
        "not a PyTorch file: it is a zip archive without data.pkl, which each of them has; copy or export it again"
    )


@pytest.mark.parametrize("name", ["model.onnx", "model.plan", "model.pt", "env.tar.gz", "model.safetensors"])
def test_an_empty_file_is_none(tmp_path: Path, name: str) -> None:
    assert _said(tmp_path / name, b"") == ["empty; a model file cannot be"]


@pytest.mark.parametrize(
    "content",
    [
        b"<!DOCTYPE html>\n<html><title>404</title></html>",
        b"\xef\xbb\xbf <HTML>",
        b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>AccessDenied</Code></Error>',
        b"<Error><Code>NoSuchKey</Code></Error>",
    ],
)
@pytest.mark.parametrize("name", ["model.onnx", "model.xml", "weights.bin", "golden.json"])
def test_a_page_in_the_place_of_a_file_is_told(tmp_path: Path, name: str, content: bytes) -> None:
    assert _said(tmp_path / name, content) == [
        "a web page or an error message of a server, saved in the place of the file; download it again"
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
            "a pointer of Git LFS, not the file itself; `git lfs pull` gets it",
        ),
        (
            b"/annex/objects/SHA256E-s31390--f50d7ac4c6b9031379986bc362fcefb65f1e52621ce1708d537e740fefc59cc0.onnx\n",
            "a pointer of git-annex, not the file itself; `git annex get` and `git annex unlock` it",
        ),
    ],
)
@pytest.mark.parametrize("name", ["model.onnx", "model.py", "weights.bin"])
def test_a_pointer_is_no_file(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    assert _said(tmp_path / name, content) == [said]


@pytest.mark.parametrize("before", ["", "frozen: true\n", "md5: 0123\n# made by dvc add\n"])
def test_what_dvc_keeps_of_a_file_is_told_where_the_file_is_not(tmp_path: Path, before: str) -> None:
    content = f"{before}outs:\n- md5: a304afb96060aad90176268345e10355\n  size: 12\n  path: weights.bin\n".encode()
    assert _said(tmp_path / "weights.bin.dvc", content) == [
        "a pointer of DVC to weights.bin, which is not here; `dvc pull` gets it"
    ]
    (tmp_path / "weights.bin").write_bytes(b"\0")
    assert _said(tmp_path / "weights.bin.dvc", content) == []


def test_an_onnx_model_without_a_graph_is_told(tmp_path: Path) -> None:
    assert _said(tmp_path / "model.onnx", _field(1, 8) + _field(2, b"pytorch")) == [
        "not an ONNX model: it has no graph; copy or export it again"
    ]


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("model.onnx.data", []),
        (
            "gone.data",
            ["not an ONNX model: its weights lie in 'gone.data', which is not beside it; copy or export it again"],
        ),
        *(
            (name, [f"not an ONNX model: its weights lie in {name!r}, {_LEADS_OUT}; copy or export it again"])
            for name in ("../model.onnx.data", "/etc/passwd", "..\\data")
        ),
    ],
)
def test_weights_in_another_file_have_to_be_beside_the_model(tmp_path: Path, location: str, said: list[str]) -> None:
    (tmp_path / "model.onnx.data").write_bytes(b"\0" * 8)

    assert _said(tmp_path / "model.onnx", _onnx(_external(location))) == said


def test_an_archive_that_unpacks_to_more_than_memory_is_read_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modelctl.repository.rules.formats._UNPACKED_BYTES", 1024)

    assert _said(tmp_path / "env.tar.gz", gzip.compress(_tar() + b"\0" * 10_000_000)) == []


def _member(name: str, kind: bytes = tarfile.REGTYPE, to: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, to
    return member


def _tar_of(*members: tarfile.TarInfo) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for member in (_member("bin/activate"), *members):
            archive.addfile(member)
    return buffer.getvalue()


_SYM, _HARD = tarfile.SYMTYPE, tarfile.LNKTYPE
_OUTSIDE = "would be written outside of the folder that it is unpacked in"
LEADING_OUT = {
    "up": ([_member("../../etc/x")], f"its member '../../etc/x' {_OUTSIDE}"),
    "up from inside": ([_member("a/../../x")], f"its member 'a/../../x' {_OUTSIDE}"),
    "absolute": ([_member("/etc/x")], f"its member '/etc/x' {_OUTSIDE}"),
    "link": ([_member("a/b", _SYM, "../../c")], "its member 'a/b' is a link to '../../c', out of the archive"),
    "absolute link": ([_member("a", _SYM, "/etc/passwd")], "its member 'a' is a link to '/etc/passwd', out of the archive"),
    "link by /usr": ([_member("a", _SYM, "/usr/../etc")], "its member 'a' is a link to '/usr/../etc', out of the archive"),
    "hard link": ([_member("a", _HARD, "../c")], "its member 'a' is a link to '../c', out of the archive"),
    "hard link into the image": (
        [_member("a", _HARD, "/usr/x")],
        "its member 'a' is a link to '/usr/x', out of the archive",
    ),
    "through a link": (
        [_member("bin", _SYM, "/usr/bin"), _member("bin/python3")],
        "its member 'bin/python3' would be written outside, through the link 'bin'",
    ),
    "device": ([_member("null", tarfile.CHRTYPE)], "its member 'null' is a device or a pipe"),
    "pipe": ([_member("p", tarfile.FIFOTYPE)], "its member 'p' is a device or a pipe"),
}


@pytest.mark.parametrize("name", ["env.tar", "env.tar.gz", "env.tgz"])
@pytest.mark.parametrize("what", LEADING_OUT)
def test_a_tar_archive_that_leads_out_is_refused(tmp_path: Path, name: str, what: str) -> None:
    members, said = LEADING_OUT[what]
    packed = _tar_of(*members)
    kind = "a tar archive" if name == "env.tar" else "a compressed tar archive"
    assert _said(tmp_path / name, packed if name == "env.tar" else gzip.compress(packed)) == [
        f"{kind} that writes where nobody looks: {said}; pack it anew, from inside the folder"
    ]


@pytest.mark.parametrize("name", ["env.tar", "env.tar.gz"])
def test_links_of_a_virtual_environment_are_let_be(tmp_path: Path, name: str) -> None:
    """The interpreter comes from the server's image, and the other files from the environment itself."""
    packed = _tar_of(
        _member("bin/python3", _SYM, "/usr/bin/python3"),
        _member("bin/python", _SYM, "python3"),
        _member("lib64", _SYM, "lib"),
        _member("lib/a/b", _SYM, "../c"),
        _member("lib/d", _HARD, "bin/activate"),
        _member("lib/../lib/e"),
        _member("./f"),
    )
    assert _said(tmp_path / name, packed if name == "env.tar" else gzip.compress(packed)) == []


def test_a_compressed_archive_is_read_behind_the_last_of_its_members(tmp_path: Path) -> None:
    """After tar's end marker, gzip still has a checksum."""
    whole = gzip.compress(_tar_of())
    (said,) = _said(tmp_path / "env.tar.gz", whole[:-8] + b"\0" * 8)
    assert said.startswith("not a compressed tar archive: it is damaged (")


def _tensors(**entries: tuple[str, list[int], list[int]]) -> bytes:
    header = json.dumps(
        {name: {"dtype": kind, "shape": shape, "data_offsets": at} for name, (kind, shape, at) in entries.items()}
    ).encode()
    return len(header).to_bytes(8, "little") + header + b"\0" * 8


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"a": ("F32", [100], [0, 8])}, "its tensor 'a' has 8 bytes, and by its type and shape 400"),
        ({"a": ("F32", [-2], [0, 8])}, "its tensor 'a' has 8 bytes, and by its type and shape -8"),
        (
            {"a": ("F32", [2], [0, 8]), "b": ("F32", [1], [4, 8])},
            "its tensor 'b' begins at byte 4, and the one before ends at 8",
        ),
        ({"a": ("F32", [1], [4, 8])}, "its tensor 'a' begins at byte 4, and the one before ends at 0"),
        ({"a": ("F32", ["2"], [0, 8])}, None),
        ({"a": ("F32", [2], [0])}, None),
    ],
)
def test_tensors_that_are_not_where_their_header_says_are_told(
    tmp_path: Path, entries: dict[str, Any], said: str | None
) -> None:
    said = said or "its header is not one of safetensors"
    assert _said(tmp_path / "model.safetensors", _tensors(**entries)) == [
        f"not a file of safetensors: {said}; copy or export it again"
    ]


@pytest.mark.parametrize(
    "entries",
    [
        {"b": ("F32", [1], [4, 8]), "a": ("I16", [2], [0, 4])},
        {"a": ("F4_OF_LATER", [5], [0, 8])},
        {"a": ("F64", [], [0, 8]), "none": ("F64", [0], [8, 8])},
    ],
)
def test_tensors_in_any_order_and_of_types_to_come_are_let_be(tmp_path: Path, entries: dict[str, Any]) -> None:
    assert _said(tmp_path / "model.safetensors", _tensors(**entries)) == []


@pytest.mark.parametrize("name", ["weights.npy", "data.parquet", "m.gguf"])
def test_the_end_of_these_is_looked_for(tmp_path: Path, name: str) -> None:
    whole = {**RIGHT, "m.gguf": b"GGUF\x03" + b"\0" * 19}[name]
    assert _said(tmp_path / name, whole) == []
    (said,) = _said(tmp_path / name, whole[:-1])
    assert "cut off" in said, said


def test_an_array_of_objects_has_no_length_of_its_own(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.array([None] * 1000, dtype=object), allow_pickle=True)
    assert _said(tmp_path / "a.npy", buffer.getvalue()) == []


@pytest.mark.parametrize(
    ("there", "said"),
    [
        (["a-1-of-2", "a-2-of-2"], None),
        ([], None),
        (["a-1-of-2"], "of the files that it names 1 of 2 are not beside it, like 'a-2-of-2'"),
    ],
)
def test_weights_of_which_a_part_has_not_come_are_told(tmp_path: Path, there: list[str], said: str | None) -> None:
    for name in there:
        (tmp_path / name).write_bytes(b"\0")
    index = {"weight_map": {"one": "a-1-of-2", "two": "a-2-of-2", "three": "a-2-of-2"}}
    assert _said(tmp_path / "model.safetensors.index.json", json.dumps(index).encode()) == (
        [f"not an index of weights: {said}; copy or export it again"] if said else []
    )


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "sub/x"])
def test_weights_lie_beside_their_index(tmp_path: Path, name: str) -> None:
    (said,) = _said(tmp_path / "model.safetensors.index.json", json.dumps({"weight_map": {"a": name}}).encode())
    assert f"it names {name!r}, and weights lie beside it" in said


def test_a_compressed_archive_that_holds_nothing_is_none(tmp_path: Path) -> None:
    (said,) = _said(tmp_path / "env.tar.gz", gzip.compress(b"\0" * 20_000))
    assert said.startswith("not a compressed tar archive: it begins with "), said


def _zip_of(name: str, content: str, mode: int = 0o100644) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("model/data.pkl", "x")
        member = zipfile.ZipInfo(name)
        member.external_attr = mode << 16
        archive.writestr(member, content)
    return buffer.getvalue()


@pytest.mark.parametrize("file", ["code.zip", "model.pt", "weights.npz", "package.whl"])
@pytest.mark.parametrize(
    ("name", "content", "mode", "said"),
    [
        ("../../x", "x", 0o100644, f"its member '../../x' {_OUTSIDE}"),
        ("/etc/x", "x", 0o100644, f"its member '/etc/x' {_OUTSIDE}"),
        ("a", "/etc/passwd", 0o120777, "its member 'a' is a link to '/etc/passwd', out of the archive"),
        ("a/b", "../../c", 0o120777, "its member 'a/b' is a link to '../../c', out of the archive"),
    ],
)
def test_a_zip_archive_that_leads_out_is_refused(
    tmp_path: Path, file: str, name: str, content: str, mode: int, said: str
) -> None:
    (found,) = _said(tmp_path / file, _zip_of(name, content, mode))
    assert found.endswith(f" that writes where nobody looks: {said}; pack it anew, from inside the folder")


@pytest.mark.parametrize(("name", "content", "mode"), [("a/b", "../c", 0o120777), ("a", "/etc", 0o100644)])
def test_a_zip_archive_that_stays_inside_is_let_be(tmp_path: Path, name: str, content: str, mode: int) -> None:
    assert _said(tmp_path / "code.zip", _zip_of(name, content, mode)) == []


@given(st.sampled_from(sorted(RIGHT)), st.binary(max_size=200), st.integers(0, 300), st.integers(0, 300))
def test_no_content_is_a_fault_of_the_program(
    tmp_path_factory: pytest.TempPathFactory, name: str, inserted: bytes, begin: int, length: int
) -> None:
    whole = RIGHT[name]
    path = tmp_path_factory.getbasetemp() / name
    for content in (inserted, whole[:begin] + inserted + whole[begin + length :]):
        assert all(isinstance(message, str) for message in _said(path, content))


@pytest.mark.parametrize("name", ["config.pbtxt", "1/model.py"])
def test_a_pointer_is_told_once_and_not_as_a_mistake_of_its_text(models: Path, name: str) -> None:
    (models / "normalize" / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 1\n")

    assert [
        str(problem).removeprefix(f"{models}/") for problem in validate(models) if "normalize" in problem.path.parts
    ] == [f"normalize/{name}: a pointer of Git LFS, not the file itself; `git lfs pull` gets it"]


def test_a_secret_in_a_config_is_told_with_its_line(models: Path) -> None:
    config = models / "normalize" / "config.pbtxt"
    lines = len(config.read_text().splitlines())
    token = "hf_" + "a" * 34
    config.write_text(f'{config.read_text()}parameters {{ key: "token" value {{ string_value: "{token}" }} }}\n')

    assert f"{config}:{lines + 1}: has what looks like a token of Hugging Face" in str(validate(models)[0])


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_a_secret_in_a_text_of_another_encoding_is_told_with_its_line(models: Path, encoding: str) -> None:
    """As editors and shells of Windows write it, with and without a byte order mark."""
    (models / "normalize" / "notes.txt").write_bytes(f"{'one ' * 30_000}\nhf_{'a' * 34}\n".encode(encoding))
    assert [str(problem).removeprefix(f"{models}/") for problem in validate(models)] == [
        "normalize/notes.txt:2: has what looks like a token of Hugging Face, which everybody who reads the bucket would "
        "have; remove it"
    ]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
def test_a_text_of_another_encoding_without_a_secret_is_let_be(models: Path, encoding: str) -> None:
    (models / "normalize" / "notes.txt").write_bytes("one\nhf_two\n".encode(encoding))
    assert validate(models) == []


@pytest.mark.parametrize(
    ("token", "what"),
    [
        ("GOCSPX-" + "a1" * 14, "a secret of Google"),
        ("SG." + "a1" * 11 + "." + "a1" * 21, "a key of SendGrid"),
        ("hvs." + "a1" * 14, "a token of Vault"),
        ("dapi" + "a1" * 16, "a token of Databricks"),
        ("glsa_" + "a1" * 16 + "_0123abcd", "a token of Grafana"),
        ("dckr_pat_" + "a1" * 13, "a token of Docker"),
        ("dop_v1_" + "a1" * 32, "a token of DigitalOcean"),
    ],
)
def test_the_secret_of_a_service_is_told_by_its_kind(models: Path, token: str, what: str) -> None:
    (models / "normalize" / "notes.txt").write_text(f"one\n{token}\n")
    assert [str(problem).removeprefix(f"{models}/") for problem in validate(models)] == [
        f"normalize/notes.txt:2: has what looks like {what}, which everybody who reads the bucket would have; remove it"
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"a": ', "not JSON: line 1, column 7: Expecting value; copy or export it again"),
        (b"hello", "not JSON: line 1, column 1: Expecting value; copy or export it again"),
        (b'"\xff"', "not JSON: it is not UTF-8; copy or export it again"),
        (b"[" * 100_000, "not JSON: it has a number too long, or nests too deep; copy or export it again"),
        (b"", "empty; a model file cannot be"),
        (b'{"a": NaN, "a": 1}', None),
        (b'\xef\xbb\xbf["x"]\n', None),
    ],
)
def test_what_is_no_json_is_told(models: Path, content: bytes, said: str | None) -> None:
    (models / "normalize" / "1" / "labels.json").write_bytes(content)
    assert [problem.message for problem in validate(models)] == ([said] if said else [])


def test_a_library_of_a_backend_lies_in_its_model(models: Path) -> None:
    config = models / "normalize" / "config.pbtxt"
    config.write_text(f'{config.read_text()}runtime: "../../libtriton_x.so"\n')
    assert [problem.message for problem in validate(models)] == [
        'runtime: "../../libtriton_x.so" leads out with ..; it has to be in the model\'s directory'
    ]


def test_a_broken_model_stops_a_release_with_its_path(models: Path) -> None:
    (models / "normalize" / "1" / "model.onnx").write_bytes(_onnx()[:-5])

    assert [str(problem).removeprefix(f"{models}/") for problem in validate(models)] == [
        "normalize/1/model.onnx: not an ONNX model: what begins at byte 11 ends 1 bytes behind the end, so it is cut off or "
        "damaged; copy or export it again"
    ]
