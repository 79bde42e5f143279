"""The server, its GPU pool and the Kubernetes version."""

import math
from collections.abc import Iterator

from spec.catalog import InstanceType
from spec.problem import Problem
from spec.settings.chart_values import CHART_DEFAULTS, PodValues, values_of
from spec.settings.fields import cpu_millis
from spec.settings.gpu import GpuPool, pool_name
from spec.settings.model import Document
from spec.settings.models import ModelAccess
from spec.settings.nodes import CPU_POOL_NAME, CpuPool
from spec.settings.relations.subject import Subject, nodes_of, of_each_fleet, pool_of
from spec.settings.rule import rule
from spec.settings.scheduling.packing import Room, room_of
from spec.settings.scheduling.pods import daemons
from spec.settings.section import Absent
from spec.settings.serving import ModelServing
from spec.versions import KUBERNETES, OLDEST_TRITON_WITHOUT_STARVATION, driver_key
from spec.wording import did_you_mean, one_of

# During a change, each of two served versions of a model is downloaded with both (docs/facts/triton-s3.md#copies).
_COPIES_IN_PLACE = 4
# The rotated logs of the container, as in the chart.
_LOGS_MIB = 256
_ON_DISK: tuple[ModelAccess, ...] = ("s3", "local")
# Requests/s. `modelctl release` derives a delay only if a batch of at least two fills within 1000 µs.
_LOWEST_RATE_WITH_DELAY = 1000
# Images use the same disk: Triton's 10 GB of layers and the 20 GB of unpacked files.
_IMAGES_GIB = 30


@rule
def _driver_runs_the_image(subject: Subject) -> Iterator[Problem]:
    """Require an AMI whose driver runs the image's CUDA."""
    release = subject.document.triton.ngc_release
    pins = KUBERNETES.get(subject.document.cluster.version)
    if pins and driver_key(pins.nvidia_driver) < driver_key(release.minimum_driver):
        yield Problem(
            "triton.version",
            f"CUDA {release.cuda} in {subject.document.triton.version} needs driver {release.minimum_driver} and the AMI "
            f"of Kubernetes {subject.document.cluster.version} has {pins.nvidia_driver}; raise its ami_release",
        )


@rule
def _batchers_do_not_starve(subject: Subject) -> Iterator[Problem]:
    """Refuse a queue delay with several instances before 26.08, because the batcher can stop dispatching
    (docs/facts/triton-configuration.md#releases).
    """
    version = subject.document.triton.version
    if version >= OLDEST_TRITON_WITHOUT_STARVATION:
        return
    for name, model in subject.document.models.serving.items():
        delay = model.max_queue_delay_us
        # Every model has a queue timeout.
        has_delay = delay > 0 if delay is not None else model.expected_rate >= _LOWEST_RATE_WITH_DELAY
        instances = subject.document.models.instances_of(name)
        if instances > 1 and has_delay:
            yield Problem(
                f"models.serving.{name}.maxQueueDelayUs",
                f"with a queue delay, a queue timeout and {instances} instances, the batcher of Triton {version} can "
                f'stop dispatching; use triton.version "{OLDEST_TRITON_WITHOUT_STARVATION}" or newer, or maxQueueDelayUs: 0',
            )


def starved(subject: Subject) -> list[Problem]:
    """Return the problems if the batchers of a stack could stop dispatching."""
    return list(_batchers_do_not_starve(subject))


@rule
@of_each_fleet
def _pool_exists(subject: Subject) -> Iterator[Problem]:
    """Require that the pool is in gpu.pools."""
    names = list(dict.fromkeys(pool.name for pool in subject.document.gpu.pools))
    wanted = subject.document.triton.pool
    if wanted == CPU_POOL_NAME and (subject.document.nodes.cpu is not None or subject.document.triton.gpus == 0):
        return  # reported by the rule about fleets without GPUs
    if wanted not in names:
        pools = (
            f"{did_you_mean(wanted, names)}use {one_of(names)}" if names else "add it to gpu.pools, or use cpu (nodes.cpu)"
        )
        yield Problem("triton.pool", f"there is no GPU pool '{wanted}'; {pools}")


@rule
@of_each_fleet
def _gpus_can_run_the_image(subject: Subject) -> Iterator[Problem]:
    """Require GPUs that the Triton release supports."""
    release = subject.document.triton.ngc_release
    _, types = pool_of(subject)
    for known in types:
        if known.compute_capability and known.compute_capability < release.minimum_compute_capability:
            yield Problem(
                "triton.pool",
                f"{known.name} has compute capability {known.compute_capability} and Triton needs "
                f"{release.minimum_compute_capability}; use a pool with newer GPUs",
            )


