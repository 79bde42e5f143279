"""A stack returns to its previous release if it can serve it now; otherwise the command prints a remedy."""

import subprocess
from pathlib import Path
from shlex import split
from typing import Any

import boto3
import pytest
from ruamel.yaml import YAML

from modelctl.release import pin as pinning
from modelctl.release.pin import Pinned, pin, pinned
from modelctl.release.publish import release
from modelctl.release.retire import retire
from modelctl.release.rollback import roll_back
from modelctl.release.stacks import read_stack, release_of
from modelctl.store.bucket import Store
from modelctl.store.manifest import Derived, Manifest
from spec.settings import Release, load_stack_file, serving_digest
from tests.command import Ended, run
from tests.modelctl.conftest import BUCKET
from tests.modelctl.stacks import wants, write_stack


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a stack file with wants."""
    return write_stack(tmp_path / "stacks", {"classify": wants()})


@pytest.fixture
def releases(models: Path, store: Store, file: Path) -> tuple[Manifest, Manifest]:
    """Return two releases for that stack, older and newer, pinned in this order."""
    made = []
    for version in (1, 2):
        (models / "release.yaml").write_text(f"versions: {{classify: {version}}}\n")
        made.append(release(models, store, stacks=file.parent))
        pin(file, made[-1])
    return made[0], made[1]


def _run(file: Path) -> Ended:
    return run("modelctl", "rollback", "--file", file, "--bucket", BUCKET)


def _refused(result: Ended, code: int = 1) -> str:
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    (line,) = result.stderr.splitlines()
    return line.removeprefix("error: ")


def _date(store: Store, manifest: Manifest, created: str) -> None:
    """Change a release's date: two releases of the same second have no order."""
    dated = manifest.model_copy(update={"created": manifest.created.fromisoformat(created)})
    boto3.client("s3").put_object(Bucket=BUCKET, Key=f"releases/{manifest.id}/manifest.json", Body=dated.to_json().encode())


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


def _commands(file: Path, *, told: str = "has changed since") -> list[list[str]]:
    """Return the commands of the refusal: one for the previous wants, one for the current wants."""
    refused = _run(file)
    assert (refused.exit_code, refused.stdout, told in refused.stderr) == (1, "", True), refused.output
    return [split(line) for line in refused.stderr.splitlines() if line.startswith("  python3 -m modelctl ")]


def _follow(command: list[str]) -> Ended:
    done = run("modelctl", *command[3:])
    assert done.exit_code == 0, done.output
    return done


def _served(stack_file: Path) -> Release:
    """Return the release that the program serves; the program refuses a release for other wants."""
    release = load_stack_file(stack_file).models.release
    assert release is not None
    return release


def _git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *who, "-C", folder, *arguments], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


def _change_wants(file: Path) -> None:
    text = file.read_text()
    assert "sloP95Ms: 50" in text
    file.write_text(text.replace("sloP95Ms: 50", "sloP95Ms: 60"))


def test_wants_that_the_previous_release_was_not_made_from(file: Path, releases: tuple[Manifest, Manifest]) -> None:
    older, _ = releases
    _change_wants(file)
    before = file.read_text()
    stack, _ = read_stack(file)
    assert stack is not None
    digest = stack.digest(release_of(older.models, Derived()))

    refused = _run(file)

    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr.splitlines() == [
        f"error: {file}: release {older.id} was made from other wants ({older.serving['dev']}) than the stack has "
        f"now ({digest}): models.serving, or the kind of GPU of Triton's pool, has changed since.",
        f"Either go back with the wants, too: write those of then into {file}, then run",
        f"  python3 -m modelctl rollback --bucket {BUCKET} --file {file}",
        "or keep those of now: have in models/ what it has (classify 1, normalize 1, pipeline 1; models/release.yaml "
        "chooses among the versions that are there), then run",
        f"  python3 -m modelctl release models --bucket {BUCKET} --pin {file}",
    ]
    assert file.read_text() == before


def test_the_commit_that_has_the_wants_is_named_and_with_them_the_command_goes_through(
    file: Path, releases: tuple[Manifest, Manifest]
) -> None:
    """They changed twice since, but only one change was committed: the file's last commit has other wants."""
    older, newer = releases
    stacks = file.parent
    _git(stacks, "init", "--quiet")
    _git(stacks, "add", "--all")
    _git(stacks, "commit", "--quiet", "--message", "pinned")
    first = _git(stacks, "rev-parse", "--short", "HEAD")
    _change_wants(file)
    _git(stacks, "commit", "--quiet", "--all", "--message", "another SLO")
    file.write_text(file.read_text().replace("sloP95Ms: 60", "sloP95Ms: 70"))
    back, _ = _commands(file, told=f"write those of then into {file}, as `git -C {stacks} show {first}:./{file.name}` shows")

    then = YAML(typ="safe").load(_git(stacks, "show", f"{first}:./{file.name}"))
    document = YAML().load(file.read_text())
    document["config"]["triton-eks:models"]["serving"] = then["config"]["triton-eks:models"]["serving"]
    YAML().dump(document, file)
    _follow(back)

    assert pinned(file) == Pinned(older.id, previous=newer.id, serving=older.serving["dev"])
    assert _served(file).id == older.id


