"""The lock of live/, each on its own bucket."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from moto.core.botocore_stubber import BotocoreStubber

from modelctl.rollout.lease import JournalChanged, Lease, LockTaken
from modelctl.store.bucket import Store, open_store
from modelctl.store.journal import Journal, Lock
from modelctl.store.live import LiveRepository
from tests.modelctl.conftest import BUCKET
from tests.modelctl.servers import moto_bucket
from tests.paths import ROOT
from twin.host.processes import wait_until

HOUR = 3600.0
"""A lease that never expires during a test, however slow this machine is."""
RACER = """
import sys
from modelctl.rollout.lease import Lease, LockTaken
from modelctl.store.live import LiveRepository
from modelctl.store.bucket import open_store
live = LiveRepository(open_store(sys.argv[1], sys.argv[2]))
print("ready", flush=True)
sys.stdin.readline()
try:
    with Lease(live, seconds=3600, tell=lambda _: print("watches", flush=True)) as lease:
        print("holds", flush=True)
        sys.stdin.readline()
        lease.record(lambda journal: journal)
        sys.stdin.readline()
except LockTaken as taken:
    print(f"refused: {taken}", flush=True)
"""


@pytest.fixture
def live(store: Store, monkeypatch: pytest.MonkeyPatch) -> LiveRepository:
    answer, one_call = BotocoreStubber.__call__, threading.Lock()

    def answer_alone(stubber: BotocoreStubber, *arguments: Any, **named: Any) -> Any:
        with one_call:  # moto closes an object that is rewritten, even while another thread reads it
            return answer(stubber, *arguments, **named)

    monkeypatch.setattr(BotocoreStubber, "__call__", answer_alone)
    return LiveRepository(store)


def test_it_is_taken_recorded_under_and_given_back(live: LiveRepository) -> None:
    with Lease(live, holder="me") as lease:
        journal, _ = live.read_journal()
        assert journal.lock is not None
        assert journal.lock.holder == "me"
        lease.record(lambda journal: journal.having(serving="0123456789ab" + 52 * "0"))

    assert live.read_journal()[0] == Journal(serving="0123456789ab" + 52 * "0")


def test_it_is_given_back_when_the_work_fails(live: LiveRepository) -> None:
    with pytest.raises(RuntimeError, match="the work"), Lease(live):
        raise RuntimeError("the work")
    assert live.read_journal()[0].lock is None


def test_a_living_holder_is_not_waited_for(live: LiveRepository) -> None:
    with Lease(live, holder="one", seconds=HOUR) as one:

        def moves(_: str) -> None:
            """Renew the lease like its holder after a quarter of its time."""
            one.record(lambda journal: journal)

        with pytest.raises(LockTaken) as refusal, Lease(live, holder="other", seconds=HOUR, tell=moves):
            pass
    assert str(refusal.value) == "one works on live/ at this moment: wait until that is done"


def test_it_is_renewed_while_it_is_held(live: LiveRepository) -> None:
    with Lease(live, holder="one", seconds=2):
        taken = _expires(live)
        wait_until(lambda: _expires(live) > taken, "the lease to move", 60)


def _expires(live: LiveRepository) -> datetime:
    lock = live.read_journal()[0].lock
    assert lock is not None
    return lock.expires


def test_a_dead_holders_lease_is_taken_over_at_its_end(live: LiveRepository) -> None:
    ends = datetime.now(UTC) + timedelta(seconds=0.6)
    live.write_journal(Journal(lock=Lock(holder="the dead", expires=ends)), None)

    with Lease(live, holder="heir", seconds=5) as lease:
        assert datetime.now(UTC) >= ends
        assert lease.journal.lock is not None
        assert lease.journal.lock.holder == "heir"


def test_the_same_holder_goes_on_at_once(live: LiveRepository) -> None:
    far = datetime.now(UTC) + timedelta(hours=1)
    live.write_journal(Journal(lock=Lock(holder="job 7", expires=far)), None)

    with Lease(live, holder="job 7") as lease:
        assert lease.journal.lock is not None
        assert lease.journal.lock.expires < far


def test_who_has_lost_it_may_not_go_on(live: LiveRepository) -> None:
    with Lease(live, holder="slow", seconds=60) as lease:
        journal, tag = live.read_journal()
        other = Lock(holder="quick", expires=datetime.now(UTC) + timedelta(seconds=60))
        live.write_journal(journal.having(lock=other), tag)

        with pytest.raises(LockTaken, match=r"^quick has taken the lock of live/: wait until that is done$"):
            lease.record(lambda journal: journal.having(serving="0123456789ab" + 52 * "0"))

    assert live.read_journal()[0] == Journal(lock=other)


def test_a_write_whose_answer_was_lost_is_not_a_lost_lock(live: LiveRepository) -> None:
    class LosesAnswers:
        """Writes, and then returns S3's answer to the repetition of a successful write."""

        lose = False

        def read_journal(self) -> tuple[Journal, str | None]:
            return live.read_journal()

        def write_journal(self, journal: Journal, tag: str | None) -> str:
            written = live.write_journal(journal, tag)
            if self.lose:
                raise JournalChanged
            return written

    store = LosesAnswers()
    with Lease(store, seconds=60) as lease:
        store.lose = True
        lease.record(lambda journal: journal.having(serving="0123456789ab" + 52 * "0"))
        store.lose = False
        lease.record(lambda journal: journal.having(previous="0123456789ab" + 52 * "0"))

    assert live.read_journal()[0] == Journal(serving="0123456789ab" + 52 * "0", previous="0123456789ab" + 52 * "0")


def test_of_many_threads_one_holds_it_at_a_time(live: LiveRepository) -> None:
    holders: list[str] = []
    at_once: list[int] = []
    refused: list[str] = []

    def work(name: str) -> None:
        try:
            with Lease(live, holder=name, seconds=HOUR) as lease:
                holders.append(name)
                at_once.append(len(holders))

                def others_gave_up() -> bool:
                    lease.record(lambda journal: journal)  # they wait for a change of the lease
                    return len(refused) == 3

                wait_until(others_gave_up, "the others to give up", 60)
                holders.remove(name)
        except LockTaken as taken:
            refused.append(str(taken))

    threads = [threading.Thread(target=work, args=(f"worker {n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert at_once == [1]
    assert len(refused) == 3


@pytest.fixture
def endpoint() -> Iterator[str]:
    with moto_bucket(BUCKET) as url:
        yield url


def test_of_two_processes_one_holds_it(endpoint: str) -> None:
    command = [sys.executable, "-c", RACER, BUCKET, endpoint]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    with subprocess.Popen(command, **pipes) as one, subprocess.Popen(command, **pipes) as other:  # type: ignore[call-overload]
        racers = [one, other]
        assert [racer.stdout.readline() for racer in racers] == ["ready\n", "ready\n"]
        for racer in racers:
            _tell(racer, "go")
        first = {racer.stdout.readline(): racer for racer in racers}
        assert first.keys() == {"holds\n", "watches\n"}
        holder, watcher = first["holds\n"], first["watches\n"]
        _tell(holder, "move the lease")
        assert "works on live/ at this moment" in watcher.stdout.readline()
        holder.communicate("done\n", timeout=60)

    assert LiveRepository(open_store(BUCKET, endpoint)).read_journal()[0].lock is None


def _tell(racer: subprocess.Popen[str], line: str) -> None:
    assert racer.stdin is not None
    racer.stdin.write(f"{line}\n")
    racer.stdin.flush()
