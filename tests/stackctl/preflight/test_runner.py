"""Preflight refuses a runner in the VPC for a public repository, by GitHub's answer without credentials."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from stackctl.preflight.checks import runner
from stackctl.preflight.checks.check import Finding, Subject, fail, ok, unknown
from tests import http_server
from tests.system.component.test_runner import RUNNER

LOOK = "see that it is not: gh repo view example/platform --json visibility"
ANSWERS = {
    "public": (200, b'{"full_name": "example/platform", "private": false, "visibility": "public"}'),
    "hidden": (404, b'{"message": "Not Found", "status": "404"}'),
    "private": (200, b'{"full_name": "example/platform", "private": true, "visibility": "private"}'),
    "limited": (403, b'{"message": "API rate limit exceeded for 192.0.2.1."}'),
    "page": (200, b"<!DOCTYPE html><title>Sign in</title>"),
    "other": (200, b'{"private": "no"}'),
}


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Yield the requests to a fake GitHub on loopback; the end of its address is its answer."""
    received: list[str] = []

    class GitHub(http_server.Handler):
        def do_GET(self) -> None:
            _, answer, path = self.path.split("/", 2)
            received.append(f"{path} {self.headers.get('Authorization', 'without credentials')}")
            self.answer(*ANSWERS[answer])

    with http_server.listening(GitHub) as server:
        monkeypatch.setattr(runner, "API", server.url)
        yield received


def check(subject: Callable[..., Subject], access: object) -> Finding:
    (finding,) = runner.check(subject({"cluster.apiAccess": access} if access else None))
    return finding


@pytest.mark.parametrize(
    ("answer", "finding"),
    [
        (
            "public",
            fail(
                "example/platform is public: a stranger's pull request may ask for the runner in the VPC",
                "make the repository private, or remove cluster.apiAccess.runner and its stack from VPC_RUNNERS",
            ),
        ),
        ("hidden", ok("example/platform is not public")),
        ("private", ok("example/platform is not public")),
    ],
)
def test_only_a_public_repository_is_refused(
    subject: Callable[..., Subject], requests: list[str], monkeypatch: pytest.MonkeyPatch, answer: str, finding: Finding
) -> None:
    monkeypatch.setattr(runner, "API", f"{runner.API}/{answer}")
    assert check(subject, {"runner": RUNNER}) == finding
    assert requests == ["repos/example/platform without credentials"]


@pytest.mark.parametrize(
    ("answer", "why"), [("limited", "403 Forbidden"), ("page", "something else than"), ("other", "something else than")]
)
def test_another_answer_leaves_it_unknown(
    subject: Callable[..., Subject], requests: list[str], monkeypatch: pytest.MonkeyPatch, answer: str, why: str
) -> None:
    monkeypatch.setattr(runner, "API", f"{runner.API}/{answer}")
    finding = check(subject, {"runner": RUNNER})
    assert finding == unknown(finding.message, LOOK)
    assert finding.message.startswith("whether example/platform is public: ") and why in finding.message
    assert len(requests) == 1


def test_a_github_that_is_not_reached_leaves_it_unknown(
    subject: Callable[..., Subject], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "API", "http://127.0.0.1:1")
    assert check(subject, {"runner": RUNNER}) == unknown(
        "whether example/platform is public: [Errno 111] Connection refused", LOOK
    )


@pytest.mark.parametrize("access", [None, {"cidrs": ["10.30.0.0/16"]}])
def test_without_a_runner_github_gets_no_request(
    subject: Callable[..., Subject], requests: list[str], access: dict[str, list[str]] | None
) -> None:
    assert (check(subject, access), requests) == (ok("not needed: the stack has no runner in the VPC"), [])
