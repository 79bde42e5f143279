"""Two releases whose ids begin with the same 48 bits: every command distinguishes them.

A search found the pair: among 24 million contents and as many others, two have the same first 12 digits.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path

import boto3
import pytest

from modelctl.rollout import command as rollout_command
from modelctl.store.bucket import Store
from modelctl.store.journal import Journal
from modelctl.store.live import LiveRepository
from modelctl.store.manifest import Manifest, ModelEntry, ObjectEntry
from spec.names import release_label
from tests.command import run
from tests.modelctl.conftest import BUCKET
from tests.modelctl.rollout.idle_fleet import IdleFleet
from tests.modelctl.stacks import write_stack

CONFIG = b'backend: "python"\nmax_batch_size: 0\n'
GOOD = {"m/1/model.py": b"class TritonPythonModel: ...  # 16325626\n", "m/config.pbtxt": CONFIG}
EVIL = {"m/1/model.py": b"__import__('os').system('id')  # 08855815\n", "m/config.pbtxt": CONFIG}


def manifest_of(content: dict[str, bytes]) -> Manifest:
    entries = {key: ObjectEntry(sha256=hashlib.sha256(data).hexdigest(), bytes=len(data)) for key, data in content.items()}
    return Manifest.of(entries, {"m": ModelEntry(version=1, backend="python")}, datetime(2026, 11, 28, tzinfo=UTC))


def write(bucket: str, prefix: str, manifest: str, content: dict[str, bytes]) -> None:
    """Replace a release like an attacker with write access to the bucket that no policy stops."""
    s3 = boto3.client("s3")
    for key, data in {**content, "manifest.json": manifest.encode()}.items():
        s3.put_object(Bucket=bucket, Key=f"releases/{prefix}/{key}", Body=data)


def test_the_pair_has_one_label_and_two_ids() -> None:
    good, evil = manifest_of(GOOD).id, manifest_of(EVIL).id
    assert release_label(good) == release_label(evil) == "f94c88528788"
    assert good != evil
    assert len(good) == len(evil) == 64


@pytest.fixture(params=["as it is", "with the good one's id"])
def attacked(request: pytest.FixtureRequest, store: Store) -> tuple[str, str]:
    """The evil release has replaced the good one; return its id, and each command's refusal."""
    good, evil = manifest_of(GOOD), manifest_of(EVIL)
    write(BUCKET, good.id, good.to_json(), GOOD)
    LiveRepository(store).write_journal(Journal(serving=good.id), None)
    if request.param == "as it is":
        write(BUCKET, good.id, evil.to_json(), EVIL)
        where = f"id: releases/{good.id}/manifest.json belongs to release {evil.id}; restore its earlier object version"
        return good.id, where
    write(BUCKET, good.id, evil.to_json().replace(evil.id, good.id), EVIL)
    return good.id, f"id: {good.id} is not the id of its objects, {evil.id}"


