"""Write comments and issues of a GitHub repository, and find them by their marker.

It needs only the standard library. The token comes from GITHUB_TOKEN, because every process of the machine can read a
command line.
"""

from __future__ import annotations

import json
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any

from spec import reading
from spec.failure import Failure
from spec.reading import Unreadable

BOT = "github-actions[bot]"
"""Login of a workflow's token, and our login if GitHub does not report one."""
_PAGE = 100
_MOST_PAGES = 50
_TIMEOUT_SECONDS = 30
_ATTEMPTS = 3
_LONGEST_WAIT_SECONDS = 60
_TRY_AGAIN = (429, 500, 502, 503, 504)
_TOKEN = re.compile(r"[!-~]+")
_NAME = re.compile(r"[A-Za-z0-9_-]+/[A-Za-z0-9._-]+")
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_ADDRESS = re.compile(rf"https?://{_LABEL}(?:\.{_LABEL})*(?::([0-9]{{1,5}}))?(?:/[!-~]*)?")
"""Address of an API, without user name and password, because messages would print them."""
_LARGEST_PORT = 65_535
_SECONDS = re.compile(r"[0-9]{1,9}")
_WRITTEN = re.compile(r"[!-~]+")
_HIDDEN = "(the token)"
_LONGEST_MESSAGE = 300


class GitHubError(Failure):
    """A request to GitHub failed, or a setting is invalid. The message gives the reason."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """urllib would send the token to any redirect target."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)


