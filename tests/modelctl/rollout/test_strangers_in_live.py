"""A rollout neither overwrites nor deletes others' objects in live/."""

from pathlib import Path
from typing import Any

import pytest

from modelctl.rollout.controller import Controller, Wanted
from modelctl.rollout.lease import Lease
from modelctl.rollout.plan import Refused
from modelctl.store.bucket import Store
from modelctl.store.journal import Journal
from modelctl.store.live import LiveRepository
from tests.modelctl.rollout.idle_fleet import IdleFleet
from tests.modelctl.rollout.releases import model, publish


def planted(s3: Any, store: Store, *keys: str) -> dict[str, bytes]:
    for key in keys:
        s3.put_object(Bucket=store.place.bucket, Key=f"live/{key}", Body=b"somebody's")
    return contents(s3, store)


def contents(s3: Any, store: Store) -> dict[str, bytes]:
    listed = s3.list_objects_v2(Bucket=store.place.bucket, Prefix="live/").get("Contents", [])
    keys = [entry["Key"] for entry in listed if entry["Key"] != "live/rollout.json"]
    return {key: s3.get_object(Bucket=store.place.bucket, Key=key)["Body"].read() for key in keys}


def refusal(store: Store, release_id: str) -> list[str]:
    with pytest.raises(Refused) as refused, Lease(LiveRepository(store)) as lease:
        Controller(store, IdleFleet([]), Wanted("local")).rollout(release_id, lease)
    return refused.value.reasons


def test_the_first_rollout_begins_in_an_empty_live_only(store: Store, s3: Any, tmp_path: Path) -> None:
    released = publish(store, tmp_path / "repository", model("adder", 1))
    before = planted(s3, store, "adder/config.pbtxt", "adder/7/model.py", "other/1/model.py")
    assert refusal(store, released.id) == ["live/ holds adder, other, which no rollout put there: delete that first"]
    assert contents(s3, store) == before


def test_a_later_one_writes_over_nothing_and_would_delete_nothing_that_is_not_its_own(
    store: Store, s3: Any, tmp_path: Path
) -> None:
    first = publish(store, tmp_path / "repository", model("adder", 1), model("same", 1))
    second = publish(store, tmp_path / "repository", model("adder", 2), model("same", 1), model("new", 1))
    live = LiveRepository(store)
    live.write_journal(Journal(stack="local", serving=first.id), None)
    before = planted(s3, store, "adder/1/model.py", "adder/2/model.py", "same/1/model.py", "new/notes.txt", "other/1/x")
    assert refusal(store, second.id) == ["live/ holds adder/2, new, which no rollout put there: delete that first"]
    assert contents(s3, store) == before
