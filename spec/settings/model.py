"""A whole stack file as sections (pydantic, frozen, without extra keys), and settings that passed every check.

Keys are camelCase in YAML and snake_case here. A field's description appears in three places: the message for a missing key,
the reference (docs/stack-file.md), and editors (spec/stack-file.schema.json).
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import date
from typing import Annotated, ClassVar, Literal, TypeVar

from pydantic import Field

from spec import names
from spec.catalog import INSTANCE_TYPES
from spec.charts import CLUSTER_AUTOSCALER, DCGM_EXPORTER, KARPENTER, KARPENTER_CRDS, KEDA, PROMETHEUS_ADAPTER, ChartPin
from spec.problem import Problem
from spec.settings.autoscaling import Autoscaling
from spec.settings.blue_green import is_blue_green, slots
from spec.settings.charts import Charts
from spec.settings.cluster import Cluster
from spec.settings.cost import CostLimits
from spec.settings.fields import MOST_TAGS, AccountId, Region, TagKey, TagValue
from spec.settings.fleets import Fleet, FleetKeys, seen_by
from spec.settings.gateway import Gateway
from spec.settings.gpu import Gpu, GpuPool
from spec.settings.instance_types import InstanceFacts, InstanceTypeName
from spec.settings.logs import Logs
from spec.settings.models import Models
from spec.settings.monitoring import Monitoring
from spec.settings.network import Network
from spec.settings.nodes import CPU_POOL_NAME, CpuPool, NodeAutoscaler, Nodes
from spec.settings.rule import Place, rule, warning
from spec.settings.section import Absent, Section
from spec.settings.tracing import Tracing
from spec.settings.triton import PodAutoscaler, Triton, owner_of_pods
from spec.settings.worker import Worker
from spec.stack_names import mistake_about_environment, mistakes_in_name

PROTECTED_ENVIRONMENTS = ("dev", "staging", "prod")
"""All environments but `local`, the twin's. In these, cluster, VPC, KMS keys and model bucket are protected unless the stack
file has `allowDestroy: true`.
"""

REQUIRED_TAGS = ("owner", "cost-center")

_Document = TypeVar("_Document", bound="Document")


class DefaultTags(Section):
    """The tags that the AWS provider sets on every resource."""

    tags: dict[TagKey, TagValue] = Field(description="the same tags as in triton-eks:tags")

    @rule
    def _tags_differ_by_more_than_case(self, at: Place) -> Iterator[Problem]:
        """Refuse two keys that differ only in case."""
        yield from _alike(at, self.tags)


def _alike(at: Place, tags: Mapping[str, str]) -> Iterator[Problem]:
    """Refuse two keys that differ only in case: IAM refuses them too, and Cost Explorer has one column for each."""
    found: dict[str, list[str]] = {}
    for key in tags:
        found.setdefault(key.casefold(), []).append(key)
    for keys in found.values():
        if len(keys) > 1:
            yield at.problem("tags", f"{' and '.join(keys)} differ in case alone, which IAM refuses; keep one of them")


class Document(Section):
    """A whole stack file, with all keys that this program reads."""

    guide: ClassVar[str] = "docs/aws.md#a-stack-file-of-your-own"

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
    environment: Literal["local", "dev", "staging", "prod"] = Field(
        description="what the stack is: local, dev, staging or prod; there may be several of each, each with its own name"
    )
    tags: dict[TagKey, TagValue] = Field(description="tags of every resource, with owner and cost-center")
    allow_destroy: bool = Field(
        default=False,
        description="whether cluster, VPC, KMS keys and model bucket may be deleted and replaced; without it they are "
        "protected in dev, staging and prod",
    )
    permissions_boundary: bool = Field(
        default=True,
        description="whether the stack's IAM roles have the permissions boundary that `make state` creates; with false, "
        "GitHub's workflows cannot deploy the stack",
    )
    network: Network = Field(description="the VPC")
    cluster: Cluster = Field(description="the EKS control plane")
    instance_types: dict[InstanceTypeName, InstanceFacts] = Field(
        default_factory=dict,
        description="by name, types of EC2 that spec/catalog.py lacks, as `aws ec2 describe-instance-types` has them",
    )
    nodes: Nodes = Field(description="the node groups without GPUs")
    gpu: Gpu = Field(
        default_factory=Gpu.none,
        description="the GPU node groups; without it: no node has a GPU, and Triton runs on nodes.cpu",
    )
    models: Models = Field(description="where models come from")
    triton: Triton = Field(description="the inference server")
    monitoring: Monitoring | None = Field(
        default=None,
        description="Prometheus, Alertmanager, Grafana and the GPUs' exporter; without it: nothing watches the platform",
    )
    logs: Logs | None = Field(
        default=None,
        description="the logs of containers in CloudWatch; without it: a container's log ends with its pod, or its node",
    )
    autoscaling: Autoscaling | None = Field(
        default=None,
        description="the bounds within which the number of Triton's pods follows the load; without it: triton.replicas is "
        "the number",
    )
    fleets: Annotated[tuple[FleetKeys, ...], Field(min_length=1)] | None = Field(
        default=None,
        description="a list of fleets of Triton, each with its models, pool and number of pods; without it: one fleet, as "
        "triton and autoscaling say, that serves every model",
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
    charts: Charts | None = Field(
        default=None,
        description="a registry of yours that has the third-party charts; without it: each comes from its own project's",
    )
    cost: CostLimits | None = Field(
        default=None, description="a monthly budget and an alarm for unusual costs; without it: neither"
    )

    def complete(self) -> None:
        """Add values derived from several valid keys: descriptions of node types, and the steps of pipelines."""
        self._describe_types()
        with suppress(Absent):
            self.__dict__["models"] = self.models.with_release(self.models.release)

    def _describe_types(self) -> None:
        """Pass the types that this file describes to the node groups, if both are valid."""
        found = {}
        for name, facts in self.__dict__.get("instance_types", {}).items():
            if name not in INSTANCE_TYPES:
                with suppress(Absent):
                    found[name] = facts.as_type(name)
        nodes, gpu = self.__dict__.get("nodes"), self.__dict__.get("gpu")
        own = [nodes.__dict__.get(key) for key in ("system", "cpu")] if nodes is not None else []
        for group in (*own, *(gpu.__dict__.get("pools", ()) if gpu is not None else ())):
            if group is not None:
                group.describe(found)

    @property
    def each_fleet(self: _Document) -> tuple[Fleet[_Document], ...]:
        """Return the fleets of Triton, each with the stack as if the fleet were its only one.

        Without `fleets` there is one fleet or, with `rollout: blue-green`, one for the release and one for a candidate.
        """
        if self.fleets is None:
            return slots(self) if is_blue_green(self) else (Fleet(self),)
        found = tuple(
            Fleet(seen_by(keys, self), keys.__dict__.get("name", ""), keys, index) for index, keys in enumerate(self.fleets)
        )
        # All fleets share one node autoscaler: Karpenter by default if any fleet is scaled.
        with suppress(Absent):
            nodes = self.nodes.model_copy(update={"autoscaler": self.node_autoscaler})
            for fleet in found:
                fleet.stack.__dict__["nodes"] = nodes
        return found

    @property
    def pod_autoscaler(self) -> PodAutoscaler:
        """Return the owner of the number of Triton pods: KEDA if the stack has bounds and names no other.

        With several fleets, return the autoscaler of the scaled ones, which is the same for all of them.
        """
        if self.fleets is None:
            return owner_of_pods(self.triton.autoscaler, self.autoscaling)
        owners = [seen_by(keys, self).pod_autoscaler for keys in self.fleets]
        return next((owner for owner in owners if owner != "none"), "none")

    @property
    def node_autoscaler(self) -> NodeAutoscaler:
        """Return the component that starts nodes: Karpenter if pods are scaled, unless the stack names another.

        `none` if the number of pods is fixed: then `desired` is the number of nodes for them.
        """
        return self.nodes.autoscaler or ("none" if self.pod_autoscaler == "none" else "karpenter")

    @property
    def charts_by_key(self) -> Mapping[str, tuple[ChartPin, ...]]:
        """Return the third-party charts that the stack installs, by the key that requires them.

        Each section lists its own charts; charts that depend on several sections are added here.
        """
        given = {key: self.__dict__.get(key) for key in type(self).model_fields}
        found = {key: section.installs for key, section in given.items() if isinstance(section, Section)}
        if self.monitoring is not None and self.gpu.pools:
            found["monitoring"] += (DCGM_EXPORTER,)
        if self.pod_autoscaler != "none":
            found["triton.autoscaler"] = (KEDA if self.pod_autoscaler == "keda" else PROMETHEUS_ADAPTER,)
        if self.worker is not None and self.worker.pod_autoscaler == "keda" and self.pod_autoscaler != "keda":
            found["worker.autoscaler"] = (KEDA,)
        if self.node_autoscaler != "none":
            karpenter = self.node_autoscaler == "karpenter"
            found["nodes.autoscaler"] = (KARPENTER, KARPENTER_CRDS) if karpenter else (CLUSTER_AUTOSCALER,)
        return found

    @property
    def installed_charts(self) -> tuple[ChartPin, ...]:
        """Return the third-party charts that the stack installs."""
        return tuple(chart for charts in self.charts_by_key.values() for chart in charts)

    @property
    def woken_at_gateway(self) -> bool:
        """Return whether a request at the gateway starts the first pod (minReplicas: 0). Prometheus counts these
        requests."""
        bounds = self.autoscaling
        return bounds is not None and bounds.min_replicas == 0 and self.gateway is not None and self.monitoring is not None

    @rule
    def _environment_is_what_the_name_says(self, at: Place) -> Iterator[Problem]:
        """Require the environment that the stack's name contains, if it contains one (`prod`, `prod-eu`)."""
        mistake = mistake_about_environment(at.stack, self.environment)
        if mistake is not None:
            yield at.problem("environment", mistake)

    @rule
    def _name_fits(self, at: Place) -> Iterator[Problem]:
        """Require a stack name from which all resource names comply with the rules and lengths of AWS."""
        for mistake in mistakes_in_name(at.stack, self.region):
            yield Problem("the name of the stack", mistake)

    @rule
    def _tags_say_who_pays(self, at: Place) -> Iterator[Problem]:
        """Require the tags owner and cost-center."""
        for key in REQUIRED_TAGS:
            if key not in self.tags:
                yield at.problem("tags", f"'{key}' is missing; every resource is tagged with {' and '.join(REQUIRED_TAGS)}")

    @rule
    def _tags_are_not_too_many(self, at: Place) -> Iterator[Problem]:
        """Refuse more than 40 tags: AWS allows 50, and other components need some."""
        if len(self.tags) > MOST_TAGS:
            yield at.problem(
                "tags",
                f"{len(self.tags)} tags are too many; AWS takes 50 of a resource, and those of the program, EKS and "
                f"Karpenter are among them: give at most {MOST_TAGS}",
            )

    @rule
    def _accounts_are_distinct(self, at: Place) -> Iterator[Problem]:
        """Require each account once."""
        accounts = self.allowed_account_ids or ()
        for index, account in enumerate(accounts):
            if account in accounts[:index]:
                yield at.problem(f"aws:allowedAccountIds[{index}]", f"{account} is listed twice; list each account once")

    @rule
    def _tags_differ_by_more_than_case(self, at: Place) -> Iterator[Problem]:
        """Refuse two tags whose keys differ only in case."""
        yield from _alike(at, self.tags)

    @rule
    def _default_tags_are_the_tags(self, at: Place) -> Iterator[Problem]:
        """Require the same tags in aws:defaultTags and triton-eks:tags."""
        if self.default_tags is None or self.default_tags.tags == self.tags:
            return
        given = self.default_tags.tags
        differing = sorted(key for key in self.tags.keys() | given.keys() if self.tags.get(key) != given.get(key))
        yield at.problem(
            "aws:defaultTags.tags", f"{', '.join(differing)} differ from triton-eks:tags; give the same tags in both"
        )

    @rule
    def _only_what_is_protected_may_be_let_go(self, at: Place) -> Iterator[Problem]:
        """Refuse allowDestroy in an environment without protection."""
        if self.allow_destroy and self.environment not in PROTECTED_ENVIRONMENTS:
            yield at.problem("allowDestroy", f"nothing in '{at.stack}' is protected; leave the key out")

    @warning
    def _protection_is_off(self, at: Place) -> Iterator[Problem]:
        """Warn that allowDestroy turns off all protection."""
        if self.allow_destroy and self.environment in PROTECTED_ENVIRONMENTS:
            yield at.problem(
                "allowDestroy",
                f"cluster, VPC, KMS keys and model bucket of '{at.stack}' are not protected, as it should be of a stack for "
                "trying things and before something is deleted or replaced; otherwise remove the key",
            )


