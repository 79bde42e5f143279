"""All references in pages, comments and docstrings exist: files, headings, Makefile targets, commands, options.

No reference names a file that a reader of this repository lacks.
"""

from __future__ import annotations

import itertools
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.repository.docs.command_lines import has_a_command_line, help_of, is_of_others, source
from tests.repository.docs.references import Command, Files, commands, links, makefile_targets, paths, prose, targets

_FACT = re.compile(r"\bdocs/facts/[\w-]+\.md(?:#[\w-]+)?")
_FOREIGN = tuple(
    # Each check starts with a search for the text that it needs, which is faster than the match.
    (needed, re.compile(pattern, re.IGNORECASE))
    for needed, pattern in (
        # Split in pieces, because the test also reads this file.
        ("issue", "issue" + r"s? \d"),
        ("issue", "issue" + r" [a-z]+ point"),
        ("re" + "search", r"\bre" + r"search\b"),
        (".md", r"\b(?:triton|kubernetes|pulumi|twin|anchors)\.md" + r",? (?:section )?\d"),
        (".md", r"(?<![\w/-])(?:design|anchors|house)" + r"\.md"),
        ("/" + "work/", r"(?<![\w.-])/" + r"work/"),
    )
)


@pytest.fixture(scope="module")
def files() -> Files:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    return Files(ROOT, tuple(path for path in listed.stdout.split("\0") if path and (ROOT / path).is_file()))


def test_every_cited_path_and_heading_is_there(files: Files) -> None:
    _none(_missing_paths(files))


def test_every_link_of_a_page_leads_somewhere(files: Files) -> None:
    _none(_missing_links(files))


def test_every_cited_make_target_is_in_the_makefile(files: Files) -> None:
    _none(_missing_targets(files))


def test_every_cited_command_and_option_exists(files: Files) -> None:
    _none(_missing_commands(files))


def test_nothing_cites_what_is_not_in_the_repository(files: Files) -> None:
    _none(_foreign(files))


def _none(mistakes: Iterable[str]) -> None:
    if found := list(mistakes):
        pytest.fail("\n".join(found), pytrace=False)


def _missing_paths(files: Files) -> Iterator[str]:
    folders = files.folders
    for path, text in _texts(files):
        if not any(True for _ in paths(text, folders)):
            continue  # parsing takes longer than searching
        named = set(paths(prose(path, text), folders))
        named |= {(fact, heading) for fact, _, heading in (found.partition("#") for found in _FACT.findall(text))}
        for cited, heading in sorted(named):
            yield from _missing(files, path, cited, heading)


def _missing_links(files: Files) -> Iterator[str]:
    for path, text in _texts(files):
        if path.endswith(".md"):
            for cited, heading in links(path, text):
                yield from _missing(files, path, cited, heading)


def _missing(files: Files, path: str, cited: str, heading: str) -> Iterator[str]:
    if not files.has(cited):
        yield f"{path}: {cited} does not exist"
    elif heading and cited.endswith(".md") and heading not in files.headings(cited):
        yield f"{path}: {cited} has no heading #{heading}"


def _missing_targets(files: Files) -> Iterator[str]:
    known = makefile_targets(files.text("Makefile"))
    for path, text in _texts(files):
        if not targets(path, text) - known:
            continue  # parsing takes longer than searching
        for name in sorted(targets(path, _read_by_people(path, text)) - known):
            yield f"{path}: the Makefile has no target {name}"


def _missing_commands(files: Files) -> Iterator[str]:
    for path, text in _texts(files):
        if not any(True for _ in commands(text)):
            continue  # parsing takes longer than searching
        for command in commands(_read_by_people(path, text)):
            if problem := _problem(command):
                yield f"{path}: {problem}"


def _problem(command: Command) -> str:
    if is_of_others(command.module):
        return ""
    program = source(command.module)
    if program is None:
        return f"python3 -m {command.module}: there is no such program"
    if not has_a_command_line(program):
        return ""
    told = help_of(command.module, command.words)
    named = " ".join(("python3 -m", command.module, *command.words))
    if told is None:
        return f"{named}: it has no such command"
    known = set(re.findall(r"--[a-z][a-z0-9-]*", told))
    unknown = [option for option in command.options if option not in known]
    return f"{named}: it has no option {', '.join(unknown)}" if unknown else ""


def _foreign(files: Files) -> Iterator[str]:
    for path, text in _texts(files):
        lower = text.lower()
        for match in itertools.chain.from_iterable(
            pattern.finditer(text) for needed, pattern in _FOREIGN if needed in lower
        ):
            yield f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]}"


def _read_by_people(path: str, text: str) -> str:
    """Return the whole text of a file. Of tests, return only comments: their examples may be wrong on purpose."""
    return prose(path, text) if path.startswith("tests/") else text


def _texts(files: Files) -> Iterator[tuple[str, str]]:
    for path in files.paths:
        try:
            yield path, files.text(path)
        except UnicodeDecodeError:
            continue  # an image


