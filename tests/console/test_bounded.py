"""The largest response arrives; a larger one is not read further, and a compressed one not decompressed."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from console.bounded import AnswerTooLarge, Bounded
from modelctl.rollout.fleet import Pod
from modelctl.rollout.pod_client import LARGEST_ANSWER, PodClient, PodRefuses
from tests import http_server

MOST = 1000


@contextmanager
def answering(content: bytes, encoding: str | None = None) -> Iterator[tuple[str, list[str | None]]]:
    """Yield the URL of a server with one answer, and the Accept-Encoding of each request."""
    accepted: list[str | None] = []

    class Answers(http_server.Handler):
        def do_GET(self) -> None:
            accepted.append(self.headers.get("Accept-Encoding"))
            self.answer(200, content, **({"Content-Encoding": encoding} if encoding else {}))

    with http_server.listening(Answers) as server:
        yield server.url, accepted


def test_the_largest_answer_arrives_whole() -> None:
    with answering(b"x" * MOST) as (url, accepted), httpx.Client(transport=Bounded(httpx.HTTPTransport(), MOST)) as client:
        assert client.get(url).content == b"x" * MOST
    assert accepted == ["identity"]


def test_one_byte_more_ends_the_answer() -> None:
    with (
        answering(b"x" * (MOST + 1)) as (url, _),
        httpx.Client(transport=Bounded(httpx.HTTPTransport(), MOST)) as client,
        pytest.raises(AnswerTooLarge, match=r"^127\.0\.0\.1 answers with more than 1000 bytes$"),
    ):
        client.get(url)


def test_an_answer_that_was_packed_unasked_is_not_unpacked() -> None:
    packed = gzip.compress(b"x" * 10**6)
    with (
        answering(packed, "gzip") as (url, _),
        httpx.Client(transport=Bounded(httpx.HTTPTransport(), 10**9)) as client,
        pytest.raises(AnswerTooLarge, match="answers in a compressed form, whose size is not known"),
    ):
        client.get(url)


@pytest.mark.parametrize("more", [0, 1])
def test_a_pod_that_answers_without_end_is_refused(more: int) -> None:
    metrics = b"# HELP x y\n"
    content = metrics * (LARGEST_ANSWER // len(metrics)) + b"#" * (LARGEST_ANSWER % len(metrics) + more)
    with answering(content) as (url, _), PodClient(Pod("a", "u", http=url, metrics=url, admin_key=lambda: "k")) as client:
        if more:
            with pytest.raises(PodRefuses, match=r"answers with more than 67108864 bytes$"):
                client.measured(len)
        else:
            assert client.measured(len) == 64 * 1024**2
