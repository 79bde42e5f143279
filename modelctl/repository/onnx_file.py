"""Read the metadata of an ONNX file: inputs and outputs, operator sets, weight files.

The file is memory-mapped and walked, not loaded: `onnx.load` holds all weights in memory, several times, and a release may
have many such files. For the numbers of fields and types see https://github.com/onnx/onnx/blob/main/onnx/onnx.proto.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

SUFFIX = ".onnx"
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_MODEL_PROTO = {1: 0, 2: 2, 3: 2, 4: 2, 5: 0, 6: 2, 7: 2, 8: 2, 14: 2, 20: 2, 25: 2, 26: 2}
"""Field number of a ModelProto to its wire type."""
_FIELD_NUMBERS = 100
_GRAPH_PROTO = {1: 2, 2: 2, 5: 2, 10: 2, 11: 2, 12: 2, 13: 2, 14: 2, 15: 2, 16: 2}
_IR_VERSION, _GRAPH, _OPSET, _FUNCTION = 1, 7, 8, 25
_NODE, _INITIALIZER, _INPUT, _OUTPUT = 1, 5, 11, 12
_NODE_OF_FUNCTION, _ATTRIBUTE = 7, 5
_TENSORS, _GRAPHS = frozenset({5, 10}), frozenset({6, 11})
"""Field numbers of an attribute: a single value, and a list."""
_TENSOR_NAME, _EXTERNAL_DATA = 8, 13
_KINDS = {1: "tensor", 4: "sequence", 5: "map", 7: "opaque", 8: "sparse tensor", 9: "optional"}
"""Field number of a TypeProto to the kind of value."""
_MOST_TENSORS = 100_000
_MOST_DEPTH = 33
"""Maximum depth of graphs nested in nodes, as in loops and branches.

Protobuf reads 100 nested messages, 3 for each graph.
"""
_MOST_FIELDS = 2_000_000
"""Maximum number of fields in one message.

A graph has one field for each node and each weight. With more fields, the bytes only happen to look like fields.
"""


class NotOnnx(ValueError):
    """A file is not a complete ONNX model; the text gives the evidence."""


@dataclass(frozen=True)
class Tensor:
    """An input or output. `kind` is `tensor`, except for kinds that Triton cannot serve; `element` is ONNX's type number.

    A variable size in `shape` is None; `shape` is None if the model gives none.
    """

    name: str
    kind: str
    element: int = 0
    shape: tuple[int | None, ...] | None = None


@dataclass(frozen=True)
class OnnxModel:
    """The metadata of a file. `opsets`: versions of operator sets by domain; ONNX's own set is `ai.onnx`.

    `defaults`: inputs that have a value in the file. `external`: each file of external weights to the first tensor in it.
    """

    ir_version: int
    opsets: Mapping[str, int]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    defaults: frozenset[str] = frozenset()
    external: Mapping[str, str] = field(default_factory=dict)

    @property
    def required(self) -> tuple[Tensor, ...]:
        """Return the inputs that a request has to provide."""
        return tuple(tensor for tensor in self.inputs if tensor.name not in self.defaults)


@dataclass
class _Found:
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    initializers: set[str] = field(default_factory=set)
    external: dict[str, str] = field(default_factory=dict)


def read(path: Path) -> OnnxModel:
    """Return the metadata of the file. Raises NotOnnx, also for missing or truncated weight files, and OSError."""
    if path.stat().st_size == 0:
        raise NotOnnx("it is empty")
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        found, opsets, ir_version, graphs = _Found(), {}, None, 0
        for number, begin, end in _fields(data, 0, len(data), _MODEL_PROTO):
            if number == _IR_VERSION:
                ir_version = _varint(data, begin, end)[0]
            elif number == _OPSET:
                entry = _message(data, begin, end)
                opsets[_text(data, entry.get(1)) or "ai.onnx"] = _number(data, entry.get(2))
            elif number == _GRAPH:
                graphs += 1
                _graph(path, data, begin, end, found)
            elif number == _FUNCTION:
                for inner, first, last in _fields(data, begin, end):
                    if inner == _NODE_OF_FUNCTION:
                        _weights_of_node(path, data, first, last, found)
    if missing := [name for name, there in (("ir_version", ir_version), ("graph", graphs or None)) if there is None]:
        raise NotOnnx(f"it has no {' and no '.join(missing)}")
    defaults = frozenset(found.initializers & {tensor.name for tensor in found.inputs})
    tensors = tuple(found.inputs), tuple(found.outputs)
    return OnnxModel(ir_version or 0, opsets, *tensors, defaults, found.external)


def _graph(path: Path, data: mmap.mmap, begin: int, end: int, found: _Found) -> None:
    for number, first, last in _fields(data, begin, end, _GRAPH_PROTO):
        if number == _INITIALIZER:
            found.initializers.add(_weight(path, data, first, last, found))
        elif number == _NODE:
            _weights_of_node(path, data, first, last, found)
        elif number in (_INPUT, _OUTPUT):
            tensors = found.inputs if number == _INPUT else found.outputs
            if len(tensors) == _MOST_TENSORS:
                raise NotOnnx(f"it has more than {_MOST_TENSORS} inputs or outputs")
            tensors.append(_tensor(data, first, last))


def _tensor(data: mmap.mmap, begin: int, end: int) -> Tensor:
    """Return the tensor that a ValueInfoProto describes."""
    entry = _message(data, begin, end)
    name = _text(data, entry.get(1))
    for number, first, last in _fields(data, *entry.get(2, (0, 0))):
        if number != 1:
            return Tensor(name, _KINDS.get(number, "value of another type"))
        of = _message(data, first, last)
        shape = None
        if 2 in of:
            shape = tuple(_size(data, start, stop) for number, start, stop in _fields(data, *of[2]) if number == 1)
        return Tensor(name, _KINDS[1], _number(data, of.get(1)), shape)
    return Tensor(name, "value of no type")


def _size(data: mmap.mmap, begin: int, end: int) -> int | None:
    """Return the size of a dimension; None if it is a name or missing."""
    entry = _message(data, begin, end)
    if 1 not in entry:
        return None
    size = _number(data, entry[1])
    return None if size >= 1 << 63 else size


def _weights_of_node(path: Path, data: mmap.mmap, begin: int, end: int, found: _Found, depth: int = 1) -> None:
    """Record the external weights of a node: its constants, and the weights of nested graphs. Raises NotOnnx."""
    if depth > _MOST_DEPTH:
        raise NotOnnx(f"more than {_MOST_DEPTH} graphs stand in each other")
    for number, first, last in _fields(data, begin, end):
        if number != _ATTRIBUTE:
            continue
        for kind, start, stop in _fields(data, first, last):
            if kind in _TENSORS:
                _weight(path, data, start, stop, found)
            elif kind in _GRAPHS:
                for inner, at, to in _fields(data, start, stop):
                    if inner == _INITIALIZER:
                        _weight(path, data, at, to, found)
                    elif inner == _NODE:
                        _weights_of_node(path, data, at, to, found, depth + 1)


def _weight(path: Path, data: mmap.mmap, begin: int, end: int, found: _Found) -> str:
    """Return a weight's name, and record its external file. Raises NotOnnx if the file is missing or too short."""
    external: dict[str, str] = {}
    weight = ""
    for number, first, last in _fields(data, begin, end):
        if number == _TENSOR_NAME:
            weight = _text(data, (first, last))
        elif number == _EXTERNAL_DATA:
            entry = _message(data, first, last)
            external[_text(data, entry.get(1))] = _text(data, entry.get(2))
    if "location" not in external:
        return weight
    name = external["location"]
    if name.startswith("/") or "\\" in name or ".." in Path(name).parts:
        raise NotOnnx(f"its weights lie in {name!r}, which leads out of the directory of the model")
    try:
        size = (path.parent / name).stat().st_size if name.isprintable() and (path.parent / name).is_file() else None
    except OSError:  # the name is too long
        size = None
    if size is None:
        raise NotOnnx(f"its weights lie in {name!r}, which is not beside it")
    try:
        offset, length = int(external.get("offset", "0")), int(external.get("length", "0"))
    except ValueError:
        raise NotOnnx(f"its weights lie in {name!r}, at a place that is no number") from None
    if offset < 0 or length < 0:
        raise NotOnnx(f"its weights lie in {name!r} at offset {offset} with length {length}; neither can be negative")
    last_byte = offset + length
    if last_byte > size:
        raise NotOnnx(
            f"its weights end at byte {last_byte} of {name!r}, which has {size}, so that one is cut off or another's"
        )
    found.external.setdefault(name, weight)
    return weight


