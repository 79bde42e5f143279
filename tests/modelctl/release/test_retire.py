"""Retiring tags every object of an unpinned release; after any interruption it can be finished or undone."""

from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError

from modelctl.release.catalog import State, releases
from modelctl.release.pin import PinError, Pins, pin, pinned_by
from modelctl.release.progress import Silent
from modelctl.release.publish import prepare, publish, release
from modelctl.release.retire import RetirementError, Tagged, refuse_retired, restore, retire
from modelctl.store.bucket import Store
from modelctl.store.errors import Place, StoreError, explain
from modelctl.store.journal import Journal, Phase, Rollout
from modelctl.store.live import LiveRepository
from modelctl.store.manifest import Manifest
from tests.command import Ended, run
from tests.modelctl.conftest import BUCKET, SAMPLE_KEYS

KEYS = [*SAMPLE_KEYS, "manifest.json"]
RETIRED = {"retired": "true"}
UNTAGGED: dict[str, str] = {}


@pytest.fixture
def manifest(models: Path, store: Store) -> Manifest:
    """Return a finished release of the samples."""
    return release(models, store)


@pytest.fixture
def stacks(tmp_path: Path) -> Path:
    """Return a directory of two stacks without pins, one of them without a configuration."""
    directory = tmp_path / "stacks"
    directory.mkdir()
    (directory / "Pulumi.dev.yaml").write_text("config:\n  triton-eks:models:\n    oldReleaseDays: 14\n")
    (directory / "Pulumi.qa.yaml").write_text("encryptionsalt: x\n")
    return directory


def _run(*arguments: str | Path) -> Ended:
    return run("modelctl", *arguments, "--bucket", BUCKET)


def _refused(result: Ended, code: int) -> str:
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    return line.removeprefix("error: ")


def _tags(s3: Any, manifest: Manifest) -> dict[str, dict[str, str]]:
    """Return the tags of every object in the bucket, from another client."""
    found = {}
    for entry in s3.list_objects_v2(Bucket=BUCKET)["Contents"]:
        tag_set = s3.get_object_tagging(Bucket=BUCKET, Key=entry["Key"])["TagSet"]
        found[entry["Key"].removeprefix(f"releases/{manifest.id}/")] = {tag["Key"]: tag["Value"] for tag in tag_set}
    return found


def _put_tag(s3: Any, manifest: Manifest, key: str, name: str, value: str) -> None:
    tags = {"TagSet": [{"Key": name, "Value": value}]}
    s3.put_object_tagging(Bucket=BUCKET, Key=f"releases/{manifest.id}/{key}", Tagging=tags)


def _changes(store: Store, *, fail_at: str | None = None) -> list[str]:
    """Record the keys with tag changes from now on; the connection breaks once, before `fail_at`."""
    keys: list[str] = []
    broken: list[str] = []

    def record(params: dict[str, Any], **_: object) -> None:
        key = params["Key"].split("/", 2)[2]
        if key == fail_at and not broken:
            broken.append(key)
            raise ConnectionClosedError(endpoint_url="https://s3.us-west-2.amazonaws.com")
        keys.append(key)

    for operation in ("PutObjectTagging", "DeleteObjectTagging"):
        store._client.meta.events.register(f"provide-client-params.s3.{operation}", record)
    return keys


def _state(store: Store) -> State:
    (listed,) = releases(store)
    return listed.state


def test_every_object_is_tagged_and_the_manifest_last(manifest: Manifest, store: Store, s3: Any, stacks: Path) -> None:
    keys = _changes(store)

    assert retire(manifest, store, stacks) == Tagged(changed=10, unchanged=0)

    assert keys == KEYS
    assert _tags(s3, manifest) == dict.fromkeys(KEYS, RETIRED)
    assert _state(store) == State.RETIRED
    assert store.manifest(manifest.id) == manifest


