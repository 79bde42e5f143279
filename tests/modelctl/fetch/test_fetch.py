"""`modelctl fetch`: a release is complete on the local disk or absent, whatever happened before."""

import hashlib
import shutil
import threading
from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from modelctl import metrics_server
from modelctl.fetch import directory, download, partial_file, progress
from modelctl.store.bucket import Store
from tests.command import run
from tests.modelctl.conftest import BUCKET
from tests.modelctl.fetch.releases import CONTENT, fetch, files, put, sentence

Usage = namedtuple("Usage", ["total", "used", "free"])


def test_a_release_is_there_under_a_path_that_stays(release: str, tmp_path: Path, asked: list[Any]) -> None:
    to = tmp_path / "models"
    ended = fetch(release, to)

    assert ended.exit_code == 0, ended.output
    assert ended.stdout.startswith(f"{release} fetched and verified: 2.6 kB received in ")
    assert ended.stdout.endswith(f", 0 bytes found here; {to}/current\n")
    assert files(to / "current") == CONTENT
    assert (to / "current").readlink() == Path("releases", release)
    assert sorted(asked) == [
        ("config.pbtxt", 0, 16),
        ("weights.bin", 0, 1000),
        ("weights.bin", 1000, 2000),
        ("weights.bin", 2000, 2560),
    ]
    assert sorted(path.name for path in to.iterdir()) == [".fetching", ".modelctl-fetch", ".verified", "current", "releases"]
    assert list((to / ".fetching").iterdir()) == []


