"""The programs that the twin needs, built once per machine from their published Go modules.

Each family has a wrapper module in `twin/tools/<family>/` that pins its versions
(docs/facts/local-control-plane.md#programs). A build lands in a directory named by the digest of what went into it, so
another checkout with the same pins finds it, and a changed pin builds anew.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import math
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from spec.failure import NOT_TRIED, Failure

MODULES = Path(__file__).resolve().parents[1] / "tools"
OLDEST_GO = (1, 26)
OLDEST_PULUMI = (3, 250)
_MEMORY_GB, _DISK_GB = 4, 10
"""Of a first run with nothing cached: the linker's peak, and what `du` says of Go's caches and the programs afterwards."""
SHELL_PULUMI = b"#!/bin/sh\n# pulumi, in the shell of a twin\n"
"""How the script begins that a twin's shell has in place of `pulumi`."""


class ToolError(Failure):
    """A program is missing and cannot be built; the text says what to install, or ends with the build's own words."""

    exit_code = NOT_TRIED


@dataclass(frozen=True)
class Family:
    """Programs that are built from one wrapper module.

    `packages` maps a program to its Go package. `module` is the one whose version goes into `ldflags`, where `{version}`,
    `{major}` and `{minor}` stand for it. `tags` are Go build tags. `seconds` is what a build takes with
    nothing cached, on two idle cores and on two shared ones: for the message only.
    """

    name: str
    packages: tuple[tuple[str, str], ...]
    module: str
    seconds: tuple[int, int]
    ldflags: str = ""
    tags: tuple[str, ...] = ()

    def version(self) -> str:
        """Return the pinned version of `module`, as in go.mod: v1.36.2."""
        content = (MODULES / self.name / "go.mod").read_text()
        found = re.search(rf"^\s*(?:require )?{re.escape(self.module)} (v\S+)", content, re.MULTILINE)
        if not found:
            raise ToolError(f"twin/tools/{self.name}/go.mod does not require {self.module}")
        return found[1]

    def flags(self) -> str:
        """Return the linker's flags: without a version of their own, charts and plugins refuse these programs."""
        version = self.version()
        major, minor = version.removeprefix("v").split(".")[:2]
        return f"-s -w {self.ldflags.format(version=version, major=major, minor=minor)}".strip()

    def digest(self) -> str:
        """Return a name for everything that decides what is built."""
        folder = MODULES / self.name
        parts = [path.read_bytes() for path in (folder / "go.mod", folder / "go.sum", *sorted(folder.glob("*.go")))]
        recipe = repr((self.packages, self.flags(), *self.tags)).encode()
        return hashlib.sha256(b"\0".join([*parts, recipe])).hexdigest()[:12]