def test_retiring_again_changes_nothing(manifest: Manifest, store: Store, stacks: Path) -> None:
    retire(manifest, store, stacks)
    keys = _changes(store)

    assert retire(manifest, store, stacks) == Tagged(changed=0, unchanged=10)
    assert keys == []


def test_objects_beside_the_manifest_go_too_and_other_releases_stay(
    manifest: Manifest, models: Path, store: Store, s3: Any, stacks: Path
) -> None:
    (models / "release.yaml").write_text("versions: {classify: 2}\n")
    other = release(models, store)
    s3.put_object(Bucket=BUCKET, Key=f"releases/{manifest.id}/stray", Body=b"x")

    assert retire(manifest, store, stacks) == Tagged(changed=11, unchanged=0)

    tags = _tags(s3, manifest)
    others = [f"releases/{other.id}/{key}" for key in [*other.objects, "manifest.json"]]
    assert tags == {**dict.fromkeys([*KEYS, "stray"], RETIRED), **dict.fromkeys(others, UNTAGGED)}
    states = {listed.id: listed.state for listed in releases(store)}
    assert states == {manifest.id: State.RETIRED, other.id: State.RELEASED}


def test_an_interrupted_retirement_is_finished_by_the_same_command(
    manifest: Manifest, store: Store, s3: Any, stacks: Path
) -> None:
    keys = _changes(store, fail_at="normalize/1/model.py")

    with pytest.raises(StoreError, match="run the same command again, it continues"):
        retire(manifest, store, stacks)

    assert keys == KEYS[:4]
    assert _state(store) == State.RELEASED
    with pytest.raises(RetirementError) as refusal:  # a stack pins the release, and would lose two objects
        refuse_retired(manifest, store)
    assert str(refusal.value) == (
        f"release {manifest.id} in s3://{BUCKET} is retired (4 of 10 objects), and S3 will remove it: "
        f"run `modelctl retire --undo {manifest.id}` first"
    )
    assert retire(manifest, store, stacks) == Tagged(changed=6, unchanged=4)
    assert keys == KEYS
    assert _tags(s3, manifest) == dict.fromkeys(KEYS, RETIRED)


def test_undo_takes_every_tag_away_and_is_idempotent(manifest: Manifest, store: Store, s3: Any, stacks: Path) -> None:
    retire(manifest, store, stacks)

    assert restore(manifest, store) == Tagged(changed=10, unchanged=0)
    assert restore(manifest, store) == Tagged(changed=0, unchanged=10)

    assert _tags(s3, manifest) == dict.fromkeys(KEYS, UNTAGGED)
    assert _state(store) == State.RELEASED
    refuse_retired(manifest, store)


def test_an_interrupted_undo_leaves_the_release_retired(manifest: Manifest, store: Store, stacks: Path) -> None:
    retire(manifest, store, stacks)
    keys = _changes(store, fail_at="pipeline/config.pbtxt")

    with pytest.raises(StoreError, match="run the same command again, it continues"):
        restore(manifest, store)

    assert keys == KEYS[:8]
    assert _state(store) == State.RETIRED
    assert restore(manifest, store) == Tagged(changed=2, unchanged=8)
    assert keys == KEYS
    assert _state(store) == State.RELEASED


def test_tags_of_others_stay(manifest: Manifest, store: Store, s3: Any, stacks: Path) -> None:
    _put_tag(s3, manifest, "classify/1/model.py", "owner", "ml")

    retire(manifest, store, stacks)
    assert _tags(s3, manifest)["classify/1/model.py"] == {"owner": "ml", "retired": "true"}

    restore(manifest, store)
    assert _tags(s3, manifest)["classify/1/model.py"] == {"owner": "ml"}


