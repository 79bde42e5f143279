"""A twin whose servers run without any stack, with its own checkout: the start for a person with an empty account."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ruamel.yaml import YAML

from examples.packaged import build
from stackctl.preflight.checks import spot_role
from tests.system.e2e import account
from tests.system.e2e.conftest import UP_SECONDS, Twin, clone, taken_down
from twin.engine import stack_files
from twin.host import claim
from twin.host.home import TwinHome

# The stacks of `stackctl init` have Karpenter.
_START = (
    "from rich.console import Console; from twin.host import tools; from twin.host.home import TwinHome; "
    "from twin.services.servers import PROGRAMS, Servers; "
    "Servers.start(TwinHome.from_environment(), tools.ensure([*PROGRAMS, 'karpenter'], Console()), Console())"
)


@contextmanager
def servers_alone(folder: Path) -> Iterator[Twin]:
    """Start the servers of a twin in a folder, and take them down at the end of the block."""
    with taken_down(Twin(TwinHome(folder / "home"), clone(folder))) as twin:
        claim.claim(twin.home.path)
        command, environment = [sys.executable, "-c", _START], twin.environment()
        started = subprocess.run(
            command, cwd=twin.checkout, env=environment, capture_output=True, text=True, check=False, timeout=UP_SECONDS
        )
        assert started.returncode == 0, started.stderr
        # `make state` creates it. moto gives a service-linked role of spot.amazonaws.com another name.
        iam = account.client(twin.servers().aws_url, "iam")
        iam.create_role(RoleName=spot_role.NAME, AssumeRolePolicyDocument="{}")
        yield twin


def prepare_models(twin: Twin, stack: str) -> None:
    """Do the work of `make models`, and let a stack serve the models on the twin.

    The stack has no GPUs and uses the twin's S3. The server is older than `model_metrics`.
    """
    build.build(twin.checkout / ".models")
    file, yaml = twin.checkout / "stacks" / f"Pulumi.{stack}.yaml", YAML()
    document = yaml.load(file)
    for wants in document["config"]["triton-eks:models"]["serving"].values():
        wants.pop("gpuMemoryMiB", None)
        wants |= {"device": "cpu", "latencyHistogram": False}
    yaml.dump(document, file)
    stack_files.pin(twin.home, stack, "triton-eks:models.s3Endpoint", twin.servers().aws_url)
