"""EKS sub-resources that moto does not have at all: each lives as a record of the twin."""

from __future__ import annotations

from datetime import UTC, datetime

from twin.aws.base import records
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError
from twin.aws.base.handler import Values
from twin.aws.base.recorded import Recorded
from twin.aws.eks import lookup


class RecordedHandler(Recorded):
    """A record below its cluster. Subclasses check and name it."""

    kind: str
    """The folder of the records: ``addons``, ``access-entries``, …"""

    exists: str
    """Error code of EKS for a resource that exists."""

    def key(self, values: Values) -> tuple[str, ...]:
        """Return what identifies it within its cluster; together with the cluster's name it is the provider id."""
        raise NotImplementedError

    def check_references(self, clients: Clients, inputs: Values) -> None:
        """Refuse what EKS refuses; called before create and update, the cluster exists."""

    def computed_values(self, clients: Clients, inputs: Values) -> Values:
        """Return the computed outputs of a new resource."""
        return {}

    def where(self, values: Values) -> str:
        """Return what error messages call it."""
        return f"EKS {self.kind} {' '.join(self.key(values))} of {values['clusterName']}"

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        lookup.require_cluster(clients, inputs["clusterName"], self.where(inputs))
        if records.get(clients, self.record_name(inputs)) is not None:
            raise HandlerError(f"{self.where(inputs)}: ResourceInUseException: {self.exists}")
        self.check_references(clients, inputs)
        outputs = self.outputs(inputs, self.computed_values(clients, inputs))
        records.put(clients, self.record_name(inputs), outputs)
        return self.id_separator.join((inputs["clusterName"], *self.key(inputs))), outputs

    id_separator = ":"

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        if lookup.cluster(clients, state["clusterName"]) is None:
            return None
        return super().read(clients, id, state)

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        lookup.require_cluster(clients, new["clusterName"], self.where(new))
        self.check_references(clients, new)
        return super().update(clients, id, old, new)

    def record_name(self, values: Values) -> str:
        return lookup.record_name(values["clusterName"], self.kind, *self.key(values))


def now() -> str:
    """Return the time as AWS writes it in JSON."""
    return datetime.now(UTC).isoformat(timespec="seconds")
