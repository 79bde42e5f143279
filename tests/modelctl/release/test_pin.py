"""Pinning changes only the release in a stack file."""

import difflib
from datetime import UTC, datetime
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from modelctl.release.pin import PinError, Pinned, pin, pinned
from modelctl.store.manifest import Manifest, ModelEntry, ObjectEntry
from spec.settings import Release

STACK = """\
# Development
config:
  aws:region: us-west-2   # the cheap one
  triton-eks:tags: {owner: ml-platform, cost-center: "inference"}
  triton-eks:cluster:
    adminRoleArns:
      - "arn:aws:iam::123456789012:role/platform-admin"   # on call
  triton-eks:models:
    # days
    oldReleaseDays: 90  # keep

  # Where Triton runs.
  triton-eks:triton:
    pool: g5
    cpu: '3'
# the end
"""
MODELS = "  triton-eks:models:\n    # days\n    oldReleaseDays: 90  # keep\n"


def _manifest(**versions: int) -> Manifest:
    objects = {f"{name}/{version}/model.py": ObjectEntry(sha256="a" * 64, bytes=5) for name, version in versions.items()}
    models = {name: ModelEntry(version=version, backend="python") for name, version in versions.items()}
    return Manifest.of(objects, models, datetime(2026, 11, 21, tzinfo=UTC))


def _difference(before: str, after: str) -> list[str]:
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm=""))
    return [line for line in lines[2:] if not line.startswith("@@")]


