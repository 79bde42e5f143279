"""The shape of a stack file: sections, keys, types and ranges of single values (pydantic, frozen, nothing extra).

Keys are camelCase in YAML and snake_case here. A description says what a key is; it is shown when the key is missing.
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from spec import names
from spec.settings.autoscaling import Autoscaling
from spec.settings.cost import CostLimits
from spec.settings.fields import (
    AccountId,
    Cidr,
    Cpu,
    DnsLabel,
    Endpoint,
    KubernetesVersion,
    LogRetention,
    ModelName,
    Name,
    Region,
    ReleaseId,
    ReservationId,
    ResourceName,
    RoleArn,
    ServingDigest,
    TagKey,
    TagValue,
    TritonVersion,
    Zones,
    between,
    refuse,
)
from spec.settings.fsx import Fsx
from spec.settings.gateway import Gateway
from spec.settings.monitoring import Monitoring
from spec.settings.problem import Problem, describe
from spec.settings.section import Section
from spec.settings.serving import ModelServing
from spec.settings.tracing import Tracing
from spec.settings.worker import Worker

PROTECTED_ENVIRONMENTS = ("dev", "staging", "prod")
"""All but `local`, the twin's: where cluster, VPC, KMS keys and model bucket are protected, unless the stack file says
`allowDestroy: true`."""

GroupMin = Annotated[int, between(0, 450, "nodes")]
GroupMax = Annotated[int, between(1, 450, "nodes")]
InstanceTypes = Annotated[tuple[Name, ...], Field(min_length=1)]
PodAutoscaler = Literal["none", "keda", "hpa"]
NodeAutoscaler = Literal["none", "karpenter", "cluster-autoscaler"]


class DefaultTags(Section):
    """What the AWS provider puts on every resource."""

    tags: dict[TagKey, TagValue] = Field(description="the same tags as in triton-eks:tags")


class Network(Section):
    """The VPC."""

    cidr: Cidr = Field(description="the address range of the VPC, /16 to /20, like 10.40.0.0/16")
    zones: Zones = Field(description="how many availability zones (2 to 4), or a list of their names")
    nat: Literal["none", "single", "per_az"] = Field(description="NAT gateways: none, single or per_az")
    endpoints: Literal["none", "minimal", "full"] = Field(description="interface endpoints: none, minimal or full")
    flow_log_retention_days: LogRetention = Field(description="days that VPC flow logs are kept, like 90")


class Cluster(Section):
    """The EKS control plane."""

    version: KubernetesVersion = Field(description='the Kubernetes minor version in quotes, like "1.35"')
    endpoint: Literal["private", "public"] = Field(description="the API endpoint: private or public")
    public_access_cidrs: tuple[Cidr, ...] = ()
    admin_role_arns: Annotated[tuple[RoleArn, ...], Field(min_length=1)] = Field(
        description="the IAM roles that administer the cluster"
    )
    deletion_protection: bool = Field(description="true or false")
    log_retention_days: LogRetention = Field(description="days that control-plane logs are kept, like 365")


SYSTEM_GROUP_NAME = "system"
"""What the system group is called among node groups: in names, tags and node labels."""


class SystemGroup(Section):
    """The node group of cluster services: no GPU, no taint."""

    instance_types: InstanceTypes = Field(description="a list like [m7i.large]")
    min: GroupMin = Field(description="the smallest number of nodes")
    desired: GroupMin = Field(description="the number of nodes")
    max: GroupMax = Field(description="the largest number of nodes")
    disk_gib: Annotated[int, between(20, 16384, "GiB")] = Field(description="the root volume in GiB, like 50")


class Nodes(Section):
    """Node groups without GPUs, and who changes the number of nodes (`autoscaler`; None: see `node_autoscaler`)."""

    system: SystemGroup = Field(description="the node group of cluster services")
    autoscaler: NodeAutoscaler | None = None


class Sharing(Section):
    """How the pods of a node share one GPU. `replicas`: how many pods one physical GPU is offered to.

    `profile`: of MIG, which cuts a GPU into instances with memory of their own, like 1g.10gb.
    """

    strategy: Literal["exclusive", "time-slicing", "mps", "mig"] = Field(description="time-slicing, mps or mig")
    replicas: Annotated[int, between(1, 48, "pods per GPU")] = Field(description="how many pods share one GPU, 2 to 48")
    profile: Name | None = None


EXCLUSIVE = Sharing.model_construct(strategy="exclusive", replicas=1, profile=None)


def _sharing(value: Any) -> Any:
    """`exclusive` is short for one pod per GPU."""
    if value == "exclusive":
        return {"strategy": "exclusive", "replicas": 1}
    if not isinstance(value, dict):
        ways = "{strategy: time-slicing, replicas: 4} (or mps), or {strategy: mig, profile: 1g.10gb, replicas: 7}"
        refuse(f"{describe(value)}; use exclusive, {ways}")
    return value


class GpuPool(Section):
    """One GPU node group. `zones` None: every zone of the network."""

    name: DnsLabel = Field(description="a name that is unique among the pools")
    instance_types: InstanceTypes = Field(description="a list like [g5.xlarge]")
    capacity: Literal["on-demand", "spot", "reservation", "capacity-block"] = Field(
        description="on-demand, spot, reservation or capacity-block"
    )
    min: GroupMin = Field(description="the smallest number of nodes")
    desired: GroupMin = Field(description="the number of nodes")
    max: GroupMax = Field(description="the largest number of nodes")
    disk_gib: Annotated[int, between(100, 16384, "GiB (the Triton image alone unpacks to more than 20)")] = Field(
        description="the root volume in GiB, like 200"
    )
    zones: Annotated[tuple[Name, ...], Field(min_length=1)] | None = None
    sharing: Annotated[Sharing, BeforeValidator(_sharing)] = EXCLUSIVE
    reservation_id: ReservationId | None = None
    efa: bool = False


class Gpu(Section):
    """GPU node groups."""

    pools: Annotated[tuple[GpuPool, ...], Field(min_length=1)] = Field(description="a list of GPU pools")


_Version = Annotated[int, between(1, 999_999_999, "for a version")]


class Release(Section):
    """The model release that Triton serves: an immutable prefix of the bucket.

    `bytes`: what a pod downloads, the sum of its objects where each model has one version. `models`: the version that
    answers requests which name none; `others`: the lower ones that are served beside it. `serving`: the digest of the wants
    that its configs were made from (`serving_digest`), None where the stack has none. `previous`: the release that this one
    replaced, to which `modelctl rollback` returns.
    """

    id: ReleaseId = Field(description="the id that `modelctl release` printed")
    bytes: Annotated[int, between(1, 10**15, "bytes")] = Field(description="the sum of the object sizes")
    models: Annotated[dict[ModelName, _Version], Field(min_length=1)] = Field(
        description="the models and the version of each, like {resnet50: 1}"
    )
    others: dict[ModelName, Annotated[tuple[_Version, ...], Field(min_length=1)]] = Field(default_factory=dict)
    serving: ServingDigest | None = None
    previous: ReleaseId | None = None


ModelAccess = Literal["s3", "mountpoint", "fsx-lustre"]


class Models(Section):
    """Where models come from, and what is wanted of each (`serving`, by model name).

    `access`: how pods read a release. `s3`: Triton copies it to their disks. `mountpoint`: it is mounted from the bucket.
    `fsx-lustre`: it is mounted from a file system (`fsx`) that reads the bucket.
    `release` None: the platform without Triton, before the first `modelctl release`.
    """

    access: ModelAccess = "s3"
    fsx: Fsx | None = None
    s3_endpoint: Endpoint | None = None
    old_release_days: Annotated[int, between(1, 3650, "days")] = Field(
        description="days that objects of deleted releases are kept, like 90"
    )
    serving: dict[ModelName, ModelServing] = Field(default_factory=dict)
    release: Release | None = None


class Triton(Section):
    """The inference server. `gpus` are whole GPUs (or shares of one) per pod; `cpu` and `memory_gib` request = limit.

    `response_cache_mib` is host memory of each pod, `rate_limiter_resources` is what each pod has of a resource.
    `autoscaler` owns the number of pods: with `none` it is `replicas`, else `triton-eks:autoscaling` bounds it; which one it
    is where the stack does not say, `pod_autoscaler` decides.
    `rollout`: how a new release reaches the pods, by replacing them (`rolling`) or into the running ones (`in-place`).
    """

    version: TritonVersion = Field(description='the NGC release of the image in quotes, like "26.07"')
    image: Name = Field(description="the image by digest, like <mirror>/nvidia/tritonserver@sha256:<64 hex digits>")
    pool: Name = Field(description="the GPU pool that its pods run on")
    gpus: Annotated[int, between(1, 8, "whole GPUs per pod")] = Field(description="whole GPUs per pod")
    replicas: Annotated[int, between(1, 1000, "pods")] | None = None
    autoscaler: PodAutoscaler | None = None
    cpu: Cpu = Field(description='vCPUs per pod in quotes, like "3"')
    memory_gib: Annotated[int, between(1, 2048, "GiB")] = Field(description="memory per pod in GiB, like 12")
    response_cache_mib: Annotated[int, between(1, 1_048_576, "MiB")] | None = None
    rate_limiter_resources: dict[ResourceName, Annotated[int, between(1, 1_000_000, "of a resource")]] = Field(
        default_factory=dict
    )
    rollout: Literal["rolling", "in-place"] = "rolling"


class Document(Section):
    """A whole stack file, as far as this program reads it.

    `allowed_account_ids`: the AWS provider refuses every other account. `allow_destroy`: cluster, VPC, KMS keys and model
    bucket may be deleted and replaced (`Settings.protected`).
    """

    region: Region = Field(alias="aws:region", description="the AWS region, like us-west-2")
    allowed_account_ids: Annotated[tuple[AccountId, ...], Field(min_length=1)] | None = Field(
        default=None, alias="aws:allowedAccountIds"
    )
    default_tags: DefaultTags | None = Field(default=None, alias="aws:defaultTags")
    environment: Literal["local", "dev", "staging", "prod"] = Field(description="local, dev, staging or prod")
    tags: dict[TagKey, TagValue] = Field(description="tags of every resource, with owner and cost-center")
    allow_destroy: bool = False
    network: Network = Field(description="the VPC")
    cluster: Cluster = Field(description="the EKS control plane")
    nodes: Nodes = Field(description="the node groups without GPUs")
    gpu: Gpu = Field(description="the GPU node groups")
    models: Models = Field(description="where models come from")
    triton: Triton = Field(description="the inference server")
    monitoring: Monitoring | None = None
    autoscaling: Autoscaling | None = None
    gateway: Gateway | None = None
    tracing: Tracing | None = None
    worker: Worker | None = None
    cost: CostLimits | None = None

    @property
    def pod_autoscaler(self) -> PodAutoscaler:
        """Who owns the number of Triton's pods: KEDA where the stack gives bounds and names no other."""
        return self.triton.autoscaler or ("keda" if self.autoscaling is not None else "none")

    @property
    def node_autoscaler(self) -> NodeAutoscaler:
        """Who starts nodes: Karpenter where pods are scaled, unless the stack names another.

        None where the number of pods is fixed: then `desired` says how many nodes they need.
        """
        return self.nodes.autoscaler or ("none" if self.pod_autoscaler == "none" else "karpenter")


class Settings(Document):
    """A stack file that passed every check. `warnings`: what works today and should be changed soon."""

    warnings: tuple[Problem, ...] = ()

    @property
    def cluster_name(self) -> str:
        """Name of the EKS cluster, and prefix of what other systems address by name."""
        return names.cluster_name(self.environment)

    @property
    def disposable(self) -> bool:
        """Whether a bucket goes with its objects: where the stack may be destroyed."""
        return not self.protected

    @property
    def protected(self) -> bool:
        """Cluster, VPC, KMS keys and model bucket can neither be deleted nor replaced."""
        return self.environment in PROTECTED_ENVIRONMENTS and not self.allow_destroy

    @property
    def fewest_pods(self) -> int:
        """Pods of Triton that there are at least, whoever owns their number."""
        if self.triton.replicas is not None:
            return self.triton.replicas
        return self.autoscaling.min_replicas if self.autoscaling is not None else 1

    @property
    def triton_pool(self) -> GpuPool:
        """The GPU pool that Triton's pods run on."""
        return next(pool for pool in self.gpu.pools if pool.name == self.triton.pool)
