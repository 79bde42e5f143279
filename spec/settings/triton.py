"""The inference server: `triton-eks:triton`."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from spec.settings.fields import Cpu, Name, ResourceName, TritonVersion, between
from spec.settings.section import Section

PodAutoscaler = Literal["none", "keda", "hpa"]


class Triton(Section):
    """The inference server. Its pods request `cpu`, `memoryGiB` and `gpus`, and are limited to the same."""

    guide: ClassVar[str] = "docs/serving.md"

    version: TritonVersion = Field(description='the NGC release of the image in quotes, like "26.07"')
    image: Name = Field(description="the image by digest, like <mirror>/nvidia/tritonserver@sha256:<64 hex digits>")
    pool: Name = Field(description="the GPU pool that its pods run on")
    gpus: Annotated[int, between(1, 8, "whole GPUs per pod")] = Field(description="whole GPUs per pod")
    replicas: Annotated[int, between(1, 1000, "pods")] | None = Field(
        default=None,
        description="the number of pods; required where nothing scales them (autoscaler: none), else forbidden",
    )
    autoscaler: PodAutoscaler | None = Field(
        default=None,
        description="who changes the number of pods: none, keda or hpa (a HorizontalPodAutoscaler); without it: keda where "
        "the section autoscaling is given, else none",
    )
    cpu: Cpu = Field(description='vCPUs per pod in quotes, like "3"')
    memory_gib: Annotated[int, between(1, 2048, "GiB")] = Field(description="memory per pod in GiB, like 12")
    response_cache_mib: Annotated[int, between(1, 1_048_576, "MiB")] | None = Field(
        default=None,
        description="host memory of each pod for the response cache in MiB, like 64; required where a model has "
        "responseCache, else forbidden",
    )
    rate_limiter_resources: dict[ResourceName, Annotated[int, between(1, 1_000_000, "of a resource")]] = Field(
        default_factory=dict,
        description="how much each pod has of each resource of the rate limiter, like {slots: 4}; required where a model "
        "has rateLimiter, else forbidden",
    )
    rollout: Literal["rolling", "in-place"] = Field(
        default="rolling",
        description="how a new release reaches the pods: by replacing them (rolling), or into the running ones (in-place)",
    )
