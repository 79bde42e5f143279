"""Comments and issues on a server that answers as GitHub does, on loopback."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from stackctl.review import cli
from stackctl.review.github import BOT, GitHubError, Repository

MARKER = "<!-- triton-eks: preview -->"


@dataclass
class GitHub:
    """The comments and issues of one repository; `failures` are status codes that the next requests get instead."""

    url: str = ""
    comments: list[dict[str, Any]] = field(default_factory=list)
    issues: list[dict[str, Any]] = field(default_factory=list)
    pulls: list[dict[str, Any]] = field(default_factory=list)
    failures: list[int] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def answer(self, method: str, path: str, query: dict[str, list[str]], content: Any) -> tuple[int, Any]:
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
        made = {"id": number, "number": number, "user": {"login": BOT}, "html_url": f"https://x/{number}", **content}
        where.append(made)
        return made

    @staticmethod
    def _page(found: list[dict[str, Any]], query: dict[str, list[str]]) -> list[dict[str, Any]]:
        size, page = int(query["per_page"][0]), int(query["page"][0])
        return found[(page - 1) * size : page * size]


@pytest.fixture
def github() -> Iterator[GitHub]:
    site = GitHub()

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            address = urlsplit(self.path)
            site.requests.append(f"{self.command} {address.path}")
            assert self.headers["Authorization"] == "Bearer token"
            size = int(self.headers.get("Content-Length") or 0)
            content = json.loads(self.rfile.read(size)) if size else None
            if site.failures:
                status, body = site.failures.pop(0), {"message": "not now"}
            else:
                path = address.path.removeprefix("/repos/org/repo/")
                status, body = site.answer(self.command, path, parse_qs(address.query), content)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        do_GET = do_POST = do_PATCH = _serve

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield site
    server.shutdown()
    server.server_close()
    thread.join(10)


@pytest.fixture
def repository(github: GitHub) -> Repository:
    return Repository("org/repo", "token", github.url, pause=0)


def test_a_comment_is_written_once_and_edited_from_then_on(github: GitHub, repository: Repository) -> None:
    assert repository.comment(7, MARKER, f"{MARKER} one") == "https://x/1"
    assert repository.comment(7, MARKER, f"{MARKER} two") == "https://x/1"
    assert [comment["body"] for comment in github.comments] == [f"{MARKER} two"]


def test_it_is_found_behind_many_others_and_theirs_is_never_edited(github: GitHub, repository: Repository) -> None:
    github.comments += [{"id": n, "user": {"login": "somebody"}, "body": MARKER, "html_url": ""} for n in range(1, 151)]
    repository.comment(7, MARKER, f"{MARKER} one")
    repository.comment(7, MARKER, f"{MARKER} two")
    assert len(github.comments) == 151
    assert {comment["body"] for comment in github.comments[:150]} == {MARKER}
    assert github.comments[150]["body"] == f"{MARKER} two"


def test_one_issue_is_opened_edited_and_closed(github: GitHub, repository: Repository) -> None:
    repository.issue(MARKER, "t1", f"{MARKER} 1", "drift")
    repository.issue(MARKER, "t2", f"{MARKER} 2", "drift")
    assert [(issue["title"], issue["state"], issue["labels"]) for issue in github.issues] == [("t2", "open", ["drift"])]
    assert repository.close_issue(MARKER, "drift", "all well") == "https://x/1"
    assert github.issues[0]["state"] == "closed"
    assert github.comments[0]["body"] == "all well"
    assert repository.close_issue(MARKER, "drift", "all well") is None


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
    with pytest.raises(GitHubError) as refusal:
        repository.comment(7, MARKER, MARKER)
    assert str(refusal.value).endswith("403 not now")
    assert "token" not in str(refusal.value)
    assert len(github.requests) == 1


def test_the_command_line_takes_the_token_from_the_environment_only(
    github: GitHub, monkeypatch: pytest.MonkeyPatch, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    body = tmp_path / "body.md"
    body.write_text("<!-- triton-eks: preview -->\nhello", encoding="utf-8")
    for name in ("GITHUB_REPOSITORY", "GITHUB_TOKEN", "GITHUB_API_URL"):
        monkeypatch.delenv(name, raising=False)
    assert cli.main(["comment", "--pull-request", "7", str(body)]) == 1
    assert "GITHUB_REPOSITORY and GITHUB_TOKEN not set" in capsys.readouterr().err
    monkeypatch.setenv("GITHUB_REPOSITORY", "org/repo")
    monkeypatch.setenv("GITHUB_TOKEN", "token")
    monkeypatch.setenv("GITHUB_API_URL", github.url)
    assert cli.main(["comment", "--pull-request", "7", str(body)]) == 0
    assert github.comments[0]["body"].endswith("hello")
