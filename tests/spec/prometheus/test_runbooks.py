"""docs/runbooks: a page for each alert, and no page that sends people to a command or a metric that does not exist."""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest
import typer
from typer.core import TyperGroup

from modelctl.cli import app as modelctl
from tests.paths import ROOT
from tests.spec.prometheus import promtool as tool
from tests.spec.prometheus.promql import metrics
from tests.spec.prometheus.stacks import BEHIND, SERVING, STACKS, rules
from tests.spec.prometheus.test_metric_names import known
from twin.cli import app as twin

FOLDER = ROOT / "docs" / "runbooks"
PAGES = {path.stem: path.read_text() for path in sorted(FOLDER.glob("Triton*.md"))}
SECTIONS = ["Confirm", "Likely causes", "Do", "Do not"]
_FENCE = re.compile(r"^ *```(\w+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`\n]+)`")
_KUBECTL = frozenset({"auth", "cordon", "delete", "describe", "exec", "get", "logs", "rollout", "top"})


class Commands(NamedTuple):
    """A command line tool of this project: `python -m <module> <command>`."""

    module: str
    group: TyperGroup


def group(app: typer.Typer) -> TyperGroup:
    found = typer.main.get_command(app)
    assert isinstance(found, TyperGroup)
    return found


OURS = [Commands("modelctl", group(modelctl)), Commands("twin", group(twin))]
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def fenced(page: str, language: str) -> list[str]:
    """The lines of all code blocks in a language."""
    blocks = [content for name, content in _FENCE.findall(page) if name == language]
    return [line.strip() for block in blocks for line in block.splitlines() if line.strip()]


def command_lines(page: str) -> list[str]:
    """Return the commands of a page: code blocks, and inline code that begins with the name of a program."""
    inline = [
        code for code in _INLINE.findall(_FENCE.sub("", page)) if re.match(r"(kubectl|modelctl|make|twin|python3?) ", code)
    ]
    return [*fenced(page, "sh"), *inline]


def problem(line: str) -> str | None:
    """Return what is wrong with a command line, None when it can be run."""
    words = shlex.split(re.sub(r"\$\(.*?\)", "SUBSTITUTED", line))
    if words[:2] in (["python", "-m"], ["python3", "-m"]):
        words = words[2:]
    program, *rest = words
    for tool_ in OURS:
        if program == tool_.module:
            return _ours(tool_.group, rest)
    if program == "make":
        return None if rest and rest[0] in TARGETS else f"no target {rest[:1]}"
    if program == "kubectl":
        return None if rest and rest[0] in _KUBECTL else f"kubectl {rest[:1]} is not in the list of this test"
    return None if program == "pulumi" and rest[0] in ("up", "stack") else f"{program} is no program that runbooks use"


def _ours(commands: TyperGroup, words: list[str]) -> str | None:
    command = commands.commands.get(words[0]) if words else None
    if command is None:
        return f"no command {words[:1]}"
    options = {option for parameter in command.params for option in parameter.opts}
    unknown = [word for word in words[1:] if word.startswith("--") and word.partition("=")[0] not in options]
    return f"no option {unknown}" if unknown else None


def test_every_alert_has_a_page_and_every_page_an_alert() -> None:
    alerts = {rule["alert"] for stack in [*STACKS, SERVING, BEHIND] for rule in rules(stack) if "alert" in rule}
    assert alerts == set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_says_what_it_means_how_to_confirm_it_and_what_to_do(name: str) -> None:
    page = PAGES[name]
    assert page.startswith(f"# {name}\n\n")
    assert re.findall(r"^## (.+)$", page, re.MULTILINE) == SECTIONS
    opening = page.partition("\n## ")[0]
    assert "Users:" in opening


@pytest.mark.parametrize("name", PAGES)
def test_commands_of_a_page_exist(name: str) -> None:
    wrong = {line: found for line in command_lines(PAGES[name]) if (found := problem(line)) is not None}
    assert wrong == {}


@pytest.mark.parametrize(
    "line",
    ["modelctl rollforward", "python -m modelctl show --brief X", "make upp", "kubectl explode pod", "helm rollback triton"],
)
def test_a_command_that_does_not_exist_is_noticed(line: str) -> None:
    assert problem(line) is not None


@pytest.mark.parametrize("name", PAGES)
def test_links_of_a_page_lead_somewhere(name: str) -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", PAGES[name])
    assert [target for target in targets if not (FOLDER / target).is_file()] == []


@pytest.mark.parametrize("name", PAGES)
def test_metrics_in_the_queries_of_a_page_exist(name: str) -> None:
    recordings = {rule["record"] for stack in (SERVING, BEHIND) for rule in rules(stack) if "record" in rule}
    read = {metric for query in fenced(PAGES[name], "promql") for metric in metrics(query)}
    assert sorted(metric for metric in read - recordings if not known(metric)) == []


@pytest.mark.timeout(1800)
def test_prometheus_understands_the_queries_of_the_pages(promtool: Path, tmp_path: Path) -> None:
    queries = [(name, query) for name, page in PAGES.items() for query in fenced(page, "promql")]
    recorded = [{"record": f"{name}:{number}", "expr": query} for number, (name, query) in enumerate(queries)]
    done = tool.check(promtool, [{"name": "runbooks", "rules": recorded}], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
