"""Each command in each environment exits with its own message and code."""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests import aws_environment
from tests.command import run
from tests.paths import ROOT

ASKS_AWS = {
    "preflight": ("stackctl", "preflight", "dev"),
    "orphans": ("stackctl", "orphans", "dev"),
    "destroy": ("stackctl", "destroy", "dev", "--confirm", "dev"),
    "refresh": ("stackctl", "cost", "refresh", "us-west-2"),
    "list": ("modelctl", "list", "--bucket", "models"),
}
NOTHING_LISTENS = "http://127.0.0.1:1"
AWS = {
    "no address": (
        {"AWS_ENDPOINT_URL": "nonsense"},
        "nonsense",
    ),
    "no profile": ({"AWS_PROFILE": "nobody"}, "(nobody) could not be found; check AWS_PROFILE and ~/.aws/config"),
    "broken file": ({"AWS_CONFIG_FILE": "broken"}, "Unable to parse config file"),
    "not text": ({"AWS_CONFIG_FILE": "binary"}, "Unable to parse config file"),
    "no credentials": (
        {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""},
        "set AWS_PROFILE (after `aws login` or `aws sso login`), or",
    ),
    "expired login": ({"AWS_PROFILE": "sso"}, "run `aws sso login`"),
    "nothing answers": ({"AWS_ENDPOINT_URL": NOTHING_LISTENS}, "127.0.0.1:1"),
    "no proxy": ({"HTTPS_PROXY": NOTHING_LISTENS}, ""),
}
SSO = """[profile sso]
sso_start_url = https://example.awsapps.com/start
sso_region = us-west-2
sso_account_id = 123456789012
sso_role_name = reader
region = us-west-2
"""


@pytest.mark.parametrize("surrounding", AWS)
@pytest.mark.parametrize("command", ASKS_AWS)
def test_an_aws_that_cannot_be_used_is_a_sentence(
    command: str, surrounding: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    aws_environment.use_none_of_the_developers(monkeypatch, tmp_path)
    (tmp_path / "broken").write_text("[default\nregion", encoding="utf-8")
    (tmp_path / "binary").write_bytes(b"[default]\nregion = \xff\xfe\n")
    (tmp_path / "config").write_text(SSO, encoding="utf-8")
    variables, said = AWS[surrounding]
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / variables.get("AWS_CONFIG_FILE", "config")))
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    if surrounding == "expired login":
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        if name != "AWS_CONFIG_FILE":
            monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name, raising=False)
    done = run(*ASKS_AWS[command])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    assert said in done.stderr, done.stderr
    told_to_log_in = "AWS_PROFILE (after" in done.stderr
    assert told_to_log_in == (surrounding == "no credentials")


@pytest.mark.parametrize("command", ["stackctl", "modelctl", "twin"])
@pytest.mark.parametrize("module", ["console/program.py", "console/virtual_environment.py", "spec/failure.py"])
def test_an_interruption_while_the_first_modules_are_imported_is_a_sentence(
    command: str, module: str, tmp_path: Path
) -> None:
    package, _, name = module.removesuffix(".py").partition("/")
    slow = f"""
import importlib.abc, sys, time
class Slow(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "{package}.{name}":
            print("importing", flush=True)
            for _ in range(600):  # short ones: a signal just before the call of the kernel does not end a sleep
                time.sleep(0.1)
sys.meta_path.insert(0, Slow())
"""
    (tmp_path / "sitecustomize.py").write_text(slow, encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", command, "--help"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "importing\n"
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=30)
    assert (process.returncode, told) == (130, "error: interrupted\n")


PROGRAMS = {
    "prints no JSON": ("#!/bin/sh\necho hello\n", 0o755, "prints, line 1, column 1: not valid JSON: Expecting value"),
    "prints nothing": ("#!/bin/sh\n", 0o755, "prints, is empty, where JSON is expected"),
    "prints a list": ("#!/bin/sh\necho []\n", 0o755, "prints, is a list, where an object is expected"),
    "prints another form": (
        "#!/bin/sh\necho '{\"deployment\": []}'\n",
        0o755,
        "the export.deployment is a list, where an object",
    ),
    "prints no URN": ('#!/bin/sh\necho \'{"deployment": {"resources": [{}]}}\'\n', 0o755, "resource 0 has no urn"),
    "may not be executed": ("#!/bin/sh\n", 0o644, "pulumi on PATH cannot be run: Permission denied; install it anew"),
    "is no program": ("\x7fELF nonsense", 0o755, "pulumi on PATH cannot be run: Exec format error; install it anew"),
}


