"""The lock of `live/`: a lease in the journal, taken and renewed by conditional writes.

If two writers have read the same journal, only one of them can write it. The lease of a killed holder expires. A process
that waits for the expiry sees at once if the holder is still alive, because the holder renews its lease.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Protocol, Self

from modelctl.store.errors import StoreError
from modelctl.store.journal import Journal, JournalChanged, Lock
from spec.failure import NOT_TRIED, Failure
from spec.wording import printable

LEASE_SECONDS = 60.0
_POLL_SECONDS = 0.5


class LockTaken(Failure):
    """Another process works on live/; the text is one sentence."""

    exit_code = NOT_TRIED


class JournalStore(Protocol):
    """Stores the journal. Both methods raise StoreError."""

    def read_journal(self) -> tuple[Journal, str | None]:
        """Return the journal and the tag of its content. An empty journal and None when it does not exist."""

    def write_journal(self, journal: Journal, tag: str | None) -> str:
        """Replace the journal that has this tag and return the new tag. Raises JournalChanged when the tag does not
        match."""


def own_name() -> str:
    """Return a unique holder name: `<user>@<host> (process <id>, <random>)`."""
    user = printable(os.environ.get("USER") or str(os.getuid()))[:100]
    return f"{user}@{socket.gethostname()} (process {os.getpid()}, {uuid.uuid4().hex[:8]})"


class Lease:
    """Holds the lock while the context is open. Only the holder can write the journal. Thread-safe."""

    def __init__(
        self,
        store: JournalStore,
        *,
        holder: str | None = None,
        seconds: float = LEASE_SECONDS,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._tell = tell
        self._holder = holder or own_name()
        self._seconds = seconds
        self._mutex = threading.Lock()
        self._stop = threading.Event()
        self._renewal = threading.Thread(target=self._renew, name="lease", daemon=True)
        self._journal = Journal()
        self._tag: str | None = None
        self._lost: str | None = None
        self._valid_until = 0.0

    def __enter__(self) -> Self:
        """Take the lock; if necessary, wait until another holder's lease expires. Raises LockTaken and StoreError."""
        self._take()
        self._renewal.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        self._renewal.join()
        try:
            if self._lost is None:
                self._write(self._journal.having(lock=None))
        except (StoreError, LockTaken):
            if error is None:  # the first error is the better message; the lease expires by itself
                raise

    @property
    def journal(self) -> Journal:
        """Return the journal as it was last read or written."""
        return self._journal

    def check(self) -> None:
        """Raise LockTaken when this process has lost the lock, because another one may work on live/ now."""
        if self._lost is not None:
            raise LockTaken(self._lost)
        if time.monotonic() > self._valid_until:
            raise LockTaken("the lock of live/ could not be renewed in time: run the same command again, it continues")

    def record(self, change: Callable[[Journal], Journal]) -> None:
        """Write the changed journal. Raises LockTaken and StoreError."""
        with self._mutex:
            self.check()
            try:
                self._write(change(self._journal).having(lock=self._lock()))
            except LockTaken as taken:
                self._lost = str(taken)
                raise

    def _take(self) -> None:
        deadline = time.monotonic() + 2 * self._seconds + _POLL_SECONDS
        seen: Lock | None = None
        while True:
            self._journal, self._tag = self._store.read_journal()
            lock = self._journal.lock
            if lock is None or lock.holder == self._holder or lock.expires <= datetime.now(UTC):
                try:
                    self._write(self._journal.having(lock=self._lock()))
                    return
                except LockTaken:
                    if time.monotonic() > deadline:
                        raise
                    continue
            if seen is not None and lock != seen:
                raise LockTaken(f"{lock.holder} works on live/ at this moment: wait until that is done")
            if time.monotonic() > deadline:
                raise LockTaken(f"{lock.holder} holds the lock of live/ until {lock.expires:%Y-%m-%d %H:%M:%S} UTC")
            if seen is None:
                self._tell(
                    f"{lock.holder} has the lock of live/: if it was killed, this goes on at {lock.expires:%H:%M:%S} UTC"
                )
            seen = lock
            time.sleep(min(_POLL_SECONDS, self._seconds / 10))

    def _lock(self) -> Lock:
        return Lock(holder=self._holder, expires=datetime.now(UTC) + timedelta(seconds=self._seconds))

    def _write(self, journal: Journal) -> None:
        began = time.monotonic()
        try:
            self._tag = self._store.write_journal(journal, self._tag)
        except JournalChanged:
            # The response to a successful write may have been lost; then the retried write finds the journal changed.
            found, tag = self._store.read_journal()
            if found != journal:
                holder = found.lock.holder if found.lock else "somebody else"
                raise LockTaken(f"{holder} has taken the lock of live/: wait until that is done") from None
            self._tag = tag
        self._journal = journal
        self._valid_until = began + self._seconds

    def _renew(self) -> None:
        while not self._stop.wait(self._seconds / 4):
            with self._mutex:
                try:
                    self._write(self._journal.having(lock=self._lock()))
                except LockTaken as taken:
                    self._lost = str(taken)
                    return
                except StoreError:  # the bucket may respond again before the lease expires
                    continue
