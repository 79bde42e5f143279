"""ECR of an account, and a test's own stack files."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from moto import mock_aws

from stackctl.images import mirror
from stackctl.images.registry import Registry as Client
from tests.aws_environment import use_none_of_the_developers
from tests.paths import ROOT
from tests.stackctl.images.registry_server import Registry, serving

LOGIN = "Basic " + base64.b64encode(b"AWS:secret").decode()


@pytest.fixture
def ecr(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Registry]:
    """Yield ECR of a moto account: moto answers its API, and the registry is one on loopback."""
    use_none_of_the_developers(monkeypatch, tmp_path)
    registry = Registry(LOGIN)
    with serving(registry), mock_aws():
        made = mirror.ecr
        monkeypatch.setattr(mirror, "ecr", lambda *args: made(*args) and Client(registry.host, LOGIN))
        yield registry


@pytest.fixture
def stacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the shipped stack files, in the test's working directory."""
    shutil.copytree(ROOT / "stacks", tmp_path / "checkout" / "stacks")
    monkeypatch.chdir(tmp_path / "checkout")
    return tmp_path / "checkout" / "stacks"
