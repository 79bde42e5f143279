"""Read the resources in a stack's state, and define the order of their deletion."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_KUBERNETES = "kubernetes:"


@dataclass(frozen=True)
class Resource:
    """A resource from `pulumi stack export`.

    `custom`: a real resource, not a component. `id`: its id in AWS or Kubernetes.
    """

    urn: str
    id: str
    type: str
    custom: bool
    protected: bool
    retained: bool
    inputs: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Return its logical name."""
        return self.urn.rpartition("::")[2]


def read(deployment: Mapping[str, Any]) -> list[Resource]:
    """Return the resources of an exported deployment."""
    return [
        Resource(
            urn=found["urn"],
            id=str(found.get("id") or ""),
            type=found["type"],
            custom=bool(found.get("custom")),
            protected=bool(found.get("protect")),
            retained=bool(found.get("retainOnDelete")),
            inputs=found.get("inputs") or {},
        )
        for found in deployment.get("resources") or ()
    ]


@dataclass(frozen=True)
class Phase:
    """Resources that are deleted together with their dependents. `why`: the reason to delete them first."""

    name: str
    why: str
    chooses: Callable[[Resource], bool]

    def targets(self, resources: Sequence[Resource]) -> list[str]:
        """Return the URNs of the resources that the phase deletes."""
        return sorted(resource.urn for resource in resources if resource.custom and self.chooses(resource))


_MAKERS = frozenset(
    {
        "kubernetes:karpenter.sh/v1:NodePool",
        "kubernetes:gateway.networking.k8s.io/v1:Gateway",
        "kubernetes:keda.sh/v1alpha1:ScaledObject",
    }
)


def _is_maker(resource: Resource) -> bool:
    spec = resource.inputs.get("spec")
    load_balanced = isinstance(spec, Mapping) and spec.get("type") == "LoadBalancer"
    return resource.type in _MAKERS or (resource.type == "kubernetes:core/v1:Service" and load_balanced)


MAKERS = Phase(
    "makers",
    "their controllers make nodes and load balancers that Pulumi does not know, and must still be there to take them away",
    _is_maker,
)
IN_CLUSTER = Phase(
    "everything else in the cluster",
    "the EBS driver must still be there to delete the volumes of what goes",
    lambda resource: resource.type.startswith(_KUBERNETES),
)
EVERYTHING = Phase("everything", "nodes, add-ons, cluster, network, in the order of their dependencies", lambda _: True)
