"""A release is complete or absent, its id comes from its content, and an interrupted release can continue."""

import hashlib
import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ConnectionClosedError

from modelctl.release.catalog import State, UnknownRelease, finished, releases
from modelctl.release.progress import Silent
from modelctl.release.publish import Plan, prepare, publish, release
from modelctl.release.verify import verify
from modelctl.repository import textproto
from modelctl.repository.problems import ValidationFailed
from modelctl.store.bucket import Store
from modelctl.store.digest import digest
from modelctl.store.errors import StoreError
from modelctl.store.manifest import Manifest, ManifestError, ModelEntry, ObjectEntry
from tests.modelctl.conftest import BUCKET, SAMPLE_KEYS

_NOW = datetime(2026, 11, 21, tzinfo=UTC)


def _plan(models: Path, store: Store) -> Plan:
    return prepare(models, store.part_bytes, Silent())


def _entry(content: bytes) -> ObjectEntry:
    return ObjectEntry(sha256=hashlib.sha256(content).hexdigest(), bytes=len(content))


def _puts(s3: Any, store: Store) -> list[str]:
    """Record the keys that the store writes from now on."""
    keys: list[str] = []

    def record(params: dict[str, Any], **_: object) -> None:
        keys.append(params["Key"])

    for operation in ("PutObject", "CreateMultipartUpload"):
        store._client.meta.events.register(f"provide-client-params.s3.{operation}", record)
    return keys


def test_the_samples_are_released_with_a_manifest_of_every_object(models: Path, store: Store, s3: Any) -> None:
    keys = _puts(s3, store)

    manifest = release(models, store)

    assert sorted(manifest.objects) == SAMPLE_KEYS
    assert manifest.versions == {"classify": 1, "normalize": 1, "pipeline": 1}
    assert {name: entry.backend for name, entry in manifest.models.items()} == {
        "classify": "python",
        "normalize": "python",
        "pipeline": "ensemble",
    }
    assert manifest.batches == {"classify": 8, "normalize": 8}, "an ensemble makes no batches"
    stored = json.loads(s3.get_object(Bucket=BUCKET, Key=f"releases/{manifest.id}/manifest.json")["Body"].read())
    assert sorted(stored) == ["bytes", "created", "derived", "id", "models", "objects", "schema", "serving"]
    assert stored["schema"] == 1
    assert stored["bytes"] == sum(entry["bytes"] for entry in stored["objects"].values()) == manifest.bytes
    canonical = json.dumps(stored["objects"], sort_keys=True, separators=(",", ":"))
    assert stored["id"] == hashlib.sha256(canonical.encode()).hexdigest()
    for key, entry in stored["objects"].items():
        body = s3.get_object(Bucket=BUCKET, Key=f"releases/{manifest.id}/{key}")["Body"].read()
        assert (hashlib.sha256(body).hexdigest(), len(body)) == (entry["sha256"], entry["bytes"])
    assert keys[-1] == f"releases/{manifest.id}/manifest.json"
    assert len(keys) == len(SAMPLE_KEYS) + 1


def test_releasing_the_same_content_again_sends_nothing(models: Path, store: Store, s3: Any) -> None:
    first = release(models, store)
    keys = _puts(s3, store)

    again = publish(_plan(models, store), store, Silent())

    assert again.already_released
    assert again.manifest == first  # with the first one's creation time
    assert keys == []


def test_the_id_depends_on_content_alone(models: Path, tmp_path: Path, store: Store) -> None:
    elsewhere = tmp_path / "another" / "place"
    shutil.copytree(models, elsewhere)
    (elsewhere / "classify" / "3").mkdir()  # an unserved version
    (elsewhere / "classify" / "3" / "model.py").write_text("x = 1\n")

    assert _plan(elsewhere, store).manifest.id == _plan(models, store).manifest.id
    with (elsewhere / "classify" / "1" / "model.py").open("a") as file:
        file.write("\n")
    assert _plan(elsewhere, store).manifest.id != _plan(models, store).manifest.id


