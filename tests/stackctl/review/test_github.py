"""Comments and issues on a fake GitHub server on loopback."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import Message
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlsplit

import pytest

from stackctl.review.github import BOT, GitHubError, Repository
from tests import http_server

MARKER = "<!-- triton-eks: preview -->"
TOKEN = "ghs_0123456789abcdefABCDEF"


@dataclass
class GitHub:
    """One repository's comments and issues; the next requests get the status codes in `failures` instead."""

    url: str = ""
    comments: list[dict[str, Any]] = field(default_factory=list)
    issues: list[dict[str, Any]] = field(default_factory=list)
    pulls: list[dict[str, Any]] = field(default_factory=list)
    environments: dict[str, dict[str, Any]] = field(default_factory=dict)
    failures: list[int] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    viewer: str | None = BOT
    said: str = "not now"
    raw: bytes | None = None
    """The answer to every request."""

    def who_asks(self) -> tuple[int, Any]:
        if self.viewer is None:
            return 403, {"message": "Resource not accessible by integration"}
        return 200, {"data": {"viewer": {"login": self.viewer}}}

    def answer(self, method: str, path: str, query: dict[str, list[str]], content: Any) -> tuple[int, Any]:
        if method == "GET" and path.startswith("environments/"):
            name, _, rest = path.removeprefix("environments/").partition("/")
            found = self.environments.get(name)
            return (200, found["branches"] if rest else found) if found else (404, {"message": "Not Found"})
        if method == "GET" and path.endswith("/comments"):
            return 200, self._page(self.comments, query)
        if method == "GET" and path == "pulls":
            owner_branch = query["head"][0]
            return 200, self._page([one for one in self.pulls if one["head"]["label"] == owner_branch], query)
        if method == "GET" and path == "issues":
            return 200, self._page([one for one in self.issues if one["state"] == "open"], query)
        if method == "POST" and path.endswith("/comments"):
            return 201, self._add(self.comments, content)
        if method == "POST" and path == "issues":
            return 201, self._add(self.issues, {"state": "open", **content})
        match = re.fullmatch(r"issues/(comments/)?(\d+)", path)
        assert match and method == "PATCH", (method, path)
        found = next(one for one in (self.comments if match[1] else self.issues) if one["id"] == int(match[2]))
        found.update(content)
        return 200, found

    def _add(self, where: list[dict[str, Any]], content: dict[str, Any]) -> dict[str, Any]:
        number = len(where) + 1
        user = {"login": self.viewer or BOT}
        made = {"id": number, "number": number, "user": user, "html_url": f"https://x/{number}", **content}
        where.append(made)
        return made

    @staticmethod
    def _page(found: list[dict[str, Any]], query: dict[str, list[str]]) -> list[dict[str, Any]]:
        size, page = int(query["per_page"][0]), int(query["page"][0])
        return found[(page - 1) * size : page * size]


@pytest.fixture
def github() -> Iterator[GitHub]:
    site = GitHub()

    class Answers(http_server.Handler):
        def _serve(self) -> None:
            address = urlsplit(self.path)
            site.requests.append(f"{self.command} {address.path}")
            assert self.headers["Authorization"] == f"Bearer {TOKEN}"
            sent = self.body()
            content = json.loads(sent) if sent else None
            if address.path == "/graphql":
                status, body = site.who_asks()
            elif site.failures:
                status, body = site.failures.pop(0), {"message": site.said}
            else:
                path = address.path.removeprefix("/repos/org/repo/")
                status, body = site.answer(self.command, path, parse_qs(address.query), content)
            away = {"Location": "http://127.0.0.2:1/elsewhere"} if status in (301, 302, 307) else {}
            self.answer(status, site.raw if site.raw is not None else json.dumps(body).encode(), **away)

        do_GET = do_POST = do_PATCH = _serve

    with http_server.listening(Answers) as server:
        site.url = server.url
        yield site


@pytest.fixture
def repository(github: GitHub) -> Repository:
    return Repository("org/repo", TOKEN, github.url, f"{github.url}/graphql", pause=0)


def marked(text: str) -> str:
    return f"{MARKER}\n{text}"


