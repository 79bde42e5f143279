"""A whole stack file as sections (pydantic, frozen, nothing extra), and the settings that passed every check.

Keys are camelCase in YAML and snake_case here. A description says what a key is: it is shown when the key is missing, in the
reference (docs/stack-file.md) and by editors (spec/stack-file.schema.json).
"""

from typing import Annotated, Literal

from pydantic import Field

from spec import names
from spec.settings.autoscaling import Autoscaling
from spec.settings.cluster import Cluster
from spec.settings.cost import CostLimits
from spec.settings.fields import AccountId, Region, TagKey, TagValue
from spec.settings.gateway import Gateway
from spec.settings.gpu import Gpu, GpuPool
from spec.settings.models import Models
from spec.settings.monitoring import Monitoring
from spec.settings.network import Network
from spec.settings.nodes import NodeAutoscaler, Nodes
from spec.settings.problem import Problem
from spec.settings.section import Section
from spec.settings.tracing import Tracing
from spec.settings.triton import PodAutoscaler, Triton
from spec.settings.worker import Worker

PROTECTED_ENVIRONMENTS = ("dev", "staging", "prod")
"""All but `local`, the twin's: where cluster, VPC, KMS keys and model bucket are protected, unless the stack file says
`allowDestroy: true`."""


class DefaultTags(Section):
    """The tags that the AWS provider puts on every resource."""

    tags: dict[TagKey, TagValue] = Field(description="the same tags as in triton-eks:tags")


class Document(Section):
    """A whole stack file, as far as this program reads it."""

    region: Region = Field(alias="aws:region", description="the AWS region, like us-west-2")
    allowed_account_ids: Annotated[tuple[AccountId, ...], Field(min_length=1)] | None = Field(
        default=None,
        alias="aws:allowedAccountIds",
        description="the AWS accounts that may be deployed to, each in quotes; without it: whichever the credentials are of",
    )
    default_tags: DefaultTags | None = Field(
        default=None,
        alias="aws:defaultTags",
        description="the tags that the AWS provider puts on every resource; without it: only resources that this program "
        "tags itself have them",
    )
    environment: Literal["local", "dev", "staging", "prod"] = Field(description="local, dev, staging or prod")
    tags: dict[TagKey, TagValue] = Field(description="tags of every resource, with owner and cost-center")
    allow_destroy: bool = Field(
        default=False,
        description="whether cluster, VPC, KMS keys and model bucket may be deleted and replaced; without it they are "
        "protected in dev, staging and prod",
    )
    network: Network = Field(description="the VPC")
    cluster: Cluster = Field(description="the EKS control plane")
    nodes: Nodes = Field(description="the node groups without GPUs")
    gpu: Gpu = Field(description="the GPU node groups")
    models: Models = Field(description="where models come from")
    triton: Triton = Field(description="the inference server")
    monitoring: Monitoring | None = Field(
        default=None,
        description="Prometheus, Alertmanager, Grafana and the GPUs' exporter; without it: nothing watches the platform",
    )
    autoscaling: Autoscaling | None = Field(
        default=None,
        description="the bounds within which the number of Triton's pods follows the load; without it: triton.replicas is "
        "the number",
    )
    gateway: Gateway | None = Field(
        default=None,
        description="Envoy behind a network load balancer; without it: clients inside the VPC balance their requests "
        "themselves",
    )
    tracing: Tracing | None = Field(
        default=None, description="traces of requests, and where they go; without it: there are none"
    )
    worker: Worker | None = Field(
        default=None,
        description="the request queue and the workers that answer from it; without it: neither",
    )
    cost: CostLimits | None = Field(
        default=None, description="a monthly budget and an alarm for unusual costs; without it: neither"
    )

    @property
    def pod_autoscaler(self) -> PodAutoscaler:
        """Return who owns the number of Triton's pods: KEDA where the stack gives bounds and names no other."""
        return self.triton.autoscaler or ("keda" if self.autoscaling is not None else "none")

    @property
    def node_autoscaler(self) -> NodeAutoscaler:
        """Return who starts nodes: Karpenter where pods are scaled, unless the stack names another.

        None where the number of pods is fixed: then `desired` says how many nodes they need.
        """
        return self.nodes.autoscaler or ("none" if self.pod_autoscaler == "none" else "karpenter")


class Settings(Document):
    """A stack file that passed every check. `warnings`: what works today and should be changed soon."""

    warnings: tuple[Problem, ...] = ()

    @property
    def cluster_name(self) -> str:
        """Return the name of the EKS cluster, which is the prefix of what other systems address by name."""
        return names.cluster_name(self.environment)

    @property
    def disposable(self) -> bool:
        """Return whether a bucket goes with its objects: where the stack may be destroyed."""
        return not self.protected

    @property
    def protected(self) -> bool:
        """Return whether cluster, VPC, KMS keys and model bucket can neither be deleted nor replaced."""
        return self.environment in PROTECTED_ENVIRONMENTS and not self.allow_destroy

    @property
    def fewest_pods(self) -> int:
        """Return how many pods of Triton there are at least, whoever owns their number."""
        if self.triton.replicas is not None:
            return self.triton.replicas
        return self.autoscaling.min_replicas if self.autoscaling is not None else 1

    @property
    def triton_pool(self) -> GpuPool:
        """Return the GPU pool that Triton's pods run on."""
        return next(pool for pool in self.gpu.pools if pool.name == self.triton.pool)