@dataclass(frozen=True)
class Repository:
    """`owner/name` at an API. `pause` is the wait before another attempt, in seconds.

    Its output and errors never contain the token. Raises GitHubError for an invalid name, address or token.
    """

    name: str
    token: str = field(repr=False)
    api: str = "https://api.github.com"
    graphql: str = "https://api.github.com/graphql"
    pause: float = 2.0

    def __post_init__(self) -> None:
        if not _TOKEN.fullmatch(self.token):
            raise GitHubError(
                "GITHUB_TOKEN has a blank, a line end or another character that no token has; set it to the token alone, as "
                'export GITHUB_TOKEN="$(gh auth token)" does'
            )
        if not _NAME.fullmatch(self.name):
            raise GitHubError(f"GITHUB_REPOSITORY is {self.name!r}, which is no repository; set it to OWNER/NAME")
        for variable, address in (("GITHUB_API_URL", self.api), ("GITHUB_GRAPHQL_URL", self.graphql)):
            found = _ADDRESS.fullmatch(address)
            if found is None or int(found[1] or 0) > _LARGEST_PORT:
                said = repr(self._hidden(address))
                raise GitHubError(f"{variable} is {said}, which is no address; leave it out for github.com")

    @classmethod
    def from_environment(cls) -> Repository:
        """Return the repository of the running workflow. Raises GitHubError that names the missing variables."""
        missing = [name for name in ("GITHUB_REPOSITORY", "GITHUB_TOKEN") if not os.environ.get(name)]
        if missing:
            raise GitHubError(f"{' and '.join(missing)} not set; a workflow sets them, by hand: export them")
        api = (os.environ.get("GITHUB_API_URL") or cls.api).rstrip("/")
        graphql = os.environ.get("GITHUB_GRAPHQL_URL") or f"{api.removesuffix('/v3')}/graphql"
        return cls(os.environ["GITHUB_REPOSITORY"], os.environ["GITHUB_TOKEN"], api, graphql)

    def comment(self, number: int, marker: str, body: str) -> str:
        """Create or edit our comment on a pull request or issue; return its address.

        Our comment begins with `marker`. Raises GitHubError, also for a body whose first line is not the marker, because
        it would not be found again.
        """
        _refuse_unmarked(body, marker)
        found = self._first_of_ours(self._pages(f"issues/{number}/comments"), marker)
        if found is not None:
            return self._address("PATCH", f"issues/comments/{_number(found, 'id')}", {"body": body})
        return self._address("POST", f"issues/{number}/comments", {"body": body})

    def issue(self, marker: str, title: str, body: str, label: str) -> str:
        """Open or edit our issue that begins with `marker`; return its address.

        Raises as `comment`.
        """
        _refuse_unmarked(body, marker)
        found = self._open_issue(marker, label)
        if found is not None:
            return self._address("PATCH", f"issues/{_number(found, 'number')}", {"title": title, "body": body})
        return self._address("POST", "issues", {"title": title, "body": body, "labels": [label]})

    def close_issue(self, marker: str, label: str, comment: str) -> str | None:
        """Close the open issue that has `marker`; return its address, or None.

        It adds `comment` to the issue first.
        """
        found = self._open_issue(marker, label)
        if found is None:
            return None
        number = _number(found, "number")
        self._call("POST", f"issues/{number}/comments", {"body": comment})
        return self._address("PATCH", f"issues/{number}", {"state": "closed", "state_reason": "completed"})

    def pull_request(self, head: str, sha: str) -> int | None:
        """Return the number of the open pull request of a branch, or None.

        `head` is `owner:branch`; `sha` must be its last commit.
        """
        query = urllib.parse.urlencode({"state": "open", "head": head})
        numbers = [_number(found, "number") for found in self._pages(f"pulls?{query}") if _last_commit(found) == sha]
        return numbers[0] if len(numbers) == 1 else None

    def unprotected(self, environment: str, branch: str, *, reviewed: bool) -> list[str]:
        """Return the protections that an environment lacks before its jobs may deploy.

        It needs a branch policy, and with `reviewed` also reviewers.
        """
        found = self._call("GET", f"environments/{environment}")
        policy = found.get("deployment_branch_policy") if isinstance(found, dict) else None
        named = policy.get("custom_branch_policies") is True if isinstance(policy, dict) else False
        answer = self._call("GET", f"environments/{environment}/deployment-branch-policies") if named else {}
        branches = [one.get("name") for one in answer.get("branch_policies", ())] if isinstance(answer, dict) else []
        rules = found.get("protection_rules") if isinstance(found, dict) else None
        asked = [one for one in rules or () if isinstance(one, dict) and one.get("type") == "required_reviewers"]
        lacking = []
        if branches != [branch]:
            lacking.append(
                f"its deployment branches are not {branch} alone; select that branch in the environment's settings"
            )
        if reviewed and not any(one.get("reviewers") for one in asked):
            lacking.append("nobody has to approve its jobs; add required reviewers in the environment's settings")
        return [f"environment {environment}: {problem}" for problem in lacking]

    def _open_issue(self, marker: str, label: str) -> dict[str, Any] | None:
        query = urllib.parse.urlencode({"state": "open", "labels": label})
        issues = (found for found in self._pages(f"issues?{query}") if "pull_request" not in found)
        return self._first_of_ours(issues, marker)

    def _first_of_ours(self, found: Iterable[dict[str, Any]], marker: str) -> dict[str, Any] | None:
        """Return the first that begins with the marker and is ours. Other authors may quote the marker."""
        marked = [one for one in found if _first_line(one.get("body")) == marker]
        us = self._login() if marked else ""
        return next((one for one in marked if _author(one) == us), None)

    def _login(self) -> str:
        """Return the login of the token.

        `GET /user` refuses tokens of apps, including a workflow's token; `viewer` works for all. If `viewer` fails,
        assume a workflow's token. Then text by another author is not found and not edited.
        """
        try:
            answer = self._send("POST", self.graphql, {"query": "{ viewer { login } }"})
            login = answer["data"]["viewer"]["login"]
        except (OSError, HTTPException, Unreadable, TypeError, KeyError):
            return BOT
        return login if isinstance(login, str) and login else BOT

    def _pages(self, path: str) -> Iterator[dict[str, Any]]:
        joint = "&" if "?" in path else "?"
        for page in range(1, _MOST_PAGES + 1):
            found = self._call("GET", f"{path}{joint}per_page={_PAGE}&page={page}")
            if not (isinstance(found, list) and all(isinstance(one, dict) for one in found)):
                raise GitHubError(f"GET {self._url(path)}: the answer is not a list of what was asked for; is this GitHub?")
            yield from found
            if len(found) < _PAGE:
                return

    def _address(self, method: str, path: str, content: dict[str, Any]) -> str:
        answer = self._call(method, path, content)
        address = answer.get("html_url") if isinstance(answer, dict) else None
        if not (isinstance(address, str) and _WRITTEN.fullmatch(address)):
            raise GitHubError(f"{method} {self._url(path)}: the answer does not say where it is now; is this GitHub?")
        return address

    def _call(self, method: str, path: str, content: dict[str, Any] | None = None) -> Any:
        url = self._url(path)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return self._send(method, url, content)
            except urllib.error.HTTPError as error:
                said = self._hidden(_message(error))[:_LONGEST_MESSAGE]
                if error.code not in _TRY_AGAIN or attempt == _ATTEMPTS:
                    raise GitHubError(f"{method} {url}: {error.code} {said}") from None
                wait = error.headers.get("Retry-After", "")
                time.sleep(min(int(wait) if _SECONDS.fullmatch(wait) else self.pause * attempt, _LONGEST_WAIT_SECONDS))
            except Unreadable as error:  # the next answer would be the same
                raise GitHubError(self._hidden(str(error))) from None
            except (OSError, HTTPException) as error:
                if method != "GET" or attempt == _ATTEMPTS:  # a write may have arrived
                    raise GitHubError(self._hidden(f"{method} {url}: {getattr(error, 'reason', error)}")) from None
                time.sleep(self.pause * attempt)
        raise AssertionError("the last attempt returns or raises")

    def _send(self, method: str, url: str, content: dict[str, Any] | None) -> Any:
        with _OPENER.open(self._request(method, url, content), timeout=_TIMEOUT_SECONDS) as answer:
            return reading.answer(answer.read(reading.LARGEST_ANSWER), f"{method} {url}")

    def _url(self, path: str) -> str:
        return f"{self.api}/repos/{self.name}/{path}"

    def _hidden(self, text: str) -> str:
        """Return the text without the token, because a server may send the request back."""
        return text.replace(self.token, _HIDDEN)

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