@rule
@of_each_fleet
def _gpus_are_on_a_node(subject: Subject) -> Iterator[Problem]:
    """Require no more GPUs per pod than a node of the pool has. A shared GPU allows exactly one share."""
    pool, types = pool_of(subject)
    gpus = subject.document.triton.gpus
    if not gpus:
        return  # reported by the rule about fleets without GPUs
    if pool.sharing.strategy != "exclusive":
        if gpus != 1:
            yield Problem(
                "triton.gpus",
                f"{gpus} shares of a GPU are no more than one (pool '{pool.name}' uses {pool.sharing.strategy}); use 1",
            )
        return
    smallest = min(types, key=lambda known: known.gpus)
    if gpus > smallest.gpus:
        yield Problem(
            "triton.gpus",
            f"{gpus} GPUs are more than a {smallest.name} of pool '{pool.name}' has; use at most {smallest.gpus}",
        )


@rule
@of_each_fleet
def _memory_fits_a_node(subject: Subject) -> Iterator[Problem]:
    """Require no more memory per pod than the kubelet and the add-ons leave on a node."""
    pool, types = nodes_of(subject)
    smallest = min(types, key=lambda known: known.allocatable_mib)
    beside = values_of(subject.document).beside
    limit = (_room(subject.document, smallest).free.mib - beside) // 1024
    wanted = subject.document.triton.memory_gib
    if wanted > limit:
        yield Problem(
            "triton.memoryGiB",
            f"{wanted} GiB are more than a {smallest.name} of pool '{pool.name}' has left beside the kubelet and the "
            f"add-ons{_containers(f'{beside} MiB', beside)}; use at most {max(limit, 0)}",
        )


@rule
@of_each_fleet
def _memory_holds_the_server(subject: Subject) -> Iterator[Problem]:
    """Require enough pod memory for /dev/shm, memory volumes, the server and the response cache."""
    triton = subject.document.triton
    values = values_of(subject.document)
    # Under MPS the pod uses the daemon's /dev/shm (docs/facts/gpu-nodes.md#shared-memory-under-mps).
    shared = 0 if _has_shm_of_mps(subject) else values.shm
    needed = shared + values.extra_memory + values.server + (triton.response_cache_mib or 0)
    if triton.memory_gib * 1024 < needed:
        cache = f", {values.extra_memory} MiB of volumes in memory (extraVolumes)" if values.extra_memory else ""
        cache += f", {triton.response_cache_mib} MiB of response cache" if triton.response_cache_mib else ""
        yield Problem(
            "triton.memoryGiB",
            f"{triton.memory_gib} GiB do not hold {shared} MiB of /dev/shm, {values.server} MiB for the "
            f"server{cache}; give {math.ceil(needed / 1024)} or more",
        )


@rule
@of_each_fleet
def _cpu_fits_a_node(subject: Subject) -> Iterator[Problem]:
    """Require no more vCPUs per pod than the kubelet and the add-ons leave on a node."""
    pool, types = nodes_of(subject)
    smallest = min(types, key=lambda known: known.allocatable_cpu_millis)
    beside = values_of(subject.document).beside_millis
    limit, wanted = _room(subject.document, smallest).free.millis - beside, subject.document.triton.cpu
    if cpu_millis(wanted) > limit:
        yield Problem(
            "triton.cpu",
            f"{wanted} vCPUs are more than a {smallest.name} of pool '{pool.name}' has left beside the kubelet and the "
            f'add-ons{_containers(f"{beside}m", beside)}; use at most "{max(limit, 0)}m"',
        )


def _containers(amount: str, beside: int) -> str:
    return f" and {amount} of the containers beside the server (helm-values/triton)" if beside else ""


@rule
@of_each_fleet
def _release_fits_a_node(subject: Subject) -> Iterator[Problem]:
    """Require node disks that hold all of a pod's copies of the release."""
    release = subject.document.models.release
    access = subject.document.models.access
    if release is None or access not in _ON_DISK:
        return
    pool, types = nodes_of(subject)
    smallest = min(types, key=lambda known: _disk_for_pods_gib(pool, known))
    triton, values = subject.document.triton, values_of(subject.document)
    limit = _disk_for_pods_gib(pool, smallest)
    wanted = _disk_of_a_pod_gib(subject.document)
    if wanted > limit:
        kept = pool.model_cache_gib if isinstance(pool, GpuPool) else None
        cache = f", {kept} GiB of modelCacheGiB" if kept is not None else ""
        number = _fetched_copies(triton.rollout) if access == "local" else _cache_copies(triton.rollout, values)
        copies = "one copy" if number == 1 else f"{number} copies"
        yield Problem(
            "models.release.bytes",
            f"{release.bytes} bytes make a pod ask for {wanted} GiB of disk (its cache holds {copies}) and a "
            f"{smallest.name} of pool '{pool.name}' has {limit} GiB left beside the kubelet{cache} and the images; "
            "use instance types with larger disks, or release fewer models",
        )


