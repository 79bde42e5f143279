"""Keep a directory in sync with `live/`, for a server that reads only local files.

A release is fetched completely, next to the served one, before its versions appear. The served release stays until the
rollout has ended, and is then removed.
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
"""The pause before a release that could not be fetched is downloaded again."""
_PASSING = (StoreError, Incomplete)
"""The next look may succeed, so these errors need not roll back a rollout."""


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
        """The releases in `current`; None if an earlier process created it."""

    def state(self) -> Followed:
        """Return the models that a server finds here now."""
        progress = self._progress
        done = progress.received + progress.verified if progress is not None else 0
        # Read in this order: a rollout that begins in between has no problem yet.
        rollout, problem = self._rollout, self._problem
        done += self._done_before
        return Followed(models=self._models, done_bytes=done, problem=problem, rollout_started=rollout)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the release that is being fetched."""
        if self._progress is not None:
            yield from self._progress.collect()

    def fill(self) -> None:
        """Fetch the served release. Raises Failure if that is impossible, and OSError for `told`.

        If only the release of a rollout cannot be fetched, a server can still start with the served one.
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
        """Repeat this after each change. Errors, even of this program itself, are logged once, and the work is tried
        again."""
        while True:
            try:
                with told():
                    self._look()
            except Failure as failure:
                self._problem = None if isinstance(failure, _PASSING) else str(failure)
                self._tell(str(failure))
            except Exception as error:
                # An exit would take the pod out of service, and all other pods too, because each reads the same bucket.
                self._problem = f"{type(error).__name__}: {error}"
                self._tell(traceback.format_exc())
            time.sleep(POLL_SECONDS)

    def _look(self) -> None:
        """Fetch the releases that live/ needs, and show them. Raises Failure, after it has shown as much as possible."""
        journal, tag = self._live.read_journal()
        self._note(journal)
        if journal.rollout is None and tag is not None and tag == self._seen:
            return
        failure = None
        while True:  # repeat, because live/ may change during a long fetch
            wanted = [release for release in (journal.serving, journal.rollout and journal.rollout.release) if release]
            if self._shown is not None:
                # Remove old releases before another one takes their space: the disk holds two, and Kubernetes evicts a pod
                # with more.
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
        """Record the current rollout; problems of an earlier rollout no longer count."""
        rollout = journal.rollout.started if journal.rollout is not None else None
        if rollout != self._rollout:
            self._problem = None
            self._rollout = rollout

    def _keep(self, release_ids: frozenset[str]) -> None:
        self._held = {release: manifest for release, manifest in self._held.items() if release in release_ids}
        for gone in self._directory.keep(release_ids):
            self._say(f"removed release {gone}, which is not served any more")

    def _hold(self, journal: Journal, configs: dict[str, str]) -> tuple[Failure | None, bool]:
        """Fetch missing releases; return the error for a rollout's release, and whether anything was fetched.

        Raises Failure for a served release.
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
        """Fetch a release unless it is here; return whether it was fetched.

        A failed fetch is repeated after a pause, or when `asked` changes.
        """
        if release_id in self._held:
            return False
        before, since, refused = self._refused.get(release_id, (None, 0.0, None))
        if refused is not None and before == asked and time.monotonic() - since < _AGAIN_SECONDS:
            raise refused
        self._problem = None  # clears the problem of an earlier attempt or another release
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