class Settings(Document):
    """A stack file that passed every check. `warnings` lists valid settings that should be changed soon."""

    stack: str
    """The name of the stack and of its file."""
    today: date
    """The date of the checks. Code that depends on support dates uses this date, not the clock."""
    warnings: tuple[Problem, ...] = ()

    @property
    def cluster_name(self) -> str:
        """Return the name of the stack's own cluster. It is also the prefix of names that other systems use."""
        return names.cluster_name(self.stack)

    @property
    def used_cluster(self) -> str:
        """Return the name of the EKS cluster that the stack runs in: its own or an existing one."""
        return self.cluster.existing.name if self.cluster.existing is not None else self.cluster_name

    @property
    def disposable(self) -> bool:
        """Return whether deleting a bucket also deletes its objects, because the stack may be destroyed."""
        return not self.protected

    @property
    def protected(self) -> bool:
        """Return whether cluster, VPC, KMS keys and model bucket are protected from deletion and replacement."""
        return self.environment in PROTECTED_ENVIRONMENTS and not self.allow_destroy

    @property
    def fewest_pods(self) -> int:
        """Return the minimum number of Triton pods, whatever owns the number."""
        if self.triton.replicas is not None:
            return self.triton.replicas
        return self.autoscaling.min_replicas if self.autoscaling is not None else 1

    @property
    def triton_nodes(self) -> GpuPool | CpuPool:
        """Return the node group of Triton's pods: a GPU pool, or `nodes.cpu` if they use no GPU."""
        if self.nodes.cpu is not None and self.triton.pool == CPU_POOL_NAME:
            return self.nodes.cpu
        return next(pool for pool in self.gpu.pools if pool.name == self.triton.pool)
