"""Run `modelctl fetch`. Raises Failure with what is wrong."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from console.program import interruptible
from console.terminal import progress as standard_error
from modelctl import metrics_server
from modelctl.fetch.directory import FetchDirectory, refuse_nested, told
from modelctl.fetch.download import CONNECTIONS, download
from modelctl.fetch.progress import Progress
from modelctl.release import catalog
from modelctl.store.bucket import open_store


@dataclass(frozen=True)
class Cache:
    """A directory that several fetches share, which holds releases of at most so many GiB."""

    directory: Path
    gib: int


_CONTINUES = "interrupted; run the same command again, it continues"


def fetch(release_id: str, bucket: str, endpoint_url: str | None, to: Path, serve: str | None, cache: Cache | None) -> None:
    """Bring a release into the directory `to`, and let `current` in it lead there; metrics at `serve` meanwhile.

    With a cache it is fetched into that, unless it is there, and copied from it.
    """
    address = metrics_server.address("--serve", serve) if serve is not None else None
    if cache is not None:
        refuse_nested(to, cache.directory)
    store = open_store(bucket, endpoint_url, connections=CONNECTIONS)
    manifest = catalog.finished(store, release_id)
    directory = FetchDirectory(to)
    console = standard_error(soft_wrap=True)

    def say(line: str) -> None:
        console.print(line, markup=False)

    def fetched(into: FetchDirectory) -> str:
        if into.holds(manifest):
            return "was here"
        progress = Progress(manifest, say)
        with contextlib.ExitStack() as meanwhile:
            if address is not None:
                meanwhile.enter_context(metrics_server.serving(progress, "--serve", *address))
            files = into.begin(manifest)
            progress.add(found=sum(file.arrived_bytes for file in files))
            meanwhile.enter_context(progress.told())
            download(manifest.id, files, store, progress)
        into.finish(manifest)
        return f"fetched and verified: {progress.summary()}"

    with interruptible(_CONTINUES), told(), directory.locked(say):
        if cache is None or directory.holds(manifest):
            how = fetched(directory)
        else:
            kept = FetchDirectory(cache.directory, is_cache=True)
            with kept.locked(say):
                kept.make_room(manifest, cache.gib, say)
                how = f"{fetched(kept)}, copied from {cache.directory}"
                directory.copy_from(kept, manifest)
        directory.switch(manifest)
    print(f"{manifest.id} {how}; {directory.current}")