def test_undo_after_s3_removed_an_object_saves_the_rest_and_stays_retired(
    manifest: Manifest, store: Store, s3: Any, stacks: Path
) -> None:
    retire(manifest, store, stacks)
    s3.delete_object(Bucket=BUCKET, Key=f"releases/{manifest.id}/classify/config.pbtxt")

    with pytest.raises(RetirementError) as failure:
        restore(manifest, store)

    assert str(failure.value) == (
        f"release {manifest.id} in s3://{BUCKET} stays retired, because 1 of its 9 objects are removed already "
        "(first: classify/config.pbtxt): restore their earlier versions, then run this again"
    )
    left = [key for key in KEYS if key not in ("classify/config.pbtxt", "manifest.json")]
    assert _tags(s3, manifest) == {**dict.fromkeys(left, UNTAGGED), "manifest.json": RETIRED}


def test_an_object_that_s3_removes_meanwhile_does_not_stop_a_retirement(
    manifest: Manifest, store: Store, s3: Any, stacks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = store.objects(manifest.id)
    monkeypatch.setattr(store, "objects", lambda _: listed)
    s3.delete_object(Bucket=BUCKET, Key=f"releases/{manifest.id}/classify/config.pbtxt")

    assert retire(manifest, store, stacks) == Tagged(changed=9, unchanged=1)


def test_a_pinned_release_is_refused_with_every_stack_file_that_pins_it(manifest: Manifest, s3: Any, stacks: Path) -> None:
    (stacks / "Pulumi.prod.yaml").write_text("config: {}\n")
    for name in ("dev", "prod"):
        pin(stacks / f"Pulumi.{name}.yaml", manifest)

    result = _run("retire", manifest.id, "--stacks", stacks)

    assert _refused(result, 1) == (
        f"release {manifest.id} is pinned by {stacks}/Pulumi.dev.yaml, {stacks}/Pulumi.prod.yaml: "
        "pin another release there first"
    )
    assert _tags(s3, manifest) == dict.fromkeys(KEYS, UNTAGGED)


def test_a_release_that_a_stack_could_return_to_is_refused(
    manifest: Manifest, models: Path, store: Store, s3: Any, stacks: Path
) -> None:
    (models / "release.yaml").write_text("versions: {classify: 2}\n")
    newer = release(models, store)
    for pinned in (manifest, newer):
        pin(stacks / "Pulumi.dev.yaml", pinned)

    result = _run("retire", manifest.id, "--stacks", stacks)

    assert _refused(result, 1) == (
        f"release {manifest.id} is what `modelctl rollback` returns to in {stacks}/Pulumi.dev.yaml: pin another release "
        "there first, or delete models.release.previous there to give that up"
    )
    assert set(map(str, _tags(s3, manifest).values())) == {"{}"}


def test_the_stacks_of_the_working_directory_are_the_default(
    manifest: Manifest, stacks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pin(stacks / "Pulumi.dev.yaml", manifest)
    monkeypatch.chdir(stacks.parent)

    assert _refused(_run("retire", manifest.id), 1) == (
        f"release {manifest.id} is pinned by stacks/Pulumi.dev.yaml: pin another release there first"
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "config:\n  triton-eks:models: {release: {id: 123456789012}}\n",
            ": config.triton-eks:models.release.id is not text; `modelctl pin` writes it",
        ),
        (
            "config:\n  triton-eks:models: {release: 3a675308ea7c}\n",
            ": config.triton-eks:models.release.id is not text; `modelctl pin` writes it",
        ),
        ("config:\n  triton-eks:models: 'all of them'\n", ": config.triton-eks:models is not a mapping"),
        ("[]\n", ": a stack file is a mapping with a mapping `config` in it, and this is not"),
        ("config: [\n", ":2:1: not valid YAML: did not find expected node content"),
        ("config: {}\x07\n", ": not valid YAML: unacceptable character #x0007: control characters are not allowed"),
    ],
    ids=["a number", "no mapping", "text", "a list", "no YAML", "a control character"],
)
def test_a_stack_file_that_may_pin_it_is_refused(
    manifest: Manifest, s3: Any, stacks: Path, text: str, sentence: str
) -> None:
    (stacks / "Pulumi.prod.yaml").write_text(text)

    assert _refused(_run("retire", manifest.id, "--stacks", stacks), 2) == f"{stacks}/Pulumi.prod.yaml{sentence}"
    assert _tags(s3, manifest) == dict.fromkeys(KEYS, UNTAGGED)


