"""Check the formats of model files by their suffix. The beginning must be right, and the file complete.

Errors that only a format's own library finds by loading the model are left to the server. Nothing is written to a disk: an
archive is read as a stream, up to a limit.
"""

from __future__ import annotations

import io
import json
import math
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.lib.format

from modelctl.repository import onnx_file, plans
from modelctl.repository.golden import FILE
from modelctl.repository.rules import members

_UNPACKED_BYTES = 256 * 1024**2
"""The limit for reading a compressed archive; data beyond it is not checked."""
_LARGEST_HEADER_BYTES = 100_000_000
"""The limit of the safetensors format."""
_LARGEST_JSON_BYTES = 64 * 1024**2
_MOST_MEMBERS = 100_000
_GGUF_HEADER_BYTES = 24
"""https://github.com/ggml-org/ggml/blob/master/docs/gguf.md."""
_BYTES_OF_SAFETENSORS = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3"), 1),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 2),
    **dict.fromkeys(("I32", "U32", "F32"), 4),
    **dict.fromkeys(("I64", "U64", "F64"), 8),
}
"""https://github.com/huggingface/safetensors/blob/main/safetensors/src/tensor.rs."""
_BLOCK = 1024**2


@dataclass(frozen=True)
class _File:
    """A file with its size and its first bytes. These are at least 64 KiB, or the whole file if it is shorter."""

    path: Path
    head: bytes
    size: int


class _Broken(Exception):
    """A file does not have its format; the text gives the evidence."""


class _Harmful(Exception):
    """An archive is unsafe to unpack; the text says why."""


def mistake(path: Path, head: bytes, size: int) -> str | None:
    """Return why the file does not match its suffix. None if it does, or if the suffix is unknown.

    `head` is the beginning of the file: at least 64 KiB, or all of it if it is shorter. Raises OSError.
    """
    name = path.name.lower()
    for suffix, (what, check) in _FORMATS.items():
        if not name.endswith(suffix):
            continue
        if path.name == FILE:  # the rules for golden inferences check this file
            return None
        if size == 0:
            return "empty; a model file cannot be"
        try:
            check(_File(path, head, size))
        except _Broken as error:
            return f"not {what}: {error}; copy or export it again"
        except _Harmful as error:
            return f"{what} that writes where nobody looks: {error}; pack it anew, from inside the folder"
        return None
    return None


def _begins_with(*magics: bytes) -> Callable[[_File], None]:
    def check(file: _File) -> None:
        if not file.head.startswith(magics):
            raise _Broken(f"it begins with {_shown(file.head)}")

    return check


def _shown(head: bytes) -> str:
    return repr(head[:16]).removeprefix("b") + ("…" if len(head) > 16 else "")


def _plan(file: _File) -> None:
    if not file.head.startswith(plans.TAG):
        tag = plans.TAG.decode()
        raise _Broken(f"it begins with {_shown(file.head)}, and plans of TensorRT 8.6 and newer begin with '{tag}'")
    if file.size < plans.HEADER_BYTES:
        raise _Broken(f"{file.size} bytes; its header alone has {plans.HEADER_BYTES}")


def _tflite(file: _File) -> None:
    if file.head[4:8] != b"TFL3":
        raise _Broken(f"it begins with {_shown(file.head)}")


def _zip(file: _File) -> None:
    _begins_with(b"PK\x03\x04", b"PK\x05\x06")(file)
    try:
        with zipfile.ZipFile(file.path) as archive:
            if len(archive.infolist()) > _MOST_MEMBERS:
                return
            ends = [member.header_offset + member.compress_size for member in archive.infolist()]
            if max(ends, default=0) > file.size:
                raise _Broken("it is cut off")
            if leads_out := members.mistake_of_zip(archive):
                raise _Harmful(leads_out)
    except (zipfile.BadZipFile, zlib.error, RuntimeError, ValueError) as error:
        raise _Broken(f"its directory cannot be read, so it is cut off or damaged ({error})") from None


def _torch(file: _File) -> None:
    # A pickle of weights, as torch.save wrote it before version 1.6 and still can.
    if file.head[:1] == b"\x80":
        return
    _zip(file)
    with zipfile.ZipFile(file.path) as archive:
        # https://github.com/pytorch/pytorch/blob/main/torch/serialization.py
        if not any(name.rpartition("/")[2] == "data.pkl" for name in archive.namelist()):
            raise _Broken("it is a zip archive without data.pkl, which each of them has")


def _gzip(file: _File) -> None:
    _begins_with(b"\x1f\x8b")(file)
    for _ in _unpacked(file.path):
        pass


