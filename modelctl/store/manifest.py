"""The manifest of a release. It has the objects with their hashes, and an id that depends only on these."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from modelctl import documents
from modelctl.documents import DocumentError
from spec.failure import Failure
from spec.names import MAX_OBJECT_BYTES

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
ReleaseId = Sha256
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
"""The name of a model or a backend."""
StackName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,100}$")]
ServingDigest = Annotated[str, Field(pattern=r"^[0-9a-f]{12}$")]

_SHORT_ID = re.compile(r'"id":\s*"([0-9a-f]{12})"')
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class ManifestError(Failure):
    """The manifest was not written by modelctl, or was changed afterwards."""


class ObjectEntry(BaseModel):
    """One object of a release; `bytes` is its size."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sha256: Sha256
    bytes: Annotated[int, Field(ge=0, le=MAX_OBJECT_BYTES)]


Version = Annotated[int, Field(ge=1, le=2**63 - 1)]


class ModelEntry(BaseModel):
    """One model of a release, and the backend (or `ensemble`) that serves it.

    `version` answers requests without a version; `others`, all lower, are served in addition. `steps`: the models of an
    ensemble. `asks`: the models that a model calls by itself inside its server. `decoupled`: its config allows any number of
    responses per request; for an ensemble, see its steps. `self_placed`: it chooses its GPUs by itself (KIND_MODEL), so its
    instances are not per GPU. `on_cpu`: it computes on the CPU in a pipeline on GPUs. `tensorrt`: the versions that built
    its plans. `batch`: its config's `max_batch_size`; 0 if each request is a batch. `open`: its own config leaves a queue
    without a bound, or instances to the server. Then only a stack with settings for it may serve it. Older manifests lack
    the last eight fields.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    version: Version
    backend: Name
    others: tuple[Version, ...] = ()
    steps: tuple[Name, ...] = ()
    asks: tuple[Name, ...] = ()
    decoupled: bool = False
    self_placed: bool = Field(default=False, alias="selfPlaced")
    on_cpu: bool = Field(default=False, alias="onCpu")
    tensorrt: tuple[Annotated[str, Field(pattern=r"^[0-9]{1,3}(\.[0-9]{1,5}){0,3}$")], ...] = ()
    batch: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    open: bool = False


class Derived(BaseModel):
    """Settings of models that a stack file leaves open, as the release derived them for one stack.

    `instances`: of models with more than one. `gpu_memory_mib`: the estimates for an instance. `engines`: the models whose
    engines are built when a pod starts.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    instances: dict[Name, Annotated[int, Field(ge=1, le=64)]] = Field(default_factory=dict)
    gpu_memory_mib: dict[Name, Annotated[int, Field(ge=1)]] = Field(default_factory=dict, alias="gpuMemoryMiB")
    engines: tuple[Name, ...] = ()


