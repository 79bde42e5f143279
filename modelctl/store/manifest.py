"""The manifest of a release: what it holds, hashed, and the id that follows from that alone."""

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
"""Of a model or a backend."""
StackName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,100}$")]
ServingDigest = Annotated[str, Field(pattern=r"^[0-9a-f]{12}$")]

_SHORT_ID = re.compile(r'"id":\s*"([0-9a-f]{12})"')
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class ManifestError(Failure):
    """A manifest that modelctl did not write, or that was changed afterwards."""


class ObjectEntry(BaseModel):
    """One object of a release; `bytes` is its size."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sha256: Sha256
    bytes: Annotated[int, Field(ge=0, le=MAX_OBJECT_BYTES)]


Version = Annotated[int, Field(ge=1, le=2**63 - 1)]


class ModelEntry(BaseModel):
    """One model of a release, and the backend (or `ensemble`) that serves it.

    `version` answers requests that name none. `others`, all lower, are served beside it. `steps` are the models of an
    ensemble. `asks` are those that a model asks by itself, inside of its server. `decoupled`: its config says that a
    request has any number of responses; of an ensemble its steps do. `self_placed`: it takes its GPUs by itself
    (KIND_MODEL), so that its instances are not per GPU. `on_cpu`: it computes on the CPU in a pipeline on GPUs. `tensorrt`
    are the versions that built its plans. `batch` is its config's `max_batch_size`: 0 where each request is a batch.
    `open`: its own config leaves a queue without a bound, or instances to the server, and only a stack that has wants of it
    may serve it. Manifests from before these eight were written say none of it.
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

    `instances` are those of models that got more than one, `gpu_memory_mib` the estimates for an instance. `engines` are the
    models that have engines built when a pod starts.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    instances: dict[Name, Annotated[int, Field(ge=1, le=64)]] = Field(default_factory=dict)
    gpu_memory_mib: dict[Name, Annotated[int, Field(ge=1)]] = Field(default_factory=dict, alias="gpuMemoryMiB")
    engines: tuple[Name, ...] = ()


class Manifest(BaseModel):
    """`releases/<id>/manifest.json`. Object keys are relative to the release's prefix; `bytes` is their sum.

    `id` depends on `objects` only: the same content has the same id everywhere, whenever it was released. `serving` is, by
    stack, the digest of the wants that the configs in the release were made from; empty in releases without such configs.
    `derived` is, by stack, what the release derived for it; manifests that are older say none of it.
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
        """Read a manifest. Raises ManifestError when it is none, or when its id is not that of its objects."""
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
        """Return the text that is stored."""
        return self.model_dump_json(by_alias=True, indent=2) + "\n"

    @property
    def versions(self) -> dict[str, int]:
        """Return the version of each model that answers requests which name none: the stack's `models.release.models`."""
        return {name: entry.version for name, entry in self.models.items()}

    @property
    def others(self) -> dict[str, list[int]]:
        """Return the versions served beside those, of the models that have any: the stack's `models.release.others`."""
        return {name: list(entry.others) for name, entry in self.models.items() if entry.others}

    @property
    def ensembles(self) -> dict[str, list[str]]:
        """Return the steps of each ensemble: the stack's `models.release.ensembles`."""
        return {name: list(entry.steps) for name, entry in self.models.items() if entry.steps}

    @property
    def asks(self) -> dict[str, list[str]]:
        """Return the models that each model asks by itself: the stack's `models.release.asks`."""
        return {name: list(entry.asks) for name, entry in self.models.items() if entry.asks}

    @property
    def tensorrt(self) -> dict[str, list[str]]:
        """Return the versions of TensorRT that built the plans of each model: the stack's `models.release.tensorrt`."""
        return {name: list(entry.tensorrt) for name, entry in self.models.items() if entry.tensorrt}

    @property
    def decoupled(self) -> list[str]:
        """Return the models whose configs say that they are decoupled: the stack's `models.release.decoupled`."""
        return [name for name, entry in self.models.items() if entry.decoupled]

    @property
    def self_placed(self) -> list[str]:
        """Return the models that take their GPUs by themselves: the stack's `models.release.selfPlaced`."""
        return [name for name, entry in self.models.items() if entry.self_placed]

    @property
    def on_cpu(self) -> list[str]:
        """Return the models that compute on the CPU in a pipeline on GPUs: the stack's `models.release.onCpu`."""
        within = {other for entry in self.models.values() for other in (*entry.steps, *entry.asks)}
        return [name for name, entry in self.models.items() if entry.on_cpu and (name in within or entry.asks)]

    @property
    def batches(self) -> dict[str, int]:
        """Return `max_batch_size` of the config of each model, where the manifest says it; ensembles make no batches."""
        return {name: entry.batch for name, entry in self.models.items() if entry.batch is not None and not entry.steps}

    def derived_for(self, stack: str | None) -> Derived:
        """Return what the release derived for a stack."""
        return self.derived.get(stack or "", Derived())

    @property
    def download_bytes(self) -> int:
        """Return what a pod downloads: the server fetches all of a model once for each version that it serves."""
        copies = {name: 1 + len(entry.others) for name, entry in self.models.items()}
        return sum(entry.bytes * copies[key.partition("/")[0]] for key, entry in self.objects.items())


def _contradictions(manifest: Manifest) -> Iterator[str]:
    """Yield what is said of models that the objects, of which alone the id is made, do not bear out."""
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
