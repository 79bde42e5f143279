"""promtool, built once per machine by the twin's builder."""

from pathlib import Path

import pytest
from rich.console import Console

from twin.host import tools


@pytest.fixture(scope="session")
def promtool(pytestconfig: pytest.Config) -> Path:
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():  # a first build takes minutes and reports progress
        return tools.ensure(["prometheus"], Console(stderr=True))["promtool"]
