"""`modelctl follow` on a directory and a bucket in moto: the files that a server of live/ reads."""

import hashlib
import os
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import boto3
import pytest

from modelctl.fetch.directory import FetchDirectory
from modelctl.fetch.follow import Follower
from modelctl.fetch.live_view import Incomplete
from modelctl.fetch.partial_file import PartialFile
from modelctl.store.bucket import Store
from modelctl.store.followed import Followed, FollowedModel, digest
from modelctl.store.journal import Change, Journal, Phase, Rollout
from modelctl.store.live import LiveRepository
from modelctl.store.manifest import Manifest, ModelEntry, ObjectEntry
from spec.failure import Failure
from tests.command import run
from tests.modelctl.conftest import BUCKET
from tests.modelctl.fetch.releases import sentence

STARTED = datetime(2026, 7, 1, tzinfo=UTC)


def put(store: Store, versions: dict[str, int], weights: bytes = b"weights" * 500) -> str:
    """Create a release of these models; versions share `labels.txt`, and `same.bin` is equal in all releases."""
    content = {}
    for model, version in versions.items():
        content |= {
            f"{model}/{version}/model.bin": f"{model} {version} ".encode() + weights,
            f"{model}/{version}/same.bin": b"same" * 1000,
            f"{model}/labels.txt": b"one\ntwo\n",
            f"{model}/config.pbtxt": b"",
            f"{model}/configs/prod.pbtxt": b"",
        }
    entries = {key: ObjectEntry(sha256=hashlib.sha256(data).hexdigest(), bytes=len(data)) for key, data in content.items()}
    models = {model: ModelEntry(version=version, backend="python") for model, version in versions.items()}
    manifest = Manifest.of(entries, models, STARTED)
    for key, data in content.items():
        store.client.put_object(Bucket=BUCKET, Key=f"releases/{manifest.id}/{key}", Body=data)
    store.write_manifest(manifest)
    return manifest.id


class Site:
    """live/ of the bucket, and its follower."""

    def __init__(self, store: Store, root: Path) -> None:
        self.live = LiveRepository(store)
        self.root = root
        self.said: list[str] = []
        self.directory = FetchDirectory(root)
        self.follower = Follower(store, self.directory, None, self.said.append)

    def write(self, serving: str | None, rollout: Rollout | None = None, **versions: list[int]) -> dict[str, str]:
        """Write like a rollout: its journal, and the configs of models with these versions."""
        _, tag = self.live.read_journal()
        self.live.write_journal(Journal(serving=serving, rollout=rollout), tag)
        texts = {model: config(*numbers) for model, numbers in versions.items()}
        for model, text in texts.items():
            self.live.write_config(model, text)
        return texts

    def look(self) -> Followed:
        with self.directory.locked(self.said.append):
            self.follower._look()
        return self.follower.state()

    def shown(self) -> list[str]:
        """Return every file that a server finds below `current`."""
        found = [
            Path(at, name).relative_to(self.root / "current")
            for at, _, names in os.walk(self.root / "current/", followlinks=True)
            for name in names
        ]
        return sorted(map(str, found))


@pytest.fixture
def site(store: Store, tmp_path: Path) -> Site:
    return Site(store, tmp_path / "disk")


def config(*versions: int) -> str:
    return f"version_policy {{ specific {{ {' '.join(f'versions: {v}' for v in versions)} }} }}\n"


def rollout(release: str, phase: Phase = Phase.COPY, **options: object) -> Rollout:
    changes = (Change(model="a", old=1, new=2),)
    return Rollout(release=release, phase=phase, changes=changes, started=STARTED).model_copy(update=options)


FIRST = ["a/1/model.bin", "a/1/same.bin", "a/config.pbtxt", "a/labels.txt"]
BOTH = ["a/1/model.bin", "a/1/same.bin", "a/2/model.bin", "a/2/same.bin", "a/config.pbtxt", "a/labels.txt"]
SECOND = ["a/2/model.bin", "a/2/same.bin", "a/config.pbtxt", "a/labels.txt"]


def test_a_rollout_is_followed_from_one_release_to_the_next(site: Site, store: Store) -> None:
    first, second = put(store, {"a": 1}), put(store, {"a": 2})
    texts = site.write(first, a=[1])
    assert site.look().models == {"a": FollowedModel(versions=(1,), config=digest(texts["a"]))}
    assert site.shown() == FIRST
    server = (site.root / "current/a/1/model.bin").open("rb")

    texts = site.write(first, rollout(second), a=[1, 2])
    found = site.look()
    assert found.models == {"a": FollowedModel(versions=(1, 2), config=digest(texts["a"]))}
    assert found.problem is None
    assert site.shown() == BOTH
    assert (site.root / "current/a/config.pbtxt").read_text() == texts["a"]

    texts = site.write(first, rollout(second, Phase.SETTLE, percent=100), a=[2])
    site.look()
    assert site.shown() == BOTH, "the first version may be loaded still"
    assert (site.root / "current/a/config.pbtxt").read_text() == texts["a"]

    site.write(second, a=[2])
    assert site.look().models["a"].versions == (2,)
    assert site.shown() == SECOND
    assert [path.name for path in (site.root / "releases").iterdir()] == [second]
    assert [path.name for path in (site.root / "live").iterdir()] == [(site.root / "current").readlink().name]
    assert server.read().startswith(b"a 1 ")


