"""docs/stack-file.md documents every key of the present code."""

from __future__ import annotations

import pytest

from docs import stack_file
from spec.settings import relations
from spec.settings.rule import marked
from spec.settings.section import Section


def sections(base: type[Section] = Section) -> list[type[Section]]:
    """Return all sections; a section comes after the section that it extends."""
    return [found for section in base.__subclasses__() for found in (section, *sections(section))]


@pytest.fixture(scope="module")
def page() -> str:
    """Return the page as generated from the present code."""
    return stack_file.page()


def test_the_page_is_as_the_code_is(page: str) -> None:
    assert stack_file.PAGE.read_text(encoding="utf-8") == page, "stale: run `make reference`, and read the diff"


def test_every_key_is_on_the_page(page: str) -> None:
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    keys = [(section, name) for section in sections() for name in vars(section).get("__annotations__", {})]
    own = ("stack", "today", "warnings")
    keys = [(section, name) for section, name in keys if name in section.model_fields and name not in own]
    assert len(keys) == len(rows) > 170


def test_every_section_leads_to_a_page_that_says_how_it_is_used_and_to_its_module(page: str) -> None:
    sections = [section for part in page.split("\n## ")[1:] for section in part.split("\n### ") if "| key |" in section]
    heads = [" ".join(section.partition("| key |")[0].split()) for section in sections]
    assert [head for head in heads if "How to: [" not in head or "Keys and rules: [" not in head] == []
    assert len(heads) > 40


def test_every_rule_has_its_sentence_on_the_page(page: str) -> None:
    homes = [*(vars(section) for section in sections()), *(vars(module) for module in relations.modules())]
    rules = [check for home in homes for told_as in ("problem", "warning") for check in marked(home, told_as)]
    sentences = [stack_file.first_paragraph(check) for check in rules]
    assert [sentence for sentence in sentences if not sentence.startswith(("Require ", "Refuse ", "Warn "))] == []
    assert len(rules) > 100
    assert page.count("\n- Re") + page.count("\n- Warn") == len(rules)
