"""Comments and issues of one GitHub repository, found again by their marker. The standard library is all it needs.

The token is read from GITHUB_TOKEN: a command line is seen by every process of the machine.
"""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

BOT = "github-actions[bot]"
"""Who a workflow's token writes as. What others wrote is never edited, whatever marker is in it."""
_PAGE = 100
_MOST_PAGES = 50
_TIMEOUT_SECONDS = 30
_ATTEMPTS = 3
_LONGEST_WAIT_SECONDS = 60
_TRY_AGAIN = (429, 500, 502, 503, 504)


class GitHubError(RuntimeError):
    """GitHub did not do what it was asked; the message says what, and what it answered."""


@dataclass(frozen=True)
class Repository:
    """`owner/name` at an API. `pause` is what is waited for before another attempt, in seconds."""

    name: str
    token: str
    api: str = "https://api.github.com"
    pause: float = 2.0

    @classmethod
    def from_environment(cls) -> Repository:
        """The repository that a workflow runs for. Raises GitHubError naming the variables that are missing."""
        missing = [name for name in ("GITHUB_REPOSITORY", "GITHUB_TOKEN") if not os.environ.get(name)]
        if missing:
            raise GitHubError(f"{' and '.join(missing)} not set; a workflow sets them, by hand: export them")
        api = os.environ.get("GITHUB_API_URL") or cls.api
        return cls(os.environ["GITHUB_REPOSITORY"], os.environ["GITHUB_TOKEN"], api.rstrip("/"))

    def comment(self, number: int, marker: str, body: str) -> str:
        """Writes the comment of a pull request or issue that has `marker`, or edits it; returns its address."""
        for found in self._pages(f"issues/{number}/comments"):
            if _is_ours(found, marker):
                return str(self._call("PATCH", f"issues/comments/{found['id']}", {"body": body})["html_url"])
        return str(self._call("POST", f"issues/{number}/comments", {"body": body})["html_url"])

    def issue(self, marker: str, title: str, body: str, label: str) -> str:
        """Opens the issue that has `marker`, or edits the open one; returns its address."""
        found = self._open_issue(marker, label)
        if found is not None:
            return str(self._call("PATCH", f"issues/{found['number']}", {"title": title, "body": body})["html_url"])
        return str(self._call("POST", "issues", {"title": title, "body": body, "labels": [label]})["html_url"])

    def close_issue(self, marker: str, label: str, comment: str) -> str | None:
        """Closes the open issue that has `marker`, with a comment; returns its address, None when there is none."""
        found = self._open_issue(marker, label)
        if found is None:
            return None
        self._call("POST", f"issues/{found['number']}/comments", {"body": comment})
        closed = self._call("PATCH", f"issues/{found['number']}", {"state": "closed", "state_reason": "completed"})
        return str(closed["html_url"])

    def pull_request(self, head: str, sha: str) -> int | None:
        """The open pull request of the branch `head` (`owner:branch`) at its last commit `sha`; None: there is none."""
        query = urllib.parse.urlencode({"state": "open", "head": head})
        numbers = [int(found["number"]) for found in self._pages(f"pulls?{query}") if found["head"]["sha"] == sha]
        return numbers[0] if len(numbers) == 1 else None

    def _open_issue(self, marker: str, label: str) -> dict[str, Any] | None:
        query = urllib.parse.urlencode({"state": "open", "labels": label})
        issues = (found for found in self._pages(f"issues?{query}") if "pull_request" not in found)
        return next((found for found in issues if _is_ours(found, marker)), None)

    def _pages(self, path: str) -> Iterator[dict[str, Any]]:
        joint = "&" if "?" in path else "?"
        for page in range(1, _MOST_PAGES + 1):
            found = self._call("GET", f"{path}{joint}per_page={_PAGE}&page={page}")
            yield from found
            if len(found) < _PAGE:
                return

    def _call(self, method: str, path: str, content: dict[str, Any] | None = None) -> Any:
        url = f"{self.api}/repos/{self.name}/{path}"
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                request = self._request(method, url, content)
                with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310 - the API's address
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                said = _message(error)
                if error.code not in _TRY_AGAIN or attempt == _ATTEMPTS:
                    raise GitHubError(f"{method} {url}: {error.code} {said}") from None
                wait = error.headers.get("Retry-After", "")
                time.sleep(min(float(wait) if wait.isdigit() else self.pause * attempt, _LONGEST_WAIT_SECONDS))
            except (urllib.error.URLError, TimeoutError, ValueError) as error:
                if method != "GET" or attempt == _ATTEMPTS:  # whether a write has arrived is not known
                    raise GitHubError(f"{method} {url}: {getattr(error, 'reason', error)}") from None
                time.sleep(self.pause * attempt)
        raise AssertionError("the last attempt returns or raises")

    def _request(self, method: str, url: str, content: dict[str, Any] | None) -> urllib.request.Request:
        headers = {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {self.token}",
            "User-Agent": "triton-eks-review",
            "X-GitHub-Api-Version": "2022-11-28",
        }
        data = None
        if content is not None:
            data, headers["Content-Type"] = json.dumps(content).encode(), "application/json"
        return urllib.request.Request(url, data=data, headers=headers, method=method)  # noqa: S310 - the API's address


def _is_ours(found: dict[str, Any], marker: str) -> bool:
    return (found.get("user") or {}).get("login") == BOT and marker in (found.get("body") or "")


def _message(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error).get("message", ""))[:300]
    except (ValueError, AttributeError):
        return str(error.reason)
