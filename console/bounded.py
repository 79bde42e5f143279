"""Limit the size of HTTP responses."""

from __future__ import annotations

from collections.abc import Iterator

import httpx

MIB = 1024**2


class AnswerTooLarge(httpx.TransportError):
    """The body of a response is longer than the transport's limit."""


class Bounded(httpx.BaseTransport):
    """Sends requests through another transport, and aborts a response whose body has more than `most` bytes.

    Compressed responses are refused, because their uncompressed size has no bound.
    """

    def __init__(self, transport: httpx.BaseTransport, most: int) -> None:
        self._transport = transport
        self._most = most

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """See httpx."""
        request.headers["Accept-Encoding"] = "identity"
        answer = self._transport.handle_request(request)
        if answer.headers.get("Content-Encoding", "identity") != "identity":
            answer.close()
            raise AnswerTooLarge(
                f"{request.url.host} answers in a compressed form, whose size is not known", request=request
            )
        assert isinstance(answer.stream, httpx.SyncByteStream)
        return httpx.Response(
            answer.status_code,
            headers=answer.headers,
            stream=_Stream(answer.stream, self._most, request),
            extensions=answer.extensions,
        )

    def close(self) -> None:
        """See httpx."""
        self._transport.close()


class _Stream(httpx.SyncByteStream):
    def __init__(self, stream: httpx.SyncByteStream, most: int, request: httpx.Request) -> None:
        self._stream, self._most, self._request = stream, most, request

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for piece in self._stream:
            size += len(piece)
            if size > self._most:
                raise AnswerTooLarge(
                    f"{self._request.url.host} answers with more than {self._most} bytes", request=self._request
                )
            yield piece

    def close(self) -> None:
        self._stream.close()
