"""Properties of a resource for rules. Each property has its path and may be unknown.

In a preview, outputs of resources that do not exist yet are unknown. Pulumi's SDK stops a whole policy when it reads one.
Here only the check that needs the value is left open, and reported (`findings`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pulumi_policy.proxy import UnknownValueError

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


class NotKnownYet(Exception):
    """A rule needs a value that this preview does not have. `resource` is the name of a resource without properties so
    far."""

    def __init__(self, path: str, resource: str = "") -> None:
        super().__init__(f"{path} is not known yet")
        self.path = path
        self.resource = resource


class WrittenTwice(Exception):
    """A document has a duplicate key: some readers use the first value and others the last."""

    def __init__(self, path: str, key: str) -> None:
        super().__init__(f"{path} has the key {key} twice")
        self.path = path
        self.key = key


class _Unknown:
    def __init__(self, path: str) -> None:
        self.path = path


class Property:
    """One property, present or not. Only `value` and access to lists or mappings require it to be known."""

    def __init__(self, path: str, raw: Any) -> None:
        self.path = path
        self._raw = raw

    def __getitem__(self, key: str | int) -> Property:
        """Return a member. It is absent if it does not exist, and unknown if this property is unknown."""
        path = self._path_of(key)
        if isinstance(self._raw, _Unknown):
            return Property(path, self._raw)
        wanted = Mapping if isinstance(key, str) else Sequence
        if not isinstance(self._raw, wanted) or isinstance(self._raw, str):
            return Property(path, None)
        try:
            return Property(path, self._raw[key])  # type: ignore[index]
        except (KeyError, IndexError):
            return Property(path, None)
        except UnknownValueError:
            return Property(path, _Unknown(path))

    def at(self, path: str) -> Property:
        """Return the member at a dotted path of keys."""
        found = self
        for key in path.split("."):
            found = found[key]
        return found

    @property
    def given(self) -> bool:
        """Return whether there is a value. A value that is not known yet counts, because it comes from another resource."""
        return self._raw is not None

    @property
    def known(self) -> bool:
        """Return whether the value itself is known; its members may still be unknown."""
        return not isinstance(self._raw, _Unknown)

    @property
    def value(self) -> Any:
        """Return plain data, or None if there is no value. Raises NotKnownYet if any part is unknown."""
        raw = self._known()
        if isinstance(raw, Mapping):
            return {key: self[key].value for key in raw}
        if _is_list(raw):
            return [element.value for element in self.elements]
        # The engine sends numbers as floats.
        return int(raw) if isinstance(raw, float) and raw.is_integer() else raw

    @property
    def elements(self) -> list[Property]:
        """Return the elements of a list; empty for other values. Raises NotKnownYet."""
        raw = self._known()
        return [self[index] for index in range(len(raw))] if _is_list(raw) else []

    @property
    def entries(self) -> dict[str, Property]:
        """Return the members of a mapping; empty for other values. Raises NotKnownYet."""
        raw = self._known()
        return {key: self[key] for key in raw} if isinstance(raw, Mapping) else {}

    def document(self) -> Property:
        """Return the data of a JSON text, under the same path; an absent property if it is not JSON.

        Raises NotKnownYet, and WrittenTwice.
        """
        raw = self._known()
        if not isinstance(raw, str):
            return self
        try:
            return Property(self.path, json.loads(raw, object_pairs_hook=self._once))
        except (ValueError, RecursionError):
            return Property(self.path, None)

    def _once(self, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise WrittenTwice(self.path, key)
            found[key] = value
        return found

    def _known(self) -> Any:
        if isinstance(self._raw, _Unknown):
            raise NotKnownYet(self._raw.path)
        return self._raw

    def _path_of(self, key: str | int) -> str:
        if isinstance(key, int):
            return f"{self.path}[{key}]"
        if not _PLAIN_KEY.fullmatch(key):
            return f'{self.path}["{key}"]'
        return f"{self.path}.{key}" if self.path else key


def _is_list(raw: Any) -> bool:
    return isinstance(raw, Sequence) and not isinstance(raw, str)
