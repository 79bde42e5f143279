"""What every test may rely on."""

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _ctrl_c_works() -> Iterator[None]:
    """A shell starts background jobs with SIGINT ignored, children inherit that, and Ctrl-C could not be tested in them."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