def _first_line(body: Any) -> str:
    return body.partition("\n")[0].rstrip("\r") if isinstance(body, str) else ""


def _refuse_unmarked(body: str, marker: str) -> None:
    if _first_line(body) != marker:
        raise GitHubError(
            f"the text does not begin with the line {marker}, by which it is found again: `stackctl review render --name` "
            "writes it, of the same name"
        )


def _number(found: dict[str, Any], key: str) -> int:
    number = found.get(key)
    if type(number) is not int or number < 1:
        raise GitHubError(f"GitHub lists something without {key}; is this GitHub?")
    return number


def _last_commit(found: dict[str, Any]) -> str:
    head = found.get("head")
    sha = head.get("sha") if isinstance(head, dict) else None
    if not isinstance(sha, str):
        raise GitHubError("GitHub lists a pull request without head.sha; is this GitHub?")
    return sha


def _author(found: dict[str, Any]) -> str | None:
    """Return the author's login; None if the account is deleted."""
    user = found.get("user")
    if not isinstance(user, dict | None):
        raise GitHubError("GitHub lists something whose user is no object; is this GitHub?")
    return user.get("login") if user else None


def _message(error: urllib.error.HTTPError) -> str:
    location = error.headers.get("Location")
    if location:
        return f"it is at {location} now, where nothing was sent; set GITHUB_REPOSITORY and GITHUB_API_URL to that"
    try:
        answer = reading.json_object(error.read(reading.LARGEST_ANSWER))
    except (OSError, HTTPException, Unreadable):
        return str(error.reason)
    # On one line, because a workflow takes a line that begins with `::` for a command.
    return " ".join("".join(one if one.isprintable() else " " for one in str(answer.get("message") or error.reason)).split())