def _tar_gzip(file: _File) -> None:
    _begins_with(b"\x1f\x8b")(file)
    stream = _Stream(_unpacked(file.path))
    _tar_header(stream.beginning(tarfile.BLOCKSIZE))
    try:
        with tarfile.open(fileobj=stream, mode="r|", bufsize=_BLOCK) as archive:
            _look_through(archive)
    except tarfile.TarError as error:
        if stream.size <= _UNPACKED_BYTES:
            raise _Broken(f"it is damaged ({error})") from None
    while stream.read(_BLOCK):  # the data after the end has a checksum too
        pass


class _Stream(io.RawIOBase):
    """The bytes from a generator, as a file that tarfile reads from its beginning."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._rest, self.size = pieces, b"", 0

    def read(self, size: int = _BLOCK) -> bytes:
        found = self.beginning(size)
        self._rest = self._rest[size:]
        return found

    def beginning(self, size: int) -> bytes:
        """Return the bytes that the next `read` returns."""
        while len(self._rest) < size and (piece := next(self._pieces, None)) is not None:
            self._rest += piece
            self.size += len(piece)
        return self._rest[:size]


def _look_through(archive: tarfile.TarFile) -> int:
    """Return the end of the last member. Raises _Harmful and TarError."""
    tar_members, end = members.TarMembers(), 0
    for number, member in enumerate(archive):
        if leads_out := tar_members.mistake(member):
            raise _Harmful(leads_out)
        end = max(end, member.offset_data + member.size)
        if number > _MOST_MEMBERS:
            break
    return end


def _unpacked(path: Path) -> Iterator[bytes]:
    """Yield the content of a gzip file, up to a limit. Raises _Broken if it is damaged or truncated."""
    stream, total = zlib.decompressobj(wbits=31), 0
    with path.open("rb") as file:
        data = file.read(1 << 16)
        while data:
            try:
                piece = stream.decompress(data, 1 << 20)
            except zlib.error as error:
                raise _Broken(f"it is damaged ({error})") from None
            yield piece
            total += len(piece)
            if total > _UNPACKED_BYTES:
                return
            data = stream.unconsumed_tail or (stream.unused_data if stream.eof else b"")
            if stream.eof and data.startswith(b"\x1f\x8b"):  # gzip files may be concatenated
                stream = zlib.decompressobj(wbits=31)
            elif stream.eof:
                return
            data = data or file.read(1 << 16)
    raise _Broken("it is cut off")


def _tar(file: _File) -> None:
    _tar_header(file.head[: tarfile.BLOCKSIZE])
    try:
        with tarfile.open(file.path, "r:") as archive:
            end = _look_through(archive)
    except tarfile.TarError as error:
        raise _Broken(f"it is cut off or damaged ({error})") from None
    if end > file.size:
        raise _Broken("it is cut off")


def _tar_header(block: bytes) -> None:
    try:
        tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError as error:
        raise _Broken(f"it begins with {_shown(block)} ({error})") from None


def _safetensors(file: _File) -> None:
    length = int.from_bytes(file.head[:8], "little")
    if file.size < 8 or length > min(file.size - 8, _LARGEST_HEADER_BYTES):
        raise _Broken("its header is longer than the file, so it is cut off or begins with something else")
    with file.path.open("rb") as stream:
        stream.seek(8)
        text = stream.read(length)
    try:
        entries = json.loads(text)
        placed = sorted(_placed(name, entry) for name, entry in entries.items() if name != "__metadata__")
    except (ValueError, RecursionError, AttributeError, TypeError, LookupError):
        raise _Broken("its header is not one of safetensors") from None
    end = 0
    for begin, until, name, expected in placed:
        if begin != end or until < begin:
            raise _Broken(f"its tensor {name!r} begins at byte {begin}, and the one before ends at {end}")
        if expected is not None and until - begin != expected:
            raise _Broken(f"its tensor {name!r} has {until - begin} bytes, and by its type and shape {expected}")
        end = until
    there = file.size - 8 - length
    if end != there:
        raise _Broken(f"its tensors end at byte {end} and the file at {there}, so it is cut off or damaged")


def _placed(name: str, tensor: dict[str, Any]) -> tuple[int, int, str, int | None]:
    """Return the position of a tensor, and its size in bytes by type and shape. None for an unknown type.

    Raises TypeError, ValueError and LookupError for invalid values.
    """
    begin, end = tensor["data_offsets"]
    if not all(isinstance(number, int) for number in (begin, end, *tensor["shape"])):
        raise TypeError
    size = _BYTES_OF_SAFETENSORS.get(tensor["dtype"])
    return begin, end, name, None if size is None else size * math.prod(tensor["shape"])


def _npy(file: _File) -> None:
    _begins_with(b"\x93NUMPY")(file)
    begun = io.BytesIO(file.head)
    try:
        # The third format version has a header with non-Latin letters.
        header = numpy.lib.format.read_magic(begun)
        read = {(1, 0): numpy.lib.format.read_array_header_1_0, (2, 0): numpy.lib.format.read_array_header_2_0}.get(header)
        if read is None:
            return
        shape, _, kind = read(begun)
    except ValueError as error:
        raise _Broken(f"its header cannot be read, so it is cut off or damaged ({str(error).splitlines()[0]})") from None
    expected = begun.tell() + kind.itemsize * math.prod(shape)
    if not kind.hasobject and file.size < expected:
        raise _Broken(f"{file.size} bytes, and its header tells of {expected}, so it is cut off")


def _gguf(file: _File) -> None:
    _begins_with(b"GGUF")(file)
    if file.size < _GGUF_HEADER_BYTES:
        raise _Broken("it is cut off")


def _parquet(file: _File) -> None:
    _begins_with(b"PAR1")(file)
    with file.path.open("rb") as stream:
        stream.seek(max(0, file.size - 4))
        if stream.read() != b"PAR1":
            raise _Broken("it does not end as it begins, so it is cut off")


def _index(file: _File) -> None:
    """Refuse the index of weights if only some of them exist. If none exists, they may be there in another format."""
    _json(file)
    if file.size > _LARGEST_JSON_BYTES:
        return
    index = json.loads(file.path.read_bytes())
    shards = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(shards, dict):
        return
    names = sorted({name for name in shards.values() if isinstance(name, str) and "\0" not in name})
    if outside := next((name for name in names if "/" in name or name == ".."), None):
        raise _Broken(f"it names {outside!r}, and weights lie beside it")
    missing = [name for name in names if not (file.path.parent / name).is_file()]
    if missing and len(missing) < len(names):
        raise _Broken(f"of the files that it names {len(missing)} of {len(names)} are not beside it, like {missing[0]!r}")


def _json(file: _File) -> None:
    if file.size > _LARGEST_JSON_BYTES:
        return
    try:
        json.loads(file.path.read_bytes())
    except json.JSONDecodeError as error:
        raise _Broken(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except UnicodeDecodeError:
        raise _Broken("it is not UTF-8") from None
    except (ValueError, RecursionError):
        raise _Broken("it has a number too long, or nests too deep") from None


def _xml(file: _File) -> None:
    if not file.head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"<"):
        raise _Broken(f"it begins with {_shown(file.head)}")


def _onnx(file: _File) -> None:
    try:
        onnx_file.read(file.path)
    except onnx_file.NotOnnx as error:
        raise _Broken(str(error)) from None


_FORMATS: dict[str, tuple[str, Callable[[_File], None]]] = {
    ".onnx": ("an ONNX model", _onnx),
    ".plan": ("a TensorRT plan", _plan),
    ".engine": ("a TensorRT plan", _plan),
    ".trt": ("a TensorRT plan", _plan),
    ".tflite": ("a TensorFlow Lite model", _tflite),
    # A GraphDef or a SavedModel: https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/framework/graph.proto
    ".pb": ("a TensorFlow model", _begins_with(b"\x08", b"\x0a", b"\x12", b"\x18", b"\x22")),
    ".pt": ("a PyTorch file", _torch),
    ".pth": ("a PyTorch file", _torch),
    ".pt2": ("a PyTorch file", _zip),
    ".npz": ("an archive of NumPy", _zip),
    ".npy": ("an array of NumPy", _npy),
    ".zip": ("a zip archive", _zip),
    ".whl": ("a wheel", _zip),
    ".tar.gz": ("a compressed tar archive", _tar_gzip),
    ".tgz": ("a compressed tar archive", _tar_gzip),
    ".gz": ("a file of gzip", _gzip),
    ".tar": ("a tar archive", _tar),
    ".bz2": ("a file of bzip2", _begins_with(b"BZh")),
    ".xz": ("a file of xz", _begins_with(b"\xfd7zXZ\0")),
    ".zst": ("a file of zstd", _begins_with(b"\x28\xb5\x2f\xfd")),
    ".safetensors": ("a file of safetensors", _safetensors),
    ".gguf": ("a GGUF file", _gguf),
    ".h5": ("an HDF5 file", _begins_with(b"\x89HDF\r\n\x1a\n")),
    ".hdf5": ("an HDF5 file", _begins_with(b"\x89HDF\r\n\x1a\n")),
    ".parquet": ("a Parquet file", _parquet),
    ".so": ("a shared library", _begins_with(b"\x7fELF")),
    ".png": ("a PNG image", _begins_with(b"\x89PNG\r\n\x1a\n")),
    ".jpg": ("a JPEG image", _begins_with(b"\xff\xd8\xff")),
    ".jpeg": ("a JPEG image", _begins_with(b"\xff\xd8\xff")),
    ".index.json": ("an index of weights", _index),
    ".json": ("JSON", _json),
    ".xml": ("an XML file", _xml),
}
"""File suffix to the format's name and check; longer suffixes come first."""