def test_a_file_whose_hash_lags_waits_and_the_next_is_fetched_meanwhile(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = put(store, {"a/1/weights.bin": bytes(range(250)) * 80, "b/1/weights.bin": b"b" * 2000})
    of_a: list[int] = []
    hash_is_held, b_is_here, of_a_meanwhile = threading.Event(), threading.Event(), threading.Event()
    sha256, write = partial_file.PartialFile.sha256, partial_file.PartialFile.write

    def held(self: partial_file.PartialFile, until_it_has: Callable[[partial_file.Part], bool], *more: Any) -> str | None:
        def until(part: partial_file.Part) -> bool:
            has = until_it_has(part)
            if (self.key, part.number) == ("a/1/weights.bin", 1):
                hash_is_held.set()
                assert b_is_here.wait(30)
                assert of_a == list(range(9)), "the first and eight that wait for the hash"
                of_a_meanwhile.set()
            return has

        return sha256(self, until, *more)

    def written(self: partial_file.PartialFile, part: partial_file.Part, pieces: Iterator[bytes]) -> None:
        if self.key == "a/1/weights.bin":
            of_a.append(part.number)
            assert part.number < 2 or hash_is_held.wait(30)
        write(self, part, pieces)
        if (self.key, part.end) == ("b/1/weights.bin", 2000):
            b_is_here.set()

    monkeypatch.setattr(partial_file.PartialFile, "sha256", held)
    monkeypatch.setattr(partial_file.PartialFile, "write", written)
    monkeypatch.setattr(download, "CONNECTIONS", 1)

    ended = fetch(release, tmp_path)

    assert ended.exit_code == 0, ended.output
    assert of_a_meanwhile.is_set()
    assert of_a == list(range(20))
    assert (tmp_path / "current/a/1/weights.bin").read_bytes() == bytes(range(250)) * 80


def test_a_release_that_is_there_is_not_fetched_again(release: str, tmp_path: Path, asked: list[Any]) -> None:
    fetch(release, tmp_path)
    asked.clear()

    assert fetch(release, tmp_path).stdout == f"{release} was here; {tmp_path}/current\n"
    assert asked == []


def test_the_next_release_takes_over_when_it_is_whole(release: str, store: Store, tmp_path: Path) -> None:
    fetch(release, tmp_path)
    other = put(store, {**CONTENT, "classify/config.pbtxt": b"changed"})
    fetch(other, tmp_path)

    assert (tmp_path / "current" / "classify" / "config.pbtxt").read_bytes() == b"changed"
    assert sorted(path.name for path in (tmp_path / "releases").iterdir()) == sorted([release, other])
    assert fetch(release, tmp_path).stdout == f"{release} was here; {tmp_path}/current\n"
    assert files(tmp_path / "current") == CONTENT


def interrupted(release: str, to: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fetch until the disk is full, in the second part of the weights."""
    write = partial_file.PartialFile.write

    def until(self: partial_file.PartialFile, part: partial_file.Part, pieces: Iterator[bytes]) -> None:
        if part.first == 1000:
            raise OSError(28, "No space left on device", str(self.path))
        write(self, part, pieces)

    with monkeypatch.context() as patch:
        patch.setattr(partial_file.PartialFile, "write", until)
        patch.setattr(download, "CONNECTIONS", 1)
        path = f"{to}/.fetching/{release}/files/classify/1/weights.bin"
        expected = f"{path}: the disk is full; give it more room, what has arrived stays"
        assert sentence(fetch(release, to), 2) == expected
    assert not (to / "current").exists()


def test_what_has_arrived_is_not_asked_for_again(
    release: str, tmp_path: Path, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(release, tmp_path, monkeypatch)
    assert ("weights.bin", 0, 1000) in asked
    asked.clear()

    ended = fetch(release, tmp_path)

    assert ended.stdout.startswith(f"{release} fetched and verified: 1.6 kB received in "), ended.output
    assert ended.stdout.endswith(f", 1.0 kB found here; {tmp_path}/current\n")
    assert sorted(asked) == [("config.pbtxt", 0, 16), ("weights.bin", 1000, 2000), ("weights.bin", 2000, 2560)]
    assert files(tmp_path / "current") == CONTENT


def test_what_has_arrived_is_not_believed(
    release: str, tmp_path: Path, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(release, tmp_path, monkeypatch)
    with (tmp_path / ".fetching" / release / "files/classify/1/weights.bin").open("r+b") as file:
        file.write(b"lost")  # as after a crash of the machine
    asked.clear()

    ended = fetch(release, tmp_path)

    assert ended.exit_code == 0, ended.output
    assert "what was here of classify/1/weights.bin is damaged; it is fetched again" in ended.stderr
    assert files(tmp_path / "current") == CONTENT
    assert ("weights.bin", 0, 1000) in asked


def test_a_journal_of_other_parts_is_not_used(release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(release, tmp_path, monkeypatch)
    (tmp_path / ".fetching" / release / "parts/classify/1/weights.bin").write_bytes(b"\1" * 4)

    assert fetch(release, tmp_path).stdout.endswith(f", 0 bytes found here; {tmp_path}/current\n")
    assert files(tmp_path / "current") == CONTENT


def test_after_a_restart_of_the_machine_files_are_verified_again(
    release: str, tmp_path: Path, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch(release, tmp_path)
    (tmp_path / "current/classify/config.pbtxt").write_bytes(b"0123456789abcdef")
    asked.clear()
    monkeypatch.setattr(directory, "_boot", lambda: "the next")

    ended = fetch(release, tmp_path)

    assert ended.exit_code == 0, ended.output
    assert asked == [("config.pbtxt", 0, 16)]
    assert files(tmp_path / "current") == CONTENT


def test_a_system_that_does_not_tell_its_starts_verifies_each_time(
    release: str, tmp_path: Path, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory, "_BOOT_ID", tmp_path / "none")
    fetch(release, tmp_path)
    asked.clear()

    assert fetch(release, tmp_path).stdout.startswith(f"{release} fetched and verified: 0 bytes received in ")
    assert asked == []


def test_what_is_left_of_another_release_goes(
    release: str, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(release, tmp_path, monkeypatch)
    fetch(put(store, {"other/1/model.py": b"x"}), tmp_path)
    assert list((tmp_path / ".fetching").iterdir()) == []


def test_a_changed_object_stops_it_and_the_release_before_stays(release: str, store: Store, tmp_path: Path) -> None:
    before = put(store, {"other/1/model.py": b"x"})
    fetch(before, tmp_path)
    key = f"releases/{release}/classify/1/weights.bin"
    boto3.client("s3").put_object(Bucket=BUCKET, Key=key, Body=bytes(2560))

    said = sentence(fetch(release, tmp_path), 1)

    assert said == (
        f"classify/1/weights.bin in s3://{BUCKET}/releases/{release}/ is not what the release's manifest says (sha-256 "
        f"{hashlib.sha256(CONTENT['classify/1/weights.bin']).hexdigest()}): it was changed after the release; `modelctl "
        f"verify {release}` names all such files. Restore their earlier object versions, or make another release"
    )
    assert (tmp_path / "current").readlink() == Path("releases", before)
    boto3.client("s3").put_object(Bucket=BUCKET, Key=key, Body=CONTENT["classify/1/weights.bin"])
    assert fetch(release, tmp_path).exit_code == 0
    assert files(tmp_path / "current") == CONTENT


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "is shorter than its manifest says"),
        (bytes(1500), "is shorter than its manifest says"),
        (None, "is missing in s3://{bucket}/releases/{release}/, and its manifest has it"),
    ],
)
def test_an_object_that_is_short_or_gone_is_told(
    body: bytes | None, said: str, release: str, store: Store, tmp_path: Path
) -> None:
    key = f"releases/{release}/classify/1/weights.bin"
    if body is None:
        store.client.delete_object(Bucket=BUCKET, Key=key)
    else:
        boto3.client("s3").put_object(Bucket=BUCKET, Key=key, Body=body)

    told = sentence(fetch(release, tmp_path), 1)

    assert told.startswith("classify/1/weights.bin ")
    assert said.format(bucket=BUCKET, release=release) in told
    assert told.endswith(f"; `modelctl verify {release}` names all such files")
    assert not (tmp_path / "current").exists()


def test_a_connection_that_breaks_is_continued_where_it_broke(
    release: str, tmp_path: Path, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = Store.pieces
    broken: list[int] = []

    def breaking(self: Store, release_id: str, key: str, first: int, end: int) -> Iterator[bytes]:
        (whole,) = pieces(self, release_id, key, first, end)
        if first == 1000 and not broken:
            broken.append(first)
            yield whole[:300]
            raise ReadTimeoutError(endpoint_url="https://s3")
        yield whole

    monkeypatch.setattr(Store, "pieces", breaking)

    assert fetch(release, tmp_path).exit_code == 0
    assert ("weights.bin", 1300, 2000) in asked
    assert files(tmp_path / "current") == CONTENT


def test_a_connection_that_goes_on_breaking_is_told(release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Iterator[bytes]:
        raise ReadTimeoutError(endpoint_url="https://s3")
        yield b""

    monkeypatch.setattr(Store, "pieces", broken)
    assert sentence(fetch(release, tmp_path), 2).startswith(f"the connection to s3://{BUCKET} broke: ")


@pytest.mark.parametrize(
    ("status", "code", "requests", "said"),
    [
        (403, "AccessDenied", 1, f"access to s3://{BUCKET} is denied: these credentials need s3:GetObject"),
        (503, "SlowDown", 6, f"s3://{BUCKET} answered GetObject with SlowDown: no message"),
    ],
)
def test_a_refusal_is_told_and_a_busy_store_asked_again(
    status: int, code: str, requests: int, said: str, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = put(store, {"classify/1/model.py": b"x"})
    seen: list[int] = []

    def refused(*_: object) -> Iterator[bytes]:
        seen.append(status)
        raise ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "GetObject")
        yield b""

    monkeypatch.setattr(Store, "pieces", refused)
    assert sentence(fetch(release, tmp_path), 2) == said
    assert len(seen) == requests


def test_a_disk_that_is_too_small_is_told_before_anything_is_received(
    release: str, tmp_path: Path, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(4000, 2000, 2000))
    assert sentence(fetch(release, tmp_path), 2) == (
        f"{tmp_path} has 2000 bytes free, and 2576 bytes of the release are missing; give it a larger disk, or make room "
        "on this one"
    )
    assert asked == []


def test_a_release_a_bucket_and_a_directory_that_are_not_there_are_told(release: str, tmp_path: Path) -> None:
    assert f"release {'0' * 64}" in sentence(fetch("0" * 64, tmp_path), 1)
    missing = run("modelctl", "fetch", release, "--bucket", "no-such-bucket", "--to", tmp_path)
    assert sentence(missing, 2).startswith("there is no bucket s3://no-such-bucket")
    (tmp_path / "file").write_text("")
    assert sentence(fetch(release, tmp_path / "file"), 2) == (
        f"{tmp_path}/file: File exists; give a directory that can be written"
    )
    assert sentence(fetch(release, tmp_path, "--serve", "nowhere"), 2) == (
        "--serve 'nowhere' is no address; write ADDRESS:PORT, like 0.0.0.0:9108"
    )


@pytest.mark.parametrize("option", ["--to", "--cache"])
def test_a_directory_with_files_of_others_is_left_as_it_is(release: str, tmp_path: Path, option: str) -> None:
    theirs = tmp_path / "theirs"
    (theirs / "releases" / "1.0").mkdir(parents=True)
    for path in ("current", ".fetching", "releases/1.0/notes"):
        (theirs / path).write_text(path)
    before = files(theirs)
    more = ("--to", theirs) if option == "--to" else ("--to", tmp_path / "to", "--cache", theirs, "--cache-gib", "1")
    ended = run("modelctl", "fetch", release, "--bucket", BUCKET, *more)
    assert sentence(ended, 2) == (
        f"{theirs} holds what no fetch has put there (.fetching, current, releases); give an empty directory, or one "
        "that is not there"
    )
    assert files(theirs) == before


def test_the_root_of_a_disk_counts_as_empty(release: str, tmp_path: Path) -> None:
    (tmp_path / "disk" / "lost+found").mkdir(parents=True)
    assert fetch(release, tmp_path / "disk").exit_code == 0


def test_a_second_fetch_waits_for_the_first_and_finds_its_release(release: str, tmp_path: Path) -> None:
    said: list[str] = []
    waits, here = threading.Event(), directory.FetchDirectory(tmp_path)

    def second() -> None:
        def say(line: str) -> None:
            said.append(line)
            waits.set()

        with here.locked(say):
            said.append("its turn")

    with here.locked(said.append):
        thread = threading.Thread(target=second)
        thread.start()
        assert waits.wait(10)
        assert said == [f"another fetch is at work in {tmp_path}; waiting for it"]
    thread.join(10)
    assert said[1:] == ["its turn"]


def test_metrics_say_how_far_it_is(release: str, store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = store.manifest(release)
    assert manifest is not None
    told = progress.Progress(manifest, print)
    told.add(received=2000, found=560, verified=1000, repeated=1, files=1)

    with metrics_server.serving(told, "--serve", "127.0.0.1", 0):
        text = httpx.get(capsys.readouterr().err.split()[-1], trust_env=False).text

    assert [line for line in text.splitlines() if not line.startswith("#")] == [
        f'model_fetch_release_bytes{{release="{release[:12]}"}} 2576.0',
        f'model_fetch_found_bytes{{release="{release[:12]}"}} 560.0',
        f'model_fetch_verified_bytes{{release="{release[:12]}"}} 1000.0',
        f'model_fetch_received_bytes_total{{release="{release[:12]}"}} 2000.0',
        f'model_fetch_repeated_requests_total{{release="{release[:12]}"}} 1.0',
    ]


def test_lines_say_how_far_it_is(release: str, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.001)
    manifest = store.manifest(release)
    assert manifest is not None
    said, enough = [], threading.Event()

    def say(line: str) -> None:
        said.append(line)
        enough.set()

    told = progress.Progress(manifest, say)
    told.add(received=2000, found=560, files=1)
    with told.told():
        assert enough.wait(10)
    assert said[0] == f"{release[:12]}: 2.6 kB of 2.6 kB here, 1 of 3 files verified, 2.0 MB/s"
