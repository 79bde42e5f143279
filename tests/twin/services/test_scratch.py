"""The revision for the comparison of a preview."""

from pathlib import Path

import pytest

from twin.host.home import REPOSITORY, TwinHome
from twin.services import scratch
from twin.services.servers import Servers


def test_a_revision_that_git_knows_is_fine() -> None:
    scratch.check("HEAD")


def test_one_that_git_does_not_know_is_a_sentence() -> None:
    with pytest.raises(scratch.UnknownRevision) as error:
        scratch.check("no-such-branch")
    assert str(error.value) == ("no-such-branch: git knows no commit of that name (branches, tags and hashes are names)")


def test_a_revision_without_the_files_of_stacks_is_a_sentence_about_all_of_them() -> None:
    scratch.check("HEAD", ("local", "prod"))
    with pytest.raises(scratch.UnknownRevision) as error:
        scratch.check("HEAD", ("qa", "local", "eu"))
    assert str(error.value) == (
        "HEAD: it has no stacks/Pulumi.eu.yaml and no stacks/Pulumi.qa.yaml; give a revision of this program that has them"
    )


def test_the_engine_of_a_revision_runs_what_git_has_of_it(tmp_path: Path) -> None:
    servers = Servers(TwinHome(tmp_path), {}, "http://127.0.0.1:1", tmp_path / "kubeconfig")
    old = scratch.of_revision(servers, "HEAD")
    assert (servers.program, old.program) == (REPOSITORY, tmp_path / "program")
    assert (old.program / "Pulumi.yaml").exists()
    assert not (old.program / ".git").exists()
