"""The prefix live/ in a bucket."""

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest

from modelctl.rollout.lease import JournalChanged, own_name
from modelctl.store import live as live_module
from modelctl.store.bucket import Store
from modelctl.store.journal import Change, Journal, JournalError, Lock, Phase, Rollout
from modelctl.store.live import JOURNAL_KEY, LiveRepository, WrongContent
from modelctl.store.manifest import Manifest, ObjectEntry
from tests.modelctl.conftest import BUCKET
from tests.modelctl.rollout.releases import model, publish

CODE_KEY = "adder/1/model.py"


@pytest.fixture
def live(store: Store) -> LiveRepository:
    return LiveRepository(store)


@pytest.fixture
def released(store: Store, tmp_path: Path) -> Manifest:
    return publish(store, tmp_path / "repository", model())


def test_a_copy_is_what_was_released(live: LiveRepository, released: Manifest, store: Store) -> None:
    live.copy(released.id, CODE_KEY, released.objects[CODE_KEY])
    live.copy(released.id, CODE_KEY, released.objects[CODE_KEY])

    copied = store.client.get_object(Bucket=BUCKET, Key=f"live/{CODE_KEY}")["Body"].read()
    assert copied == b"".join(store.chunks(released.id, CODE_KEY))
    assert live.models() == {"adder": {1}}


def test_the_copy_of_a_tagged_object_is_not_tagged(live: LiveRepository, released: Manifest, store: Store) -> None:
    store.write_tags(released.id, CODE_KEY, {"retired": "true"})
    live.copy(released.id, CODE_KEY, released.objects[CODE_KEY])
    assert store.client.get_object_tagging(Bucket=BUCKET, Key=f"live/{CODE_KEY}")["TagSet"] == []


def test_changed_content_is_noticed(live: LiveRepository, released: Manifest, store: Store) -> None:
    boto3.client("s3").put_object(Bucket=BUCKET, Key=f"releases/{released.id}/{CODE_KEY}", Body=b"changed")
    with pytest.raises(WrongContent) as failure:
        live.copy(released.id, CODE_KEY, released.objects[CODE_KEY])
    assert str(failure.value) == (
        f"{CODE_KEY} in releases/{released.id}/ has the sha-256 {_sha256(b'changed')}, "
        f"but the manifest says {released.objects[CODE_KEY].sha256}"
    )


def test_a_missing_object_is_noticed(live: LiveRepository, released: Manifest, store: Store) -> None:
    store.client.delete_object(Bucket=BUCKET, Key=f"releases/{released.id}/{CODE_KEY}")
    with pytest.raises(WrongContent, match=rf"^{CODE_KEY} is missing in releases/{released.id}/$"):
        live.copy(released.id, CODE_KEY, released.objects[CODE_KEY])


def test_an_object_too_big_for_one_request_is_copied_in_parts_and_read_back(
    live: LiveRepository, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_module, "COPY_BYTES", 10)
    content = b"0123456789" * 1024 * 1024
    store.client.put_object(Bucket=BUCKET, Key=f"releases/0123456789ab{52 * '0'}/big/1/weights", Body=content)

    live.copy("0123456789ab" + 52 * "0", "big/1/weights", ObjectEntry(sha256=_sha256(content), bytes=len(content)))

    assert store.client.head_object(Bucket=BUCKET, Key="live/big/1/weights")["ContentLength"] == len(content)
    with pytest.raises(WrongContent):
        live.copy("0123456789ab" + 52 * "0", "big/1/weights", ObjectEntry(sha256="0" * 64, bytes=len(content)))


def test_a_version_is_deleted_and_its_neighbours_stay(live: LiveRepository, store: Store) -> None:
    for key in ("adder/1/model.py", "adder/12/model.py", "adder/2/model.py", "adder/config.pbtxt", "other/1/model.py"):
        store.client.put_object(Bucket=BUCKET, Key=f"live/{key}", Body=b"x")

    live.delete_version("adder", 1)
    live.delete_version("adder", 1)
    assert live.models() == {"adder": {2, 12}, "other": {1}}

    live.delete_model("adder")
    assert live.models() == {"other": {1}}


def test_the_journal_is_no_model(live: LiveRepository) -> None:
    live.write_journal(Journal(), None)
    assert live.models() == {}


def test_only_the_journal_that_was_read_is_replaced(live: LiveRepository) -> None:
    assert live.read_journal() == (Journal(), None)
    live.write_journal(Journal(serving="0123456789ab" + 52 * "0"), None)
    _, tag = live.read_journal()
    live.write_journal(Journal(serving="ba9876543210" + 52 * "0"), tag)

    for old in (tag, None):
        with pytest.raises(JournalChanged):
            live.write_journal(Journal(), old)
    assert live.read_journal()[0].serving == "ba9876543210" + 52 * "0"


def test_a_journal_is_read_as_it_was_written(live: LiveRepository) -> None:
    started = Journal.parse('{"lock": {"holder": "x", "expires": "2026-11-21T10:00:00Z"}}').lock
    assert started is not None
    rollout = Rollout(
        release="0123456789ab" + 52 * "0",
        phase=Phase.CANARY,
        changes=(Change(model="adder", old=1, new=2), Change(model="other", old=None, new=1)),
        started=started.expires,
        percent=25,
    )
    journal = Journal(stack="prod", serving="ba9876543210" + 52 * "0", rollout=rollout)
    live.write_journal(journal, None)
    assert live.read_journal()[0] == journal
    assert journal.releases == {"0123456789ab" + 52 * "0", "ba9876543210" + 52 * "0"}