def test_a_comment_is_written_once_and_edited_from_then_on(github: GitHub, repository: Repository) -> None:
    assert repository.comment(7, MARKER, marked("one")) == "https://x/1"
    assert repository.comment(7, MARKER, marked("two")) == "https://x/1"
    assert [comment["body"] for comment in github.comments] == [marked("two")]


def test_it_is_found_behind_many_others_and_theirs_is_never_edited(github: GitHub, repository: Repository) -> None:
    github.comments += [{"id": n, "user": {"login": "somebody"}, "body": MARKER, "html_url": ""} for n in range(1, 151)]
    repository.comment(7, MARKER, marked("one"))
    repository.comment(7, MARKER, marked("two"))
    assert len(github.comments) == 151
    assert {comment["body"] for comment in github.comments[:150]} == {MARKER}
    assert github.comments[150]["body"] == marked("two")


@pytest.mark.parametrize(
    "body",
    [
        f"`{MARKER}` is deleted",
        f"<!-- triton-eks: offline -->\n## What changes\n| `{MARKER}` | deleted |",
        f"\n{MARKER}",
        f" {MARKER}",
        f"{MARKER} and more",
        f"> {MARKER}\n\nwhy?",
        None,
    ],
)
def test_a_comment_of_ours_that_only_has_the_marker_in_it_is_left_alone(
    github: GitHub, repository: Repository, body: str | None
) -> None:
    """A resource may have the marker's name, and the same bot writes all workflows' comments."""
    github.comments.append({"id": 1, "user": {"login": BOT}, "body": body, "html_url": "https://x/1"})
    assert repository.comment(7, MARKER, marked("new")) == "https://x/2"
    assert [comment["body"] for comment in github.comments] == [body, marked("new")]


def test_line_ends_that_a_browser_has_written_are_line_ends(github: GitHub, repository: Repository) -> None:
    github.comments.append({"id": 1, "user": {"login": BOT}, "body": f"{MARKER}\r\nold", "html_url": "https://x/1"})
    assert repository.comment(7, MARKER, marked("new")) == "https://x/1"


@pytest.mark.parametrize("viewer", ["our-app[bot]", "a-person"])
def test_with_another_ones_token_that_ones_comment_is_edited_and_the_bots_is_not(
    github: GitHub, repository: Repository, viewer: str
) -> None:
    github.comments.append({"id": 1, "user": {"login": BOT}, "body": marked("the bot's"), "html_url": ""})
    github.viewer = viewer
    assert repository.comment(7, MARKER, marked("one")) == "https://x/2"
    assert repository.comment(7, MARKER, marked("two")) == "https://x/2"
    assert [comment["body"] for comment in github.comments] == [marked("the bot's"), marked("two")]


def test_where_github_does_not_tell_who_asks_it_is_taken_for_the_workflows_bot(
    github: GitHub, repository: Repository
) -> None:
    github.viewer = None
    github.comments += [
        {"id": n, "user": {"login": login}, "body": marked("old"), "html_url": f"https://x/{n}"}
        for n, login in ((1, "a-person"), (2, BOT))
    ]
    assert repository.comment(7, MARKER, marked("new")) == "https://x/2"
    assert [comment["body"] for comment in github.comments] == [marked("old"), marked("new")]


def test_a_text_that_would_not_be_found_again_is_not_written(github: GitHub, repository: Repository) -> None:
    with pytest.raises(GitHubError, match="the text does not begin with the line <!-- triton-eks: preview -->, by which"):
        repository.comment(7, MARKER, f"## Hello\n{MARKER}")
    with pytest.raises(GitHubError, match="the text does not begin with the line"):
        repository.issue(MARKER, "title", "hello", "drift")
    assert github.requests == []


def test_one_issue_is_opened_edited_and_closed(github: GitHub, repository: Repository) -> None:
    repository.issue(MARKER, "t1", marked("1"), "drift")
    repository.issue(MARKER, "t2", marked("2"), "drift")
    assert [(issue["title"], issue["state"], issue["labels"]) for issue in github.issues] == [("t2", "open", ["drift"])]
    assert repository.close_issue(MARKER, "drift", "all well") == "https://x/1"
    assert github.issues[0]["state"] == "closed"
    assert github.comments[0]["body"] == "all well"
    assert repository.close_issue(MARKER, "drift", "all well") is None