@rule
@of_each_fleet
def _replicas_fit_the_pool(subject: Subject) -> Iterator[Problem]:
    """Require nodes for all pods: the desired nodes, or with a node autoscaler the maximum."""
    pool, types = nodes_of(subject)
    if isinstance(pool, CpuPool):
        return  # they share these nodes with the workers, and another rule counts both
    per_node = min(pods_per_node(subject.document, pool, known) for known in types)
    path, pods = most_pods(subject)
    grows = subject.document.node_autoscaler != "none"
    key, nodes = ("max", pool.max) if grows else ("desired", pool.desired)
    room = nodes * per_node
    if per_node and pods > room:
        fewer = f", or use at most {room} replicas" if room else ""
        why = "" if grows else ", and nothing adds nodes by itself"
        yield Problem(
            path,
            f"{pods} pods do not fit the {nodes} {'nodes at most' if grows else 'desired nodes'} of pool '{pool.name}', "
            f"{per_node} on each{why}; raise the pool's {key} to {math.ceil(pods / per_node)}{fewer}",
        )


def most_pods(subject: Subject) -> tuple[str, int]:
    """Return the key and value of the maximum number of pods. Raises Absent if the stack file does not set it."""
    triton, autoscaling = subject.document.triton, subject.document.autoscaling
    if subject.document.pod_autoscaler != "none" and autoscaling is not None:
        return "autoscaling.maxReplicas", autoscaling.max_replicas
    if subject.document.pod_autoscaler == "none" and triton.replicas is not None:
        return "triton.replicas", triton.replicas
    raise Absent("triton.replicas")


def pods_per_node(document: Document, pool: GpuPool | CpuPool, known: InstanceType) -> int:
    """Return how many Triton pods fit on a node, by GPUs (or their shares), memory, CPU and disk."""
    triton, room, values = document.triton, _room(document, known), values_of(document)
    gpus = [known.gpus * pool.sharing.replicas // triton.gpus] if isinstance(pool, GpuPool) and triton.gpus else []
    return min(
        *gpus,
        room.free.mib // (triton.memory_gib * 1024 + values.beside),
        room.free.millis // (cpu_millis(triton.cpu) + values.beside_millis),
        room.pods,
        _disk_for_pods_gib(pool, known) // _disk_of_a_pod_gib(document),
    )


def _room(document: Document, known: InstanceType) -> Room:
    """Return the room on a node for Triton's pods."""
    return room_of([known], daemons(document, gpu=known.gpus > 0))


def _disk_for_pods_gib(pool: GpuPool | CpuPool, known: InstanceType) -> int:
    kept = pool.model_cache_gib or 0 if isinstance(pool, GpuPool) else 0
    return known.allocatable_disk_gib(pool.disk_gib) - _IMAGES_GIB - kept


def _has_shm_of_mps(subject: Subject) -> bool:
    wanted = subject.document.triton.pool
    return any(pool_name(pool) == wanted and pool.sharing.strategy == "mps" for pool in subject.document.gpu.pools)


def _cache_copies(rollout: str, values: PodValues) -> int:
    return values.cache_copies * (_COPIES_IN_PLACE if rollout == "in-place" else 1)


def _fetched_copies(rollout: str) -> int:
    return 2 if rollout == "in-place" else 1  # `triton.fetchedCopies`


def _disk_of_a_pod_gib(document: Document) -> int:
    models = document.models
    release_bytes = models.release.bytes if models.release is not None else 0
    values = values_of(document)
    return pod_disk_gib(release_bytes, document.triton.rollout, access=models.access, values=values)


def pod_disk_gib(
    release_bytes: int,
    rollout: str = "rolling",
    *,
    access: ModelAccess = "s3",
    values: PodValues = CHART_DEFAULTS,
) -> int:
    """Return the ephemeral storage request of a pod in whole GiB (`triton.ephemeralMebibytes` in charts/triton)."""
    others = values.tmp + values.extra_disk + _LOGS_MIB
    if access not in _ON_DISK:
        return math.ceil(others / 1024)
    if rollout == "in-place":
        release_bytes = 1 << (release_bytes - 1).bit_length() if release_bytes else 0  # `triton.releaseBytes`
    if access == "local":
        copies = math.ceil(release_bytes * _fetched_copies(rollout) / 1024**2)
        return math.ceil((values.smallest_cache + copies + others) / 1024)
    cache_mib = max(values.smallest_cache, math.ceil(release_bytes * _cache_copies(rollout, values) / 1024**2))
    return math.ceil((cache_mib + others) / 1024)


def instances_per_pod(document: Document, model: str, wants: ModelServing) -> int:
    """Return the instances of a model in one pod. On GPUs `instances` are per GPU, unless the model places itself."""
    release = document.models.release
    each = wants.device == "gpu" and (release is None or model not in release.self_placed)
    return document.models.instances_of(model) * (document.triton.gpus if each else 1)