def _stack(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text(text)
    return file


def test_the_first_pin_adds_the_release_and_leaves_every_comment_where_it_was(tmp_path: Path) -> None:
    file = _stack(tmp_path, STACK)
    manifest = _manifest(classify=1, pipeline=1)

    changes = pin(file, manifest)

    assert changes == [f"release none → {manifest.id}", "bytes none → 10", "classify none → 1", "pipeline none → 1"]
    assert file.read_text() == STACK.replace(
        MODELS,
        MODELS
        + f'    release:\n      id: "{manifest.id}"\n      bytes: 10\n'
        + "      models:\n        classify: 1\n        pipeline: 1\n",
    )


def test_versions_served_side_by_side_are_pinned_on_one_line_and_go_with_the_next_release(tmp_path: Path) -> None:
    file = _stack(tmp_path, STACK)
    objects = {f"classify/{version}/model.py": ObjectEntry(sha256="a" * 64, bytes=5) for version in (1, 2)}
    entry = ModelEntry(version=2, backend="python", others=(1,))
    both = Manifest.of(objects, {"classify": entry}, datetime(2026, 11, 21, tzinfo=UTC))
    pin(file, _manifest(classify=1))

    changes = pin(file, both)

    assert changes[-2:] == ["bytes 5 → 20", "classify 1 → 1, 2"]
    section = YAML(typ="safe").load(file)["config"]["triton-eks:models"]["release"]
    assert (section["models"], section["others"]) == ({"classify": 2}, {"classify": [1]})
    assert "classify: [1]" in file.read_text()
    assert pin(file, both) == []
    assert pin(file, _manifest(classify=2))[-1] == "classify 1, 2 → 2"
    assert "others" not in file.read_text()


def test_what_the_stack_has_to_know_of_the_configs_is_pinned_and_goes_with_them(tmp_path: Path) -> None:
    file = _stack(tmp_path, STACK)
    keys = [f"{name}/{rest}" for name in ("chat", "llm", "split") for rest in ("config.pbtxt", "1/x")]
    objects = {key: ObjectEntry(sha256="a" * 64, bytes=5) for key in keys}
    entries = {
        "chat": ModelEntry(version=1, backend="ensemble", steps=("split", "llm"), batch=0),
        "llm": ModelEntry(version=1, backend="vllm", decoupled=True, selfPlaced=True, batch=0),
        "split": ModelEntry(version=1, backend="python", asks=("llm",), batch=8),
    }
    manifest = Manifest.parse(Manifest.of(objects, entries, datetime(2026, 11, 21, tzinfo=UTC)).to_json())

    changes = pin(file, manifest)

    assert changes[2:7] == [
        "ensembles none → chat: split, llm",
        "asks none → split: llm",
        "decoupled none → llm",
        "selfPlaced none → llm",
        "batches none → llm: 0",
    ]
    section = YAML(typ="safe").load(file)["config"]["triton-eks:models"]["release"]
    assert (section["ensembles"], section["asks"], section["decoupled"], section["selfPlaced"]) == (
        {"chat": ["split", "llm"]},
        {"split": ["llm"]},
        ["llm"],
        ["llm"],
    )
    assert section["batches"] == {"llm": 0}, "8 is what is assumed of a model of which nothing is said"
    assert pin(file, manifest) == []
    assert "ensembles chat: split, llm → none" in pin(file, _manifest(classify=1))
    assert {"ensembles", "asks", "decoupled", "selfPlaced", "batches"}.isdisjoint(file.read_text().split(": "))


def test_the_next_pin_changes_only_what_differs(tmp_path: Path) -> None:
    file = _stack(tmp_path, STACK)
    old, new = _manifest(classify=1, pipeline=1), _manifest(classify=2, pipeline=1)
    pin(file, old)
    before = file.read_text()

    changes = pin(file, new)

    assert changes == [f"release {old.id} → {new.id}", "classify 1 → 2"]
    assert _difference(before, file.read_text()) == [
        f'-      id: "{old.id}"',
        f'+      id: "{new.id}"',
        "-        classify: 1",
        "+        classify: 2",
        f'+      previous: "{old.id}"',
    ]


def test_models_that_come_and_go_do_not_move_the_comments_below(tmp_path: Path) -> None:
    file = _stack(tmp_path, STACK)
    old = _manifest(classify=1, pipeline=1)
    pin(file, old)

    assert pin(file, _manifest(normalize=3))[2:] == ["classify 1 → none", "normalize none → 3", "pipeline 1 → none"]
    tail = file.read_text().partition("      models:\n")[2]
    assert tail == f'        normalize: 3\n      previous: "{old.id}"\n' + STACK.partition(MODELS)[2]


def test_the_release_before_is_kept_for_a_rollback(tmp_path: Path) -> None:
    file = _stack(tmp_path, STACK)
    first, second = _manifest(classify=1), _manifest(classify=2)
    assert pinned(file) is None

    pin(file, first)
    assert pinned(file) == Pinned(first.id, previous=None, serving=None)
    pin(file, second)
    assert pinned(file) == Pinned(second.id, previous=first.id, serving=None)
    pin(file, second)
    assert pinned(file) == Pinned(second.id, previous=first.id, serving=None)
    pin(file, first)
    assert pinned(file) == Pinned(first.id, previous=second.id, serving=None)
    settings = YAML(typ="safe").load(file)["config"]["triton-eks:models"]["release"]
    assert Release.model_validate(settings).previous == second.id


def test_the_digest_of_the_stacks_wants_is_pinned_and_goes_with_them(tmp_path: Path) -> None:
    file = _stack(tmp_path, STACK)
    plain = _manifest(classify=1)
    made_for_dev = plain.model_copy(update={"serving": {"dev": "0123456789ab", "prod": "ba9876543210"}})

    assert pin(file, made_for_dev)[2] == "serving none → 0123456789ab"
    assert '      serving: "0123456789ab"\n' in file.read_text()
    assert pin(file, plain) == ["serving 0123456789ab → none"]
    assert pinned(file) == Pinned(plain.id, previous=None, serving=None)


@pytest.mark.parametrize("key", ["id", "previous", "serving"])
def test_a_digest_that_yaml_reads_as_a_number_is_named(tmp_path: Path, key: str) -> None:
    release = {"id": '"0123456789ab"', "previous": '"0123456789ab"', "serving": '"0123456789ab"', key: "123456789012"}
    lines = ", ".join(f"{name}: {value}" for name, value in release.items())
    file = _stack(tmp_path, f"config:\n  triton-eks:models: {{release: {{{lines}}}}}\n")

    with pytest.raises(PinError) as failure:
        pinned(file)

    assert str(failure.value) == (f"{file}: config.triton-eks:models.release.{key} is not text; `modelctl pin` writes it")


def test_pinning_twice_writes_nothing(tmp_path: Path) -> None:
    file = _stack(tmp_path, STACK)
    pin(file, _manifest(classify=1))
    inode = file.stat().st_ino

    assert pin(file, _manifest(classify=1)) == []
    assert file.stat().st_ino == inode


@pytest.mark.parametrize(
    "text",
    [
        STACK.replace(MODELS, ""),
        STACK.replace(MODELS, "  triton-eks:models:\n"),
        STACK.replace(MODELS, "  triton-eks:models: {}   # flow\n"),
        STACK.replace(MODELS, "  triton-eks:models: {oldReleaseDays: 90}   # flow\n"),
        STACK.replace(MODELS, MODELS + "    release:   # now\n      id: 123456789012 # id\n      models: {a: 1}\n"),
        STACK.replace(MODELS, MODELS + "    release:\n"),
    ],
    ids=["no models", "empty models", "empty flow", "flow", "another release", "empty release"],
)
def test_every_shape_of_stack_file_is_pinned_and_keeps_the_rest(tmp_path: Path, text: str) -> None:
    file = _stack(tmp_path, text)
    manifest = _manifest(classify=2)
    before = YAML(typ="safe").load(text)["config"]

    pin(file, manifest)

    after = YAML(typ="safe").load(file)["config"]
    assert after["triton-eks:models"].pop("release") == {"id": manifest.id, "bytes": 5, "models": {"classify": 2}}
    expected = before.get("triton-eks:models") or {}
    expected.pop("release", None)
    assert after.pop("triton-eks:models") == expected
    before.pop("triton-eks:models", None)
    assert after == before
    comments = [line.partition("#")[2] for line in text.splitlines() if "#" in line]
    assert [line.partition("#")[2] for line in file.read_text().splitlines() if "#" in line] == comments


@pytest.mark.parametrize("release_id", ["123456789012", "12345678e901"])
def test_an_id_that_looks_like_a_number_stays_text(tmp_path: Path, release_id: str) -> None:
    file = _stack(tmp_path, STACK)

    pin(file, _manifest(classify=1).model_copy(update={"id": release_id}))

    assert YAML(typ="safe").load(file)["config"]["triton-eks:models"]["release"]["id"] == release_id


def test_the_files_mode_is_kept(tmp_path: Path) -> None:
    file = _stack(tmp_path, STACK)
    file.chmod(0o640)

    pin(file, _manifest(classify=1))

    assert file.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [file.name]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("config: [\n", ":2:1: not valid YAML: did not find expected node content"),
        ("encryptionsalt: x\n", ": has no mapping `config`; is it a Pulumi stack file?"),
        ("", ": has no mapping `config`; is it a Pulumi stack file?"),
        ("config:\n  triton-eks:models: 3\n", ": config.triton-eks:models is not a mapping"),
    ],
)
def test_a_file_that_is_no_stack_file_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    file = _stack(tmp_path, text)

    with pytest.raises(PinError) as failure:
        pin(file, _manifest(classify=1))

    assert str(failure.value) == f"{file}{sentence}"
    assert file.read_text() == text


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(PinError) as failure:
        pin(tmp_path / "Pulumi.qa.yaml", _manifest(classify=1))

    assert str(failure.value) == (
        f"{tmp_path}/Pulumi.qa.yaml: there is no such file; check the path; a stack's file is stacks/Pulumi.<stack>.yaml"
    )


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = _stack(tmp_path, STACK)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)

    with pytest.raises(PinError) as failure:
        pin(file, _manifest(classify=1))

    assert str(failure.value) == f"{file}: cannot be written: No space left on device"
    assert file.read_text() == STACK
    assert [path for path in tmp_path.iterdir() if path.is_file()] == [file]