_KUBERNETES_VERSION = " ".join(
    [
        "-X k8s.io/component-base/version.gitVersion={version}",
        "-X k8s.io/component-base/version.gitMajor={major}",
        "-X k8s.io/component-base/version.gitMinor={minor}",
        "-X k8s.io/client-go/pkg/version.gitVersion={version}",
    ]
)
_PROMETHEUS_OPERATOR = "github.com/prometheus-operator/prometheus-operator"
FAMILIES = {
    family.name: family
    for family in (
        Family("etcd", (("etcd", "go.etcd.io/etcd/server/v3"),), "go.etcd.io/etcd/server/v3", (80, 150)),
        Family(
            "kubernetes",
            tuple(
                (name, f"k8s.io/kubernetes/cmd/{name}")
                for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
            ),
            "k8s.io/kubernetes",
            (290, 520),
            _KUBERNETES_VERSION,
        ),
        Family("kwok", (("kwok", "sigs.k8s.io/kwok/cmd/kwok"),), "sigs.k8s.io/kwok", (65, 115)),
        Family(
            "pulumi",
            (("pulumi", "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"),),
            "github.com/pulumi/pulumi/pkg/v3",
            (180, 320),
            "-X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version={version}",
        ),
        Family("helm", (("helm", "helm.sh/helm/v4/cmd/helm"),), "helm.sh/helm/v4", (105, 185)),
        # For the tests of .github/workflows alone.
        Family(
            "actionlint",
            (("actionlint", "github.com/rhysd/actionlint/cmd/actionlint"),),
            "github.com/rhysd/actionlint",
            (15, 30),
        ),
        # A program of ours, of the collector's own components: its distributions are built from hundreds of modules.
        Family(
            "otelcol",
            (("otelcol", "."),),
            "go.opentelemetry.io/collector/otelcol",
            (140, 320),
            "-X main.version={version}",
        ),
        # The operator is KEDA's. What it needs beside it is a program of ours, of KEDA's own packages: see its main.go.
        Family(
            "keda",
            (("keda-operator", "github.com/kedacore/keda/v2/cmd/operator"), ("keda-adapter", ".")),
            "github.com/kedacore/keda/v2",
            (240, 480),
            "-X github.com/kedacore/keda/v2/version.Version={version}",
        ),
        Family(
            "prometheus",
            tuple((name, f"github.com/prometheus/prometheus/cmd/{name}") for name in ("promtool", "prometheus")),
            "github.com/prometheus/prometheus",
            (130, 240),
            # The module numbers Prometheus 3.15.0 as v0.315.0.
            "-X github.com/prometheus/common/version.Version={version}",
            # Discovery by the Kubernetes API only: the clouds' client libraries would be most of the build.
            ("remove_all_sd", "enable_kubernetes_sd"),
        ),
        Family(
            "prometheus-operator",
            (
                ("prometheus-operator", f"{_PROMETHEUS_OPERATOR}/cmd/operator"),
                ("prometheus-config-reloader", f"{_PROMETHEUS_OPERATOR}/cmd/prometheus-config-reloader"),
            ),
            _PROMETHEUS_OPERATOR,
            (100, 200),
            "-X github.com/prometheus/common/version.Version={version}",
        ),
        Family(
            "prometheus-adapter",
            (("prometheus-adapter", "sigs.k8s.io/prometheus-adapter/cmd/adapter"),),
            "sigs.k8s.io/prometheus-adapter",
            (180, 340),
        ),
    )
}


def ensure(families: Sequence[str], console: Console) -> dict[str, Path]:
    """Return the programs of `families` by name, building what is missing with a line for each family.

    A `pulumi` on PATH that is new enough is taken as it is. Raises ToolError.
    """
    found: dict[str, Path] = {}
    missing: list[Family] = []
    for family in (FAMILIES[name] for name in families):
        installed = _pulumi_on_path() if family.name == "pulumi" else None
        if installed is not None:
            found["pulumi"] = installed
        else:
            found |= {program: _directory(family) / program for program, _ in family.packages}
            missing += [] if _complete(_directory(family), family) else [family]
    if missing:
        go = find_go(f"building {missing[0].name}")
        console.print(plan(missing), markup=False, highlight=False, soft_wrap=True)
        for family in missing:
            _ensure_family(family, go, console)
    return found


def built(families: Sequence[str]) -> dict[str, Path]:
    """Return the programs of `families` by name. Raises ToolError for those that have not been built."""
    found: dict[str, Path] = {}
    for family in (FAMILIES[name] for name in families):
        if not _complete(_directory(family), family):
            raise ToolError(
                f"{family.name} {family.version()} is not built: `make up` builds what the stack of a twin needs, "
                "and `make up AUTOSCALING=1` what the autoscaled one does"
            )
        found |= {program: _directory(family) / program for program, _ in family.packages}
    return found


def plan(missing: Sequence[Family]) -> str:
    """Return what a person should know before these are built: how long it takes, and what it needs of the machine."""
    idle, shared = (sum(family.seconds[i] for family in missing) for i in (0, 1))
    names = ", ".join(f"{family.name} ({_minutes(family.seconds)})" for family in missing)
    return (
        f"to build, once per machine: {names}\n"
        f"together {_minutes((idle, shared))} on 2 cores, about {_MEMORY_GB} GB of memory, and with all of them some "
        f"{_DISK_GB} GB of disk: Go's caches, and {cache_directory()}"
    )


def _minutes(seconds: tuple[int, int]) -> str:
    """`1 to 3 minutes`; the first is an idle machine's."""
    least, most = round(seconds[0] / 60), math.ceil(seconds[1] / 60)
    return f"{max(least, 1)} to {most} minutes"


