"""`python3 -m stackctl rules STACK` for users with their own Prometheus."""

from pathlib import Path

import pytest
import yaml

from spec.prometheus.rule_file import groups, prometheus_rules
from spec.stack_names import names
from stackctl.rules import NoAddress, as_yaml
from tests.command import run
from tests.paths import ROOT
from tests.spec.prometheus.stacks import settings


@pytest.mark.usefixtures("in_the_project")
def test_it_prints_a_rule_file_with_links_to_where_the_runbooks_are() -> None:
    done = run("stackctl", "rules", "staging", "--runbooks", "https://wiki.example.com/triton")
    assert (done.exit_code, done.stderr) == (0, "")
    assert yaml.safe_load(done.stdout) == {"groups": groups(settings("staging"), "https://wiki.example.com/triton")}
    assert "expr: |" in done.stdout


@pytest.mark.usefixtures("in_the_project")
def test_it_prints_the_object_of_the_operator() -> None:
    assert list(yaml.safe_load_all(run("stackctl", "rules", "prod", "--operator").stdout)) == prometheus_rules(
        settings("prod")
    )


@pytest.mark.parametrize(
    ("folder", "sentence"),
    [
        (
            ROOT,
            f"error: no stack file stacks/Pulumi.production.yaml; there are: {', '.join(names(ROOT))}; "
            "`python3 -m stackctl init production` makes a new one",
        ),
        (
            ROOT / "docs",
            "error: no stack file stacks/Pulumi.production.yaml; run this from the root of the checkout",
        ),
    ],
)
def test_a_stack_that_does_not_exist_is_a_sentence(folder: Path, sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(folder)
    done = run("stackctl", "rules", "production")
    assert (done.exit_code, done.stdout, done.stderr.strip()) == (2, "", sentence)


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("http://wiki.example.com", "'http://wiki.example.com' is not an https address"),
        ("javascript:alert(1)", "'javascript:alert(1)' is not an https address"),
        ("", "'' is not an https address"),
        (
            "https://" + "a:b" + "@wiki.example.com",
            "it has a name or password in it, which would be read by everybody who reads this file",
        ),
    ],
)
def test_an_address_of_runbooks_that_is_none_is_refused(address: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    with pytest.raises(NoAddress) as told:
        as_yaml("staging", address)
    assert str(told.value) == f"--runbooks: {why}; give one like https://wiki.example.com/triton"


def test_mistakes_of_a_stack_file_are_told_as_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "Pulumi.staging.yaml").write_text("config:\n  aws:region: us-moon-1\n")
    monkeypatch.chdir(tmp_path)
    done = run("stackctl", "rules", "staging")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "us-moon-1" in done.stderr
    assert "Traceback" not in done.stderr
