"""Measure the upper limit for `modelctl fetch`: plain connections that read, write and verify a file.

    python -m benchmarks.plain_readers sockets|curl URL BYTES SHA256 FILE

Neither reader signs, retries, keeps a journal or reports progress. `sockets` reads the parts of `fetch` in the same order,
with one process per connection, while this process hashes the arrived parts. `curl` runs one process per connection, each
for its share of the file, which is hashed afterwards.
"""

from __future__ import annotations

import hashlib
import math
import multiprocessing
import os
import socket
import subprocess
import time
from array import array
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from http.client import HTTPConnection
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from modelctl.fetch.download import CONNECTIONS
from modelctl.fetch.partial_file import PART_BYTES

_PIECE_BYTES = 1024 * 1024
_NUMBER = "I"
"""A part's number in a pipe: 4 bytes in native order."""
_NUMBER_BYTES = array(_NUMBER).itemsize


class Reader(StrEnum):
    """How to read, write and verify a file."""

    SOCKETS = "sockets"
    CURL = "curl"


def dropped(url: str, size: int) -> float:
    """Return the MB/s of connections that read and drop their share of a file."""
    address = urlsplit(url)
    share = size // CONNECTIONS

    def read(first: int) -> None:
        with socket.create_connection((str(address.hostname), address.port or 80)) as connection:
            span = f"Range: bytes={first}-{first + share - 1}"
            connection.sendall(f"GET {address.path} HTTP/1.1\r\nHost: s3\r\n{span}\r\nConnection: close\r\n\r\n".encode())
            buffer, left = bytearray(_PIECE_BYTES), share
            while left > 0 and (received := connection.recv_into(buffer)):
                left -= received
        if left > 0:
            raise SystemExit(f"error: {url} ended {left} bytes before the share from {first} on was over")

    begun = time.monotonic()
    with ThreadPoolExecutor(CONNECTIONS) as connections:
        list(connections.map(read, [index * share for index in range(CONNECTIONS)]))
    return size / 1e6 / (time.monotonic() - begun)


def main(reader: Reader, url: str, size: int, sha256: str, file: Annotated[Path, typer.Argument(dir_okay=False)]) -> None:
    """Read a file of this size; fail if its hash differs."""
    new = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    os.ftruncate(new, size)
    os.close(new)
    found = _by_sockets(url, size, file) if reader is Reader.SOCKETS else _by_curl(url, size, file)
    if found != sha256:
        raise SystemExit(f"error: {file} has the sha-256 {found}, and {sha256} was asked for")


def _by_sockets(url: str, size: int, file: Path) -> str:
    parts = range(math.ceil(size / PART_BYTES))
    (wanted, want), (arrived, arrive) = os.pipe(), os.pipe()
    os.write(want, array(_NUMBER, parts).tobytes())
    os.close(want)
    context = multiprocessing.get_context("fork")
    connections = [
        context.Process(target=_receive, args=(url, size, file, wanted, arrive)) for _ in range(min(CONNECTIONS, len(parts)))
    ]
    for connection in connections:
        connection.start()
    os.close(arrive)
    digest, here, buffer = hashlib.sha256(), set[int](), memoryview(bytearray(PART_BYTES))
    with file.open("rb", buffering=0) as written:
        for part in parts:
            while part not in here:
                numbers = os.read(arrived, 1024 * _NUMBER_BYTES)
                if not numbers:
                    raise SystemExit("error: the connections ended before all had arrived")
                here.update(array(_NUMBER, numbers))
            digest.update(buffer[: written.readinto(buffer)])
    for connection in connections:
        connection.join()
    return digest.hexdigest()


def _receive(url: str, size: int, file: Path, wanted: int, arrive: int) -> None:
    address = urlsplit(url)
    connection = HTTPConnection(str(address.hostname), address.port)
    buffer = memoryview(bytearray(_PIECE_BYTES))
    target = os.open(file, os.O_WRONLY)
    while number := os.read(wanted, _NUMBER_BYTES):
        at = array(_NUMBER, number)[0] * PART_BYTES
        end = min(at + PART_BYTES, size)
        connection.request("GET", address.path, headers={"Range": f"bytes={at}-{end - 1}"})
        answer = connection.getresponse()
        while received := answer.readinto(buffer):
            at += os.pwrite(target, buffer[:received], at)
        if at != end:
            raise SystemExit(f"error: {url} ended at {at}, before {end}")
        os.write(arrive, number)


def _by_curl(url: str, size: int, file: Path) -> str:
    share = math.ceil(size / CONNECTIONS) or 1
    running = []
    for first in range(0, size, share):
        target = os.open(file, os.O_WRONLY)
        os.lseek(target, first, os.SEEK_SET)
        span = f"{first}-{min(first + share, size) - 1}"
        running.append(subprocess.Popen(["curl", "--silent", "--fail", "--range", span, url], stdout=target))
        os.close(target)
    codes = [process.wait() for process in running]
    if any(codes):
        raise SystemExit(f"error: curl got no range of {url}")
    with file.open("rb") as written:
        return hashlib.file_digest(written, "sha256").hexdigest()


if __name__ == "__main__":
    typer.run(main)
