"""docs/aws.md on the twin: runs its commands unchanged, from a checkout without a stack to an inference and back.

`make state` is tested with recorders (tests/bootstrap/test_state_target.py): the twin's shell has a place for the state.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import pytest

from tests.system.e2e import account
from tests.system.e2e.conftest import Twin
from tests.system.e2e.newcomer import prepare_models, servers_alone
from twin.host.home import REPOSITORY

# Karpenter may have to be built first.
pytestmark = pytest.mark.timeout(5400)

STACK = "first"
IMAGE = f"nvcr.io/nvidia/tritonserver@sha256:{'0123456789abcdef' * 4}"
FLAGS = {
    f"python3 -m stackctl init {STACK}": f"--api-from 198.51.100.7/32 --cost-center trials --image {IMAGE}",
    f"python3 -m stackctl preflight {STACK}": "",
    f"pulumi up --stack {STACK}": "--yes --skip-preview --non-interactive",
    f"python3 -m stackctl first-inference {STACK}": "--yes",
    f"python3 -m stackctl destroy {STACK}": f"--confirm {STACK}",
}
"""Options for a run without a person who answers questions."""
_BLOCK = re.compile(r"^```sh first-inference\n(.*?)^```$", re.M | re.S)


def commands() -> list[str]:
    """Return the commands of the page, in order, without comments."""
    page = (REPOSITORY / "docs" / "aws.md").read_text()
    lines = [line.partition("#")[0].strip() for block in _BLOCK.findall(page) for line in block.splitlines()]
    return [line for line in lines if line]


def test_the_page_needs_five_commands_and_one_to_end_it() -> None:
    assert commands() == ["make state REGION=us-west-2", *FLAGS]


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twin]:
    """Return a twin whose servers run without any stack, with its own checkout."""
    with servers_alone(tmp_path_factory.mktemp("newcomer")) as twin:
        yield twin


def follow(twin: Twin, command: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the page, with the options for a run without a person."""
    return twin.shell(f"{command} {FLAGS[command]} </dev/null")


def test_the_page_leads_to_an_answer_and_to_an_empty_account(newcomer: Twin) -> None:
    init, preflight, up, first_inference, destroy = FLAGS
    file = newcomer.checkout / "stacks" / f"Pulumi.{STACK}.yaml"

    made = follow(newcomer, init)
    assert made.returncode == 0, made.stderr
    assert made.stdout.splitlines()[-1] == f"next: {preflight}"
    again = follow(newcomer, init)
    assert (again.returncode, "is there already, and is left as it is" in again.stderr) == (2, True)

    asked = follow(newcomer, preflight)
    failed = {line.split(" (fail)")[0].strip() for line in asked.stdout.splitlines() if " (fail): " in line}
    assert failed == set(), asked.stdout

    prepare_models(newcomer, STACK)

    early = follow(newcomer, first_inference)
    assert (early.returncode, early.stderr.partition(" first,")[0]) == (
        2,
        f"error: {STACK} is not up yet: `pulumi up --stack {STACK}`",
    )
    brought_up = follow(newcomer, up)
    assert brought_up.returncode == 0, brought_up.stdout + brought_up.stderr

    answered = follow(newcomer, first_inference)
    assert answered.returncode == 0, answered.stdout + answered.stderr
    assert re.search(
        r"^text_in_picture answered TEXT \['EKS'\], SCORE \[.+\], BOX \[.+\] in [\d.]+ ms "
        r"\(pod triton-\S+, by the API server\)$",
        answered.stdout,
        re.M,
    ), answered.stdout
    assert re.search(r"^price +about 0\.\d\d US\$ an hour, \d\d\.\d\d a day ", answered.stdout, re.M), answered.stdout

    pinned = file.read_bytes()
    repeated = follow(newcomer, first_inference)
    assert (repeated.returncode, file.read_bytes()) == (0, pinned), repeated.stderr
    release = re.search(rf"^{STACK} serves release ([0-9a-f]{{64}})$", repeated.stdout, re.M)
    assert release is not None and release[1].encode() in pinned
    assert "Resources:" not in repeated.stdout

    gone = follow(newcomer, destroy)
    assert gone.returncode == 0, gone.stdout + gone.stderr
    assert f"{STACK}: nothing is left in AWS" in gone.stdout.splitlines()
    assert account.leftovers(newcomer.servers().aws_url) == {}
