"""Change a mapping of a round-trip YAML document and keep the comments after it in place.

ruamel.yaml attaches the lines between two keys (blank lines, the comment above the next section) to the last leaf before
them. A key appended after that leaf would land below the next section's comment, so these functions move those lines along.
"""

from __future__ import annotations

from typing import Any

from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import CommentMark
from ruamel.yaml.tokens import CommentToken

_AFTER_VALUE = 2  # index of the comment after a value in CommentedMap
_AFTER_ITEM = 0  # the same for CommentedSeq


def set_key(mapping: CommentedMap, key: str, value: Any) -> None:
    """Set `key`; append it if it is new. For a value that is a mapping, use `merge_mapping`."""
    if key in mapping:
        mapping[key] = value
        return
    following = _detach(mapping)
    mapping[key] = value
    _attach(mapping, following)


def delete_key(mapping: CommentedMap, key: str) -> None:
    """Remove `key` and the comment on its line; keep the lines below it."""
    is_last = next(reversed(mapping)) == key
    following = _detach(mapping) if is_last else _detach_from(mapping, key)
    previous = list(mapping)[list(mapping).index(key) - 1] if next(iter(mapping)) != key else None
    del mapping[key]
    if is_last:
        _attach(mapping, following)
    elif following and previous is not None:
        _attach_to(mapping, previous, following)


def merge_mapping(mapping: CommentedMap, key: str, values: dict[str, Any]) -> None:
    """Make `mapping[key]` a mapping of exactly `values`, and change existing content in place."""
    if not isinstance(mapping.get(key), CommentedMap) or not mapping[key]:
        following = _detach_from(mapping, key) if key in mapping else None
        set_key(mapping, key, CommentedMap(values))
        if following:
            _attach_to(mapping, key, following)
        return
    inner = mapping[key]
    for name, value in values.items():
        if inner.get(name) != value or type(inner[name]) is not type(value):
            set_key(inner, name, value)
    for name in [name for name in inner if name not in values]:
        delete_key(inner, name)


def _last_leaf(node: Any, key: Any) -> tuple[Any, Any]:
    """Return the container and key to which ruamel attaches the lines after `node[key]`."""
    value = node[key]
    block = isinstance(value, CommentedMap | CommentedSeq) and value and not value.fa.flow_style()
    if not block:
        return node, key
    return _last_leaf(value, next(reversed(value)) if isinstance(value, CommentedMap) else len(value) - 1)


def _slot(node: Any) -> int:
    return _AFTER_VALUE if isinstance(node, CommentedMap) else _AFTER_ITEM


def _detach(mapping: CommentedMap) -> str:
    return _detach_from(mapping, next(reversed(mapping))) if mapping else ""


def _detach_from(mapping: CommentedMap, key: Any) -> str:
    """Remove and return the lines below `mapping[key]`; keep the comment on its own line."""
    node, leaf = _last_leaf(mapping, key)
    comments = node.ca.items.get(leaf)
    token = comments[_slot(node)] if comments else None
    if token is None:
        return ""
    own, _, following = token.value.partition("\n")
    if own.strip():
        token.value = own + "\n"
    else:
        comments[_slot(node)] = None
    return str(following)


def _attach(mapping: CommentedMap, following: str) -> None:
    if mapping and following:
        _attach_to(mapping, next(reversed(mapping)), following)


def _attach_to(mapping: CommentedMap, key: Any, following: str) -> None:
    node, leaf = _last_leaf(mapping, key)
    comments = node.ca.items.setdefault(leaf, [None] * (4 if isinstance(node, CommentedMap) else 2))
    token = comments[_slot(node)]
    if token is None:
        comments[_slot(node)] = CommentToken("\n" + following, CommentMark(0), None)
    else:
        token.value = token.value.rstrip("\n") + "\n" + following
