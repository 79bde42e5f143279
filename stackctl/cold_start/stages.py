"""Define the stages of a pod's start, each with its assumed seconds.

The pace of autoscaling uses these seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from spec.prometheus.timing import NODE_START_SECONDS, timing
from spec.settings import Settings

NODE, VOLUMES, IMAGE, MODELS = "node", "volumes", "image", "models"


@dataclass(frozen=True)
class Stage:
    """A stage of a start: name, assumed seconds, reason, and way to shorten it.

    `counted` is None if it is unknown without a measurement.
    """

    name: str
    counted: int | None
    why: str
    shorter: str


def stages(settings: Settings) -> list[Stage]:
    """Return the stages of a start, in their order. `settings`: the stack as one fleet has it."""
    return [_node(settings), _volumes(settings), _image(), _models(settings)]


def _node(settings: Settings) -> Stage:
    bounds = settings.autoscaling
    if settings.node_autoscaler == "none":
        return Stage(NODE, 0, "nodes are always there (nodes.autoscaler: none)", "nothing to gain")
    if bounds is not None and bounds.warm_pods:
        why = f"assumed; nothing while autoscaling.warmPods ({bounds.warm_pods}) hold a node for the pod"
        return Stage(NODE, NODE_START_SECONDS, why, "more autoscaling.warmPods, for more pods at once")
    return Stage(NODE, NODE_START_SECONDS, "assumed, until one has joined that has room", "autoscaling.warmPods")


def _volumes(settings: Settings) -> Stage:
    release = settings.models.release
    if settings.models.access != "local" or release is None:
        return Stage(
            VOLUMES,
            0,
            f"models.access: {settings.models.access} fetches nothing before the server starts",
            "nothing to gain",
        )
    why = f"at most, for the {release.bytes:,} bytes of the release (startup.bytesPerSecond)"
    return Stage(VOLUMES, timing(settings).fetch, why, "modelCacheGiB of the pool, where a node has more than one pod")


def _image() -> Stage:
    return Stage(
        IMAGE,
        None,
        # docs/facts/gpu-nodes.md#parallel-image-pulls
        "not counted, nor measured: AWS gives 4 to 6 minutes for 15 to 20 GB, and the image has some 10",
        "imagePull: soci of the pool; a mirror in ECR of the region (stackctl image --mirror)",
    )


def _models(settings: Settings) -> Stage:
    limit = timing(settings)
    count = len(settings.models.release.models) if settings.models.release is not None else 0
    work = "load and warm" if settings.models.access == "local" else "fetch, load and warm"
    why = f"at most, to {work} {f'{count} models' if count else 'the models'}: the limit of the startup probe"
    return Stage(
        MODELS, limit.start - limit.fetch, why, "fewer models per fleet (fleets); startup.secondsPerModel as measured"
    )
