""".pre-commit-config.yaml runs the same checks as `make lint`, without a network."""

from __future__ import annotations

import re

import yaml

from tests.paths import ROOT

HOOKS = [
    hook
    for repository in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    for hook in repository["hooks"]
]


def _lint() -> str:
    """Return the recipe of the target `lint`."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = re.search(r"^lint:[^\n]*\n((?:\t[^\n]*\n)+)", makefile, re.MULTILINE)
    assert recipe, "the Makefile has no target lint"
    return recipe[1]


def test_each_command_of_make_lint_is_a_hook() -> None:
    commands = re.findall(r"\$\(VENV\)/bin/([^\n|]+)", _lint())
    assert sorted(command.removesuffix(" .").strip() for command in commands) == sorted(
        hook["entry"].removeprefix(".venv/bin/") for hook in HOOKS
    )


def test_hooks_come_from_the_environment_of_the_checkout() -> None:
    text = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert [repository["repo"] for repository in text["repos"]] == ["local"]
    for hook in HOOKS:
        assert hook["language"] == "system" and hook["entry"].startswith(".venv/bin/"), hook["id"]
