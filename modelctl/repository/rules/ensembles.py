"""Check that every step, version and tensor of an ensemble has its counterpart. Each mistake is fatal for the server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tritonclient.grpc.model_config_pb2 import DataType, ModelConfig, ModelEnsembling, ModelInput, ModelOutput


@dataclass(frozen=True)
class Peer:
    """A model that a step may use.

    `config` is None if it cannot be read; `versions` are the released versions, empty if they are unknown.
    """

    config: ModelConfig | None
    versions: tuple[int, ...]


@dataclass(frozen=True)
class _Tensor:
    """One end of an ensemble tensor, as its `owner` declares it; `shape` includes the batch."""

    data_type: int
    shape: tuple[int, ...]
    owner: str


def check(name: str, config: ModelConfig, peers: Mapping[str, Peer]) -> Iterator[str]:
    """Yield the mistakes in the ensemble `name`. `peers` are all models of the repository by name."""
    if config.instance_group:
        yield "instance_group: an ensemble has no instances; leave it out, its steps have their own"
    if config.model_warmup:
        yield "model_warmup: warm up the models of the steps instead; they load before the ensemble"
    steps = config.ensemble_scheduling.step
    if not steps:
        yield "ensemble_scheduling.step: missing; an ensemble needs at least one step"
    for index, step in enumerate(steps):
        yield from _step(f"ensemble_scheduling.step[{index}]", name, step, config, peers)
    yield from _connections(name, config, peers)
    yield from _circle(name, peers)


def _step(
    where: str, name: str, step: ModelEnsembling.Step, config: ModelConfig, peers: Mapping[str, Peer]
) -> Iterator[str]:
    if step.model_name not in peers:
        known = ", ".join(sorted(set(peers) - {name})) or "none"
        yield f"{where}.model_name: there is no model {step.model_name or '(empty)'}; models: {known}"
        return
    peer = peers[step.model_name]
    if step.model_version != -1 and peer.versions and step.model_version not in peer.versions:
        yield (
            f"{where}.model_version: {step.model_version}, but the release serves version "
            f"{' and '.join(map(str, peer.versions))} of {step.model_name}; "
            f"write {' or '.join(map(str, (-1, *peer.versions)))}"
        )
    if peer.config is None:
        return
    # A model without batching may be a step of a model with batching, if its tensors have the batch in their dims:
    # https://github.com/triton-inference-server/core/blob/73aad7c/src/ensemble_scheduler/ensemble_utils.cc#L291-L300.
    if config.max_batch_size > peer.config.max_batch_size > 0:
        yield (
            f"max_batch_size: {config.max_batch_size} is more than the {peer.config.max_batch_size} of step "
            f"{step.model_name}"
        )
    yield from _map_keys(f"{where}.input_map", step.model_name, "input", step.input_map, peer.config.input)
    for tensor in peer.config.input:
        if tensor.name and tensor.name not in step.input_map and not tensor.optional:
            yield f"{where}.input_map: input {tensor.name} of {step.model_name} is not mapped"
    yield from _map_keys(f"{where}.output_map", step.model_name, "output", step.output_map, peer.config.output)
    if not step.output_map:
        yield f"{where}.output_map: missing; a step whose outputs nobody reads is useless"


def _map_keys(where: str, model: str, kind: str, mapping: Mapping[str, str], tensors: object) -> Iterator[str]:
    names = [tensor.name for tensor in tensors]  # type: ignore[attr-defined]
    for key in sorted(mapping):
        if key not in names:
            yield f"{where}: {model} has no {kind} {key}; it has {', '.join(names) or 'none'}"


def _connections(name: str, config: ModelConfig, peers: Mapping[str, Peer]) -> Iterator[str]:
    written: dict[str, _Tensor | None] = {t.name: _tensor(t, config, name) for t in config.input}
    for index, step in enumerate(config.ensemble_scheduling.step):
        for key, tensor in sorted(step.output_map.items()):
            if tensor in written:
                yield f"ensemble_scheduling.step[{index}].output_map: tensor {tensor} is written twice"
            written[tensor] = _peer_tensor(peers, step.model_name, "output", key)
    read: set[str] = set()
    for index, step in enumerate(config.ensemble_scheduling.step):
        for key, tensor in sorted(step.input_map.items()):
            read.add(tensor)
            where = f"ensemble_scheduling.step[{index}].input_map"
            yield from _pair(where, tensor, written, _peer_tensor(peers, step.model_name, "input", key))
    for output in config.output:
        yield from _pair("output", output.name, written, _tensor(output, config, name))
    for tensor in config.input:
        if tensor.name not in read and config.ensemble_scheduling.step:
            yield f"input: no step reads {tensor.name}"
    yield from _deadlock(config, set(written))


def _pair(where: str, tensor: str, written: Mapping[str, _Tensor | None], reader: _Tensor | None) -> Iterator[str]:
    if tensor not in written:
        yield f"{where}: nothing writes tensor {tensor}; there are {', '.join(sorted(written)) or 'none'}"
        return
    writer = written[tensor]
    if writer is None or reader is None:
        return
    if DataType.TYPE_INVALID not in (writer.data_type, reader.data_type) and writer.data_type != reader.data_type:
        yield (f"{where}: tensor {tensor} is {_type(writer)} in {writer.owner} but {_type(reader)} in {reader.owner}")
    if not _compatible(writer.shape, reader.shape):
        yield (
            f"{where}: tensor {tensor} has shape {list(writer.shape)} in {writer.owner} "
            f"but {list(reader.shape)} in {reader.owner}"
        )


def _deadlock(config: ModelConfig, written: set[str]) -> Iterator[str]:
    """Yield steps that wait for each other's outputs."""
    available = {tensor.name for tensor in config.input}
    waiting = list(config.ensemble_scheduling.step)
    while runnable := [s for s in waiting if all(t in available or t not in written for t in s.input_map.values())]:
        for step in runnable:
            available |= set(step.output_map.values())
            waiting.remove(step)
    if waiting:
        names = ", ".join(step.model_name for step in waiting)
        yield f"ensemble_scheduling.step: {names} wait for tensors that only they themselves write"


def _circle(name: str, peers: Mapping[str, Peer]) -> Iterator[str]:
    """Yield a mistake if the ensemble contains itself, directly or through another ensemble."""
    frontier, seen = [name], set[str]()
    while frontier:
        peer = peers.get(frontier.pop())
        if peer is None or peer.config is None:
            continue
        for step in peer.config.ensemble_scheduling.step:
            if step.model_name == name:
                yield f"ensemble_scheduling.step: {name} contains itself"
                return
            if step.model_name not in seen:
                seen.add(step.model_name)
                frontier.append(step.model_name)


def _peer_tensor(peers: Mapping[str, Peer], model: str, kind: str, name: str) -> _Tensor | None:
    peer = peers.get(model)
    if peer is None or peer.config is None:
        return None
    for tensor in peer.config.input if kind == "input" else peer.config.output:
        if tensor.name == name:
            return _tensor(tensor, peer.config, model)
    return None


def _tensor(tensor: ModelInput | ModelOutput, config: ModelConfig, owner: str) -> _Tensor:
    batch = (-1,) if config.max_batch_size else ()
    return _Tensor(tensor.data_type, batch + tuple(tensor.dims), owner)


def _compatible(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return len(one) == len(other) and all(a == b or -1 in (a, b) for a, b in zip(one, other, strict=True))


def _type(tensor: _Tensor) -> str:
    return DataType.Name(tensor.data_type)
