"""Preflight runs every existing check."""

from __future__ import annotations

import pkgutil

from stackctl.preflight import checks

HELPERS = {"check", "usage"}
"""Modules that checks share."""


def test_every_module_of_a_check_is_asked_once() -> None:
    modules = {module.name for module in pkgutil.iter_modules(checks.__path__)} - HELPERS
    asked = [one.ask.__module__.rpartition(".")[2] for one in checks.CHECKS]
    assert sorted(asked) == sorted(modules)