@pytest.mark.parametrize("command", ["show", "verify", "pin", "fetch", "follow", "promote", "retire", "rollout", "rollback"])
def test_no_command_takes_the_evil_release_for_the_good_one(
    command: str, attacked: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release_id, refusal = attacked
    stacks = tmp_path / "stacks"
    dev = write_stack(stacks, {})
    staging = write_stack(stacks, {}, stack="staging")
    for file in (dev, staging):
        models = f"release: {{id: '{release_id}', bytes: 1, models: {{m: 1}}}}"
        if command == "rollback":
            models = f"release: {{id: '{'a' * 64}', bytes: 1, models: {{m: 1}}, previous: '{release_id}'}}"
        file.write_text(file.read_text().replace("oldReleaseDays: 14", f"oldReleaseDays: 14\n    {models}"))
    before = {file: file.read_bytes() for file in (dev, staging)}
    boto3.client("s3").create_bucket(Bucket="target", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    monkeypatch.setattr(rollout_command, "_fleet", lambda *_, **__: IdleFleet([]))
    to = tmp_path / "disk"
    at = ["--bucket", BUCKET]
    arguments = {
        "show": [release_id, *at],
        "verify": [release_id, *at],
        "pin": [release_id, *at, "--file", dev],
        "fetch": [release_id, *at, "--to", to],
        "follow": [*at, "--to", to, "--once"],
        "promote": ["staging", "--before", "dev", "--from", BUCKET, "--bucket", "target", "--stacks", stacks],
        "retire": [release_id, *at, "--stacks", tmp_path],
        "rollout": [release_id, *at, "--stacks", stacks, "--stack", "dev"],
        "rollback": [*at, "--file", dev],
    }[command]

    ended = run("modelctl", command, *arguments)

    assert (ended.exit_code, [line for line in ended.stderr.splitlines() if line.startswith("error: ")]) == (
        1,
        [f"error: {refusal}"],
    )
    assert {file: file.read_bytes() for file in (dev, staging)} == before
    assert "Contents" not in boto3.client("s3").list_objects_v2(Bucket="target")
    assert "Contents" not in boto3.client("s3").list_objects_v2(Bucket=BUCKET, Prefix="live/m/")
    assert [path for path in to.rglob("*") if path.is_file() and path.name != ".modelctl-fetch"] == []


@pytest.mark.parametrize("command", ["fetch", "follow", "promote", "verify"])
def test_objects_of_the_evil_release_under_the_good_manifest_are_refused(command: str, store: Store, tmp_path: Path) -> None:
    good = manifest_of(GOOD)
    write(BUCKET, good.id, good.to_json(), EVIL)
    LiveRepository(store).write_journal(Journal(serving=good.id), None)
    stacks, to = tmp_path / "stacks", tmp_path / "disk"
    for stack in ("dev", "staging"):
        file = write_stack(stacks, {}, stack=stack)
        models = f"release: {{id: '{good.id}', bytes: 1, models: {{m: 1}}}}"
        file.write_text(file.read_text().replace("oldReleaseDays: 14", f"oldReleaseDays: 14\n    {models}"))
    boto3.client("s3").create_bucket(Bucket="target", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    arguments = {
        "fetch": [good.id, "--bucket", BUCKET, "--to", to],
        "follow": ["--bucket", BUCKET, "--to", to, "--once"],
        "promote": ["staging", "--before", "dev", "--from", BUCKET, "--bucket", "target", "--stacks", stacks],
        "verify": [good.id, "--bucket", BUCKET],
    }[command]

    ended = run("modelctl", command, *arguments)

    assert ended.exit_code == 1
    assert "m/1/model.py" in ended.output
    assert not (to / "current").exists()
    assert not (to / "releases").exists()
    copied = boto3.client("s3").list_objects_v2(Bucket="target").get("Contents", [])
    assert [entry["Key"] for entry in copied if not entry["Key"].endswith("config.pbtxt")] == []


def test_a_command_that_gets_the_label_names_the_ids(store: Store) -> None:
    good, evil = manifest_of(GOOD), manifest_of(EVIL)
    for manifest, content in ((good, GOOD), (evil, EVIL)):
        write(BUCKET, manifest.id, manifest.to_json(), content)
    ended = run("modelctl", "show", release_label(good.id), "--bucket", BUCKET)
    both = ", ".join(sorted((good.id, evil.id)))
    said = f"error: there is no release {release_label(good.id)} in s3://{BUCKET}; releases: {both}\n"
    assert (ended.exit_code, ended.stderr) == (1, said)


def test_a_manifest_with_the_short_id_of_an_earlier_version_names_the_way_on(store: Store) -> None:
    good = manifest_of(GOOD)
    short = release_label(good.id)
    write(BUCKET, short, good.to_json().replace(good.id, short), GOOD)
    ended = run("modelctl", "fetch", short, "--bucket", BUCKET, "--to", "/nowhere")
    assert (ended.exit_code, ended.stderr) == (
        1,
        f"error: manifest.json: id: {short} is the short id of an earlier version, which others can imitate; run "
        f"`modelctl release` on its models again, with --pin for each stack file, then delete releases/{short}/\n",
    )


def test_a_journal_with_the_short_id_of_an_earlier_version_names_the_way_on(store: Store, tmp_path: Path) -> None:
    short = release_label(manifest_of(GOOD).id)
    store.client.put_object(Bucket=BUCKET, Key="live/rollout.json", Body=f'{{"serving": "{short}"}}'.encode())
    ended = run("modelctl", "follow", "--bucket", BUCKET, "--to", tmp_path / "disk", "--once")
    assert (ended.exit_code, ended.stderr) == (
        1,
        f"error: live/rollout.json: serving: {short} is the short id of an earlier version, which others can imitate; run "
        "`modelctl release` on its models again, and write the id that it prints there\n",
    )
