"""A base of the types that moto does not have at all: each resource lives as a record of the twin."""

from __future__ import annotations

from twin.aws.base import records
from twin.aws.base.clients import Clients
from twin.aws.base.handler import Handler, Values


class Recorded(Handler):
    """Read, update and delete of a record. Subclasses check, create and name it."""

    def record_name(self, values: Values) -> str:
        """Return where the record is kept, from the outputs."""
        raise NotImplementedError

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        return records.get(clients, self.record_name(state))

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        outputs = self.kept(new, old)
        if self.record_name(old) != self.record_name(outputs):
            records.delete(clients, self.record_name(old))
        records.put(clients, self.record_name(outputs), outputs)
        return outputs

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        records.delete(clients, self.record_name(state))