def test_a_linked_file_with_line_ends_of_windows_is_pinned_as_it_is(tmp_path: Path) -> None:
    shared = tmp_path / "shared.yaml"
    shared.write_bytes(STACK.replace("\n", "\r\n").encode())
    link = tmp_path / "Pulumi.dev.yaml"
    link.symlink_to("shared.yaml")
    (tmp_path / "plain").mkdir()
    file = _stack(tmp_path / "plain", STACK)

    pin(link, _manifest(classify=1))
    pin(file, _manifest(classify=1))

    assert link.readlink() == Path("shared.yaml")
    assert shared.read_bytes() == file.read_bytes().replace(b"\n", b"\r\n")


def test_a_file_that_is_write_protected_is_refused(tmp_path: Path) -> None:
    file = _stack(tmp_path, STACK)
    file.chmod(0o444)

    with pytest.raises(PinError) as failure:
        pin(file, _manifest(classify=1))

    assert str(failure.value) == f"{file}: is write-protected; `chmod u+w` it, or write to another file"
    assert file.read_text() == STACK


def test_the_short_spelling_of_the_key_stays_the_only_one(tmp_path: Path) -> None:
    file = _stack(tmp_path, STACK.replace("triton-eks:models", "models"))
    manifest = _manifest(classify=1)

    pin(file, manifest)

    assert pinned(file) == Pinned(manifest.id, previous=None, serving=None)
    assert file.read_text().count("models:\n    #") == 1
    assert "triton-eks:models" not in file.read_text()