def test_files_that_the_release_before_has_are_not_fetched_again(site: Site, store: Store, asked: list[object]) -> None:
    first, second = put(store, {"a": 1, "b": 1}), put(store, {"a": 2, "b": 1})
    site.write(first, a=[1], b=[1])
    site.look()
    asked.clear()
    site.write(first, rollout(second), a=[1, 2])
    site.look()
    assert {key for key, _, _ in asked} == {"model.bin"}  # type: ignore[misc]
    same = [(site.root / "releases" / release / "b/1/model.bin").stat().st_ino for release in (first, second)]
    assert same[0] == same[1]


def test_a_wrong_file_shared_with_the_release_before_is_fetched_anew_and_leaves_that_one_alone(
    site: Site, store: Store
) -> None:
    first, second = put(store, {"a": 1, "b": 1}), put(store, {"a": 2, "b": 1})
    site.write(first, a=[1], b=[1])
    site.look()
    shared = site.root / "releases" / first / "b/1/model.bin"
    damaged = b"?" + shared.read_bytes()[1:]
    shared.write_bytes(damaged)
    site.write(first, rollout(second), a=[1, 2])
    site.look()
    assert (site.root / "releases" / second / "b/1/model.bin").read_bytes().startswith(b"b 1 ")
    assert shared.read_bytes() == damaged, "a server may be reading it"


def test_a_release_that_cannot_be_had_is_told_and_what_serves_stays(site: Site, store: Store) -> None:
    first, second = put(store, {"a": 1}), put(store, {"a": 2})
    boto3.client("s3").put_object(Bucket=BUCKET, Key=f"releases/{second}/a/2/model.bin", Body=b"a 2 " + b"WEIGHTS" * 500)
    site.write(first, a=[1])
    site.look()
    site.write(first, rollout(second), a=[1])
    with pytest.raises(Failure, match=r"a/2/model\.bin"):
        site.look()
    assert site.shown() == FIRST
    assert not list((site.root / ".fetching").glob("*"))


def test_one_that_cannot_be_had_is_fetched_again_for_another_rollout_alone(
    site: Site, store: Store, asked: list[object]
) -> None:
    first, second = put(store, {"a": 1}), put(store, {"a": 2})
    good = store.client.get_object(Bucket=BUCKET, Key=f"releases/{second}/a/2/model.bin")["Body"].read()
    boto3.client("s3").put_object(Bucket=BUCKET, Key=f"releases/{second}/a/2/model.bin", Body=b"?" + good[1:])
    site.write(first, rollout(second), a=[1])
    with pytest.raises(Failure):
        site.look()
    asked.clear()
    boto3.client("s3").put_object(Bucket=BUCKET, Key=f"releases/{second}/a/2/model.bin", Body=good)
    with pytest.raises(Failure):
        site.look()
    assert asked == []
    site.write(first, rollout(second, started=datetime(2026, 7, 2, tzinfo=UTC)), a=[1, 2])
    site.look()
    assert site.shown() == BOTH


def test_what_is_undone_goes_when_that_has_ended(site: Site, store: Store) -> None:
    first, second = put(store, {"a": 1}), put(store, {"a": 2})
    site.write(first, rollout(second), a=[1, 2])
    site.look()
    site.write(first, rollout(second, Phase.UNDO_PODS, reason="slow"), a=[1])
    site.look()
    assert site.shown() == BOTH, "the second version may be loaded still"
    site.write(first, a=[1])
    site.look()
    assert site.shown() == FIRST
    assert [path.name for path in (site.root / "releases").iterdir()] == [first]


@pytest.mark.parametrize(("versions", "expected"), [([1], FIRST), ([1, 2], BOTH)])
def test_a_pod_that_starts_amid_an_undoing_has_what_its_configs_name(
    site: Site, store: Store, versions: list[int], expected: list[str]
) -> None:
    first, second = put(store, {"a": 1}), put(store, {"a": 2})
    site.write(first, rollout(second, Phase.UNDO_PODS, reason="slow"), a=versions)
    with site.directory.locked(site.said.append):
        site.follower.fill()
    assert site.shown() == expected


def test_a_pod_starts_with_what_is_served_though_the_next_release_cannot_be_had(site: Site, store: Store) -> None:
    first, second = put(store, {"a": 1}), put(store, {"a": 2})
    store.client.delete_object(Bucket=BUCKET, Key=f"releases/{second}/a/2/model.bin")
    site.write(first, rollout(second), a=[1])
    site.directory.root.mkdir()
    with site.directory.locked(site.said.append):
        site.follower.fill()
    assert site.shown() == FIRST
    assert "a/2/model.bin is missing in " in site.said[-1]
    site.write(first, rollout(second), a=[1, 2])
    with site.directory.locked(site.said.append), pytest.raises(Failure, match=r"a/2/model\.bin is missing in "):
        Follower(store, site.directory, None, site.said.append).fill()