@pytest.mark.parametrize("other", [{"login": "somebody"}, None])
def test_an_issue_that_somebody_else_has_opened_is_neither_edited_nor_closed(
    github: GitHub, repository: Repository, other: object
) -> None:
    theirs = {"id": 1, "number": 1, "state": "open", "user": other, "body": marked("mine"), "title": "t", "html_url": ""}
    github.issues.append(theirs)
    before = dict(theirs)
    assert repository.close_issue(MARKER, "drift", "all well") is None
    assert repository.issue(MARKER, "t2", marked("2"), "drift") == "https://x/2"
    assert (github.issues[0], github.comments) == (before, [])


def test_the_pull_request_is_the_one_of_the_branch_at_that_commit(github: GitHub, repository: Repository) -> None:
    github.pulls = [
        {"number": 3, "head": {"label": "me:topic", "sha": "old"}},
        {"number": 4, "head": {"label": "me:topic", "sha": "new"}},
        {"number": 5, "head": {"label": "other:topic", "sha": "new"}},
    ]
    assert repository.pull_request("me:topic", "new") == 4
    assert repository.pull_request("me:topic", "newer") is None


def test_a_busy_github_is_asked_again(github: GitHub, repository: Repository) -> None:
    github.failures = [502, 429]
    repository.comment(7, MARKER, MARKER)
    assert len(github.comments) == 1


def test_a_refusal_is_one_sentence_without_the_token(github: GitHub, repository: Repository) -> None:
    github.failures = [403]
    github.said = f"{'x' * 275} Bearer {TOKEN} may not"  # a server that echoes its input, truncated
    with pytest.raises(GitHubError) as refusal:
        repository.comment(7, MARKER, MARKER)
    assert ": 403 xxx" in str(refusal.value)
    assert TOKEN[:8] not in str(refusal.value)
    assert len(github.requests) == 1


@pytest.mark.parametrize("status", [301, 302, 307])
@pytest.mark.parametrize("method", ["comment", "pull_request"])
def test_the_token_goes_nowhere_else_whatever_the_answer_says(
    github: GitHub, repository: Repository, status: int, method: str
) -> None:
    github.failures = [status]
    call = {"comment": (7, MARKER, MARKER), "pull_request": ("me:topic", "new")}[method]
    with pytest.raises(GitHubError, match=f"{status} it is at http://127.0.0.2:1/elsewhere now, where nothing was sent"):
        getattr(repository, method)(*call)
    assert len(github.requests) == 1


def test_the_token_is_in_no_representation(repository: Repository) -> None:
    assert TOKEN not in f"{repository} {repository!r}"


@pytest.mark.parametrize(
    ("name", "api", "said"),
    [
        (
            "org repo",
            "https://api.github.com",
            "GITHUB_REPOSITORY is 'org repo', which is no repository; set it to OWNER",
        ),
        ("org/re\npo", "https://api.github.com", "GITHUB_REPOSITORY is 'org/re\\npo', which is no repository"),
        ("org", "https://api.github.com", "GITHUB_REPOSITORY is 'org', which is no repository"),
        ("org/repo", "nonsense", "GITHUB_API_URL is 'nonsense', which is no address; leave it out for github.com"),
        ("org/repo", "file:///etc", "GITHUB_API_URL is 'file:///etc', which is no address"),
        ("org/repo", f"http://x y/{TOKEN}", "GITHUB_API_URL is 'http://x y/(the token)', which is no address"),
        ("org/repo", f"https://{TOKEN}@x", "GITHUB_API_URL is 'https://(the token)@x', which is no address"),
        ("org/repo", "http://[::1", "GITHUB_API_URL is 'http://[::1', which is no address"),
        ("org/repo", "http://a..b", "GITHUB_API_URL is 'http://a..b', which is no address"),
        ("org/repo", f"http://{'a' * 64}.com", f"GITHUB_API_URL is 'http://{'a' * 64}.com', which is no address"),
        ("org/repo", "http://x:65536", "GITHUB_API_URL is 'http://x:65536', which is no address"),
        ("org/repo", "http://x?y", "GITHUB_API_URL is 'http://x?y', which is no address"),
    ],
)
def test_what_is_no_repository_or_no_address_is_a_sentence(name: str, api: str, said: str) -> None:
    with pytest.raises(GitHubError) as refusal:
        Repository(name, TOKEN, api)
    assert str(refusal.value).startswith(said)


