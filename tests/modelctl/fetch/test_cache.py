"""`modelctl fetch --cache`: one download for all users of a directory."""

import errno
import fcntl
import os
from pathlib import Path
from typing import Any

import pytest

from modelctl.fetch import directory, download
from modelctl.store.bucket import Store
from tests.modelctl.fetch.releases import CONTENT, fetch, files, put, sentence

Asked = list[tuple[str, int, int]]


def test_the_second_pod_of_a_node_downloads_nothing(release: str, tmp_path: Path, asked: Asked) -> None:
    cache = tmp_path / "cache"
    first = fetch(release, tmp_path / "first", "--cache", str(cache))
    assert first.exit_code == 0, first.output
    assert first.stdout.startswith(f"{release} fetched and verified: 2.6 kB received in ")
    assert first.stdout.endswith(f", copied from {cache}; {tmp_path}/first/current\n")
    asked.clear()

    second = fetch(release, tmp_path / "second", "--cache", str(cache))

    assert second.stdout == f"{release} was here, copied from {cache}; {tmp_path}/second/current\n"
    assert asked == []
    for pod in ("first", "second"):
        assert files(tmp_path / pod / "current") == CONTENT
    again = fetch(release, tmp_path / "second", "--cache", str(cache))
    assert again.stdout == f"{release} was here; {tmp_path}/second/current\n"


def test_a_pod_keeps_its_copy_whatever_becomes_of_the_cache(release: str, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    fetch(release, tmp_path / "pod", "--cache", str(cache))
    (cache / "releases" / release / "classify/config.pbtxt").write_bytes(b"somebody else's")
    assert files(tmp_path / "pod" / "current") == CONTENT


def test_after_a_restart_of_the_machine_the_cache_is_verified_again(
    release: str, tmp_path: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    fetch(release, tmp_path / "first", "--cache", str(cache))
    (cache / "releases" / release / "classify/config.pbtxt").write_bytes(b"0123456789abcdef")
    asked.clear()
    monkeypatch.setattr(directory, "_boot", lambda: "the next")

    assert fetch(release, tmp_path / "second", "--cache", str(cache)).exit_code == 0

    assert asked == [("config.pbtxt", 0, 16)]
    assert files(tmp_path / "second" / "current") == CONTENT


def test_what_was_asked_for_longest_ago_makes_room(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory, "GIB", 1000)
    releases = [put(store, {"m/1/weights.bin": bytes([number]) * 600}) for number in range(4)]
    cache = tmp_path / "cache"
    for moment, release in enumerate(releases[:3]):
        assert fetch(release, tmp_path / "pod", "--cache", str(cache), "--cache-gib", "2").exit_code == 0
        os.utime(cache / ".verified" / release, (moment, moment))
    fetch(releases[0], tmp_path / "other", "--cache", str(cache), "--cache-gib", "2")  # requested again: it stays

    ended = fetch(releases[3], tmp_path / "pod", "--cache", str(cache), "--cache-gib", "2")

    assert f"removed release {releases[1]} from {cache}, to make room for {releases[3]}" in ended.stderr
    kept = sorted(path.name for path in (cache / "releases").iterdir())
    assert kept == sorted([releases[0], releases[2], releases[3]])
    assert sorted(path.name for path in (cache / ".verified").iterdir()) == kept
    assert files(tmp_path / "other" / "current") == {"m/1/weights.bin": bytes(600), "m/config.pbtxt": b""}


def test_a_release_larger_than_the_cache_is_told(release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory, "GIB", 1000)
    cache = tmp_path / "cache"
    assert sentence(fetch(release, tmp_path / "pod", "--cache", str(cache), "--cache-gib", "2"), 2) == (
        f"release {release} has 2576 bytes, and the cache {cache} holds 2000 at most; give it more room, or fetch without it"
    )


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EOPNOTSUPP])
def test_file_systems_that_share_no_blocks_copy(
    number: int, release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "copy_file_range", refused)
    fetch(release, tmp_path / "pod", "--cache", str(tmp_path / "cache"))
    assert files(tmp_path / "pod" / "current") == CONTENT