def test_the_new_wants_are_kept_with_the_models_of_then(
    file: Path, releases: tuple[Manifest, Manifest], models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(models.parent)
    _change_wants(file)
    _, keep = _commands(file)

    (models / "release.yaml").write_text("versions: {classify: 1}\n")
    _follow(keep)

    assert _served(file).models["classify"] == 1
    assert _served(file).id not in {made.id for made in releases}


def test_another_kind_of_gpu_is_another_want(file: Path, releases: tuple[Manifest, Manifest]) -> None:
    before = file.read_text()
    document = YAML().load(before)
    document["config"]["triton-eks:gpu"]["pools"][0]["instanceTypes"] = ["g6.xlarge"]
    YAML().dump(document, file)
    back, _ = _commands(file)
    file.write_text(before)
    _follow(back)
    assert _served(file).id == releases[0].id


def test_wants_that_came_after_the_previous_release(file: Path, models: Path, store: Store) -> None:
    plain = release(models, store)
    pin(file, plain)
    pin(file, release(models, store, stacks=file.parent))

    back, _ = _commands(file, told=f"go back with the wants, too: remove models.serving from {file}, then run")
    document = YAML().load(file.read_text())
    del document["config"]["triton-eks:models"]["serving"]
    YAML().dump(document, file)
    _follow(back)

    assert _served(file).id == plain.id


def test_of_a_file_of_pins_alone_the_wants_are_in_the_stacks_own_file(
    tmp_path: Path, models: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example on the twin: its pins are merged over the tracked stack file, whose wants have changed."""
    monkeypatch.chdir(tmp_path)
    tracked = write_stack(Path("stacks"), {"classify": wants()})
    pins = Path("pins") / tracked.name
    pins.parent.mkdir()
    pins.write_text("config: {}\n")
    older = release(models, store, stacks=tracked.parent)
    pin(pins, older)
    _change_wants(tracked)
    newer = release(models, store, stacks=tracked.parent)
    pin(pins, newer)

    back, _ = _commands(pins, told=f"write those of then into {tracked}, then run")
    tracked.write_text(tracked.read_text().replace("sloP95Ms: 60", "sloP95Ms: 50"))
    _follow(back)
    assert pinned(pins) == Pinned(older.id, previous=newer.id, serving=older.serving["dev"])

    _change_wants(tracked)
    _, keep = _commands(pins)
    _follow(keep)
    assert pinned(pins) == Pinned(newer.id, previous=older.id, serving=newer.serving["dev"])


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


def _add(file: Path, section: str, values: dict[str, Any]) -> None:
    yaml = YAML()
    document = yaml.load(file)
    document["config"].setdefault(f"triton-eks:{section}", {}).update(values)
    yaml.dump(document, file)


def test_a_previous_release_that_is_on_trial_is_not_pinned_beside_itself(
    file: Path, releases: tuple[Manifest, Manifest]
) -> None:
    older, _ = releases
    tried = {"id": older.id, "bytes": older.bytes, "models": older.versions, "serving": older.serving["dev"]}
    _add(file, "models", {"candidate": {"percent": 5, "release": tried}})
    before = file.read_text()
    said = (
        f"{file}: release {older.id} is models.candidate, with pods of its own and 5 % of the requests. "
        f"`modelctl rollout {older.id}` goes on with it until it is the release; to pin it without, take it out first, with "
        "`modelctl rollout --back`"
    )

    assert _refused(_run(file), 2) == said
    assert _refused(run("modelctl", "pin", older.id, "--file", file, "--bucket", BUCKET), 2) == said
    assert file.read_text() == before


def test_a_release_that_the_stack_is_refused_for_is_never_in_the_file(
    file: Path, releases: tuple[Manifest, Manifest], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that is killed during its check leaves the file unchanged."""

    class Killed(BaseException):
        pass

    def kill(content: bytes, path: Path) -> None:
        assert older.id.encode() in content
        raise Killed

    older, _ = releases
    before = file.read_bytes()
    monkeypatch.setattr(pinning, "load_content", kill)

    with pytest.raises(Killed):
        roll_back(file, store)
    assert file.read_bytes() == before
