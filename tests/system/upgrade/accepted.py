"""The reviewed list of what an upgrade may replace or delete."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.system.upgrade.comparison import Finding

FILE = Path(__file__).parent / "accepted.yaml"
_KEYS = {"stacks", "action", "resources", "reason"}


class AcceptedUnreadable(ValueError):
    """The list is not what it has to be; the text has all problems."""


@dataclass(frozen=True)
class Acceptance:
    """One entry of the list. `resources` are told as a finding tells them: `name (type)`."""

    stacks: tuple[str, ...]
    action: str
    resources: tuple[str, ...]
    reason: str

    def covers(self, stack: str, finding: Finding) -> bool:
        """Return whether this is what was looked at."""
        return stack in self.stacks and finding.action == self.action and finding.resource in self.resources


def read(path: Path = FILE) -> tuple[Acceptance, ...]:
    """The list. Raises AcceptedUnreadable."""
    document = yaml.safe_load(path.read_text())
    if not isinstance(document, list):
        raise AcceptedUnreadable(f"{path.name}: a list of entries is wanted")
    problems = [f"entry {number}: {problem}" for number, raw in enumerate(document, start=1) for problem in _problems(raw)]
    if problems:
        raise AcceptedUnreadable(f"{path.name}: " + "; ".join(problems))
    return tuple(Acceptance(tuple(raw["stacks"]), raw["action"], tuple(raw["resources"]), raw["reason"]) for raw in document)


def _problems(raw: Any) -> Iterable[str]:
    if not isinstance(raw, Mapping) or raw.keys() != _KEYS:
        yield f"has the keys {', '.join(sorted(_KEYS))} and no others"
        return
    for key in ("stacks", "resources"):
        if not isinstance(raw[key], list) or not raw[key]:
            yield f"{key}: a list of names"
    if raw["action"] not in ("replace", "delete"):
        yield f"action: {raw['action']!r} is neither replace nor delete"
    if not isinstance(raw["reason"], str) or len(raw["reason"].split()) < 3:
        yield "reason: a sentence that says what goes down and why that is right"
