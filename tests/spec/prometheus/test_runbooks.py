"""docs/runbooks: a page for each alert, without nonexistent commands or metrics."""

import importlib
import re
import shlex
from pathlib import Path
from typing import cast

import botocore.session
import pytest
import typer
from botocore import xform_name
from typer.core import TyperCommand, TyperGroup

from tests.paths import ROOT
from tests.repository.docs.command_lines import help_of
from tests.spec.prometheus import promtool as tool
from tests.spec.prometheus.boards import ALL, boards
from tests.spec.prometheus.promql import metrics
from tests.spec.prometheus.runbook_pages import EVERY_PAGE, FOLDER, NORMAL, PAGES, fenced, prose, queries
from tests.spec.prometheus.stacks import BEHIND, SERVING, rules
from tests.spec.prometheus.test_metric_names import known

SECTIONS = ["Confirm", "Likely causes", "Do", "Do not"]
PROGRAMS = ("modelctl", "stackctl", "twin")
_INLINE = re.compile(r"`([^`\n]+)`")
_KUBECTL = frozenset({"auth", "cordon", "delete", "describe", "exec", "get", "logs", "port-forward", "rollout", "top"})
_PULUMI = frozenset({"login", "preview", "stack", "up"})
_OF_THE_CLI = frozenset({("eks", "update-kubeconfig"), ("eks", "wait")})
"""Commands of `aws` that are no API operations."""
_USAGE_ERROR = cast("type[Exception]", typer.BadParameter.__base__)
"""The base of all command line errors, for which typer has no public name."""
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def inline_commands(page: str) -> list[str]:
    """Return inline code that begins with a program's name: a complete command, or its beginning."""
    return [
        code
        for code in _INLINE.findall(prose(page))
        if re.match(rf"(aws|kubectl|make|pulumi|python3?|{'|'.join(PROGRAMS)}) ", code)
    ]


def problem(line: str, *, whole: bool = True) -> str | None:
    """Return the mistake in a command line, or None if it is valid. Inline commands may lack arguments."""
    line = re.sub(r"\$\(.*?\)", "SUBSTITUTED", line).replace("STACK", "prod")
    program, *rest = shlex.split(line.partition(" | ")[0])
    if program == "python3" and rest[0] == "-m":
        program, *rest = rest[1:]
    elif whole and program in PROGRAMS:
        return f"{program} is not installed; use python3 -m {program}"
    if program in PROGRAMS:
        return (_not_parsed if whole else _not_in_help)(program, rest)
    verbs = {"make": TARGETS, "kubectl": _KUBECTL, "pulumi": _PULUMI}
    if program in verbs:
        return None if rest and rest[0] in verbs[program] else f"{program} {rest[:1]} is not in the list of this test"
    if program == "aws":
        return None if tuple(rest[:2]) in _OF_THE_CLI or rest[1] in _operations(rest[0]) else f"aws has no {rest[:2]}"
    return f"{program} is no program that runbooks use"


def _operations(service: str) -> set[str]:
    model = botocore.session.get_session().get_service_model(service)
    return {xform_name(name, "-") for name in model.operation_names}


def _not_parsed(program: str, words: list[str]) -> str | None:
    command: object = typer.main.get_command(importlib.import_module(f"{program}.cli").app)
    named = [program]
    while isinstance(command, TyperGroup) and words:
        named.append(words[0])
        command, words = command.commands.get(words[0]), words[1:]
    if not isinstance(command, TyperCommand):
        return f"no command {' '.join(named)}"
    try:
        command.make_context(" ".join(named), list(words))
    except _USAGE_ERROR as error:
        return str(error)
    return None


def _not_in_help(program: str, words: list[str]) -> str | None:
    told = help_of(program, tuple(words))
    if told is None:
        return f"no command {program} {words[:1]}"
    options = [word.partition("=")[0] for word in words if word.startswith("--")]
    unknown = [option for option in options if not re.search(rf"{option}(?![\w-])", told)]
    return f"no option {unknown}" if unknown else None


def test_every_alert_has_a_page_and_every_page_an_alert() -> None:
    alerts = {rule["alert"] for stack in ALL for rule in rules(stack) if "alert" in rule}
    assert alerts == set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_says_what_it_means_how_to_confirm_it_and_what_to_do(name: str) -> None:
    page = PAGES[name]
    assert page.startswith(f"# {name}\n\n")
    assert re.findall(r"^## (.+)$", page, re.MULTILINE) == SECTIONS
    opening = page.partition("\n## ")[0]
    assert "Users:" in opening


