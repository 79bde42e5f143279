"""`pip install triton-eks` and the image of modelctl bring modelctl and stackctl, without Pulumi."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import boto3
import grimp
import pytest
from moto.server import ThreadedMotoServer
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests import aws_environment
from tests.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LOCK = ROOT / "requirements" / "modelctl.txt"
UV = Path(sys.executable).with_name("uv")
BUCKET = "models"
SECONDS = 300


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """Start an S3 with an empty bucket, and return its address."""
    aws_environment.use_none_of_the_developers(monkeypatch, tmp_path)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        url = f"http://{host}:{port}"
        s3 = boto3.client("s3", region_name="us-west-2", endpoint_url=url)
        s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        yield url
    finally:
        server.stop()


def run(*command: str | Path, cwd: Path) -> str:
    """Run a program as on another machine, without this checkout on its path, and return its output."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_alone_releases_models_and_has_nothing_of_pulumi(bucket: str, tmp_path: Path) -> None:
    run(UV, "build", "--wheel", "--quiet", "--out-dir", tmp_path, ROOT, cwd=tmp_path)
    (wheel,) = tmp_path.glob("triton_eks-*.whl")
    environment = tmp_path / "environment"
    python = environment / "bin" / "python"
    run(UV, "venv", "--quiet", "--python", sys.executable, environment, cwd=tmp_path)
    run(UV, "pip", "install", "--quiet", "--python", python, "--require-hashes", "-r", LOCK, cwd=tmp_path)
    run(UV, "pip", "install", "--quiet", "--python", python, "--no-deps", wheel, cwd=tmp_path)
    run(UV, "pip", "check", "--quiet", "--python", python, cwd=tmp_path)

    installed = run(UV, "pip", "freeze", "--python", python, cwd=tmp_path)
    assert re.findall(r"^(?:pulumi|moto|pytest|matplotlib|optuna)\S*", installed, re.MULTILINE) == []
    for command in ("modelctl", "stackctl"):
        assert f"Usage: {command} [OPTIONS] COMMAND" in run(environment / "bin" / command, "--help", cwd=tmp_path)
    arguments = ("release", ROOT / "models", "--bucket", BUCKET, "--endpoint-url", bucket, "--stacks", ROOT / "stacks")
    released = run(environment / "bin" / "modelctl", *arguments, cwd=tmp_path)
    assert re.match(r"[0-9a-f]{64} released: .* objects uploaded, 0 found\n", released)


@cache
def imports() -> grimp.ImportGraph:
    return grimp.build_graph("console", "modelctl", "spec", include_external_packages=True, cache_dir=None)


def imported(*, tuning: bool) -> set[str]:
    """Return all packages, ours and others', that modelctl imports, with or without `modelctl tune`."""
    roots = {name for name in imports().modules if name.partition(".")[0] == "modelctl"}
    found = {name for name in roots if tuning or not name.startswith("modelctl.tune")}
    new = found
    while new:
        new = {other for name in new for other in imports().find_modules_directly_imported_by(name)} - found
        new = {name for name in new if tuning or not name.startswith("modelctl.tune")}
        found |= new
    return {name.partition(".")[0] for name in found} - sys.stdlib_module_names


def locked(lock: Path) -> set[str]:
    return {canonicalize_name(name) for name in re.findall(r"^([\w.-]+)==", lock.read_text(encoding="utf-8"), re.MULTILINE)}


def without_a_package(modules: set[str], packages: set[str]) -> set[str]:
    """Return the modules that belong to none of the packages."""
    brought = importlib.metadata.packages_distributions()
    return {name for name in modules if not {canonicalize_name(one) for one in brought.get(name, [])} & packages}


def test_the_image_has_what_modelctl_imports() -> None:
    build = (ROOT / "images" / "build").read_text(encoding="utf-8")
    copied = set(re.findall(r"^application modelctl-app (.+)$", build, re.MULTILINE)[0].split())
    assert copied == {"console", "modelctl", "spec"}
    assert f"packages modelctl {LOCK.relative_to(ROOT)}\n" in build
    assert without_a_package(imported(tuning=False) - copied, locked(LOCK)) == set()


def test_both_images_have_the_aws_services_that_their_code_calls() -> None:
    """The images contain only these service definitions of botocore."""
    build = (ROOT / "images" / "build").read_text(encoding="utf-8")
    kept = set(re.findall(r"botocore/data/!\((.+)\)", build)[0].split("|")) - {"*.json", "*.gz"}
    called = set()
    for folder in ("console", "modelctl", "worker"):
        for file in (ROOT / folder).rglob("*.py"):
            called |= set(re.findall(r"boto3\.client\(\s*\"([\w-]+)\"", file.read_text(encoding="utf-8")))
    called |= set(re.findall(r"Service\(\"(\w+)\"", (ROOT / "worker" / "aws.py").read_text(encoding="utf-8")))
    assert called == {"kms", "s3", "sqs"}
    # Roles of service accounts.
    assert kept == called | {"sts"}


def test_what_both_images_need_has_one_version() -> None:
    """The worker's packages are a layer of both images."""
    worker = dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "worker" / "requirements.txt").read_text(), re.MULTILINE))
    modelctl = dict(re.findall(r"^([\w.-]+)==(\S+)", LOCK.read_text(), re.MULTILINE))
    common = worker.keys() & modelctl.keys()
    assert len(common) > 10
    assert {name: worker[name] for name in common} == {name: modelctl[name] for name in common}


def test_the_lock_has_what_the_project_needs_without_extras() -> None:
    needed = {canonicalize_name(Requirement(line).name) for line in PROJECT["dependencies"]}
    extras = {Requirement(line).name for lines in PROJECT["optional-dependencies"].values() for line in lines}
    assert needed <= locked(LOCK)
    assert {"pulumi", "optuna", "moto", "pytest"} <= extras - locked(LOCK)


def test_tuning_needs_the_extra_of_models_beside_it() -> None:
    extra = {canonicalize_name(Requirement(line).name) for line in PROJECT["optional-dependencies"]["models"]}
    ours = {"console", "modelctl", "spec"}
    assert without_a_package(imported(tuning=True) - ours, locked(LOCK)) == extra


def test_the_environment_has_no_aws_in_front_of_a_persons_own() -> None:
    """`make venv` removes the programs of awscli version 1: in the activated environment `aws login` would be unknown."""
    assert importlib.metadata.version("awscli").startswith("1.")
    assert sorted(path.name for path in Path(sys.executable).parent.glob("aws*")) == []