@pytest.mark.parametrize(
    "line",
    [
        "models: {release: {id: ID}}",
        "triton-eks:models: {release: {id: ID}}",
        "triton-eks:config:models: {release: {id: ID}}",
        """triton-eks:models: '{"release": {"id": ID}}'""",
    ],
)
def test_a_pin_counts_in_every_spelling_that_the_engine_knows(manifest: Manifest, s3: Any, stacks: Path, line: str) -> None:
    (stacks / "Pulumi.prod.yaml").write_text(f"config:\n  {line}\n".replace("ID", f'"{manifest.id}"'))

    assert _refused(_run("retire", manifest.id, "--stacks", stacks), 1) == (
        f"release {manifest.id} is pinned by {stacks}/Pulumi.prod.yaml: pin another release there first"
    )
    assert _tags(s3, manifest) == dict.fromkeys(KEYS, UNTAGGED)


def test_a_directory_without_stack_files_proves_nothing(manifest: Manifest, s3: Any, tmp_path: Path) -> None:
    for directory in (tmp_path / "absent", tmp_path):
        assert _refused(_run("retire", manifest.id, "--stacks", directory), 2) == (
            f"{directory}: holds no stack file Pulumi.<stack>.yaml; name the stacks' directory with --stacks"
        )
    assert _tags(s3, manifest) == dict.fromkeys(KEYS, UNTAGGED)


def test_a_stack_that_pins_another_release_does_not_count(stacks: Path) -> None:
    (stacks / "Pulumi.prod.yaml").write_text('config:\n  triton-eks:models: {release: {id: "123456789012"}}\n')

    assert pinned_by(stacks, "0123456789ab" + 52 * "0") == Pins(files=[], as_previous=[])
    assert pinned_by(stacks, "123456789012") == Pins(files=[stacks / "Pulumi.prod.yaml"], as_previous=[])


def test_pin_cannot_be_told_from_an_unreadable_file(stacks: Path) -> None:
    (stacks / "Pulumi.prod.yaml").mkdir()

    with pytest.raises(PinError, match=r"Pulumi\.prod\.yaml: is a directory; name a file"):
        pinned_by(stacks, "0123456789ab" + 52 * "0")


def test_the_commands_say_what_they_did(manifest: Manifest, stacks: Path) -> None:
    def state() -> str:
        return _run("list").stdout.splitlines()[1].split()[6]

    retired = _run("retire", manifest.id, "--stacks", stacks)
    assert (retired.exit_code, retired.stdout) == (0, f"{manifest.id} retired: 10 objects tagged, 0 were before\n")
    assert state() == "retired"

    undone = _run("retire", "--undo", manifest.id)
    assert (undone.exit_code, undone.stdout) == (0, f"{manifest.id} not retired: 10 tags removed, 0 objects had none\n")
    assert state() == "released"


def test_unfinished_and_unknown_releases_are_not_retired(store: Store, s3: Any, stacks: Path) -> None:
    s3.put_object(Bucket=BUCKET, Key=f"releases/0123456789ab{52 * '0'}/a/config.pbtxt", Body=b"12345")

    assert _refused(_run("retire", "0123456789ab" + 52 * "0", "--stacks", stacks), 1) == (
        f"release 0123456789ab{52 * '0'} in s3://{BUCKET} is unfinished (it has no manifest): "
        "run `modelctl release` on the same models again, it continues"
    )
    assert _refused(_run("retire", "ffffffffffff" + 52 * "0", "--stacks", stacks), 1) == (
        f"there is no release ffffffffffff{52 * '0'} in s3://{BUCKET}; releases: 0123456789ab{52 * '0'}"
    )
    assert s3.get_object_tagging(Bucket=BUCKET, Key=f"releases/0123456789ab{52 * '0'}/a/config.pbtxt")["TagSet"] == []


