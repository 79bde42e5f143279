"""A stack returns to the release before, if that one can be served as things are; otherwise it is told what to do."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from infra.settings import load_stack_file, serving_digest
from modelctl.cli import app
from modelctl.manifest import Manifest
from modelctl.pin import Pinned, pin, pinned
from modelctl.release import release
from modelctl.retire import retire
from modelctl.store import Store
from tests.modelctl.conftest import BUCKET
from tests.modelctl.stacks import wants, write_stack


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file of a stack with wants."""
    return write_stack(tmp_path / "stacks", {"classify": wants()})


@pytest.fixture
def releases(models: Path, store: Store, file: Path) -> tuple[Manifest, Manifest]:
    """Two releases for that stack, an older and a newer one, pinned one after the other."""
    made = []
    for version in (1, 2):
        (models / "release.yaml").write_text(f"versions: {{classify: {version}}}\n")
        made.append(release(models, store, stacks=file.parent))
        pin(file, made[-1])
    return made[0], made[1]


def _run(file: Path) -> Result:
    return CliRunner().invoke(app, ["rollback", "--file", str(file), "--bucket", BUCKET])


def _refused(result: Result, code: int = 1) -> str:
    assert (result.exit_code, result.stdout) == (code, ""), (result.output, result.exception)
    (line,) = result.stderr.splitlines()
    return line.removeprefix("modelctl: ")


def _date(store: Store, manifest: Manifest, created: str) -> None:
    """Makes the release one of another day: two of one second have no order."""
    dated = manifest.model_copy(update={"created": manifest.created.fromisoformat(created)})
    store._client.put_object(Bucket=BUCKET, Key=f"releases/{manifest.id}/manifest.json", Body=dated.to_json().encode())


def test_there_and_back_again(file: Path, releases: tuple[Manifest, Manifest], store: Store) -> None:
    older, newer = releases
    _date(store, older, "2026-11-01T00:00:00+00:00")
    before = file.read_text()

    back = _run(file)

    assert back.exit_code == 0, back.output
    assert back.stdout.splitlines() == [
        f"{file}: release {newer.id} → {older.id}",
        f"{file}: bytes {newer.bytes} → {older.bytes}",
        f"{file}: classify 2 → 1",
        f"{file}: back to release {older.id}; `pulumi up` rolls it out, another rollback returns to {newer.id}",
    ]
    assert pinned(file) == Pinned(older.id, previous=newer.id, serving=older.serving["dev"])
    settings = load_stack_file(file)
    assert settings.models.release is not None
    assert settings.models.release.serving == serving_digest(settings)

    forth = _run(file)

    assert forth.stdout.splitlines()[-1] == (
        f"{file}: forward again, to the newer release {newer.id}; `pulumi up` rolls it out, another rollback returns to "
        f"{older.id}"
    )
    assert file.read_text() == before


def test_a_stack_that_never_had_another_release(file: Path, models: Path, store: Store) -> None:
    assert _refused(_run(file)) == (f"{file}: pins no release, so there is none to go back from; run `modelctl pin` first")
    pin(file, release(models, store, stacks=file.parent))
    assert _refused(_run(file)) == (
        f"{file}: names no previous release: none was replaced here since `previous` is kept; choose one that "
        "`modelctl list` shows and run `modelctl pin`"
    )


def test_a_previous_release_that_is_retired(
    file: Path, releases: tuple[Manifest, Manifest], store: Store, tmp_path: Path
) -> None:
    older, _ = releases
    others = tmp_path / "others"
    others.mkdir()
    (others / "Pulumi.dev.yaml").write_text("config: {}\n")
    retire(older, store, others)
    before = file.read_text()

    assert _refused(_run(file)) == (
        f"release {older.id} in s3://{BUCKET} is retired (11 of 11 objects), and S3 will remove it: "
        f"run `modelctl retire --undo {older.id}` first"
    )
    assert file.read_text() == before


def test_a_previous_release_that_is_gone(file: Path, releases: tuple[Manifest, Manifest], store: Store) -> None:
    older, newer = releases
    for key in (*older.objects, "manifest.json"):
        store._client.delete_object(Bucket=BUCKET, Key=f"releases/{older.id}/{key}")

    assert _refused(_run(file)) == f"there is no release {older.id} in s3://{BUCKET}; releases: {newer.id}"


def test_a_pinned_release_that_is_gone_is_left_all_the_same(
    file: Path, releases: tuple[Manifest, Manifest], store: Store
) -> None:
    older, newer = releases
    store._client.delete_object(Bucket=BUCKET, Key=f"releases/{newer.id}/manifest.json")

    assert "back to release" in _run(file).stdout
    assert pinned(file) == Pinned(older.id, previous=newer.id, serving=older.serving["dev"])


def test_wants_that_the_previous_release_was_not_made_from(file: Path, releases: tuple[Manifest, Manifest]) -> None:
    older, _ = releases
    file.write_text(file.read_text().replace("sloP95Ms: 50", "sloP95Ms: 60"))
    before = file.read_text()

    sentence = _refused(_run(file))

    assert sentence.startswith(
        f"{file}: release {older.id} was made from other wants (models.serving {older.serving['dev']}) "
        "than the file has now ("
    )
    assert sentence.endswith(
        f"): put models.serving back as it was when {older.id} was pinned (`git log -p -- {file}` shows it) and run this "
        "again; to keep the new wants instead, release the older models again: "
        f"`python -m modelctl release MODELS_DIR --bucket BUCKET --pin {file}`"
    )
    assert file.read_text() == before


def test_wants_that_came_after_the_previous_release(file: Path, models: Path, store: Store, tmp_path: Path) -> None:
    plain = release(models, store)
    pin(file, plain)
    pin(file, release(models, store, stacks=file.parent))

    assert f"release {plain.id} was made from other wants (models.serving none)" in _refused(_run(file))


def test_a_file_of_pins_alone_has_the_wants_of_its_release(
    file: Path, releases: tuple[Manifest, Manifest], tmp_path: Path
) -> None:
    older, newer = releases
    pins = tmp_path / "pins" / "Pulumi.dev.yaml"
    pins.parent.mkdir()
    pins.write_text("config: {}\n")
    pin(pins, older)
    pin(pins, newer)

    assert _run(pins).exit_code == 0
    assert pinned(pins) == Pinned(older.id, previous=newer.id, serving=older.serving["dev"])


def test_a_stack_file_with_mistakes_is_not_changed(file: Path, releases: tuple[Manifest, Manifest]) -> None:
    file.write_text(file.read_text().replace("sloP95Ms: 50", "sloP95Ms: fast"))
    before = file.read_text()

    result = _run(file)

    assert result.exit_code == 1
    assert f"{file}: models.serving.classify.sloP95Ms: 'fast' is text; give a whole number" in result.stderr
    assert file.read_text() == before
