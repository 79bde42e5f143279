"""The progress of a build, and its estimated time."""

from pathlib import Path

import pytest

from tests.twin import go_stand_in
from twin.host import go_build
from twin.host.go_build import Phase, Programs, Progress
from twin.host.processes import wait_until

IMPORTS = {"errors": [], "fmt": ["errors"], "net": ["errors"], "main": ["fmt", "net"]}


def test_what_a_package_needs_has_been_compiled_before_it() -> None:
    progress = Progress()
    progress.consists_of(IMPORTS)
    assert (progress.compiled, progress.packages, progress.share()) == (0, 4, 0.0)
    assert progress.compiles("fmt")  # errors was cached, so it is not reported
    assert progress.compiled == 2
    assert progress.compiles("main")
    assert (progress.compiled, progress.share()) == (4, 1.0)


def test_what_is_no_package_is_no_progress() -> None:
    progress = Progress()
    progress.consists_of(IMPORTS)
    assert not progress.compiles("# example.com/main")
    assert progress.compiled == 0


def test_the_first_packages_take_less_than_their_share_of_the_time() -> None:
    progress = Progress()
    progress.consists_of({str(number): [] for number in range(100)})
    for number in range(50):
        progress.compiles(str(number))
    assert 0.28 < progress.share() < 0.44


@pytest.fixture
def sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Programs]:
    """Return two sets: the first takes three times as long, and is half compiled until `go-on` exists."""
    go_stand_in.install(tmp_path, monkeypatch)
    monkeypatch.setenv("GO_WAITS_FOR", str(tmp_path / "go-on"))
    return [
        Programs(name, "v1", tmp_path, {name: f"example.com/{name}"}, ("-ldflags", ""), tmp_path / "built" / name, seconds)
        for name, seconds in (("large", 30), ("small", 10))
    ]


def test_the_time_left_is_for_all_that_is_to_be_built(tmp_path: Path, sets: list[Programs]) -> None:
    with go_build.building(tmp_path / "packages" / "go" / "bin" / "go", sets, tmp_path / "cache" / "build") as builds:
        assert builds.left() is None
        wait_until(lambda: builds.progress["large"].compiled == 2, "two of the three packages of the first one", 60)
        assert builds.progress["small"].phase is Phase.WAITING
        assert builds.share() == pytest.approx(30 / 40 * (2 / 3) ** 1.5)
        (tmp_path / "go-on").touch()
        for _ in builds.until_there(["large", "small"]):
            pass
        assert (builds.share(), builds.left()) == (1.0, 0.0)
    caches = tmp_path / "cache" / "build"
    wait_until(
        lambda: sorted(entry.name for entry in caches.iterdir()) == ["CACHEDIR.TAG", "lock"], "the caches to be removed", 60
    )


def test_the_time_left_goes_by_what_was_compiled_now(
    tmp_path: Path, sets: list[Programs], monkeypatch: pytest.MonkeyPatch
) -> None:
    with go_build.building(tmp_path / "packages" / "go" / "bin" / "go", sets, tmp_path / "cache" / "build") as builds:
        wait_until(lambda: builds.progress["large"].compiled == 2, "two of the three packages of the first one", 60)
        # Three quarters of 40 s are done, 10 s of them earlier: 20 s of work took 20 s, so 10 s remain.
        with monkeypatch.context() as now:
            now.setattr(builds, "_done", lambda: 30.0)
            now.setattr(builds, "_began", (100.0, 10.0))
            now.setattr(go_build.time, "monotonic", lambda: 120.0)
            assert builds.left() == pytest.approx(10.0)
        (tmp_path / "go-on").touch()
        for _ in builds.until_there(["small"]):
            pass


def test_what_is_not_waited_for_is_stopped(tmp_path: Path, sets: list[Programs]) -> None:
    with go_build.building(tmp_path / "packages" / "go" / "bin" / "go", sets, tmp_path / "cache" / "build"):
        wait_until(lambda: go_stand_in.builds(tmp_path), "the first build", 60)
    assert [path.name for path in (tmp_path / "built").iterdir()] == ["large.lock"]


def test_a_dependency_is_compiled_as_the_patch_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_stand_in.install(tmp_path, monkeypatch)
    module, published = tmp_path / "gateway", tmp_path / "published"
    (module / go_build.PATCH / "internal").mkdir(parents=True)
    (module / go_build.PATCH / "internal" / "own.go").write_text("package internal\n")
    (module / go_build.PATCH / "address.patch").write_text("--- a/main.go\n+++ b/main.go\n@@ -1 +1 @@\n-every\n+loopback\n")
    (module / "go.mod").write_text("module gateway\n")
    (module / "go.sum").write_text("sums\n")
    (published / "testdata").mkdir(parents=True)
    (published / "main.go").write_text("every\n")
    monkeypatch.setenv("GO_MODULE", str(published))
    programs = Programs("g", "v1", module, {"g": "example.com/g"}, ("-ldflags", ""), tmp_path / "built", 1, "example.com/up")
    with go_build.building(tmp_path / "packages" / "go" / "bin" / "go", [programs], tmp_path / "cache" / "build") as builds:
        for _ in builds.until_there(["g"]):
            pass
    assert (
        tmp_path / "go.log.patched"
    ).read_text() == "module gateway\n\nreplace example.com/up => COPY\nsums\nloopback\npackage internal\n"
    assert (tmp_path / "go.log.listed").read_text() == "loopback\n", "or it downloads what only the published one needs"
    assert (published / "main.go").read_text() == "every\n", "what others build of the module stays"


def test_a_patch_that_does_not_fit_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_stand_in.install(tmp_path, monkeypatch)
    (tmp_path / go_build.PATCH).mkdir()
    (tmp_path / go_build.PATCH / "a.patch").write_text("--- a/main.go\n+++ b/main.go\n@@ -1 +1 @@\n-every\n+loopback\n")
    (tmp_path / "published").mkdir()
    (tmp_path / "published" / "main.go").write_text("another\n")
    monkeypatch.setenv("GO_MODULE", str(tmp_path / "published"))
    programs = Programs(
        "g", "v1", tmp_path, {"g": "example.com/g"}, ("-ldflags", ""), tmp_path / "built", 1, "example.com/up"
    )
    with (
        pytest.raises(go_build.BuildFailed, match=r"(?s)git apply.*patch failed: main.go:1"),
        go_build.building(tmp_path / "packages" / "go" / "bin" / "go", [programs], tmp_path / "cache" / "build") as builds,
    ):
        for _ in builds.until_there(["g"]):
            pass
