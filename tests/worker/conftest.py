"""One moto and one real Triton for the tests of the worker's processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.serving import models
from tests.system.serving.models import Timing
from tests.system.serving.pods import Pod, running_kubelet
from tests.worker.site import Site, running_site


@pytest.fixture(scope="module")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pod]:
    """Yield a server with the model `echo`, which answers its one number plus 1."""
    repository = tmp_path_factory.mktemp("repository")
    models.write(repository, timing=Timing(batch=8, queue=64))
    with running_kubelet(tmp_path_factory.mktemp("node"), tmp_path_factory.mktemp("triton-backends")) as kubelet:
        yield kubelet.pod({"echo": 1}, repository).start().until_ready()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Yield a separate account for the test.

    A worker that is stopped for longer than the visibility timeout loses its messages to the next receive. A good message
    must not reach the dead-letter queue that way, so it has more receives than kills and pauses can use up.
    """
    with running_site(tmp_path / "site", max_receives=10) as running:
        yield running
