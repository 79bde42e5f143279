"""Tokens, keys and credentials in use on the twin appear in no output, no log and no command line."""

import base64
from collections.abc import Mapping
from pathlib import Path

import yaml

from tests.system.e2e.conftest import Twin
from twin.host import processes

_WHAT_MOTO_TAKES = "test"
_SHORTEST = 16


def environment(pid: int) -> dict[str, str]:
    """Return the environment of a process; empty if it has just exited."""
    try:
        content = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    return dict(entry.decode(errors="replace").partition("=")[::2] for entry in content.split(b"\0") if b"=" in entry)


def secrets_in_use(twin: Twin) -> dict[str, str]:
    """Return the secrets by source. For a private key in PEM, its second line, which is in no other key."""
    found = {}
    for user in yaml.safe_load(twin.home.path.joinpath("kubeconfig").read_text())["users"]:
        given = user["user"]
        if "client-key-data" in given:
            found[f"kubeconfig of {user['name']}"] = given["client-key-data"]
            found[f"key of {user['name']}"] = base64.b64decode(given["client-key-data"]).decode().splitlines()[1]
        if "token" in given:
            found[f"token of {user['name']}"] = given["token"]
    for key in twin.home.path.joinpath("pki").rglob("*.key"):
        found[f"key {key.name}"] = key.read_text().splitlines()[1]
    for token in twin.home.pods.rglob("token"):
        found[f"token {token.relative_to(twin.home.pods)}"] = token.read_text().strip()
    for pid, name in processes.marked(twin.home).items():
        variables = environment(pid)
        for variable in ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            if variables.get(variable, _WHAT_MOTO_TAKES) != _WHAT_MOTO_TAKES:
                found[f"{variable} of {name}"] = variables[variable]
    return {where: secret for where, secret in found.items() if len(secret) >= _SHORTEST}


def leaks(secrets: Mapping[str, str], texts: Mapping[str, str]) -> list[str]:
    return sorted(f"{where} in {text}" for where, secret in secrets.items() for text in texts if secret in texts[text])


def command_lines(twin: Twin) -> dict[str, str]:
    """Return the command lines of the twin's processes: every user of the machine can read them."""
    found = {}
    for pid, name in processes.marked(twin.home).items():
        try:
            found[f"argv of {name} ({pid})"] = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
    return found


def test_no_secret_in_use_is_seen(twin: Twin) -> None:
    secrets = secrets_in_use(twin)
    kinds = {where.partition(" ")[0] for where in secrets}
    assert {"key", "token", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"} <= kinds

    texts = command_lines(twin)
    for command in (
        "pulumi up --stack local --yes --non-interactive --diff",
        "pulumi stack output --stack local --show-secrets --json",
        "pulumi stack export --stack local",
        "python3 -m twin status --json",
    ):
        done = twin.shell(command, seconds=600)
        assert done.returncode == 0, done.stderr
        texts[command] = done.stdout + done.stderr
    texts |= {log.name: log.read_text(errors="replace") for log in (twin.home.path / "logs").glob("*.log")}
    texts |= {str(log.relative_to(twin.home.pods)): log.read_text(errors="replace") for log in twin.home.pods.rglob("*.log")}
    assert leaks(secrets, texts) == []


def test_a_leak_would_be_found() -> None:
    assert leaks({"token of x": "s3cr3t"}, {"log": "bearer s3cr3t", "argv": "--quiet"}) == ["token of x in log"]