def test_another_served_version_is_another_release(models: Path, store: Store) -> None:
    first = release(models, store)
    (models / "release.yaml").write_text("versions: {classify: 2}\n")

    second = release(models, store)

    assert second.id != first.id
    assert second.versions == {"classify": 2, "normalize": 1, "pipeline": 1}
    assert [entry.id for entry in releases(store)] == sorted([first.id, second.id], key=[first.id, second.id].index)


def test_several_versions_of_a_model_are_one_release_and_the_highest_is_the_default(models: Path, store: Store) -> None:
    alone = release(models, store)
    (models / "release.yaml").write_text("versions: {classify: [2, 1]}\n")

    both = release(models, store)

    assert (both.versions["classify"], both.others) == (2, {"classify": [1]})
    assert {key for key in both.objects if key.startswith("classify/")} >= {"classify/1/model.py", "classify/2/model.py"}
    config = b"".join(store.chunks(both.id, "classify/config.pbtxt")).decode()
    assert textproto.parse(Path("config.pbtxt"), config)[0].version_policy.specific.versions == [1, 2]
    of_classify = sum(entry.bytes for key, entry in both.objects.items() if key.startswith("classify/"))
    assert (alone.download_bytes, both.download_bytes) == (alone.bytes, both.bytes + of_classify)


def test_every_released_version_needs_its_model_and_a_right_golden_inference(models: Path, store: Store) -> None:
    (models / "release.yaml").write_text("versions: {classify: [1, 2]}\n")
    (models / "classify" / "1" / "model.py").unlink()
    (models / "classify" / "2" / "golden.json").write_text("{}")

    with pytest.raises(ValidationFailed) as failure:
        release(models, store)

    assert {problem.path for problem in failure.value.problems} == {models / "classify" / "1" / "model.py"}
    shutil.copy(models / "classify" / "2" / "model.py", models / "classify" / "1")
    with pytest.raises(ValidationFailed) as failure:
        release(models, store)
    assert {problem.path for problem in failure.value.problems} == {models / "classify" / "2" / "golden.json"}


def test_mistakes_stop_a_release_before_anything_is_sent(models: Path, store: Store, s3: Any) -> None:
    (models / "normalize" / "1" / "model.py").unlink()

    with pytest.raises(ValidationFailed) as failure:
        release(models, store)

    assert [problem.path for problem in failure.value.problems] == [models / "normalize" / "1" / "model.py"]
    assert s3.list_objects_v2(Bucket=BUCKET)["KeyCount"] == 0


def test_an_interrupted_upload_continues_where_it_stopped(models: Path, store: Store, s3: Any) -> None:
    plan = _plan(models, store)

    def cut_the_line(params: dict[str, Any], **_: object) -> None:
        if params["Key"].endswith("normalize/1/model.py"):
            raise ConnectionClosedError(endpoint_url="https://s3.us-west-2.amazonaws.com")

    events = store._client.meta.events
    events.register("provide-client-params.s3.PutObject", cut_the_line)
    with pytest.raises(StoreError, match="run the same command again, it continues"):
        publish(plan, store, Silent())
    events.unregister("provide-client-params.s3.PutObject", cut_the_line)

    (unfinished,) = releases(store)
    assert (unfinished.id, unfinished.state, unfinished.objects) == (plan.manifest.id, State.UNFINISHED, 5)
    with pytest.raises(UnknownRelease, match="is unfinished"):
        finished(store, plan.manifest.id)
    keys = _puts(s3, store)
    continued = publish(plan, store, Silent())
    assert (continued.uploaded, continued.reused) == (4, 5)
    assert [key.partition("/")[2].partition("/")[2] for key in keys] == [
        "normalize/1/model.py",
        "pipeline/config.pbtxt",
        "pipeline/1/.keep",
        "pipeline/1/golden.json",
        "manifest.json",
    ]
    (listed,) = releases(store)
    assert (listed.state, listed.models) == (State.RELEASED, {"classify": 1, "normalize": 1, "pipeline": 1})


