"""Every claim of docs/proven.md has a check, or a reason why `stackctl certify` skips it."""

from __future__ import annotations

from pathlib import Path

import pytest

from spec.reading import Unreadable
from stackctl.certify import claims
from stackctl.certify.checks import GONE, STANDING
from stackctl.certify.untried import OFFLINE, UNTRIED
from tests.paths import ROOT


def test_each_claim_is_tried_or_has_a_reason_and_nothing_else_is() -> None:
    page = [claim.text for claim in claims.read(ROOT / claims.PAGE)]
    assert sorted(page) == sorted([*STANDING, *GONE, *UNTRIED])


def test_of_what_the_tests_show_alone_nothing_is_left_to_show() -> None:
    """If the page says that something is not shown, an account may show it: the reason must say how."""
    page = claims.read(ROOT / claims.PAGE)
    left = {claim.text: claim.not_shown for claim in page if claim.not_shown}
    assert len(left) > len(page) / 2
    assert [text for text, reason in UNTRIED.items() if reason == OFFLINE and text in left] == []


def test_a_claim_is_a_row_of_a_table_under_its_heading(tmp_path: Path) -> None:
    page = tmp_path / "proven.md"
    page.write_text(
        "| column | what it means |\n|---|---|\n| record | kept |\n\n## Nodes\n\n"
        "| claim | shown by | record | not shown |\n|---|---|---|---|\n| they join | `make e2e` | none | a kubelet |\n"
        "| they go | `make test` | none | |\n"
    )
    assert claims.read(page) == [
        claims.Claim("Nodes", "they join", "a kubelet"),
        claims.Claim("Nodes", "they go"),
    ]


def test_a_page_without_claims_is_told(tmp_path: Path) -> None:
    page = tmp_path / "proven.md"
    page.write_text("# Nothing\n")
    with pytest.raises(Unreadable, match=r"has no table of claims; take the file from the checkout$"):
        claims.read(page)
