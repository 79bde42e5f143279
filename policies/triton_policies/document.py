"""The tables of docs/policies.md, generated from the policies by `make reference`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from triton_policies.policy import LENIENT_ENVIRONMENTS, Policy
from triton_policies.registry import AREAS, POLICIES

BEGIN, END = "<!-- policies: begin -->", "<!-- policies: end -->"
"""The page's tables are between these two lines, without other text."""


def tables() -> str:
    """Return all tables: the policies of each area, then the settings."""
    lines = [line for area, module in AREAS.items() for line in _area(area, module)]
    settings = [line for policy in POLICIES for line in _settings(policy)]
    environments = " | ".join(LENIENT_ENVIRONMENTS)
    head = [
        "### What can be set",
        "",
        f"| policy | setting | what it is | prod, and whatever is not known | {environments} |",
        "|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *head, *settings, ""])


def written(page: str) -> str:
    """Return the page with new tables. Raises ValueError if it lacks the two marker lines."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page needs the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{tables()}\n{END}{after}"


def _area(area: str, module: ModuleType) -> Iterator[str]:
    path = f"policies/{module.__name__.replace('.', '/')}.py"
    yield from (f"### {area}", "", f"In [{path}](../{path}):", "")
    yield from ("| policy | what holds | severity | level | controls |", "|---|---|---|---|---|")
    for policy in module.POLICIES:
        controls = ", ".join(policy.controls)
        yield f"| `{policy.id}` | {policy.says} | {policy.severity} | {policy.level} | {controls} |"
    yield ""


def _settings(policy: Policy) -> Iterator[str]:
    for name, setting in policy.settings.items():
        others = " | ".join(
            _shown(value) if (value := setting.of(environment)) != setting.strict else "same"
            for environment in LENIENT_ENVIRONMENTS
        )
        yield f"| `{policy.id}` | `{name}` | {setting.what} | {_shown(setting.strict)} | {others} |"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key} ({day})" for key, day in value.items())
    if isinstance(value, list):
        return ", ".join(f"`{one}`" for one in value)
    return str(value)


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(written(page.read_text(encoding="utf-8")), encoding="utf-8")
