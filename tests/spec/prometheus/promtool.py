"""Run the real promtool on rule groups and on the cases of tests/spec/prometheus/cases.

A case file is one of promtool's unit test files. The additional key `groups` is ours: the groups that the cases test.
"""

import json
import os
import re
import subprocess
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from spec.prometheus.rule import Group

CASES = Path(__file__).parent / "cases"
BY_FLEET = ("TritonDown", "TritonModelNotServed", "TritonModelVersionSkew")
"""Alerts with the label `fleet` on a stack with fleets or slots."""
Case = dict[str, Any]


def cases(folder: str) -> dict[str, Case]:
    return {path.stem: yaml.load(path.read_text(), yaml.CSafeLoader) for path in sorted((CASES / folder).glob("*.yaml"))}


def in_slot(case: Case, release: str) -> Case:
    """Return a case of one Deployment as with rollout: blue-green, in the pods of a Helm release."""

    def pod(match: re.Match[str]) -> str:
        name = match[2].removeprefix("triton-")
        return f"{match[1]}{release}-{name if name != match[2] else '5d8f-' + (5 * name.replace('-', ''))[:5]}"

    slot = release.rpartition("-")[2]
    text = re.sub(r'(\bpod(?:=\\"|": "))(?!worker-)([a-z0-9-]+)', pod, json.dumps(case))
    text = re.sub(r'(\bdeployment(?:=\\"|": "))triton\b', rf"\1{release}", text)
    text = re.sub(rf'(alertname=\\"(?:{"|".join(BY_FLEET)})\\")', rf'\1,fleet=\\"{slot}\\"', text)
    moved: Case = json.loads(text)
    for test in moved["tests"]:
        for alert in test.get("alert_rule_test", []):
            for expected in alert["exp_alerts"] if alert["alertname"] in BY_FLEET else []:
                expected["exp_labels"]["fleet"] = slot
    return moved


def check(promtool: Path, groups: Sequence[Group], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run `promtool check rules` with every lint."""
    return _run(promtool, "check", "rules", "--lint=all", "--lint-fatal", str(_write(folder / "rules.yaml", groups)))


def unit_test(promtool: Path, groups: Sequence[Group], case: Case, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run `promtool test rules` on one case file."""
    rules = _write(folder / "rules.yaml", concerned(groups, case))
    content = {key: value for key, value in case.items() if key != "groups"}
    # Float sums differ in their last bit; a recording must exist before the alert that reads it.
    content |= {"rule_files": [str(rules)], "group_eval_order": case["groups"], "fuzzy_compare": True}
    (folder / "case.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    return _run(promtool, "test", "rules", str(folder / "case.yaml"))


def concerned(groups: Sequence[Group], case: Case) -> list[Group]:
    """Return the groups that a case tests: their recordings, and their alerts that it names.

    Annotations, which promtool compares word by word, are removed unless the case expects some.
    """
    text = json.dumps(case)
    chosen = deepcopy([group for group in groups if group["name"] in case["groups"]])
    for group in chosen:
        group["rules"] = [rule for rule in group["rules"] if "record" in rule or rule["alert"] in text]
        for rule in group["rules"]:
            if "exp_annotations" not in text:
                rule.pop("annotations", None)
    return chosen


def _write(path: Path, groups: Sequence[Group]) -> Path:
    path.write_text(yaml.safe_dump({"groups": list(groups)}, sort_keys=False))
    return path


def _run(promtool: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # Memory holds several times the days of samples; by default, Go's collector takes a quarter of the time.
    environment = os.environ | {"GOGC": "400"}
    return subprocess.run([promtool, *arguments], capture_output=True, text=True, timeout=120, check=False, env=environment)
