"""Check that this machine has recent versions of the programs that `pulumi up` and this stack's docs use."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import botocore.session
from botocore.exceptions import ProfileNotFound

from spec import reading
from spec.failure import Failure
from stackctl.preflight.checks.check import Finding, Subject, fail, ok, unknown, warn

_SECONDS = 60
_PROJECT = Path("Pulumi.yaml")
_SDKS = {"aws": "pulumi-aws", "eks": "pulumi-eks", "kubernetes": "pulumi-kubernetes"}
"""Plugin -> the Python package whose version the engine requests."""
_FIRST_WITH_LOGIN = (2, 32)
_INSTALL_PULUMI = "https://www.pulumi.com/docs/install/"
_INSTALL_AWS = "https://docs.aws.amazon.com/cli/latest/userguide/getting-started-install.html"
_INSTALL_KUBECTL = "https://kubernetes.io/docs/tasks/tools/"
_INSTALL_SESSION_MANAGER = (
    "https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-working-with-install-plugin.html"
)


def check(subject: Subject) -> Iterator[Finding]:
    """Yield a finding for each program, and one for Pulumi's plugins."""
    pulumi = _pulumi()
    yield pulumi
    if shutil.which("pulumi") is not None:
        yield _plugins()
    yield _aws()
    yield _kubectl(subject.settings.cluster.version)
    if subject.settings.cluster.endpoint == "private":
        yield _session_manager(subject.settings.stack)


def _pulumi() -> Finding:
    required = re.search(r'^requiredPulumiVersion: *"?>=([\d.]+)', reading.text_file(_PROJECT), re.MULTILINE)
    oldest = _numbers(required[1]) if required else (0,)
    needs = f"{_PROJECT} needs {_text(oldest)} or newer"
    version = _version("pulumi", "version")
    if version is None:
        return fail(f"pulumi does not run; {needs}", _INSTALL_PULUMI)
    if version < oldest:
        return fail(f"pulumi is {_text(version)}; {needs}", _INSTALL_PULUMI)
    return ok(f"pulumi {_text(version)}; {needs}")


def _plugins() -> Finding:
    """Return the plugins that `pulumi up` downloads first. The EKS component's two plugins are unknown here."""
    try:
        needed = {name: importlib.metadata.version(package) for name, package in _SDKS.items()}
    except importlib.metadata.PackageNotFoundError as absent:
        return fail(f"the Python package {absent.name} is not installed", "`make venv`, then `source .venv/bin/activate`")
    said = _output("pulumi", "plugin", "ls", "--json")
    try:
        listed = reading.json_value(said or "")
        there = {(plugin["name"], plugin["version"]) for plugin in listed if plugin["kind"] == "resource"}
    except (Failure, KeyError, TypeError):
        return unknown("`pulumi plugin ls --json` prints no list of plugins")
    missing = [f"{name} {version}" for name, version in needed.items() if (name, version) not in there]
    if missing:
        return ok(
            f"`pulumi up` downloads these plugins first: {', '.join(missing)}; if missing, also the older aws and "
            "kubernetes of the EKS component (docs/aws.md has their size)"
        )
    return ok(f"plugins are installed: {', '.join(f'{name} {version}' for name, version in needed.items())}")


def _aws() -> Finding:
    version = _version("aws", "--version")
    needs = "the EKS component and each kubeconfig run it"
    if version is None:
        return fail(f"aws does not run; {needs}", f"install the AWS CLI, version 2: {_INSTALL_AWS}")
    if version < (1, 24) or (2,) <= version < (2, 7):
        return fail(f"aws is {_text(version)}, and the EKS component needs 2.7 or newer", _INSTALL_AWS)
    if (2,) <= version < _FIRST_WITH_LOGIN and "AWS_ACCESS_KEY_ID" not in os.environ and _logged_in():
        return fail(
            f"aws is {_text(version)}, and the profile's credentials come from `aws login`, which needs "
            f"{_text(_FIRST_WITH_LOGIN)} or newer",
            _INSTALL_AWS,
        )
    if version < (2,):
        return warn(f"aws is {_text(version)}: version 1 has neither `aws login` nor `aws sso login`", _INSTALL_AWS)
    return ok(f"aws {_text(version)}; {needs}")


def _logged_in() -> bool:
    """Return whether the AWS profile has an `aws login` session."""
    try:
        return "login_session" in botocore.session.Session().get_scoped_config()
    except ProfileNotFound:
        return False


def _kubectl(kubernetes: str) -> Finding:
    version = _version("kubectl", "version", "--client")
    if version is None:
        return warn("kubectl does not run; `pulumi up` needs none, the runbooks do", _INSTALL_KUBECTL)
    if abs(version[1] - _numbers(kubernetes)[1]) > 1:
        return warn(
            f"kubectl is {_text(version)}; for Kubernetes {kubernetes} it may be one minor version older or newer",
            _INSTALL_KUBECTL,
        )
    return ok(f"kubectl {_text(version)}")


def _session_manager(stack: str) -> Finding:
    version = _version("session-manager-plugin", "--version")
    if version is None:
        return warn(
            f"session-manager-plugin does not run; `stackctl tunnel {stack}`, a way to the private API server, needs it",
            _INSTALL_SESSION_MANAGER,
        )
    return ok(f"session-manager-plugin {_text(version)}")


def _version(*command: str) -> tuple[int, ...] | None:
    """Return the first version that a program prints, or None if it does not run."""
    found = re.search(r"\d+(?:\.\d+)+", _output(*command) or "")
    return _numbers(found[0]) if found else None


def _output(*command: str) -> str | None:
    """Return a program's output, or None if it is missing, fails or takes too long."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace", timeout=_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _text(version: Sequence[int]) -> str:
    return ".".join(map(str, version))
