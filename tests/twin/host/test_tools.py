"""The builder, with a `go` and a `pulumi` that are shell scripts.

What is built how: docs/facts/local-control-plane.md#programs.
"""

import io
import os
from pathlib import Path

import pytest
from rich.console import Console

from twin.host import tools
from twin.host.tools import FAMILIES, ToolError

FAKE_GO = """#!/bin/sh
echo "$*" >> "$GO_LOG"
if [ "$1" = env ]; then echo "${GO_VERSION:-go1.26.8}"; exit 0; fi
if [ -n "$GO_FAILS" ]; then echo "go: example.com@v1: unreachable"; exit 1; fi
while [ "$1" != -o ]; do shift; done
printf '#!/bin/sh\\n' > "$2"; chmod 755 "$2"
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    programs = tmp_path / "bin"
    programs.mkdir()
    script(programs / "go", FAKE_GO)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("GO_LOG", str(tmp_path / "go.log"))
    return tmp_path


def script(path: Path, content: str) -> None:
    path.write_text(content)
    path.chmod(0o755)


def ensure(*families: str) -> tuple[dict[str, Path], str]:
    output = io.StringIO()
    return tools.ensure(families, Console(file=output, width=200)), output.getvalue()


def builds(machine: Path) -> list[str]:
    return [line for line in (machine / "go.log").read_text().splitlines() if line.startswith("build")]


def test_every_family_pins_its_version() -> None:
    assert {name: family.version()[0] for name, family in FAMILIES.items()} == dict.fromkeys(FAMILIES, "v")


def test_a_family_is_built_once_and_then_found(machine: Path) -> None:
    found, said = ensure("etcd")
    assert found["etcd"].is_relative_to(machine / "cache" / "triton-eks" / "tools")
    assert os.access(found["etcd"], os.X_OK)
    version = FAMILIES["etcd"].version()
    assert said.splitlines()[2] == f"building etcd {version} (etcd); 1 to 3 minutes ..."
    assert said.splitlines()[3].startswith(f"built etcd {version} in ")
    assert ensure("etcd") == (found, "")
    assert len(builds(machine)) == 1


def test_kubernetes_is_told_its_version(machine: Path) -> None:
    found, _ = ensure("kubernetes")
    assert sorted(found) == ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"]
    assert f"-X k8s.io/component-base/version.gitVersion={FAMILIES['kubernetes'].version()}" in builds(machine)[0]


def test_the_plan_is_told_before_the_first_build(machine: Path) -> None:
    ensure("etcd")
    found, said = ensure("etcd", "kwok", "helm")
    plan, *built = said.splitlines()
    assert plan == "to build, once per machine: kwok (1 to 2 minutes), helm (2 to 4 minutes)"
    assert built[0].startswith("together 3 to 5 minutes on 2 cores, about 4 GB of memory, and with all of them some 10 GB")
    assert [line.split()[:2] for line in built[1:]] == [
        ["building", "kwok"],
        ["built", "kwok"],
        ["building", "helm"],
        ["built", "helm"],
    ]
    assert ensure("etcd", "kwok", "helm") == (found, "")


def test_a_changed_recipe_is_another_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    before = FAMILIES["etcd"].digest()
    monkeypatch.setattr(tools.Family, "flags", lambda self: "-s")
    assert FAMILIES["etcd"].digest() != before


def test_a_failed_build_shows_the_end_of_its_output_and_leaves_nothing(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GO_FAILS", "yes")
    with pytest.raises(ToolError) as error:
        ensure("etcd")
    assert "building etcd from twin/tools/etcd/go.mod failed (go ended with 1)" in str(error.value)
    assert str(error.value).endswith("go: example.com@v1: unreachable")
    assert [p.name for p in (machine / "cache" / "triton-eks" / "tools").iterdir() if p.is_dir()] == []
    monkeypatch.delenv("GO_FAILS")
    ensure("etcd")


def test_half_a_build_is_built_again(machine: Path) -> None:
    found, _ = ensure("kubernetes")
    found["kubectl"].unlink()
    assert ensure("kubernetes")[0] == found
    assert os.access(found["kubectl"], os.X_OK)


def test_without_go_one_sentence_says_what_to_install(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(machine / "nothing"))
    with pytest.raises(ToolError, match=r"building etcd needs Go 1\.26 or newer .* there is no `go` on PATH"):
        ensure("etcd")


def test_an_old_go_is_named(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GO_VERSION", "go1.25.4")
    with pytest.raises(ToolError, match=r"needs Go 1\.26 or newer .*bin/go is go1\.25\.4"):
        ensure("etcd")


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
