"""Fixture for the real tritonserver of the nvidia-pytriton wheel."""

from pathlib import Path

import pytest

from twin.triton.tritonserver import TritonServer, locate


@pytest.fixture(scope="session")
def real_server(tmp_path_factory: pytest.TempPathFactory) -> TritonServer:
    cache: Path = tmp_path_factory.mktemp("triton-backends")
    return locate(cache)
