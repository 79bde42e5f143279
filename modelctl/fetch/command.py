"""Run `modelctl fetch` and `modelctl follow`. Each raises Failure with the problem."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import NoReturn

from prometheus_client.registry import Collector

from console.program import interruptible
from console.terminal import progress as standard_error
from modelctl import metrics_server
from modelctl.fetch.directory import FetchDirectory, refuse_nested, told
from modelctl.fetch.download import CONNECTIONS
from modelctl.fetch.follow import Follower
from modelctl.fetch.whole import Cache, Fetcher
from modelctl.release import catalog
from modelctl.store import followed
from modelctl.store.bucket import Store, open_store
from spec.names import RELEASES_PREFIX
from spec.release_signature import split

_CONTINUES = "interrupted; run the same command again, it continues"


def fetch(
    release_id: str,
    bucket: str,
    endpoint_url: str | None,
    to: Path,
    serve: str | None,
    cache: Cache | None,
    signers: str | None,
) -> None:
    """Fetch a release into the directory `to` and point its link `current` there. Serve metrics at `serve` meanwhile.

    With a cache, fetch the release into the cache unless it is there, and copy it from there.
    """
    address, store = _opened(bucket, endpoint_url, to, serve, cache)
    manifest = catalog.finished(store, release_id, split(signers))
    directory = FetchDirectory(to)
    with interruptible(_CONTINUES), told(), directory.locked(_say):
        how = Fetcher(store, cache, _say, lambda progress: _served(progress, address)).bring(manifest, directory)
        directory.switch(f"{RELEASES_PREFIX}{manifest.id}")
    print(f"{manifest.id} {how}; {directory.current}")


def fill(
    bucket: str, endpoint_url: str | None, to: Path, serve: str | None, cache: Cache | None, signers: str | None
) -> None:
    """Fetch the content of `live/` into the directory `to` before a server reads it. Serve metrics at `serve` meanwhile."""
    address, store = _opened(bucket, endpoint_url, to, serve, cache)
    directory = FetchDirectory(to)
    follower = Follower(store, directory, cache, _say, split(signers))
    with interruptible(_CONTINUES), told(), directory.locked(_say), _served(follower, address):
        follower.fill()
    print(directory.current)


def follow(
    bucket: str, endpoint_url: str | None, to: Path, serve: str | None, cache: Cache | None, signers: str | None
) -> NoReturn:
    """Keep the directory `to` in sync with `live/` until interrupted. Serve metrics and the directory's state at `serve`."""
    address, store = _opened(bucket, endpoint_url, to, serve, cache)
    directory = FetchDirectory(to)
    follower = Follower(store, directory, cache, _say, split(signers))
    answers = {followed.PATH: lambda: follower.state().model_dump_json().encode()}
    with interruptible(_CONTINUES), told(), _served(follower, address, answers), directory.locked(_say):
        follower.follow()


def _opened(
    bucket: str, endpoint_url: str | None, to: Path, serve: str | None, cache: Cache | None
) -> tuple[tuple[str, int] | None, Store]:
    address = metrics_server.address("--serve", serve) if serve is not None else None
    if cache is not None:
        refuse_nested(to, cache.directory)
    return address, open_store(bucket, endpoint_url, connections=CONNECTIONS)


def _served(
    collector: Collector, address: tuple[str, int] | None, answers: Mapping[str, Callable[[], bytes]] | None = None
) -> AbstractContextManager[None]:
    if address is None:
        return nullcontext()
    return metrics_server.serving(collector, "--serve", *address, answers=answers)


def _say(line: str) -> None:
    standard_error(soft_wrap=True).print(line, markup=False)