def cache_directory() -> Path:
    """Return where builds are kept, for all checkouts of one user."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "triton-eks" / "tools"


def _directory(family: Family) -> Path:
    return cache_directory() / f"{family.name}-{family.digest()}"


def _ensure_family(family: Family, go: Path, console: Console) -> None:
    target = _directory(family)
    with _build_lock(target, family, console):
        if not _complete(target, family):
            _build(family, go, target, console)


def _complete(directory: Path, family: Family) -> bool:
    return all(os.access(directory / program, os.X_OK) for program, _ in family.packages)


def _build(family: Family, go: Path, target: Path, console: Console) -> None:
    programs = ", ".join(program for program, _ in family.packages)
    label = f"{family.name} {family.version()}"
    started = time.monotonic()
    partial = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        with _progress(console, f"building {label} ({programs}); {_minutes(family.seconds)}"):
            for program, package in family.packages:
                _go_build(family, go, package, partial / program)
        partial.chmod(0o755)
        if target.exists():  # a broken one, else it would have been taken
            shutil.rmtree(target)
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    console.print(f"built {label} in {time.monotonic() - started:.0f} s", highlight=False)


def _go_build(family: Family, go: Path, package: str, output: Path) -> None:
    tags = ["-tags", ",".join(family.tags)] if family.tags else []
    argv = [str(go), "build", "-trimpath", *tags, "-ldflags", family.flags(), "-o", str(output), package]
    env = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"}
    done = subprocess.run(
        argv,
        cwd=MODULES / family.name,
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if done.returncode != 0:
        end = "\n".join(done.stdout.splitlines()[-15:])
        raise ToolError(
            f"building {output.name} from twin/tools/{family.name}/go.mod failed (go ended with {done.returncode}); "
            f"it needs access to a Go module proxy and about {_MEMORY_GB} GB of memory. The end of its output:\n{end}"
        )


@contextlib.contextmanager
def _progress(console: Console, text: str) -> Iterator[None]:
    """A line with the elapsed time on a terminal, a plain one elsewhere."""
    if not console.is_terminal:
        console.print(f"{text} ...", highlight=False)
        yield
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        progress.add_task(text, total=None)
        yield


@contextlib.contextmanager
def _build_lock(target: Path, family: Family, console: Console) -> Iterator[None]:
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f"{target.name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            console.print(f"waiting for another command that builds {family.name}", highlight=False)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def find_go(purpose: str) -> Path:
    """Return the `go` on PATH. Raises ToolError, which begins with `purpose` ("building etcd"), when none is new enough."""
    wanted = ".".join(map(str, OLDEST_GO))
    needed = f"{purpose} needs Go {wanted} or newer (https://go.dev/doc/install)"
    found = shutil.which("go")
    if found is None:
        raise ToolError(f"{needed}, and there is no `go` on PATH")
    # Outside any module and pinned to itself, so that it reports its own version and fetches no other.
    env = {**os.environ, "GOTOOLCHAIN": "local"}
    done = subprocess.run([found, "env", "GOVERSION"], cwd="/", env=env, text=True, capture_output=True, check=False)
    version = re.match(r"go(\d+)\.(\d+)", done.stdout)
    if version is None:
        raise ToolError(f"{needed}; `{found} env GOVERSION` says {(done.stdout + done.stderr).strip() or 'nothing'!r}")
    if (int(version[1]), int(version[2])) < OLDEST_GO:
        raise ToolError(f"{needed}, and {found} is {done.stdout.strip()}")
    return Path(found)


def _pulumi_on_path() -> Path | None:
    """Return the user's own Pulumi CLI, when it is new enough for the program."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    candidates = (shutil.which("pulumi", path=folder) for folder in folders)
    found = next((path for path in candidates if path and not _is_the_twins(Path(path))), None)
    if found is None:
        return None
    env = {**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"}
    try:
        done = subprocess.run([found, "version"], env=env, text=True, capture_output=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = re.match(r"v?(\d+)\.(\d+)", done.stdout.strip())
    if version is None or (int(version[1]), int(version[2])) < OLDEST_PULUMI:
        return None
    return Path(found)


def _is_the_twins(pulumi: Path) -> bool:
    """Return whether it is the script that stands for `pulumi` in a twin's shell (servers.py): it asks this module again."""
    with pulumi.open("rb") as file:
        return file.read(len(SHELL_PULUMI)) == SHELL_PULUMI