def test_a_journal_that_somebody_changed_is_said_to_be_none(live: LiveRepository, store: Store) -> None:
    store.client.put_object(Bucket=BUCKET, Key=JOURNAL_KEY, Body=b'{"serving": 7}')
    with pytest.raises(JournalError) as failure:
        live.read_journal()
    assert str(failure.value) == (
        "live/rollout.json: serving: 7 where text is expected; restore its earlier object version, modelctl writes it"
    )


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ([("m", 1, 1)], "rollout.changes.0: m is there twice, or changes from version 1 to itself;"),
        ([("m", 1, 2), ("m", 2, 3)], "rollout.changes.1: m is there twice, or changes from version 2 to itself;"),
        ([("../releases", 1, 2)], 'rollout.changes.0.model: "../releases" is not of the form'),
        ([("", 1, 2)], 'rollout.changes.0.model: "" is not of the form'),
        ([("m", 1, 2**63)], "rollout.changes.0.new: 9223372036854775808 "),
    ],
)
def test_a_rollout_that_would_delete_what_it_serves_is_no_rollout(
    changes: list[tuple[str, int, int]], sentence: str
) -> None:
    made = [{"model": model, "old": old, "new": new} for model, old, new in changes]
    with pytest.raises(JournalError) as failure:
        Journal.parse(_journal(phase="clean", percent=100, changes=made))
    assert str(failure.value).startswith(f"live/rollout.json: {sentence}")


_SERVING, _RELEASE = "a" * 64, "0" * 64


def _journal(serving: str | None = _SERVING, **rollout: object) -> str:
    started: dict[str, object] = {"release": _RELEASE, "changes": [], "started": "2026-11-21T10:00:00Z"}
    return json.dumps({"serving": serving, "rollout": {**started, **rollout}})


_SHARE = "and in the phase {} the new versions have {} %;"


@pytest.mark.parametrize(
    ("rollout", "sentence"),
    [
        *(
            ({"phase": phase, "percent": percent}, f"rollout.percent: {percent}, " + _SHARE.format(phase, expected))
            for phase, percent, expected in (
                ("copy", 5, "0"),
                ("load", 1, "0"),
                ("canary", 0, "1 to 99"),
                ("canary", 100, "1 to 99"),
                ("flip", 100, "0 to 99"),
                ("watch", 99, "100"),
                ("drain", 5, "100"),
                ("settle", 0, "100"),
                ("clean", 0, "100"),
            )
        ),
        ({"phase": "seed"}, f"serving: {_SERVING}, and the phase seed fills a live/ that serves nothing;"),
        ({"phase": "copy", "serving": None}, "serving: none, and the phase copy replaces a release that serves;"),
        (
            {"phase": "undo-serve", "serving": None, "reason": "x"},
            "serving: none, and the phase undo-serve replaces a release that serves;",
        ),
        (
            {"phase": "copy", "release": _SERVING},
            f"rollout.release: {_SERVING} serves already, so that it would replace itself;",
        ),
        (
            {"phase": "undo-pods"},
            "rollout.reason: there is no reason why it is being undone, in the phase undo-pods;",
        ),
        ({"phase": "load", "reason": "x"}, "rollout.reason: there is a reason why it is being undone, in the phase load;"),
    ],
)
def test_a_phase_that_contradicts_what_else_the_journal_says_is_refused(rollout: dict[str, Any], sentence: str) -> None:
    with pytest.raises(JournalError) as failure:
        Journal.parse(_journal(**rollout))
    assert str(failure.value) == f"live/rollout.json: {sentence} restore its earlier object version, modelctl writes it"


@pytest.mark.parametrize(
    ("phase", "percent"),
    [("copy", 0), ("canary", 1), ("canary", 99), ("flip", 0), ("flip", 99), ("watch", 100), ("clean", 100)],
)
def test_a_phase_with_a_share_that_it_may_have_is_read(phase: str, percent: int) -> None:
    assert Journal.parse(_journal(phase=phase, percent=percent)).rollout is not None


@pytest.mark.parametrize("percent", [0, 25, 100])
def test_what_is_being_undone_may_have_had_any_share(percent: int) -> None:
    assert Journal.parse(_journal(phase="undo-serve", percent=percent, reason="slow")).rollout is not None


@pytest.mark.parametrize("holder", ["", "me\x1b[2J", "a\nb"])
def test_who_holds_the_lock_can_be_printed(holder: str) -> None:
    with pytest.raises(JournalError, match=r"^live/rollout\.json: lock\.holder: "):
        Journal.parse(json.dumps({"lock": {"holder": holder, "expires": "2026-11-21T10:00:00Z"}}))


def test_a_user_whose_name_a_terminal_would_obey_has_a_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "me\x1b[2J" + "x" * 1000)
    assert Lock(holder=own_name(), expires=datetime.now(UTC)).holder.startswith("me\\x1b[2Jxxx")


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
