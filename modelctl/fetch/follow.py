"""Keep a directory as `live/` is, for a server beside it that reads local files alone.

A release is fetched whole, beside the one that is served, before its versions appear; what is served stays until the
rollout has ended, and goes then.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import NoReturn

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from modelctl.fetch import live_view
from modelctl.fetch.directory import FetchDirectory, told
from modelctl.fetch.live_view import Incomplete, LiveView
from modelctl.fetch.progress import Progress
from modelctl.fetch.whole import Cache, Fetcher
from modelctl.release import catalog
from modelctl.store.bucket import Store
from modelctl.store.errors import StoreError
from modelctl.store.followed import Followed, FollowedModel
from modelctl.store.journal import Journal
from modelctl.store.live import LiveRepository
from modelctl.store.manifest import Manifest
from spec.failure import Failure
from spec.following import POLL_SECONDS

_AGAIN_SECONDS = 60.0
"""A release that could not be fetched is not downloaded again and again."""
_PASSING = (StoreError, Incomplete)
"""Another look may see something else: a rollout need not be taken back for it."""


class Follower(Collector):
    """The directory, which the caller has locked, and the bucket that it follows. It collects the metrics of fetches."""

    def __init__(
        self,
        store: Store,
        directory: FetchDirectory,
        cache: Cache | None,
        say: Callable[[str], None],
        signers: Sequence[str] = (),
    ) -> None:
        self._store = store
        self._signers = signers
        self._live = LiveRepository(store)
        self._directory = directory
        self._fetcher = Fetcher(store, cache, say, self._during)
        self._say = say
        self._held: dict[str, Manifest] = {}
        self._refused: dict[str, tuple[object, float, Failure]] = {}
        self._progress: Progress | None = None
        self._done_before = 0
        self._models: dict[str, FollowedModel] = {}
        self._problem: str | None = None
        self._rollout: datetime | None = None
        self._told: str | None = None
        self._seen: str | None = None
        self._shown: frozenset[str] | None = None
        """The releases that `current` leads to; None: an earlier process has made it."""

    def state(self) -> Followed:
        """Return what a server finds here now."""
        progress = self._progress
        done = progress.received + progress.verified if progress is not None else 0
        # In this order: one that is read between the two has no problem yet.
        rollout, problem = self._rollout, self._problem
        done += self._done_before
        return Followed(models=self._models, done_bytes=done, problem=problem, rollout_started=rollout)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the release that is being fetched."""
        if self._progress is not None:
            yield from self._progress.collect()

    def fill(self) -> None:
        """Bring what is served here. Raises Failure where that is not possible, and OSError for `told`.

        A release that is only being rolled out, and cannot be had, keeps no server from starting with what is served.
        """
        live_view.forget_views(self._directory)
        self._shown = frozenset()
        try:
            self._look()
        except Failure as failure:
            if not self._shown:
                raise
            self._say(str(failure))

    def follow(self) -> NoReturn:
        """Do so again with each change. What goes wrong is said, once, and tried again, be it a defect of this program."""
        while True:
            try:
                with told():
                    self._look()
            except Failure as failure:
                self._problem = None if isinstance(failure, _PASSING) else str(failure)
                self._tell(str(failure))
            except Exception as error:
                # Ended, it would take the pod out of service, and all others with it: each reads the same bucket.
                self._problem = f"{type(error).__name__}: {error}"
                self._tell(traceback.format_exc())
            time.sleep(POLL_SECONDS)

    def _look(self) -> None:
        """Bring what live/ needs, and show it. Raises Failure, after what could be shown is."""
        journal, tag = self._live.read_journal()
        self._note(journal)
        if journal.rollout is None and tag is not None and tag == self._seen:
            return
        failure = None
        while True:  # until nothing had to be fetched, which takes long enough for live/ to change
            wanted = [release for release in (journal.serving, journal.rollout and journal.rollout.release) if release]
            if self._shown is not None:
                # Before another takes its room: the disk holds two, and Kubernetes ends a pod that has more.
                self._keep(self._shown.union(wanted))
            configs = self._live.configs()
            failure, fetched = self._hold(journal, configs)
            if not fetched:
                break
            journal, tag = self._live.read_journal()
            self._note(journal)
        releases = [self._held[release] for release in wanted if release in self._held]
        try:
            view = LiveView.of(configs, releases)
        except Incomplete as incomplete:
            raise (failure or incomplete) from None
        view.show(self._directory)
        self._models = view.models()
        self._shown = frozenset(manifest.id for manifest in releases)
        self._keep(self._shown)
        if failure is not None:
            raise failure
        self._problem = None
        self._tell(", ".join(f"{m} {' and '.join(map(str, of.versions))}" for m, of in sorted(self._models.items())))
        self._seen = tag

    def _note(self, journal: Journal) -> None:
        """Note which rollout is looked for from now on; what was in the way of another one is none of its problems."""
        rollout = journal.rollout.started if journal.rollout is not None else None
        if rollout != self._rollout:
            self._problem = None
            self._rollout = rollout

    def _keep(self, release_ids: frozenset[str]) -> None:
        """Remove all other releases."""
        self._held = {release: manifest for release, manifest in self._held.items() if release in release_ids}
        for gone in self._directory.keep(release_ids):
            self._say(f"removed release {gone}, which is not served any more")

    def _hold(self, journal: Journal, configs: dict[str, str]) -> tuple[Failure | None, bool]:
        """Fetch what is missing; return why the release of a rollout cannot be had, and whether anything was fetched.

        Raises Failure for a release that is served.
        """
        if journal.serving is None:
            raise Incomplete(f"live/ in {self._store.place} serves no release yet: fill it with `modelctl rollout`")
        fetched = self._bring(journal.serving)
        rollout = journal.rollout
        if rollout is None or (rollout.phase.undoing and not self._names_more(journal.serving, configs)):
            return None, fetched
        try:
            return None, self._bring(rollout.release, rollout.started) or fetched
        except StoreError:
            raise
        except Failure as error:
            return error, fetched

    def _names_more(self, serving: str, configs: dict[str, str]) -> bool:
        try:
            LiveView.of(configs, [self._held[serving]])
        except Incomplete:
            return True
        return False

    def _bring(self, release_id: str, asked: object = None) -> bool:
        """Fetch a release that is not here; return whether it was not. One that cannot be had is tried anew after a while,
        or when it is `asked` for anew.
        """
        if release_id in self._held:
            return False
        before, since, refused = self._refused.get(release_id, (None, 0.0, None))
        if refused is not None and before == asked and time.monotonic() - since < _AGAIN_SECONDS:
            raise refused
        self._problem = None  # of an earlier attempt, or of another release
        try:
            manifest = catalog.finished(self._store, release_id, self._signers)
            with told():
                how = self._fetcher.bring(manifest, self._directory, self._held.values())
        except StoreError:
            raise
        except Failure as failure:
            self._refused[release_id] = (asked, time.monotonic(), failure)
            raise
        self._held[release_id] = manifest
        self._say(f"{release_id} {how}")
        return True

    @contextmanager
    def _during(self, progress: Progress) -> Iterator[None]:
        self._progress = progress
        try:
            yield
        finally:
            self._progress = None
            self._done_before += progress.received + progress.verified

    def _tell(self, line: str) -> None:
        if line != self._told:
            self._told = line
            self._say(line)