@pytest.mark.parametrize(
    "answer",
    [
        "text",
        [1],
        {"message": "hello"},
        [{"id": "x", "user": {"login": BOT}, "body": MARKER}],
        [{"id": True, "user": {"login": BOT}, "body": MARKER}],
        [{"id": -1, "user": {"login": BOT}, "body": MARKER}],
        [{"id": 1, "user": "me", "body": MARKER}],
    ],
)
def test_an_answer_that_is_not_githubs_is_a_sentence(
    github: GitHub, repository: Repository, monkeypatch: pytest.MonkeyPatch, answer: object
) -> None:
    monkeypatch.setattr(GitHub, "answer", lambda *_: (200, answer))
    with pytest.raises(GitHubError, match="is this GitHub"):
        repository.comment(7, MARKER, MARKER)


@pytest.mark.parametrize("head", [None, {}, "text", {"sha": 7}, {"sha": "abc"}])
def test_a_pull_request_that_is_not_githubs_is_a_sentence(
    github: GitHub, repository: Repository, monkeypatch: pytest.MonkeyPatch, head: object
) -> None:
    monkeypatch.setattr(GitHub, "answer", lambda *_: (200, [{"number": "x", "head": head}]))
    with pytest.raises(GitHubError, match="is this GitHub"):
        repository.pull_request("org:branch", "abc")


@pytest.mark.parametrize("wait", ["\u00b2", "-1", "1e3", "Wed, 21 Oct 2026 07:28:00 GMT", ""])
def test_a_time_to_wait_that_is_no_number_of_seconds_is_not_waited(repository: Repository, wait: str) -> None:
    answers = [_refused(503, wait), io.BytesIO(b"[]"), io.BytesIO(b'{"html_url": "https://x/1"}')]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stackctl.review.github._OPENER.open", lambda *_, **__: _next(answers))
        assert repository.comment(7, MARKER, MARKER) == "https://x/1"


def _refused(status: int, wait: str) -> HTTPError:
    headers = Message()
    headers["Retry-After"] = wait
    return HTTPError("https://x", status, "busy", headers, io.BytesIO(b"{}"))


def _next(answers: list[Any]) -> Any:
    answer = answers.pop(0)
    if isinstance(answer, Exception):
        raise answer
    return answer


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (
            b"<!doctype html><title>Log in</title>",
            "the answer cannot be read: is a page of HTML or XML, where JSON is expected",
        ),
        (b"", "the answer cannot be read: is empty, where JSON is expected"),
        (b"\xff\xfe", "the answer cannot be read: UTF-16 or UTF-32, and not UTF-8"),
        (b"hello", "the answer cannot be read: line 1, column 1: not valid JSON: Expecting value"),
        (b"[" * 10_000, "the answer cannot be read: nested deeper than 100 times"),
        (b'"text"', "the answer is not a list of what was asked for; is this GitHub?"),
        (b"[7]", "the answer is not a list of what was asked for; is this GitHub?"),
    ],
)
def test_an_answer_that_is_not_githubs_is_told(raw: bytes, said: str, github: GitHub, repository: Repository) -> None:
    github.raw = raw
    with pytest.raises(GitHubError) as refused:
        repository.comment(7, MARKER, marked("one"))
    address, _, told = str(refused.value).removeprefix("GET ").partition(": ")
    assert address.partition("?")[0] == f"{github.url}/repos/org/repo/issues/7/comments"
    assert told.startswith(said)
    assert TOKEN not in str(refused.value)


@pytest.mark.parametrize("name", ["org/repo\n", " org/repo", "org/re po", "org", "org/repo/x", "", "\n", "\u0661/\u0661"])
def test_a_repository_that_can_be_none_is_told(name: str) -> None:
    with pytest.raises(GitHubError, match=r"^GITHUB_REPOSITORY is .*, which is no repository; set it to OWNER/NAME$"):
        Repository(name, TOKEN)