def _message(data: mmap.mmap, begin: int, end: int) -> dict[int, tuple[int, int]]:
    """Return the fields of a small message: the start and end of each field's last value."""
    return {number: (first, last) for number, first, last in _fields(data, begin, end)}


def _text(data: mmap.mmap, place: tuple[int, int] | None) -> str:
    return data[place[0] : place[1]].decode(errors="replace") if place else ""


def _number(data: mmap.mmap, place: tuple[int, int] | None) -> int:
    return _varint(data, *place)[0] if place else 0


def _fields(data: mmap.mmap, begin: int, end: int, known: dict[int, int] | None = None) -> Iterator[tuple[int, int, int]]:
    """Yield number, start and end of each field between two positions of a message. Raises NotOnnx."""
    at, fields = begin, 0
    while at < end:
        start = at
        fields += 1
        if fields > _MOST_FIELDS:
            raise NotOnnx(f"more than {_MOST_FIELDS} fields stand from byte {begin} on, so it is another file, or damaged")
        key, at = _varint(data, at, end)
        number, kind = key >> 3, key & 7
        # An unknown number may belong to a newer version.
        if not 0 < number < _FIELD_NUMBERS or (known is not None and known.get(number, kind) != kind):
            raise NotOnnx(f"at byte {start} stands no field of ONNX, so it is another file, or damaged")
        if kind == _VARINT:
            value = at
            _, at = _varint(data, at, end)
        elif kind == _LENGTH:
            length, value = _varint(data, at, end)
            at = value + length
        elif kind in (_FIXED64, _FIXED32):
            value, at = at, at + (8 if kind == _FIXED64 else 4)
        else:
            raise NotOnnx(f"at byte {start} stands no field of ONNX, so it is another file, or damaged")
        if at > end:
            raise NotOnnx(f"what begins at byte {start} ends {at - end} bytes behind the end, so it is cut off or damaged")
        yield number, value, at


def _varint(data: mmap.mmap, at: int, end: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= end:
            raise NotOnnx("it is cut off")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise NotOnnx(f"at byte {at} stands no number, so it is another file, or damaged")
