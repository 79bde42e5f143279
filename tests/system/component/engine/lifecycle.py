"""Refresh and destroy of a recording, as the engine does them after an update."""

from __future__ import annotations

from dataclasses import dataclass

from tests.system.component.engine.recording import Recording, Registration
from twin.aws import table
from twin.aws.base.clients import Clients

_AWS = "aws:"


@dataclass(frozen=True)
class Refresh:
    """Differences after a read of every AWS resource."""

    outputs: list[str]
    """The read differs from the result of the create: ``urn: key: created -> read``."""
    inputs: list[str]
    """An update after the refresh would change something: ``urn: changed keys``."""


def refresh(clients: Clients, recording: Recording) -> Refresh:
    """Read every AWS resource of the recording."""
    result = Refresh([], [])
    for registration in _aws(recording):
        handler = table.handler(registration.type)
        found = handler.read(clients, registration.id, dict(registration.outputs))
        if found is None:
            result.outputs.append(f"{registration.urn}: gone")
            continue
        for key in sorted(found.keys() | registration.outputs.keys()):
            before, after = registration.outputs.get(key), found.get(key)
            if before != after:
                result.outputs.append(f"{registration.urn}: {key}: {before!r} -> {after!r}")
        changed = handler.diff(handler.refreshed_inputs(registration.checked, found), registration.checked).changed
        if changed:
            result.inputs.append(f"{registration.urn}: {', '.join(changed)}")
    return result


def destroy(clients: Clients, recording: Recording) -> None:
    """Delete every AWS resource, last created first."""
    for registration in reversed(_aws(recording)):
        handler = table.handler(registration.type)
        handler.delete(clients, registration.id, dict(registration.outputs))


def _aws(recording: Recording) -> list[Registration]:
    return [item for item in recording.registrations if item.custom and item.type.startswith(_AWS)]
