"""Tags: AWS lists of key and value against Pulumi's mappings, and the provider's default tags."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twin.aws.base.handler import Handler


def merge_default_tags(handler: Handler, inputs: Mapping[str, Any], default_tags: Mapping[str, str]) -> dict[str, Any]:
    """Return the inputs with the provider's default tags below the resource's own, where the type takes tags.

    The official provider does the same before its check; an unknown ``tags`` stays unknown.
    """
    own = inputs.get("tags")
    if not handler.taggable or not default_tags or isinstance(own, str):
        return dict(inputs)
    return {**inputs, "tags": {**default_tags, **(own or {})}}


def to_list(tags: Mapping[str, str] | None) -> list[dict[str, str]]:
    """Return ``[{"Key": …, "Value": …}]`` in a stable order."""
    return [{"Key": key, "Value": value} for key, value in sorted((tags or {}).items())]


def from_list(tags: Iterable[Mapping[str, str]] | None) -> dict[str, str]:
    """Return the mapping of an AWS tag list, without the tags that AWS itself puts there."""
    pairs = ((tag.get("Key", tag.get("TagKey", "")), tag.get("Value", tag.get("TagValue", ""))) for tag in tags or ())
    return {key: value for key, value in pairs if not key.startswith("aws:")}


def removed(old: Mapping[str, str] | None, new: Mapping[str, str] | None) -> list[str]:
    """Return the keys to untag, in a stable order."""
    return sorted((old or {}).keys() - (new or {}).keys())


def observed(state: Mapping[str, Any], seen: Mapping[str, str]) -> dict[str, Any]:
    """Return ``tags`` (where the state has any or AWS shows some) and ``tagsAll`` as AWS has them, for a handler's read."""
    tags = dict(seen)
    return {"tagsAll": tags, **({"tags": tags} if tags or "tags" in state else {})}
