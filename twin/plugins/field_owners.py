"""Find who has set a field of an object in the cluster, for fields whose changes a program ignores."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from twin.cluster.kube_api import Object
from twin.plugins.values import Values


def without_ignored(inputs: Values, live: Object, ignored: Iterable[str], manager: str) -> Values:
    """Return the `inputs` that an apply by `manager` sends to keep the `ignored` paths (like `spec.replicas`) unchanged.

    A field that only others have set is left out, because sending it would be a conflict. Any other ignored field gets its
    value from the cluster, because leaving it out would reset it to its default. The official provider does the same, also
    without paths into lists (`handleSSAIgnoreFields` in
    https://github.com/pulumi/pulumi-kubernetes/blob/v4.34.2/provider/pkg/await/await.go).
    """
    sent = copy.deepcopy(inputs)
    for path in ignored:
        keys = path.split(".")
        owners = {entry["manager"] for entry in live["metadata"].get("managedFields") or () if _has(entry["fieldsV1"], keys)}
        holder = _mapping_at(sent, keys[:-1])
        if owners and manager not in owners:
            if holder is not None:
                holder.pop(keys[-1], None)
        elif (there := _mapping_at(live, keys[:-1])) is not None and keys[-1] in there and holder is not None:
            holder[keys[-1]] = there[keys[-1]]
    return sent


def _has(fields: Mapping[str, Any], keys: Sequence[str]) -> bool:
    for key in keys:
        if f"f:{key}" not in fields:
            return False
        fields = fields[f"f:{key}"]
    return True


def _mapping_at(value: Any, keys: Sequence[str]) -> dict[str, Any] | None:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else None