def test_a_retired_release_is_pinned_only_after_undo(manifest: Manifest, models: Path, store: Store, stacks: Path) -> None:
    retire(manifest, store, stacks)
    stack = stacks / "Pulumi.dev.yaml"
    before = stack.read_text()
    sentence = (
        f"release {manifest.id} in s3://{BUCKET} is retired (10 of 10 objects), and S3 will remove it: "
        f"run `modelctl retire --undo {manifest.id}` first"
    )

    assert _refused(_run("pin", manifest.id, "--file", stack), 1) == sentence
    again = _run("release", models, "--pin", stack)  # the same content, so the same release
    assert (again.exit_code, again.stdout) == (1, "")
    assert again.stderr.splitlines()[-1] == f"error: {sentence}"
    assert stack.read_text() == before

    assert _run("retire", "--undo", manifest.id).exit_code == 0
    assert _run("pin", manifest.id, "--file", stack).exit_code == 0
    assert pinned_by(stacks, manifest.id).files == [stack]


def test_what_a_removed_release_left_behind_is_no_longer_tagged(
    manifest: Manifest, models: Path, store: Store, s3: Any, stacks: Path
) -> None:
    retire(manifest, store, stacks)
    s3.delete_object(Bucket=BUCKET, Key=f"releases/{manifest.id}/manifest.json")

    published = publish(prepare(models, store.part_bytes, Silent()), store, Silent())

    assert (published.uploaded, published.reused) == (0, 9)
    assert _tags(s3, manifest) == dict.fromkeys(KEYS, UNTAGGED)


@pytest.mark.parametrize("operation", ["GetObjectTagging", "PutObjectTagging", "DeleteObjectTagging"])
def test_a_denied_request_names_the_permission(operation: str) -> None:
    denied = ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, operation)

    assert explain(denied, Place(BUCKET, None)) == (
        f"access to s3://{BUCKET} is denied: these credentials need s3:{operation}"
    )


@pytest.mark.parametrize(("code", "tags"), [("NotImplemented", UNTAGGED), ("MethodNotAllowed", None)])
def test_a_store_without_tags_and_a_deleted_object_hold_no_tag(
    manifest: Manifest, store: Store, monkeypatch: pytest.MonkeyPatch, code: str, tags: dict[str, str] | None
) -> None:
    def refuse(**_: object) -> None:
        raise ClientError({"Error": {"Code": code, "Message": "no"}}, "GetObjectTagging")

    monkeypatch.setattr(store._client, "get_object_tagging", refuse)

    assert store.tags(manifest.id, "manifest.json") == tags
    assert _state(store) == State.RELEASED


@pytest.mark.parametrize("place", ["serving", "previous", "rollout"])
def test_a_release_that_pods_in_place_serve_or_may_return_to_is_not_retired(
    manifest: Manifest, store: Store, stacks: Path, place: str
) -> None:
    begun = Rollout(release=manifest.id, phase=Phase.LOAD, changes=(), started=manifest.created)
    found = Journal(serving="f" * 64, rollout=begun) if place == "rollout" else Journal(**{place: manifest.id})
    LiveRepository(store).write_journal(found, None)

    said = _refused(_run("retire", manifest.id, "--stacks", stacks), 1)

    assert said == (
        f"release {manifest.id} is what `modelctl rollout` serves, brings or returns to in s3://{BUCKET}/live/: "
        "roll another release out first"
    )
    assert store.tags(manifest.id, "manifest.json") == UNTAGGED


def test_a_journal_that_nobody_can_read_is_a_sentence(manifest: Manifest, store: Store, stacks: Path) -> None:
    store.client.put_object(Bucket=BUCKET, Key="live/rollout.json", Body=b"{")
    said = _refused(_run("retire", manifest.id, "--stacks", stacks), 1)
    assert said.startswith("live/rollout.json: line 1, column 2: not valid JSON: ")
