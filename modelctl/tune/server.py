"""Load one config after another for a model and its parts, on a dedicated Triton in explicit mode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from tritonclient.grpc import InferenceServerClient
from tritonclient.grpc.model_config_pb2 import ModelConfig
from tritonclient.utils import InferenceServerException

from modelctl.tune.errors import TuneError

CALL_SECONDS = 10.0
LOAD_SECONDS = 300.0
"""A model that is not loaded by then never will be. A partial upload hangs server 2.51's loader.

See docs/facts/triton-server.md#missing-model-file.
"""

MARK = "modelctl_tune"
"""A parameter of every config loaded here. It distinguishes a killed run's model from one that serves users."""


class TuningServer:
    """Loads candidates of `model`, or of the `parts` that it calls. Created by `connect`."""

    def __init__(
        self,
        client: InferenceServerClient,
        address: str,
        headers: dict[str, str],
        model: str,
        parts: Sequence[str] = (),
    ) -> None:
        self._client, self._headers = client, headers
        self.model = model
        self._models = tuple(dict.fromkeys((model, *parts)))
        self.address = address
        self.version = ""

    def load(self, config: ModelConfig) -> None:
        """Load `config` for the model, or for the part that it names, and check it. Raises TuneError when the server does
        not use it.

        The complete config is sent each time, because a partial one gives a model without inputs. After an override, a plain
        load does not restore the repository's config either (docs/facts/triton-server.md#load-with-config).
        """
        name = config.name or self.model
        wanted = ModelConfig()
        wanted.CopyFrom(config)
        wanted.parameters[MARK].string_value = "true"
        text = json_format.MessageToJson(wanted, preserving_proto_field_name=True)
        try:
            self._client.load_model(name, self._headers, config=text, client_timeout=LOAD_SECONDS)
            served = self._client.get_model_config(name, headers=self._headers, client_timeout=CALL_SECONDS).config
        except InferenceServerException as error:
            raise TuneError(self._sentence(error, f"{name} does not load")) from None
        different = list(differences(wanted, served))
        if different:
            raise TuneError(f"{self.address} took the config of {name} but serves another: {'; '.join(different)}")

    def check(self) -> None:
        """Raise TuneError unless the server responds, is in explicit mode, and serves only our models."""
        try:
            self.version = self._client.get_server_metadata(client_timeout=CALL_SECONDS).version
            # Only explicit mode supports unloading, and it unloads a model that does not exist at once:
            # docs/facts/triton-server.md#model-control.
            self._client.unload_model(MARK, self._headers, client_timeout=CALL_SECONDS)
            index = self._client.get_model_repository_index(headers=self._headers, client_timeout=CALL_SECONDS)
            busy = sorted({entry.name for entry in index.models if entry.state == "READY" and not self._ours(entry.name)})
            if busy:
                raise TuneError(
                    f"{self.address} serves {', '.join(busy)} already; tune reloads models under full load, so it needs a "
                    "Triton of its own, in explicit mode and without --load-model"
                )
            there = sorted({entry.name for entry in index.models})
            if missing := [name for name in self._models if name not in there]:
                has = ", ".join(there) or "no model"
                raise TuneError(f"the repository of {self.address} has no {' and no '.join(missing)}; it has {has}")
            for name in self._models:
                self._client.unload_model(name, self._headers, client_timeout=CALL_SECONDS)
        except InferenceServerException as error:
            raise TuneError(self._sentence(error, "cannot be driven")) from None

    def unload(self) -> None:
        """Unload the models; ignore errors when the server is gone."""
        try:
            for name in self._models:
                self._client.unload_model(name, self._headers, client_timeout=CALL_SECONDS)
        except InferenceServerException:
            return

    def _ours(self, name: str) -> bool:
        config = self._client.get_model_config(name, headers=self._headers, client_timeout=CALL_SECONDS).config
        return name in self._models and MARK in config.parameters

    def _sentence(self, error: InferenceServerException, what: str) -> str:
        status, message = error.status() or "", (error.message() or "").strip().rstrip(";")
        if "explicit model load / unload is not allowed" in message:
            return (
                f"{self.address} is not in explicit mode, so no config can be loaded; start a Triton of its own with "
                "--model-control-mode=explicit"
            )
        if "restricted" in message:
            return f"{self.address} restricts its model control; give its key with --admin-key ({message})"
        if "failed to connect" in message or "Connection refused" in message or "DNS" in message:
            return (
                f"no Triton answers at {self.address} over gRPC; start one (`python -m twin triton MODELS_DIR`) or forward "
                "a pod's port, and name it with --server HOST:PORT"
            )
        if "has kind KIND_GPU but no GPUs are available" in message:
            return (
                f"{self.address} has no GPU, and {self.model} is to be served on one; tune it on a server that has "
                "(benchmarks/README.md#in-a-cluster). What a CPU does is measured without --stack, by a config.pbtxt "
                "whose instances are of KIND_CPU"
            )
        if status.endswith("DEADLINE_EXCEEDED"):
            return f"{self.address}: {what}: no answer in time"
        return f"{self.address}: {what}: {message}"


@contextmanager
def connect(address: str, model: str, admin_key: str | None, parts: Sequence[str] = ()) -> Iterator[TuningServer]:
    """Yield the checked server at `address` (host:port of its gRPC). Unload `model` and its `parts` at the end.

    Raises TuneError when it does not respond, is not in explicit mode, or serves other models.
    """
    headers = {"triton-grpc-protocol-admin-key": admin_key} if admin_key else {}
    with InferenceServerClient(address) as client:
        server = TuningServer(client, address, headers, model, parts)
        server.check()
        try:
            yield server
        finally:
            server.unload()


def differences(wanted: Message, served: Message, path: str = "") -> Iterator[str]:
    """Yield each field set in `wanted` that is missing or different in `served`. Fields that the server adds are ignored."""
    for field, value in wanted.ListFields():
        name = f"{path}.{field.name}" if path else field.name
        other = getattr(served, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            for key in value:
                if key not in other or value[key] != other[key]:
                    yield f"{name}[{key}] differs"
        elif field.is_repeated:
            yield from _differences_of_lists(field, name, list(value), list(other))
        elif field.message_type is not None:
            yield from differences(value, other, name)
        elif value != other:
            yield f"{name} is {other}, not {value}"


def _differences_of_lists(field: FieldDescriptor, name: str, wanted: list[Any], served: list[Any]) -> Iterator[str]:
    if len(wanted) != len(served):
        yield f"{name} has {len(served)} entries, not {len(wanted)}"
        return
    for number, (one, other) in enumerate(zip(wanted, served, strict=True)):
        if field.message_type is not None:
            yield from differences(one, other, f"{name}[{number}]")
        elif one != other:
            yield f"{name}[{number}] is {other}, not {one}"
