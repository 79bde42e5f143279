"""The documentation site builds in strict mode, has every page, draws its diagrams, and needs no network."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import mermaidx
import pytest

from docs.mkdocs_hooks import PAGES
from tests.paths import ROOT

_DIAGRAM = re.compile(r"^```mermaid\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def _pages() -> set[str]:
    """Return the pages of the site, by their paths in the repository."""
    listed = subprocess.run(["git", "ls-files", "docs/*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    return {*listed.stdout.split(), *PAGES}


@dataclass(frozen=True)
class Built:
    """A site with two broken links and a page outside the menu, and the output of mkdocs."""

    path: Path
    done: subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    project, path = tmp_path_factory.mktemp("project"), tmp_path_factory.mktemp("site")
    for folder in ("docs", *{str(Path(page).parent) for page in PAGES} - {"."}):
        shutil.copytree(ROOT / folder, project / folder, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    for page in [*(page for page in PAGES if "/" not in page), "mkdocs.yml"]:
        shutil.copy(ROOT / page, project / page)
    (project / "docs" / "not-in-the-navigation.md").write_text("# A page\n", encoding="utf-8")
    with (project / "docs" / "cost.md").open("a", encoding="utf-8") as cost:
        cost.write("\n[gone](no-such-page.md) [gone](proven.md#no-such-heading)\n")
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(path)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=120, check=False, env=environment)
    return Built(path, done)


@pytest.fixture(scope="module")
def site(built: Built) -> Path:
    return built.path


def test_every_page_begins_with_its_title() -> None:
    """No other check finds words that an edit has put above the title."""
    firsts = {page: (ROOT / page).read_text(encoding="utf-8").partition("\n")[0] for page in _pages()}
    assert {page: first for page, first in firsts.items() if not re.match(r"# \S", first)} == {}


def test_links_that_lead_nowhere_fail_the_build_and_the_pages_have_none(built: Built) -> None:
    assert built.done.returncode == 1
    for named in ("'no-such-page.md'", "#no-such-heading", "not-in-the-navigation.md"):
        assert named in built.done.stderr
    assert built.done.stderr.count("WARNING") == 3, built.done.stderr


def test_llms_txt_has_every_page_with_its_title(site: Path) -> None:
    lines = (site / "llms.txt").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "# Triton on EKS"
    assert "- [Going to AWS](aws/)" in lines
    links = [match[1] for line in lines if (match := re.fullmatch(r"- \[.+\]\((.*)\)", line))]
    assert len(links) == len(_pages()) + 1, "every page, and the one that only the test has"
    assert [link for link in links if not (site / link / "index.html").is_file()] == []


def test_every_page_can_be_searched(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    expected = {"not-in-the-navigation/"}
    for path in _pages():
        uri = PAGES.get(path, path.removeprefix("docs/")).removesuffix(".md")
        folder = uri.removesuffix("README").removesuffix("index")
        expected.add(folder if folder != uri else f"{uri}/")
    assert found == expected


def test_the_site_has_pages_and_what_they_show_alone(site: Path) -> None:
    assert {path.suffix for path in site.rglob("*") if path.is_file()} <= {
        ".html",
        ".js",
        ".map",
        ".css",
        ".txt",
        ".json",
        ".xml",
        ".gz",
        ".png",
    }


def test_reading_asks_no_other_host(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert re.findall(r"<(?:script|img|iframe)[^>]*\ssrc=\"?(?:https?:)?//[^\s>]*", text) == [], page
        assert re.findall(r"<link[^>]*rel=\"?stylesheet[^>]*href=\"?(?:https?:)?//[^\s>]*", text) == [], page
        assert re.search(r"<script[^>]*src=\"?[./]*assets/mermaid\.min\.js", text), page


@pytest.mark.parametrize(
    "path", sorted(path for path in _pages() if _DIAGRAM.search((ROOT / path).read_text(encoding="utf-8")))
)
def test_each_diagram_is_in_the_page_and_mermaid_draws_it(site: Path, path: str) -> None:
    diagrams = _DIAGRAM.findall((ROOT / path).read_text(encoding="utf-8"))
    uri = PAGES.get(path, path.removeprefix("docs/")).removesuffix(".md")
    page = site / ("index.html" if uri == "index" else f"{uri}/index.html")
    assert page.read_text(encoding="utf-8").count('<pre class="mermaid">') == len(diagrams)
    for diagram in diagrams:
        assert mermaidx.render(diagram).svg().lstrip().startswith("<svg")


def test_mermaid_names_a_diagram_that_it_cannot_draw() -> None:
    with pytest.raises(Exception, match=r"(?i)parse|syntax|diagram"):
        mermaidx.render("flowchart LR\n  a[[x --> b").svg()


def test_the_table_of_runbooks_and_that_of_decisions_are_whole() -> None:
    for folder in (ROOT / "docs" / "runbooks", ROOT / "docs" / "decisions"):
        listed = re.findall(r"\]\(([\w-]+\.md)\)", (folder / "README.md").read_text(encoding="utf-8"))
        assert sorted(listed) == sorted(page.name for page in folder.glob("*.md") if page.name != "README.md")
