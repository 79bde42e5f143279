"""A test may skip because of the machine. If a build or a download fails, the test must fail."""

from __future__ import annotations

import ast

from tests.paths import ROOT

TESTS = ROOT / "tests"
REASONS = {
    "modelctl/cluster/test_key_files.py": "who is not root cannot look as another user",
    "spec/test_files.py": "file systems without extended attributes; who is not root cannot give files away",
    "system/e2e/test_upgrades.py": "a clone with a part of the history; in CI that fails",
    "system/serving/test_bad_input.py": "who is not root cannot mount",
    "system/serving/test_drain_namespaces.py": "who is not root cannot make a PID namespace",
    "system/serving/test_readiness_under_quota.py": "who is not root cannot create a control group",
    "twin/commands/test_shell.py": "systems without dash",
}
"""File -> the property of a machine that lets it skip tests. A missing program, module or chart is no reason."""


def skips(source: str) -> bool:
    """Return whether the code calls `pytest.skip` or `importorskip`, or marks with `skip`, `skipif` or `xfail`."""
    skipping = {"skip", "skipif", "importorskip", "xfail"}
    if "skip" not in source and "xfail" not in source:
        return False  # parsing takes longer than searching
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute) and node.attr in skipping]
    return any(ast.unparse(node.value) in ("pytest", "pytest.mark") for node in nodes)


def test_only_these_files_skip_tests() -> None:
    found = {path.relative_to(TESTS).as_posix() for path in TESTS.rglob("*.py") if skips(path.read_text(encoding="utf-8"))}
    assert found == REASONS.keys()


def test_each_way_to_skip_is_seen() -> None:
    assert skips("@pytest.mark.skipif(True, reason='')\ndef test(): pass")
    assert skips("def test(): pytest.skip('no go')")
    assert skips("yaml = pytest.importorskip('yaml')")
    assert skips("@pytest.mark.xfail\ndef test(): pass")
    assert not skips("def test(): reader.skip(3)")