def test_a_full_disk_while_it_is_copied_is_told(release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "copy_file_range", full)
    said = sentence(fetch(release, tmp_path / "pod", "--cache", str(tmp_path / "cache")), 2)
    assert said == "the disk: the disk is full; give it more room, what has arrived stays"
    assert not (tmp_path / "pod" / "current").exists()


@pytest.mark.parametrize("goes_on", [0, 1000])
def test_what_the_kernel_leaves_out_is_copied(
    goes_on: int, release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_the_kernel = os.copy_file_range

    def ends_early(source: int, target: int, size: int) -> int:
        at = os.lseek(source, 0, os.SEEK_CUR)
        return in_the_kernel(source, target, min(size, goes_on)) if at < goes_on else 0

    monkeypatch.setattr(os, "copy_file_range", ends_early)
    fetch(release, tmp_path / "pod", "--cache", str(tmp_path / "cache"))
    assert files(tmp_path / "pod" / "current") == CONTENT


def test_a_copy_that_is_short_is_no_release(release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, pod = tmp_path / "cache", tmp_path / "pod"
    fetch(release, tmp_path / "first", "--cache", str(cache))
    weights = cache / "releases" / release / "classify/1/weights.bin"
    make_room = directory.FetchDirectory.make_room

    def lose_the_end(*arguments: Any) -> None:
        make_room(*arguments)
        monkeypatch.setattr(directory.FetchDirectory, "holds", lambda self, _: self.current.parent == cache)
        os.truncate(weights, 1000)

    monkeypatch.setattr(directory.FetchDirectory, "make_room", lose_the_end)
    said = sentence(fetch(release, pod, "--cache", str(cache)), 2)
    assert said == f"{weights}: 1000 bytes were copied of 2560; run the same command again"
    assert not (pod / "current").exists()
    assert not (pod / "releases").exists()


@pytest.mark.parametrize("has_a_mark_that_says_nothing", [False, True])
def test_what_a_server_reads_is_no_cache(
    has_a_mark_that_says_nothing: bool, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory, "GIB", 1000)
    served, other = (put(store, {"m/1/weights.bin": bytes([number]) * 600}) for number in range(2))
    to = tmp_path / "served"
    fetch(served, to)
    if has_a_mark_that_says_nothing:
        os.truncate(to / ".modelctl-fetch", 0)

    ended = fetch(other, tmp_path / "pod", "--cache", str(to), "--cache-gib", "1")

    assert sentence(ended, 2) == (
        f"{to} is no cache but the --to of a fetch, and a server may read what a cache removes; give another directory as "
        "--cache"
    )
    assert files(to / "current") == {"m/1/weights.bin": bytes(600), "m/config.pbtxt": b""}


def test_a_first_fetch_that_is_under_way_has_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def taken(_: int, operation: int) -> None:
        assert operation & fcntl.LOCK_NB, "nobody waits for what is refused"
        raise BlockingIOError

    with directory.FetchDirectory(tmp_path).locked(print):
        monkeypatch.setattr(fcntl, "flock", taken)
        with pytest.raises(download.DiskProblem, match="is no cache"):
            directory.FetchDirectory(tmp_path, is_cache=True).locked(print).__enter__()


def test_a_server_does_not_read_from_a_cache(release: str, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    fetch(release, tmp_path / "pod", "--cache", str(cache))
    assert sentence(fetch(release, cache), 2) == (
        f"{cache} is a cache, from which fetches remove releases; give another directory as --to, and this one as --cache"
    )
    assert not (cache / "current").exists()


@pytest.mark.parametrize(
    ("to", "cache", "said"),
    [
        ("a", "b", "--to and --cache are both {a}: a release is copied from one to the other; give two directories"),
        ("a", "a/b", "{a}/b lies inside of {a}; give two directories of which neither holds the other"),
        ("b/c", "a", "{b}/c lies inside of {a}; give two directories of which neither holds the other"),
    ],
)
def test_a_cache_and_what_is_copied_from_it_lie_apart(release: str, tmp_path: Path, to: str, cache: str, said: str) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").symlink_to("a")
    ended = fetch(release, tmp_path / to, "--cache", str(tmp_path / cache))
    assert sentence(ended, 2) == said.format(a=tmp_path / "a", b=tmp_path / "b")
    assert list((tmp_path / "a").iterdir()) == []
