"""Every rule against the real promtool: it parses, fires when it should, and stays quiet in a near miss."""

import json
import re
from pathlib import Path

import pytest

from spec.prometheus.rule_file import groups
from tests.spec.prometheus import promtool as tool
from tests.spec.prometheus.stacks import (
    BEHIND,
    SERVING,
    STACKS,
    blue_green,
    rule_groups,
    rules,
    settings,
    to_zero,
    with_local_disk,
)

# The first test that uses promtool may have to build it.
pytestmark = pytest.mark.timeout(1800)

EVERY_STACK = tool.cases("every_stack")
WITH_SLOS = tool.cases("serving")
BEHIND_GATEWAY = tool.cases("gateway")


def case_of(stack: str, case: tool.Case) -> tool.Case:
    """Return a case for a stack's Deployments."""
    (fleet, *others) = settings(stack).each_fleet
    assert not others
    return case if fleet.name is None else tool.in_slot(case, fleet.release)


def distinct() -> dict[str, tuple[str, str]]:
    """Return case and stack for each case and each different content of its groups: stacks share most rules."""
    found: dict[str, tuple[str, str]] = {}
    for name, case in EVERY_STACK.items():
        seen = set()
        for stack in [*STACKS, SERVING, BEHIND]:
            content = json.dumps(tool.concerned(rule_groups(stack), case))
            if content not in seen:
                seen.add(content)
                found[f"{name}-{stack}"] = (name, stack)
    return found


DISTINCT = distinct()


def test_there_are_stack_files() -> None:
    assert {"local", "dev", "staging", "prod"} <= set(STACKS)


@pytest.mark.parametrize("stack", [*STACKS, SERVING, BEHIND])
def test_promtool_accepts_the_rules(stack: str, promtool: Path, tmp_path: Path) -> None:
    done = tool.check(promtool, rule_groups(stack), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("which", DISTINCT)
def test_the_rules_of_a_stack_do_what_their_cases_expect(which: str, promtool: Path, tmp_path: Path) -> None:
    name, stack = DISTINCT[which]
    done = tool.unit_test(promtool, rule_groups(stack), case_of(stack, EVERY_STACK[name]), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", WITH_SLOS)
def test_the_rules_of_a_stack_with_slos_do_what_their_cases_expect(name: str, promtool: Path, tmp_path: Path) -> None:
    done = tool.unit_test(promtool, rule_groups(SERVING), WITH_SLOS[name], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", BEHIND_GATEWAY)
def test_the_rules_of_a_stack_behind_a_gateway_do_what_their_cases_expect(name: str, promtool: Path, tmp_path: Path) -> None:
    done = tool.unit_test(promtool, rule_groups(BEHIND), BEHIND_GATEWAY[name], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_pods_that_fetch_their_release_do_not_count_as_triton(promtool: Path, tmp_path: Path) -> None:
    (case,) = tool.cases("local_disk").values()
    done = tool.unit_test(promtool, groups(with_local_disk()), case, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_gpu_is_full_by_mistake_but_for_a_language_model_on_purpose(promtool: Path, tmp_path: Path) -> None:
    """vLLM takes 90 % of a GPU at its start, plus its context."""
    (case,) = tool.cases("gpu_memory").values()
    done = tool.unit_test(promtool, rule_groups("prod"), case_of("prod", case), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "TritonGpuMemoryHigh" not in {rule.get("alert") for rule in rules(SERVING)}


def test_a_fleet_that_may_have_no_pod_is_down_only_while_it_should_have_one(promtool: Path, tmp_path: Path) -> None:
    (case,) = tool.cases("to_zero").values()
    done = tool.unit_test(promtool, groups(to_zero()), case, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("name", "percent"), [("unasked", 0), ("asked", 5)])
def test_a_candidate_is_missed_when_it_has_requests_and_is_not_skew(
    name: str, percent: int, promtool: Path, tmp_path: Path
) -> None:
    case = tool.cases("blue_green")[name]
    done = tool.unit_test(promtool, groups(blue_green(percent)), case, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def cases() -> list[tool.Case]:
    return [
        test for case in [*EVERY_STACK.values(), *WITH_SLOS.values(), *BEHIND_GATEWAY.values()] for test in case["tests"]
    ]


def alert_tests() -> list[tuple[str, list[dict[str, str]]]]:
    """Return each alert with its expected labels, for each moment of a case."""
    found = [
        (test["alertname"], [expected["exp_labels"] for expected in test["exp_alerts"]])
        for case in cases()
        for test in case.get("alert_rule_test", [])
    ]
    return found


BOTH = [rule for stack in (SERVING, BEHIND) for rule in rules(stack)]
ALERTS = {(rule["alert"], rule["labels"]["severity"]) for rule in BOTH if "alert" in rule}


@pytest.mark.parametrize(("name", "severity"), sorted(ALERTS))
def test_an_alert_has_a_case_in_which_it_fires_and_a_near_miss(name: str, severity: str) -> None:
    firing = [[labels["severity"] for labels in expected] for alert, expected in alert_tests() if alert == name]
    assert any(severity in severities for severities in firing)
    assert any(severity not in severities for severities in firing)


@pytest.mark.parametrize("name", sorted({rule["record"] for rule in BOTH if "record" in rule}))
def test_a_recording_has_a_case_with_its_exact_value(name: str) -> None:
    tests = [test for case in cases() for test in case.get("promql_expr_test", [])]
    assert any(re.search(rf"(?<![\w:]){re.escape(name)}(?![\w:])", test["expr"]) and test["exp_samples"] for test in tests)


@pytest.mark.parametrize("stack", [*STACKS, SERVING, BEHIND])
def test_an_alert_tells_people_what_it_is_about(stack: str) -> None:
    for rule in (rule for rule in rules(stack) if "alert" in rule):
        notes = rule["annotations"]
        assert set(notes) == {"summary", "description", "runbook_url"}, rule["alert"]
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert notes["runbook_url"] == f"docs/runbooks/{rule['alert']}.md"
        assert "\n" not in notes["summary"] + notes["description"]


def test_an_alert_speaks_only_of_labels_that_it_has() -> None:
    labels: dict[str, set[str]] = {}
    for name, expected in alert_tests():
        for found in expected:
            labels[name] = labels.get(name, set(found)) & set(found)
    for rule in (rule for rule in BOTH if "alert" in rule):
        spoken = set(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())))
        assert spoken <= labels[rule["alert"]], rule["alert"]


@pytest.mark.parametrize("stack", [*STACKS, SERVING, BEHIND])
def test_no_rule_averages_the_series_of_a_gpu_pair(stack: str) -> None:
    """One of the two is always 0: docs/facts/triton-metrics.md#pairs-on-gpus."""
    assert [rule["expr"] for rule in rules(stack) if re.search(r"\bavg\b", rule["expr"])] == []
