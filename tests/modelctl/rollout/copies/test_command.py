"""Mistakes in the options of `modelctl compare`, reported before it listens."""

from __future__ import annotations

import pytest

from tests.command import run

COMMAND = {
    "--release-http": "http://blue:8000",
    "--release-grpc": "dns:///blue:8001",
    "--candidate-http": "http://green:8000",
    "--candidate-grpc": "dns:///green:8001",
    "--tolerance": "a=1e-5",
}


@pytest.mark.parametrize(("protocol", "address"), [("http", "http://blue:8000"), ("grpc", "dns:///blue:8001")])
def test_a_release_is_not_compared_with_itself(protocol: str, address: str) -> None:
    words = [word for option in {**COMMAND, f"--candidate-{protocol}": address}.items() for word in option]
    done = run("modelctl", "compare", *words)
    assert (done.exit_code, done.stderr) == (
        2,
        f"error: --release-{protocol} and --candidate-{protocol} are both {address!r}, so a release would be compared with "
        "itself; give the candidate's own address\n",
    )


def test_a_model_has_one_tolerance() -> None:
    words = [word for option in COMMAND.items() for word in option]
    done = run("modelctl", "compare", *words, "--tolerance", "b=0", "--tolerance", "a=0.5")
    assert (done.exit_code, done.stderr) == (2, "error: --tolerance: a has two tolerances, 1e-05 and 0.5; give one\n")