@pytest.mark.parametrize("name", PAGES)
def test_a_page_says_how_severe_its_alert_is_and_when_to_act(name: str) -> None:
    levels = {rule["labels"]["severity"] for stack in ALL for rule in rules(stack) if rule.get("alert") == name}
    found = re.search(r"^\*\*Severity: ([a-z ]+)\.\*\* (.+?)\. (?=Dashboard|Access)", PAGES[name], re.MULTILINE)
    assert found is not None
    assert set(found[1].split(" or ")) == levels
    act = {"critical": "Act now", "warning": "Act in the next working hour"}
    both = "Critical: act now. Warning: act in the next working hour"
    assert found[2] == (both if len(levels) == 2 else act[found[1]])


@pytest.mark.parametrize("name", PAGES)
def test_the_dashboard_of_a_page_is_in_the_table_of_dashboards(name: str) -> None:
    named = set(re.findall(r"Dashboard: \*(.+?)\*", PAGES[name]))
    assert named <= set(re.findall(r"^\| (Triton: \w+) \|", EVERY_PAGE["README"], re.MULTILINE))


def test_the_table_of_dashboards_has_each_one_that_a_stack_installs() -> None:
    listed = re.findall(r"^\| (Triton: \w+) \| `http://localhost:3000/d/([\w-]+)` \|$", EVERY_PAGE["README"], re.MULTILINE)
    assert dict(listed) == {title: board["uid"] for stack in ALL for title, board in boards(stack).items()}


@pytest.mark.parametrize("name", EVERY_PAGE)
def test_blocks_in_a_list_are_indented_by_four_so_that_its_numbers_go_on_in_the_site(name: str) -> None:
    assert re.findall(r"^ {1,3}```\w.*$", EVERY_PAGE[name], re.MULTILINE) == []


@pytest.mark.parametrize("name", EVERY_PAGE)
def test_a_page_leads_to_what_people_need_before_they_start(name: str) -> None:
    assert name == "README" or "(README.md#before-you-start)" in EVERY_PAGE[name].partition("\n## ")[0]


@pytest.mark.parametrize("name", EVERY_PAGE)
def test_commands_of_a_page_can_be_run(name: str) -> None:
    page = EVERY_PAGE[name]
    found = {line: problem(line) for line in fenced(page, "sh")}
    found |= {line: problem(line, whole=False) for line in inline_commands(page)}
    assert {line: wrong for line, wrong in found.items() if wrong is not None} == {}


@pytest.mark.parametrize(
    "line",
    [
        "modelctl parity",
        "python3 -m modelctl rollforward",
        "python3 -m modelctl show ID --brief --bucket BUCKET",
        "python3 -m modelctl show",
        "python3 -m stackctl cost",
        "make upp",
        "kubectl explode pod",
        "aws eks describe-nodegroups",
        "helm rollback triton",
    ],
)
def test_a_command_that_cannot_be_run_is_noticed(line: str) -> None:
    assert problem(line) is not None


@pytest.mark.parametrize("line", ["modelctl rollforward", "stackctl cost shw", "modelctl rollout --bak"])
def test_inline_code_with_a_command_that_does_not_exist_is_noticed(line: str) -> None:
    assert problem(line, whole=False) is not None


@pytest.mark.parametrize("name", EVERY_PAGE)
def test_links_of_a_page_lead_somewhere(name: str) -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", EVERY_PAGE[name])
    assert [target for target in targets if not (FOLDER / target).is_file()] == []


@pytest.mark.parametrize("name", PAGES)
def test_each_query_of_a_page_has_its_normal_value(name: str) -> None:
    assert [line for line in fenced(PAGES[name], "promql") if not line.partition(NORMAL)[2]] == []


@pytest.mark.parametrize("name", PAGES)
def test_metrics_in_the_queries_of_a_page_exist(name: str) -> None:
    recordings = {rule["record"] for stack in (SERVING, BEHIND) for rule in rules(stack) if "record" in rule}
    read = {metric for query in queries(PAGES[name]) for metric in metrics(query)}
    assert sorted(metric for metric in read - recordings if not known(metric)) == []


@pytest.mark.timeout(1800)
def test_prometheus_understands_the_queries_of_the_pages(promtool: Path, tmp_path: Path) -> None:
    lines = [(name, line) for name, page in PAGES.items() for line in fenced(page, "promql")]  # with their comments
    recorded = [{"record": f"{name}:{number}", "expr": line} for number, (name, line) in enumerate(lines)]
    done = tool.check(promtool, [{"name": "runbooks", "rules": recorded}], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