@pytest.mark.parametrize("algorithm", ["SHA256", "CRC32"])
def test_an_object_with_other_content_is_never_replaced(models: Path, store: Store, s3: Any, algorithm: str) -> None:
    plan = _plan(models, store)
    key = f"releases/{plan.manifest.id}/classify/1/model.py"
    wanted = plan.manifest.objects["classify/1/model.py"]
    lie = {"sha256": wanted.sha256}
    s3.put_object(Bucket=BUCKET, Key=key, Body=b"#" * wanted.bytes, Metadata=lie, ChecksumAlgorithm=algorithm)

    with pytest.raises(StoreError) as failure:
        publish(plan, store, Silent())

    assert str(failure.value) == (
        f"s3://{BUCKET}/{key} has other content than {models}/classify/1/model.py, and an object of a release is never "
        "replaced; delete it, then run the same command again"
    )
    assert s3.get_object(Bucket=BUCKET, Key=key)["Body"].read() == b"#" * wanted.bytes
    s3.delete_object(Bucket=BUCKET, Key=key)
    assert publish(plan, store, Silent()).manifest == plan.manifest


def test_an_object_in_parts_is_never_replaced(models: Path, store: Store, s3: Any) -> None:
    (models / "normalize" / "1" / "weights.bin").write_bytes(bytes(6 * 1024**2))  # two parts
    plan = _plan(models, store)
    key = f"releases/{plan.manifest.id}/normalize/1/weights.bin"
    s3.put_object(Bucket=BUCKET, Key=key, Body=b"another one")

    with pytest.raises(StoreError, match=r"weights\.bin, and an object of a release is never replaced"):
        publish(plan, store, Silent())

    assert s3.get_object(Bucket=BUCKET, Key=key)["Body"].read() == b"another one"


def test_big_objects_go_up_in_parts_and_are_recognised(models: Path, store: Store, s3: Any) -> None:
    big = models / "normalize" / "1" / "weights.bin"
    big.write_bytes(bytes(range(256)) * 4096 * 13)  # 13 MiB: three parts of at least 5
    plan = _plan(models, store)
    publish(plan, store, Silent())
    s3.delete_object(Bucket=BUCKET, Key=f"releases/{plan.manifest.id}/manifest.json")

    again = publish(plan, store, Silent())

    assert (again.uploaded, again.reused) == (0, 10)
    etag = s3.head_object(Bucket=BUCKET, Key=f"releases/{plan.manifest.id}/normalize/1/weights.bin")["ETag"]
    assert etag.endswith('-3"')
    assert verify(again.manifest, store, Silent()).ok


def test_a_file_that_changes_while_it_is_released_is_noticed(models: Path, store: Store) -> None:
    plan = _plan(models, store)
    model = models / "classify" / "1" / "model.py"
    model.write_bytes(model.read_bytes().replace(b"scores", b"SCORES"))

    with pytest.raises(
        StoreError, match=r"classify/1/model\.py has other content than .*, and an object of a release is never replaced"
    ):
        publish(plan, store, Silent())

    assert store.manifest(plan.manifest.id) is None


def test_objects_of_strangers_stop_a_release(models: Path, store: Store, s3: Any) -> None:
    plan = _plan(models, store)
    s3.put_object(Bucket=BUCKET, Key=f"releases/{plan.manifest.id}/classify/2/model.py", Body=b"x")

    with pytest.raises(StoreError, match=r"holds 1 objects that are not part of this release \(first: classify/2"):
        publish(plan, store, Silent())


def test_a_damaged_release_is_not_called_released(models: Path, store: Store, s3: Any) -> None:
    manifest = release(models, store)
    s3.delete_object(Bucket=BUCKET, Key=f"releases/{manifest.id}/classify/1/model.py")

    with pytest.raises(StoreError, match=r"1 of its objects are missing or have another size \(first: classify/1"):
        release(models, store)


def test_a_finished_manifest_is_never_overwritten(models: Path, store: Store) -> None:
    plan = _plan(models, store)
    assert store.write_manifest(plan.manifest)

    later = plan.manifest.model_copy(update={"created": plan.manifest.created.replace(year=2000)})

    assert not store.write_manifest(later)
    assert store.manifest(plan.manifest.id) == plan.manifest


