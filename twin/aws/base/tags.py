"""Convert tags between AWS lists and Pulumi mappings, and merge the provider's default tags."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twin.aws.base.handler import Handler


def merge_default_tags(handler: Handler, inputs: Mapping[str, Any], default_tags: Mapping[str, str]) -> dict[str, Any]:
    """Merge the provider's default tags under the resource's own tags, if the type takes tags.

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
    """Convert an AWS tag list to a mapping, without the tags that AWS itself adds."""
    pairs = ((tag.get("Key", tag.get("TagKey", "")), tag.get("Value", tag.get("TagValue", ""))) for tag in tags or ())
    return {key: value for key, value in pairs if not key.startswith("aws:")}


def removed(old: Mapping[str, str] | None, new: Mapping[str, str] | None) -> list[str]:
    """Return the keys to untag, in a stable order."""
    return sorted((old or {}).keys() - (new or {}).keys())


def retag(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    untag: Callable[..., Any],
    tag: Callable[..., Any],
    spell: Callable[[Mapping[str, str]], Any] = to_list,
    **resource: str,
) -> None:
    """Change the tags of `resource` from the old to the new inputs' ``tags`` with a service's two calls.

    The calls receive ``TagKeys`` and ``Tags``; `spell` converts the tags to the service's form.
    """
    gone = removed(old.get("tags"), new.get("tags"))
    if gone:
        untag(**resource, TagKeys=gone)
    if new.get("tags"):
        tag(**resource, Tags=spell(new["tags"]))


def observed(state: Mapping[str, Any], seen: Mapping[str, str]) -> dict[str, Any]:
    """Return ``tags`` (if the state or AWS has any) and ``tagsAll`` as AWS has them, for a handler's read."""
    tags = dict(seen)
    return {"tagsAll": tags, **({"tags": tags} if tags or "tags" in state else {})}
