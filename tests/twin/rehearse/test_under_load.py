"""The revision before a change: refusals before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.packaged import build
from spec.failure import NOT_TRIED, Failure
from twin.host.home import REPOSITORY
from twin.rehearse import under_load

LOCAL = (REPOSITORY / "stacks" / "Pulumi.local.yaml").read_bytes()


def test_a_revision_whose_stack_file_this_checkout_reads_is_fine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in build.FILES.values():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.setattr(build, "PACKAGES", tmp_path)
    monkeypatch.setattr(under_load.scratch, "stack_file", lambda *_: LOCAL)
    under_load.check("HEAD")


def test_without_the_models_that_are_released_nothing_is_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(build, "PACKAGES", tmp_path)
    monkeypatch.setattr(under_load.scratch, "stack_file", lambda *_: LOCAL)
    with pytest.raises(build.NotBuilt, match=r"; `make models` puts the packages there that have them$") as refused:
        under_load.check("HEAD")
    assert refused.value.exit_code == NOT_TRIED


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            LOCAL.replace(b"autoscaler: none", b"scaler: none"),
            "stacks/Pulumi.local.yaml: worker.scaler: unknown key; did you mean 'autoscaler'?",
        ),
        (b"config: [", "stacks/Pulumi.local.yaml: "),
    ],
)
def test_one_whose_stack_file_is_read_otherwise_now_is_refused(
    monkeypatch: pytest.MonkeyPatch, content: bytes, said: str
) -> None:
    monkeypatch.setattr(under_load.scratch, "stack_file", lambda *_: content)
    with pytest.raises(Failure) as caught:
        under_load.check("HEAD")
    first, second = str(caught.value).splitlines()[:2]
    assert first == (
        "HEAD: this checkout reads stack files otherwise, and cannot bring local up from there; give a later one"
    )
    assert second.startswith(said)
    assert caught.value.exit_code == NOT_TRIED


def test_a_revision_that_git_does_not_know_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="git knows no commit of that name"):
        under_load.check("no-such-branch")