def test_two_at_once_end_with_one_release(models: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = _plan(models, store)
    rival = plan.manifest.model_copy(update={"created": plan.manifest.created.replace(year=2000)})
    write = store.write_manifest
    monkeypatch.setattr(store, "write_manifest", lambda manifest: write(rival) and write(manifest))

    published = publish(plan, store, Silent())

    assert published.already_released
    assert published.manifest == rival


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('"bytes": 5', '"bytes": 6', "id: "),
        ('"schema": 1', '"schema": 2', "manifest.json: schema: 2 is not 1;"),
        ('"schema": 1', '"schema": true', "manifest.json: schema: true is not 1;"),
        ('"schema": 1', '"schema": 1.0', "manifest.json: schema: 1.0 is not 1;"),
        ('"created"', '"creation"', "manifest.json: created: is missing; creation: unknown key;"),
        (
            '"bytes": 5',
            f'"bytes": {2**60}',
            "manifest.json: objects.m/1/model.py.bytes: 1152921504606846976 is too large; at most 5497558138880;",
        ),
        ("{", "", "manifest.json: line 2, column 11: not valid JSON: Extra data"),
    ],
)
def test_a_manifest_that_was_touched_is_refused(store: Store, s3: Any, old: str, new: str, sentence: str) -> None:
    text = Manifest.of({"m/1/model.py": _entry(b"12345")}, {}, _NOW).to_json()
    assert old in text
    s3.put_object(
        Bucket=BUCKET, Key=f"releases/0123456789ab{52 * '0'}/manifest.json", Body=text.replace(old, new, 1).encode()
    )

    with pytest.raises(ManifestError) as failure:
        store.manifest("0123456789ab" + 52 * "0")

    assert str(failure.value).startswith(sentence)
    assert [entry.state for entry in releases(store)] == [State.DAMAGED]


def test_a_manifest_of_nothing_is_refused(store: Store, s3: Any) -> None:
    manifest = Manifest.of({"m/1/model.py": _entry(b"12345")}, {}, _NOW)
    empty = {**json.loads(manifest.to_json()), "objects": {}, "bytes": 0}
    s3.put_object(Bucket=BUCKET, Key=f"releases/0123456789ab{52 * '0'}/manifest.json", Body=json.dumps(empty))
    with pytest.raises(ManifestError) as failure:
        store.manifest("0123456789ab" + 52 * "0")
    assert str(failure.value) == (
        "manifest.json: objects: is empty; give at least one; restore its earlier object version, modelctl writes it"
    )


@pytest.mark.parametrize(
    ("key", "changes", "sentence"),
    [
        ("n/1/x", {}, "manifest.json: models: m has no objects"),
        ("m/1/x", {"models": {}}, "manifest.json: models: m has objects and is not there"),
        ("m/1/\x1b", {}, "manifest.json: objects: 'm/1/\\x1b' is no key of a release, it has a control character"),
        (
            "m/1/x",
            {"models": {"m": {"version": 2, "backend": "python", "others": [2]}}},
            "manifest.json: models.m.others: [2] has to be versions lower than 2, in order and each once",
        ),
        (
            "m/1/x",
            {"created": "2026-01-01T00:00:00"},
            'manifest.json: created: "2026-01-01T00:00:00" where a date and time with its zone like 2026-01-31T12:00:00Z is '
            "expected;",
        ),
        ("m/1/x", {"models": {"m": {"version": 1, "backend": "\x1b[31m"}}}, "manifest.json: models.m.backend: "),
        ("m/1/x", {"serving": {"a\n": "0" * 12}}, "manifest.json: serving.a\n: "),
        ("m/2/x", {}, "manifest.json: models.m: version 1 has no objects; restore its earlier object version"),
        *(
            (
                "m/1/x",
                {"models": {"m": {"version": 1, "backend": "ensemble", what: [other]}}},
                f"manifest.json: models.m.{what}: {other} is no other model of the release;",
            )
            for what in ("steps", "asks")
            for other in ("m", "n")
        ),
        (
            "m/1/x",
            {"models": {"m": {"version": 1, "backend": "tensorrt", "tensorrt": ["\u0661"]}}},
            'manifest.json: models.m.tensorrt.0: "\u0661" is not of the form',
        ),
    ],
)
def test_a_manifest_that_contradicts_itself_is_refused(key: str, changes: dict[str, Any], sentence: str) -> None:
    models = {"m": ModelEntry(version=1, backend="python")}
    objects = {one: _entry(b"12345") for one in (key, f"{key.partition('/')[0]}/config.pbtxt")}
    written = json.loads(Manifest.of(objects, models, _NOW).to_json())

    with pytest.raises(ManifestError) as failure:
        Manifest.parse(json.dumps({**written, **changes}))

    assert str(failure.value).startswith(sentence)


