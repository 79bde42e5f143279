"""Check that the repository whose jobs start the runner in the VPC is private."""

from __future__ import annotations

from collections.abc import Iterator

import httpx

from console.proxied import ProxyUnusable, client
from stackctl.account.read_only import one_line
from stackctl.preflight.checks.check import Finding, Subject, fail, ok, unknown

API = "https://api.github.com"
_SECONDS = 10


def check(subject: Subject) -> Iterator[Finding]:
    """Yield whether the repository is public: then a stranger's pull request may request the runner."""
    access = subject.settings.cluster.api_access
    if access is None or access.runner is None:
        yield ok("not needed: the stack has no runner in the VPC")
        return
    repository = access.runner.repository
    try:
        public = is_public(repository)
    except _Unanswered as error:
        yield unknown(
            f"whether {repository} is public: {error}", f"see that it is not: gh repo view {repository} --json visibility"
        )
        return
    if public:
        yield fail(
            f"{repository} is public: a stranger's pull request may ask for the runner in the VPC",
            "make the repository private, or remove cluster.apiAccess.runner and its stack from VPC_RUNNERS",
        )
    else:
        yield ok(f"{repository} is not public")


class _Unanswered(Exception):
    """GitHub gave no answer; the text says why."""


def is_public(repository: str) -> bool:
    """Return whether GitHub shows the repository without credentials; it answers 404 for others. Raises _Unanswered.

    https://docs.github.com/en/rest/repos/repos#get-a-repository
    """
    try:
        with client(timeout=_SECONDS, follow_redirects=True) as github:
            answer = github.get(f"{API}/repos/{repository}")
            if answer.status_code == httpx.codes.NOT_FOUND:
                return False
            # A proxy or ~/.netrc may have added credentials, which also show a private repository.
            private = answer.raise_for_status().json()["private"]
        if not isinstance(private, bool):
            raise TypeError
    except (httpx.HTTPError, ProxyUnusable) as error:
        raise _Unanswered(one_line(str(error)) or type(error).__name__) from None
    except (ValueError, KeyError, TypeError):
        raise _Unanswered(f"{API} answered something else than a repository in JSON") from None
    return not private
