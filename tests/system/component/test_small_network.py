"""A stack with its nodes in one zone of a small network, and nodes of a type that only its own file describes."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import yaml

from infra import app
from spec.settings import load
from spec.settings.model import Document
from spec.versions import PROJECT
from tests.paths import ROOT
from tests.system.component.engine.account import fresh_account, seed_roles
from tests.system.component.engine.program import run
from tests.system.component.engine.recording import Recording
from tests.system.component.engine.stack_run import TODAY
from twin.aws.base.clients import Clients

STACK = "dev"
SUBNET = "aws:ec2/subnet:Subnet"


def config() -> dict[str, Any]:
    """Dev with nothing that it could leave out."""
    found: dict[str, Any] = yaml.safe_load((ROOT / "stacks" / f"Pulumi.{STACK}.yaml").read_text())["config"]
    for name, field in Document.model_fields.items():
        if not field.is_required():
            found.pop(f"{PROJECT}:{name}", None)
    found[f"{PROJECT}:models"].pop("release")
    found[f"{PROJECT}:network"] |= {"cidr": "100.64.8.0/22", "zones": 1}
    found[f"{PROJECT}:instanceTypes"] = {"m7i.24xlarge": {"vcpus": 96, "memoryGiB": 384, "maxPods": 100}}
    found[f"{PROJECT}:nodes"]["system"] |= {"instanceTypes": ["m7i.24xlarge"]}
    return found


@pytest.fixture(scope="module")
def preview() -> Recording:
    settings = load(config(), STACK, today=TODAY)
    with fresh_account(), contextlib.chdir(ROOT):
        clients = Clients(settings.region)
        seed_roles(clients, settings.cluster.admin_role_arns)
        return run(
            lambda: app.deploy(settings),
            project=PROJECT,
            stack=STACK,
            config=config(),
            root=ROOT,
            clients=clients,
            preview=True,
        )


def test_nodes_are_in_one_zone_and_the_control_plane_in_two(preview: Recording) -> None:
    subnets = {found.name: found.checked["cidrBlock"] for found in preview.of_type(SUBNET)}
    assert subnets == {
        "network-private-us-west-2a": "100.64.8.0/24",
        "network-public-us-west-2a": "100.64.9.0/25",
        "network-intra-us-west-2a": "100.64.9.128/25",
        "network-intra-us-west-2b": "100.64.11.128/25",
    }
    assert preview.exports["zones"] == ["us-west-2a"]


def test_nodes_of_a_described_type_have_the_pods_that_their_file_says(preview: Recording) -> None:
    group = preview.one("aws:eks/nodeGroup:NodeGroup", "nodes-system-group").checked
    assert (group["instanceTypes"], group["amiType"]) == (["m7i.24xlarge"], "AL2023_x86_64_STANDARD")
