"""The revision that a preview is made against."""

import pytest

from twin.services import scratch


def test_a_revision_that_git_knows_is_fine() -> None:
    scratch.check("HEAD")


def test_one_that_git_does_not_know_is_a_sentence() -> None:
    with pytest.raises(scratch.UnknownRevision) as error:
        scratch.check("no-such-branch")
    assert str(error.value) == (
        "--against no-such-branch: git knows no commit of that name (branches, tags and hashes are names)"
    )