@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_pulumi_that_is_none_is_a_sentence(kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from console.pulumi_program import PulumiUnusable
    from stackctl.destroy.engine import Engine

    content, mode, said = PROGRAMS[kind]
    (tmp_path / "pulumi").write_text(content, encoding="utf-8")
    (tmp_path / "pulumi").chmod(mode)
    monkeypatch.setenv("PATH", f"{tmp_path}")
    with pytest.raises(PulumiUnusable) as told:
        Engine("dev").resources()
    assert said in str(told.value) and "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("path", "said"), [("/nonexistent", "there is no git on PATH"), ("programs", "git cannot be run: Permission denied")]
)
def test_a_comparison_without_git_is_a_sentence(
    path: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs" / "git").write_text("no program")
    monkeypatch.setenv("PATH", str(tmp_path / path))
    done = run("stackctl", "cost", "show", "dev", "--against", "HEAD")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == f"error: a comparison needs git, and {said}; install it, or leave --against out\n"


def test_a_comparison_outside_of_a_checkout_is_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "stacks").symlink_to(ROOT / "stacks")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    done = run("stackctl", "cost", "show", "dev", "--against", "HEAD")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        "error: a comparison needs git, and this is no checkout of it; leave --against out, or clone it\n"
    )


CLUSTER = "http://127.0.0.1:1"
KUBECONFIG = f"""apiVersion: v1
kind: Config
current-context: a
contexts: [{{name: a, context: {{cluster: a, user: a}}}}]
clusters: [{{name: a, cluster: {{server: "{CLUSTER}"}}}}]
users: [{{name: a, user: {{}}}}]
"""


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xffconfig", ":1:1: not UTF-8; save the file in that encoding"),
        (b"apiVersion: \0", ":1:13: a NUL character, which no text has; is it another kind of file?"),
        (b"hello", " is no kubeconfig: set KUBECONFIG to one, or run `aws eks update-kubeconfig`"),
        (b"[1, 2]", " is no kubeconfig: set KUBECONFIG to one, or run `aws eks update-kubeconfig`"),
        (b"{" * 5000, " is no kubeconfig: set KUBECONFIG to one, or run `aws eks update-kubeconfig`"),
        (b"a: [", " is no kubeconfig: set KUBECONFIG to one, or run `aws eks update-kubeconfig`"),
        (None, ": is a directory; name a file"),
    ],
)
def test_a_kubeconfig_that_is_none_is_a_sentence(
    content: bytes | None, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "config"
    file.mkdir() if content is None else file.write_bytes(content)
    monkeypatch.setenv("KUBECONFIG", str(file))
    gc.collect()  # pytest reports a finalizer of another test's objects that starts at the recursion limit
    done = run("modelctl", "parity")
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"error: {file}{said}\n")


def test_a_port_that_is_busy_or_none_is_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(KUBECONFIG, encoding="utf-8")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        busy = f"127.0.0.1:{server.getsockname()[1]}"
        for address, said in {
            busy: f"--serve {busy}: Address already in use; write an address and a free port of this machine",
            "127.0.0.1:99999": "--serve '127.0.0.1:99999' is no address; write ADDRESS:PORT, like 0.0.0.0:9108",
            "127.0.0.1:٣": "--serve '127.0.0.1:٣' is no address; write ADDRESS:PORT, like 0.0.0.0:9108",
        }.items():
            done = run("modelctl", "parity", "--serve", address)
            assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"error: {said}\n")


@pytest.mark.parametrize("width", ["99999999999", "9" * 5000, "-1", "0", "wide", "\u0669\u0669"])
def test_a_width_that_no_terminal_has_is_not_filled_with_blanks(width: str) -> None:
    env = {**os.environ, "COLUMNS": width}
    command = [sys.executable, "-m", "stackctl", "--help"]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage: " in done.stdout and max(map(len, done.stdout.splitlines())) <= 200
