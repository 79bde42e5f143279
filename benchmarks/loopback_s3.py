"""Serve the part of S3 that model readers need, on loopback, so fast that the reader is the bottleneck.

    python -m benchmarks.loopback_s3 DIRECTORY [--megabytes-per-connection 90]

The directory is the bucket `models`. A GET is one sendfile of the kernel, so no byte passes through Python. The option
limits each connection, as S3 does: AWS states 85 to 90 MB/s
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance-guidelines.html). `GET /sent` returns the
number of object bytes sent.
"""

from __future__ import annotations

import os
import re
import socket
import threading
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import typer

BUCKET = "models"
_PACING = 47
"""SO_MAX_PACING_RATE of Linux, which Python's socket module lacks."""
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")
_AT_ONCE = 8 * 1024 * 1024


class LoopbackS3(ThreadingHTTPServer):
    """The server. `sent`: bytes of objects so far."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, root: Path, bytes_per_second: int | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.root = root
        self.bytes_per_second = bytes_per_second
        self.sent = 0
        self.lock = threading.Lock()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore readers that were killed."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: LoopbackS3

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.server.bytes_per_second is not None:
            self.connection.setsockopt(socket.SOL_SOCKET, _PACING, self.server.bytes_per_second)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        url = urlsplit(self.path)
        bucket, _, key = unquote(url.path).lstrip("/").partition("/")
        if bucket == "sent":
            self._text(str(self.server.sent), "text/plain")
        elif not key:
            self._list(parse_qs(url.query)) if body else self._text("", "application/xml")
        elif (self.server.root / key).is_file():
            self._object(self.server.root / key, body)
        else:
            self._text("<Error><Code>NoSuchKey</Code></Error>" if body else "", "application/xml", 404)

    def _list(self, query: dict[str, list[str]]) -> None:
        prefix, delimiter = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
        keys = sorted(str(path.relative_to(self.server.root)) for path in self.server.root.rglob("*") if path.is_file())
        found, folders = [], set()
        for key in (key for key in keys if key.startswith(prefix)):
            rest = key.removeprefix(prefix)
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.split(delimiter)[0] + delimiter)
            else:
                size = (self.server.root / key).stat().st_size
                found.append(
                    f"<Contents><Key>{escape(key)}</Key><Size>{size}</Size>"
                    "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
                )
        common = "".join(f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>" for folder in sorted(folders))
        self._text(
            '<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Name>{BUCKET}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(found)}</KeyCount>"
            f"<IsTruncated>false</IsTruncated>{''.join(found)}{common}</ListBucketResult>",
            "application/xml",
        )

    def _object(self, path: Path, body: bool) -> None:
        size = path.stat().st_size
        first, end, status = 0, size, 200
        if asked := _RANGE.fullmatch(self.headers.get("Range", "")):
            first, end, status = int(asked[1]), min(size, int(asked[2] or size - 1) + 1), 206
        self.send_response(status)
        self.send_header("Content-Length", str(end - first))
        self.send_header("Last-Modified", formatdate(0, usegmt=True))
        self.send_header("ETag", '"0"')
        if status == 206:
            self.send_header("Content-Range", f"bytes {first}-{end - 1}/{size}")
        self.end_headers()
        if not body:
            return
        with path.open("rb") as file:
            while first < end and (
                sent := os.sendfile(self.connection.fileno(), file.fileno(), first, min(_AT_ONCE, end - first))
            ):
                first += sent
                with self.server.lock:
                    self.server.sent += sent

    def _text(self, text: str, kind: str, status: int = 200) -> None:
        content = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Write no log: a line for each part would affect the measurement."""


def main(
    directory: Annotated[Path, typer.Argument(exists=True, file_okay=False)],
    megabytes_per_connection: Annotated[int | None, typer.Option(min=1)] = None,
) -> None:
    """Serve until killed; the first output line is the address."""
    pace = megabytes_per_connection * 1_000_000 if megabytes_per_connection is not None else None
    server = LoopbackS3(directory, pace)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    typer.run(main)