# Mistakes that the tests above find: each of these trees has one.


def _tree(root: Path, **contents: str) -> Files:
    """Return files by the keywords' names: two underscores mean a slash, and the last one before `md` means a dot."""
    for name, text in contents.items():
        path = root / re.sub(r"_(md|py|yaml)$", r".\1", name.replace("__", "/"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Files(root, tuple(str(path.relative_to(root)) for path in sorted(root.rglob("*")) if path.is_file()))


PAGE = "# A\n\n## Two words\n\n    ## not one\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param('"""See docs/a.md#two-words, `infra/<name>.py` and stacks/x."""', [], id="all there"),
        pytest.param('"""See docs/b.md."""', ["docs/b.md does not exist"], id="no page"),
        pytest.param("x = 1  # docs/a.md#three-words", ["docs/a.md has no heading #three-words"], id="no heading"),
        pytest.param('"""See docs/a.md#not-one."""', ["docs/a.md has no heading #not-one"], id="in a code block"),
        pytest.param('"""See `infra/none.py`."""', ["infra/none.py does not exist"], id="no module"),
        pytest.param('"""See infra/*.yaml."""', ["infra/*.yaml does not exist"], id="none of such a form"),
        pytest.param('x = "docs/b.md"', [], id="a string of the program"),
        pytest.param('x = "docs/facts' + '/b.md#c"', ["docs/facts" + "/b.md does not exist"], id="a fact in a message"),
        pytest.param('"""https://github.com/o/r/blob/v1/docs/b.md"""', [], id="upstream"),
    ],
)
def test_a_path_that_leads_nowhere_is_named(tmp_path: Path, text: str, told: list[str]) -> None:
    found = _missing_paths(_tree(tmp_path, docs__a_md=PAGE, infra__x_py=text))
    assert [line.removeprefix("infra/x.py: ") for line in found] == told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("[a](b/c.md#two-words), [b](#here), [u](https://x.test/y.md)\n\n# Here", [], id="all there"),
        pytest.param("[a](b/d.md)", ["docs/b/d.md does not exist"], id="no page"),
        pytest.param("[a](../b/c.md)", ["b/c.md does not exist"], id="from the wrong folder"),
        pytest.param("[a](b/c.md#two)", ["docs/b/c.md has no heading #two"], id="no heading"),
        pytest.param("[a](#there)", ["docs/a.md has no heading #there"], id="no heading here"),
    ],
)
def test_a_link_that_leads_nowhere_is_named(tmp_path: Path, text: str, told: list[str]) -> None:
    found = _missing_links(_tree(tmp_path, docs__a_md=text, docs__b__c_md=PAGE))
    assert [line.removeprefix("docs/a.md: ") for line in found] == told


def test_a_target_that_the_makefile_lacks_is_named(tmp_path: Path) -> None:
    page = "`make up STACK=x`, to make sense, `make upp`\n\n    make down\n    make downn   # all of it\n"
    files = _tree(tmp_path, Makefile="up: ## x\n\ndown:\n", docs__a_md=page)
    assert list(_missing_targets(files)) == [f"docs/a.md: the Makefile has no target {name}" for name in ("downn", "upp")]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("python3 -m twin preview STACK [--diff]", "", id="all there"),
        pytest.param("python3 -m twinn up", "python3 -m twinn: there is no such program", id="no program"),
        pytest.param("python3 -m twin uup", "python3 -m twin uup: it has no such command", id="no command of typer's"),
        pytest.param("python3 -m stackctl cost shw", "python3 -m stackctl cost shw: it has no such command", id="nor here"),
        pytest.param("python -m twin load --rat 3", "python3 -m twin load: it has no option --rat", id="no option"),
        pytest.param('python3 -m modelctl list --bucket "$(pulumi stack output x --stack y)"', "", id="options of another"),
        pytest.param("python3 -m stackctl tunnel dev -- pulumi up --stack dev", "", id="a program behind two hyphens"),
        pytest.param('eval "$(python3 -m twin env)"', "", id="inside of another command"),
        pytest.param('eval "$(python3 -m twin enw)"', "python3 -m twin enw: it has no such command", id="and wrong there"),
        pytest.param("python3 -m venv .venv", "", id="of Python itself"),
        pytest.param("python -m worker", "", id="without a command line"),
    ],
)
def test_a_command_that_does_not_exist_is_named(text: str, told: str) -> None:
    assert [_problem(command) for command in commands(text)] == [told]


@pytest.mark.parametrize(
    "words",
    ["(issue" + " 7)", "issue" + " seven point 2", "Re" + "search", "triton" + ".md 3.3", "design" + ".md", "/" + "work/x"],
)
def test_what_is_not_in_the_repository_is_named(tmp_path: Path, words: str) -> None:
    [line] = _foreign(_tree(tmp_path, infra__x_py=f"# first\n# see {words}\n"))
    assert line.startswith("infra/x.py:2: ")