def test_a_release_that_was_taken_back_while_it_arrived_makes_room_for_the_next(
    site: Site, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = (put(store, {"a": version}) for version in (1, 2, 3))
    site.write(first, a=[1])
    site.look()
    site.write(first, rollout(second), a=[1])
    begin, most = FetchDirectory.begin, []

    def begun(self: FetchDirectory, manifest: Manifest, beside: Iterable[Manifest] = ()) -> list[PartialFile]:
        if manifest.id == second:
            site.write(first, rollout(third), a=[1])
        most.append({path.name for path in (site.root / "releases").iterdir()} | {manifest.id})
        return begin(self, manifest, beside)

    monkeypatch.setattr(FetchDirectory, "begin", begun)
    site.look()
    assert most == [{first, second}, {first, third}]
    assert sorted(path.name for path in (site.root / "releases").iterdir()) == sorted([first, third])


NO_TEXT = (
    f"s3://{BUCKET}/live/a/config.pbtxt: not UTF-8; save the file in that encoding, or restore its earlier object version"
)


def test_a_defect_of_its_own_does_not_end_it(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def sleep(_: float) -> None:
        raise KeyboardInterrupt

    def fail(_: LiveRepository) -> None:
        raise RuntimeError("a defect")

    site.write("a" * 64)
    monkeypatch.setattr(LiveRepository, "configs", fail)
    monkeypatch.setattr(time, "sleep", sleep)
    with site.directory.locked(site.said.append), pytest.raises(KeyboardInterrupt):
        site.follower.follow()
    assert site.follower.state().problem == "RuntimeError: a defect"


def test_a_config_that_is_no_text_is_a_sentence_before_a_server_starts(site: Site, store: Store) -> None:
    site.write(put(store, {"a": 1}), a=[1])
    store.client.put_object(Bucket=BUCKET, Key="live/a/config.pbtxt", Body=b"\xff")
    ended = run("modelctl", "follow", "--bucket", BUCKET, "--to", site.root, "--once")
    assert sentence(ended, 2) == NO_TEXT
    assert not (site.root / "current").exists()


def test_whatever_goes_wrong_it_stays_for_its_end_takes_the_pod_out_of_service(
    site: Site, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.write(put(store, {"a": 1}), a=[1])
    good = store.client.get_object(Bucket=BUCKET, Key="live/a/config.pbtxt")["Body"].read()
    problems: list[str | None] = []

    def sleep(_: float) -> None:
        problems.append(site.follower.state().problem)
        if len(problems) == 2:
            raise KeyboardInterrupt
        store.client.put_object(Bucket=BUCKET, Key="live/a/config.pbtxt", Body=good)

    store.client.put_object(Bucket=BUCKET, Key="live/a/config.pbtxt", Body=b"\xff")
    monkeypatch.setattr(time, "sleep", sleep)
    with site.directory.locked(site.said.append), pytest.raises(KeyboardInterrupt):
        site.follower.follow()
    assert problems[0] == NO_TEXT
    assert problems[1] is None
    assert site.shown() == FIRST


def test_nothing_is_asked_of_the_bucket_but_the_journal_while_nothing_changes(
    site: Site, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.write(put(store, {"a": 1}), a=[1])
    site.look()
    monkeypatch.setattr(LiveRepository, "configs", lambda _: pytest.fail("the configs were read again"))
    site.look()


def test_the_command_fills_a_directory_before_a_server_starts(site: Site, store: Store) -> None:
    site.write(put(store, {"a": 1}), a=[1])
    ended = run("modelctl", "follow", "--bucket", BUCKET, "--to", site.root, "--once")
    assert (ended.exit_code, ended.stdout) == (0, f"{site.root / 'current'}\n"), ended.output
    assert site.shown() == FIRST


def test_without_a_release_in_live_it_says_what_to_do(site: Site) -> None:
    ended = run("modelctl", "follow", "--bucket", BUCKET, "--to", site.root, "--once")
    assert sentence(ended, 2) == (f"live/ in s3://{BUCKET} serves no release yet: fill it with `modelctl rollout`")
    assert not (site.root / "current").exists()


def test_a_live_without_models_is_refused_and_what_is_served_stays(site: Site, store: Store) -> None:
    site.write(put(store, {"a": 1}), a=[1])
    site.look()
    store.client.delete_object(Bucket=BUCKET, Key="live/a/config.pbtxt")
    site.write(put(store, {"a": 2}))
    with pytest.raises(Incomplete) as refused:
        site.look()
    assert str(refused.value) == "live/ has no model, so there is nothing to serve: fill it with `modelctl rollout`"
    assert site.shown() == FIRST


def test_what_a_crash_of_the_machine_left_of_a_view_is_made_anew(site: Site, store: Store) -> None:
    texts = site.write(put(store, {"a": 1}), a=[1])
    site.look()
    (site.root / "current/a/config.pbtxt").write_text("")
    with site.directory.locked(site.said.append):
        Follower(store, site.directory, None, site.said.append).fill()
    assert (site.root / "current/a/config.pbtxt").read_text() == texts["a"]
