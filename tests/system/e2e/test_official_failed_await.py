"""An `up` whose wait failed, with the official Kubernetes provider: the same tests as for the twin's provider."""

import pytest
from rich.console import Console

from tests.system.e2e.test_failed_await import (
    stack,
    test_what_became_ready_meanwhile_is_found_so_by_the_next_up,
    test_what_was_not_ready_is_waited_for_again_until_it_is_mended,
)
from twin.host import tools

__all__ = [
    "stack",
    "test_what_became_ready_meanwhile_is_found_so_by_the_next_up",
    "test_what_was_not_ready_is_waited_for_again_until_it_is_mended",
]


@pytest.fixture(autouse=True)
def official(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make engines use the official provider."""
    tools.ensure(["pulumi-kubernetes"], Console(stderr=True))
    monkeypatch.setenv("TWIN_OFFICIAL_KUBERNETES", "1")