class Manifest(BaseModel):
    """`releases/<id>/manifest.json`. Object keys are relative to the release's prefix; `bytes` is their total size.

    `id` depends only on `objects`: the same content has the same id everywhere, whenever it was released. `serving`: by
    stack, the digest of the serving settings for the configs in the release; empty without such configs. `derived`: by
    stack, the settings that the release derived for it; older manifests lack it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    schema_version: documents.FirstSchema = Field(default=1, alias="schema")
    id: ReleaseId
    created: AwareDatetime
    objects: Annotated[dict[str, ObjectEntry], Field(min_length=1)]
    bytes: int
    models: dict[Name, ModelEntry]
    serving: dict[StackName, ServingDigest] = Field(default_factory=dict)
    derived: dict[StackName, Derived] = Field(default_factory=dict)

    @classmethod
    def of(
        cls,
        objects: Mapping[str, ObjectEntry],
        models: Mapping[str, ModelEntry],
        created: datetime,
        serving: Mapping[str, str] | None = None,
        derived: Mapping[str, Derived] | None = None,
    ) -> Manifest:
        """Return the manifest of this content."""
        return cls(
            id=content_id(objects),
            created=created.astimezone(UTC).replace(microsecond=0),
            objects=dict(sorted(objects.items())),
            bytes=total_bytes(objects.values()),
            models=dict(sorted(models.items())),
            serving=dict(sorted((serving or {}).items())),
            derived=dict(sorted((derived or {}).items())),
        )

    @classmethod
    def parse(cls, text: str) -> Manifest:
        """Read a manifest. Raises ManifestError when it is invalid, or when its id does not match its objects."""
        if short := _SHORT_ID.search(text):
            raise ManifestError(
                f"manifest.json: id: {short[1]} is the short id of an earlier version, which others can imitate; run "
                "`modelctl release` on its models again, with --pin for each stack file, then delete releases/"
                f"{short[1]}/"
            )
        try:
            manifest = documents.read(cls, text.encode(errors="surrogatepass"))
        except DocumentError as error:
            raise ManifestError(f"manifest.json: {error}; restore its earlier object version, modelctl writes it") from None
        wrong = next((key for key in manifest.objects if {"", ".", ".."} & set(key.split("/"))), None)
        if wrong is not None:
            raise ManifestError(f"manifest.json: objects: {wrong!r} is no key of a release, it leads out of its prefix")
        if (expected := content_id(manifest.objects)) != manifest.id:
            raise ManifestError(f"id: {manifest.id} is not the id of its objects, {expected}")
        if (expected_bytes := total_bytes(manifest.objects.values())) != manifest.bytes:
            raise ManifestError(f"bytes: {manifest.bytes} is not the sum of its objects, {expected_bytes}")
        if (control := next((key for key in manifest.objects if _CONTROL.search(key)), None)) is not None:
            raise ManifestError(f"manifest.json: objects: {control!r} is no key of a release, it has a control character")
        for name in sorted({key.partition("/")[0] for key in manifest.objects} ^ manifest.models.keys()):
            what = "has no objects" if name in manifest.models else "has objects and is not there"
            raise ManifestError(f"manifest.json: models: {name} {what}")
        for name, entry in manifest.models.items():
            if list(entry.others) != sorted({other for other in entry.others if other < entry.version}):
                raise ManifestError(
                    f"manifest.json: models.{name}.others: {list(entry.others)} has to be versions lower than "
                    f"{entry.version}, in order and each once"
                )
        if (wrong := next(_contradictions(manifest), None)) is not None:
            raise ManifestError(f"manifest.json: {wrong}; restore its earlier object version, modelctl writes it")
        return manifest

    def to_json(self) -> str:
        """Return the text to store."""
        return self.model_dump_json(by_alias=True, indent=2) + "\n"

    @property
    def versions(self) -> dict[str, int]:
        """Return each model's version for requests without a version: the stack's `models.release.models`."""
        return {name: entry.version for name, entry in self.models.items()}

    @property
    def others(self) -> dict[str, list[int]]:
        """Return the versions that are served in addition, for models that have any: the stack's `models.release.others`."""
        return {name: list(entry.others) for name, entry in self.models.items() if entry.others}

    @property
    def ensembles(self) -> dict[str, list[str]]:
        """Return the steps of each ensemble: the stack's `models.release.ensembles`."""
        return {name: list(entry.steps) for name, entry in self.models.items() if entry.steps}

    @property
    def asks(self) -> dict[str, list[str]]:
        """Return the models that each model calls by itself: the stack's `models.release.asks`."""
        return {name: list(entry.asks) for name, entry in self.models.items() if entry.asks}

    @property
    def tensorrt(self) -> dict[str, list[str]]:
        """Return the TensorRT versions that built the plans of each model: the stack's `models.release.tensorrt`."""
        return {name: list(entry.tensorrt) for name, entry in self.models.items() if entry.tensorrt}

    @property
    def decoupled(self) -> list[str]:
        """Return the models with decoupled configs: the stack's `models.release.decoupled`."""
        return [name for name, entry in self.models.items() if entry.decoupled]

    @property
    def self_placed(self) -> list[str]:
        """Return the models that choose their GPUs by themselves: the stack's `models.release.selfPlaced`."""
        return [name for name, entry in self.models.items() if entry.self_placed]

    @property
    def on_cpu(self) -> list[str]:
        """Return the models that compute on the CPU in a pipeline on GPUs: the stack's `models.release.onCpu`."""
        within = {other for entry in self.models.values() for other in (*entry.steps, *entry.asks)}
        return [name for name, entry in self.models.items() if entry.on_cpu and (name in within or entry.asks)]

    @property
    def batches(self) -> dict[str, int]:
        """Return `max_batch_size` of each model's config, if the manifest has it; ensembles make no batches."""
        return {name: entry.batch for name, entry in self.models.items() if entry.batch is not None and not entry.steps}

    def derived_for(self, stack: str | None) -> Derived:
        """Return the settings that the release derived for a stack."""
        return self.derived.get(stack or "", Derived())

    @property
    def download_bytes(self) -> int:
        """Return the bytes that a pod downloads. The server downloads all of a model once for each served version."""
        copies = {name: 1 + len(entry.others) for name, entry in self.models.items()}
        return sum(entry.bytes * copies[key.partition("/")[0]] for key, entry in self.objects.items())


def _contradictions(manifest: Manifest) -> Iterator[str]:
    """Yield statements about models that contradict the objects; the id covers only the objects."""
    folders = {
        "/".join(parts[:depth]) for parts in (key.split("/") for key in manifest.objects) for depth in range(1, len(parts))
    }
    for key in sorted(folders & manifest.objects.keys()):
        yield f"objects: {key!r} is an object and has others below it, which no disk holds"
    alike: dict[str, str] = {}
    for name, entry in manifest.models.items():
        if (first := alike.setdefault(name.casefold(), name)) != name:
            yield f"models.{name}: differs from {first} in upper and lower case only, and no stack file may name both"
        if f"{name}/config.pbtxt" not in manifest.objects:
            yield f"models.{name}: has no config.pbtxt, and no server completes one by itself here"
        for version in (entry.version, *entry.others):
            if f"{name}/{version}" not in folders:
                yield f"models.{name}: version {version} has no objects"
        for what, others in (("steps", entry.steps), ("asks", entry.asks)):
            for other in others:
                if other == name or other not in manifest.models:
                    yield f"models.{name}.{what}: {other} is no other model of the release"


def content_id(objects: Mapping[str, ObjectEntry]) -> str:
    """Return the sha-256 over the canonical JSON of `objects`."""
    plain = {key: {"sha256": entry.sha256, "bytes": entry.bytes} for key, entry in objects.items()}
    canonical = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def total_bytes(entries: Iterable[ObjectEntry]) -> int:
    return sum(entry.bytes for entry in entries)