def test_a_model_of_a_manifest_has_a_config() -> None:
    text = Manifest.of({"m/1/x": _entry(b"12345")}, {"m": ModelEntry(version=1, backend="python")}, _NOW).to_json()
    with pytest.raises(ManifestError) as failure:
        Manifest.parse(text)
    assert str(failure.value).startswith(
        "manifest.json: models.m: has no config.pbtxt, and no server completes one by itself here; restore its earlier"
    )


def test_models_of_a_manifest_that_differ_in_case_only_are_refused() -> None:
    entries = {f"{name}/{rest}": _entry(b"12345") for name in "mM" for rest in ("config.pbtxt", "1/x")}
    models = {name: ModelEntry(version=1, backend="python") for name in "mM"}
    with pytest.raises(ManifestError) as failure:
        Manifest.parse(Manifest.of(entries, models, _NOW).to_json())
    assert "models.m: differs from M in upper and lower case only, and no stack file may name both" in str(failure.value)


def test_a_manifest_whose_objects_no_disk_holds_together_is_refused() -> None:
    entries = {key: _entry(b"12345") for key in ("m/1/x", "m/1/x/y")}

    with pytest.raises(ManifestError, match=r"^manifest\.json: objects: 'm/1/x' is an object and has others below it"):
        Manifest.parse(Manifest.of(entries, {"m": ModelEntry(version=1, backend="python")}, _NOW).to_json())


@pytest.mark.parametrize("key", ["../live/m/1/model.py", "/m/1/model.py", "m//model.py", "m/./model.py", ""])
def test_a_manifest_that_leads_out_of_its_release_is_refused(key: str) -> None:
    text = Manifest.of({key: _entry(b"12345")}, {}, _NOW).to_json()

    with pytest.raises(ManifestError) as failure:
        Manifest.parse(text)

    assert str(failure.value) == f"manifest.json: objects: {key!r} is no key of a release, it leads out of its prefix"


def test_verify_names_what_is_missing_extra_and_changed(models: Path, store: Store, s3: Any) -> None:
    manifest = release(models, store)
    prefix = f"releases/{manifest.id}/"
    assert verify(manifest, store, Silent()).ok
    wanted = manifest.objects["classify/1/model.py"]
    s3.put_object(Bucket=BUCKET, Key=f"{prefix}classify/1/model.py", Body=b"#" * wanted.bytes)
    s3.put_object(Bucket=BUCKET, Key=f"{prefix}classify/config.pbtxt", Body=b"short")
    s3.put_object(Bucket=BUCKET, Key=f"{prefix}classify/2/model.py", Body=b"new")
    s3.delete_object(Bucket=BUCKET, Key=f"{prefix}pipeline/1/.keep")

    report = verify(manifest, store, Silent())

    assert not report.ok
    assert report.missing == ["pipeline/1/.keep"]
    assert report.extra == ["classify/2/model.py"]
    found = hashlib.sha256(b"#" * wanted.bytes).hexdigest()
    assert report.changed == {
        "classify/1/model.py": f"sha-256 {found} instead of {wanted.sha256}",
        "classify/config.pbtxt": f"5 bytes instead of {manifest.objects['classify/config.pbtxt'].bytes}",
    }


def test_parts_grow_so_that_no_object_has_more_than_s3_allows() -> None:
    assert digest(b"x" * 100_000, part_bytes=4).part_bytes == 16
    assert digest(b"x" * 40_000, part_bytes=4).part_bytes == 4
