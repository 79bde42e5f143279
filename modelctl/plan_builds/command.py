"""Run `modelctl build-plans`, and `modelctl put-plan` inside the Job that it prints. Each raises Failure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml
from tritonclient.grpc.model_config_pb2 import ModelConfig

from console.terminal import progress
from modelctl.plan_builds.job import Build, job
from modelctl.plan_builds.shapes import arguments
from modelctl.release import catalog
from modelctl.release.stack_configs import config_key
from modelctl.repository.backends import backend_of, model_file_of
from modelctl.repository.model import CONFIG_FILE
from modelctl.repository.plans import HEADER_BYTES, built_with, is_plan
from modelctl.repository.textproto import parse
from modelctl.store.bucket import Store, open_store
from modelctl.store.manifest import Manifest
from spec.failure import NOT_TRIED, Failure
from spec.names import PLANS_PREFIX
from spec.settings import Settings, load_stack_file
from spec.settings.gpu import GpuPool
from spec.stack_names import stack_of_model_bucket
from spec.wording import did_you_mean, one_of

_LARGEST_PLAN = 5 * 1024**3
"""S3's limit for one request, and only a single request can be refused if the plan exists."""


class NotBuilt(Failure):
    """No plan can be built from the input. The text gives the reason and the remedy."""

    exit_code = NOT_TRIED


def build_plans(
    release_id: str, model: str, bucket: str, endpoint_url: str | None, file: Path, trtexec: Sequence[str]
) -> None:
    """Print a Job for each version of a model and each kind of GPU of a stack. Raises NotBuilt."""
    settings = load_stack_file(file)
    if settings.models.plan_builder is None:
        raise NotBuilt(
            f"{file}: models.planBuilder is missing, so nothing may write plans into the bucket; add it, like "
            "{image: <mirror>/modelctl@sha256:<64 hex digits>}, and run pulumi up"
        )
    owner = stack_of_model_bucket(bucket)
    if owner not in (None, settings.stack):
        raise NotBuilt(
            f"{bucket} is the bucket of stack {owner}, and not of {settings.stack}; give that of {settings.stack}"
        )
    pools = kinds_of_gpu(settings, file)
    store = open_store(bucket, endpoint_url)
    manifest = catalog.finished(store, release_id, settings.models.signers)
    entry = manifest.models.get(model)
    if entry is None:
        near = did_you_mean(model, manifest.models)
        raise NotBuilt(f"release {release_id} has no model '{model}'; {near}it has {one_of(manifest.models)}")
    config = _config(store, manifest, model, settings.stack)
    said = arguments(model, config, tuple(trtexec))
    builds = []
    for version in (entry.version, *entry.others):
        onnx = _onnx(manifest, config, model, version)
        size = sum(one.bytes for key, one in manifest.objects.items() if key.startswith(f"{model}/{version}/"))
        for capability, (stack, pool) in pools.items():
            builds.append(
                Build(release_id, model, version, onnx, pool, capability, stack, manifest.download_bytes, size, said)
            )
    print(yaml.safe_dump_all([job(build, bucket) for build in builds], sort_keys=False), end="")
    remarks = progress(soft_wrap=True)
    for build in builds:
        where = f"on a node of pool {build.pool.name} (compute capability {build.capability})"
        remarks.print(f"{model} {build.version} {where} to s3://{bucket}/{build.key}", markup=False)


def put_plan(file: Path, key: str, bucket: str, endpoint_url: str | None) -> None:
    """Upload a plan next to the releases of a bucket; leave an existing one unchanged. Raises NotBuilt."""
    if not key.startswith(PLANS_PREFIX) or not {"", "..", "."}.isdisjoint(key.split("/")):
        raise NotBuilt(f"{key!r} is not the key of a plan, which is {PLANS_PREFIX}…/model.plan")
    try:
        known, built, size = is_plan(file), built_with(file), file.stat().st_size
    except OSError as error:
        raise NotBuilt(f"{file}: {error.strerror}; trtexec writes it") from None
    if not known:
        raise NotBuilt(f"{file}: is no plan, its first bytes are not those of TensorRT")
    if size < HEADER_BYTES:
        raise NotBuilt(f"{file}: is cut off after {size} bytes; build the plan again")
    if size > _LARGEST_PLAN:
        raise NotBuilt(f"{file}: {size} bytes are more than the {_LARGEST_PLAN} that S3 takes at once")
    store = open_store(bucket, endpoint_url)
    written = store.write_once(key, file)
    builder = f"TensorRT {built}" if built else "a TensorRT that its header does not tell"
    print(f"s3://{bucket}/{key}: {f'{size} bytes, built by {builder}' if written else 'was there, and stays'}")


def kinds_of_gpu(settings: Settings, file: Path) -> dict[str, tuple[Settings, GpuPool]]:
    """Return, by compute capability, the first pool with Triton pods, and its fleet's settings. Raises NotBuilt."""
    found: dict[str, tuple[Settings, GpuPool]] = {}
    for fleet in settings.each_fleet:
        pool = fleet.stack.triton_nodes
        if isinstance(pool, GpuPool) and fleet.stack.triton.gpus:
            for kind in {known.compute_capability for known in pool.types if known.compute_capability is not None}:
                found.setdefault(f"{kind:.1f}", (fleet.stack, pool))
    if not found:
        raise NotBuilt(f"{file}: Triton has no GPU of a known compute capability there, and a plan runs on a GPU alone")
    return dict(sorted(found.items()))


def _config(store: Store, manifest: Manifest, model: str, stack: str) -> ModelConfig:
    """Return the config with which the stack serves the model."""
    key = config_key(model, stack)
    key = key if key in manifest.objects else f"{model}/{CONFIG_FILE}"
    text = b"".join(store.chunks(manifest.id, key)).decode(errors="replace")
    config, problems = parse(Path(key), text)
    if config is None or problems:
        raise NotBuilt(f"release {manifest.id}: {problems[0]}")
    if (backend := backend_of(config)) != "onnxruntime":
        raise NotBuilt(
            f"{model} of release {manifest.id} is of {backend or 'no backend'}, and plans are built of ONNX models; "
            'release it with backend: "onnxruntime" first'
        )
    return config


def _onnx(manifest: Manifest, config: ModelConfig, model: str, version: int) -> str:
    """Return the key of the ONNX file. A model may be a directory that contains the file."""
    place = f"{model}/{version}/{model_file_of(config)}"
    for key in (place, f"{place}/model.onnx"):
        if key in manifest.objects:
            return key
    raise NotBuilt(f"release {manifest.id} has no {place}")
