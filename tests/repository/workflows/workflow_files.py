"""The workflows as data: their jobs, steps and the scripts of the steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import yaml

from tests.paths import ROOT

FOLDER = ROOT / ".github" / "workflows"
ACTIONS = ROOT / ".github" / "actions"
NAMES = tuple(sorted(file.stem for file in FOLDER.glob("*.yml")))

Document = dict[Any, Any]


@cache
def load(name: str) -> Document:
    """Return a workflow. The key `on` is True in YAML 1.1, and also here."""
    document: Document = yaml.load((FOLDER / f"{name}.yml").read_text(encoding="utf-8"), yaml.CSafeLoader)
    return document


def text(name: str) -> str:
    return (FOLDER / f"{name}.yml").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Step:
    """One step of one job."""

    workflow: str
    job: str
    content: Document
    of_the_job: Document = field(default_factory=dict)
    copies: tuple[Step, ...] = ()
    """Other steps that have the same script and variables."""

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables of the job and of the step, as far as the file sets them."""
        variables = {**self.of_the_job.get("env", {}), **self.content.get("env", {})}
        return {name: str(value) for name, value in variables.items() if "${{" not in str(value)}

    @property
    def script(self) -> str | None:
        """Return the step's shell script, None if it has none."""
        script: str | None = self.content.get("run")
        return script

    def __str__(self) -> str:
        return f"{self.workflow}/{self.job}/{self.content.get('name') or self.content.get('uses')}"


def jobs() -> Iterator[tuple[str, str, Document]]:
    """Yield workflow, name and content of every job."""
    for name in NAMES:
        for job, content in load(name)["jobs"].items():
            yield name, job, content


def steps() -> list[Step]:
    """Yield every step of every workflow and of our actions."""
    found = [Step(name, job, step, content) for name, job, content in jobs() for step in content.get("steps", ())]
    for file in sorted(ACTIONS.glob("*/action.yml")):
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
        found += [Step("actions", file.parent.name, step) for step in content["runs"]["steps"]]
    return found


def step(workflow: str, job: str, name: str) -> Step:
    (found,) = [one for one in steps() if (one.workflow, one.job, one.content.get("name")) == (workflow, job, name)]
    return found


def distinct(*names: str) -> list[Step]:
    """Return the steps with these names, `WORKFLOW/JOB/NAME`; steps with the same script and variables count once."""
    alike: dict[tuple[Any, ...], list[Step]] = {}
    for name in names:
        found = step(*name.split("/", 2))
        alike.setdefault((found.script, *sorted(found.environment.items())), []).append(found)
    return [replace(first, copies=tuple(others)) for first, *others in alike.values()]
