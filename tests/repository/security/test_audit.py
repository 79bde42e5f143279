"""`make audit` reports its findings, and fails if a database does not respond. Its tools are fakes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from tests.paths import ROOT


def locks() -> set[str]:
    """Every tracked lock file, which are the files with hashes."""
    command = ["git", "ls-files", "*requirements.txt", "requirements/*.txt"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    return {name for name in listed.stdout.split() if "--hash=" in (ROOT / name).read_text(encoding="utf-8")}


LOCKS = sorted(locks())
ACCEPTED = "requirements/accepted-advisories.txt"
_WRITES_ITS_OUTPUT = """#!/bin/bash
for word in "$@"; do case "$word" in --output-file=*) echo made > "${word#*=}" ;; esac; done
while [ $# -gt 0 ]; do if [ "$1" = --output-file ]; then echo made > "$2"; fi; shift; done
"""
_CLEAN = "#!/bin/bash\necho 'No known vulnerabilities found' >&2\n"
_VULNERABLE = """#!/bin/bash
while [ $# -gt 0 ]; do if [ "$1" = --output ]; then echo '| jinja2 | 2.0 | CVE-2024-0001 |' > "$2"; fi; shift; done
exit 1
"""
_UNREACHABLE = "#!/bin/bash\necho 'ERROR: uv: Dependency not found on PyPI and could not be audited' >&2\nexit 1\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with complete environments, and with fakes for all tools except pip-audit."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    for lock in LOCKS:
        (tmp_path / lock).parent.mkdir(exist_ok=True)
        (tmp_path / lock).touch()
    (tmp_path / ACCEPTED).write_text("# id, last day, why\n")
    for program in ("pip-licenses", "cyclonedx-py"):
        stand_in(tmp_path, program, _WRITES_ITS_OUTPUT)
    (tmp_path / ".venv" / ".installed").touch()
    (tmp_path / ".venv" / "audit" / ".installed").touch()
    return tmp_path


def stand_in(checkout: Path, name: str, text: str) -> None:
    program = checkout / ".venv" / "audit" / "bin" / name
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(text)
    program.chmod(0o755)


def audit(checkout: Path) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(checkout)}
    command = ["make", "--no-print-directory", "audit"]
    return subprocess.run(command, cwd=checkout, env=env, capture_output=True, text=True, check=False, timeout=60)


def test_it_makes_the_licence_list_and_the_sboms(checkout: Path) -> None:
    stand_in(checkout, "pip-audit", _CLEAN)
    done = audit(checkout)
    assert done.returncode == 0, done.stderr
    made = sorted(path.name for path in (checkout / ".audit").iterdir())
    assert made == ["licences.md", "policies.cdx.json", "program.cdx.json", "worker.cdx.json"]
    clean = [line for line in done.stdout.splitlines() if line.endswith(" has a known vulnerability")]
    assert sorted(clean) == [f"audit: no package of {lock} has a known vulnerability" for lock in LOCKS]


def test_a_known_vulnerability_is_shown_and_fails(checkout: Path) -> None:
    stand_in(checkout, "pip-audit", _VULNERABLE)
    done = audit(checkout)
    assert done.returncode != 0
    assert "| jinja2 | 2.0 | CVE-2024-0001 |" in done.stdout
    remedy = "raise the packages above in the .in file of each, then `make lock`, or accept an advisory in " + ACCEPTED
    said = re.search(rf"^audit: (.+): {re.escape(remedy)}$", done.stderr, re.M)
    assert said is not None and sorted(said[1].split()) == LOCKS


def test_an_accepted_advisory_is_passed_over_until_its_last_day(checkout: Path) -> None:
    (checkout / ACCEPTED).write_text("CVE-2024-0001 2999-12-31 reached by tests alone\nCVE-2024-0002 2024-12-31 long ago\n")
    stand_in(checkout, "pip-audit", '#!/bin/bash\necho "$*" >>calls\n')
    done = audit(checkout)
    assert done.returncode == 0, done.stderr
    for call in (checkout / "calls").read_text().splitlines():
        assert re.findall(r"--ignore-vuln (\S+)", call) == ["CVE-2024-0001"]
    assert "audit: CVE-2024-0001 is accepted until 2999-12-31: reached by tests alone" in done.stdout
    assert f"audit: {ACCEPTED}: CVE-2024-0002 was accepted until 2024-12-31 (long ago); raise the package" in done.stderr


def test_each_accepted_advisory_has_a_reason_and_has_not_expired() -> None:
    lines = [line for line in (ROOT / ACCEPTED).read_text().splitlines() if not line.startswith("#")]
    form = re.compile(r"(?:CVE|GHSA|PYSEC)-\S+ (\d{4}-\d\d-\d\d) \S+( \S+){3,}")
    today = datetime.now(UTC).date()
    for line in lines:
        match = form.fullmatch(line)
        assert match, line
        assert today <= date.fromisoformat(match[1]) <= today + timedelta(days=366), line


def test_a_database_that_does_not_answer_fails_and_says_that_nothing_is_known(checkout: Path) -> None:
    stand_in(checkout, "pip-audit", _UNREACHABLE)
    done = audit(checkout)
    assert done.returncode != 0
    assert "could not be audited" in done.stderr
    assert "about all of requirements.txt (why stands above): nothing is known about it" in done.stderr
    assert "has a known vulnerability" not in done.stdout


def test_every_lock_is_hashed_and_every_requirement_pinned() -> None:
    """`pip install --require-hashes` accepts no other requirements."""
    for lock in LOCKS:
        text = (ROOT / lock).read_text().replace("\\\n", " ")
        lines = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
        assert lines
        for line in lines:
            assert "==" in line.split(" ")[0], (lock, line[:80])
            assert "--hash=sha256:" in line, (lock, line[:80])
