"""A stack with its nodes in one zone of a small network. Only its file describes their instance type."""

from __future__ import annotations

from typing import Any

import pytest

from spec.versions import PROJECT
from tests.paths import ROOT
from tests.system.component.engine.recording import Recording
from tests.system.component.engine.stack_run import previewed, required_config

STACK = "dev"
SUBNET = "aws:ec2/subnet:Subnet"


def config() -> dict[str, Any]:
    """Return dev without optional sections."""
    found = required_config(ROOT, STACK)
    found[f"{PROJECT}:models"].pop("release")
    found[f"{PROJECT}:network"] |= {"cidr": "100.64.8.0/22", "zones": 1}
    found[f"{PROJECT}:instanceTypes"] = {"m7i.24xlarge": {"vcpus": 96, "memoryGiB": 384, "maxPods": 100}}
    found[f"{PROJECT}:nodes"]["system"] |= {"instanceTypes": ["m7i.24xlarge"]}
    return found


@pytest.fixture(scope="module")
def preview() -> Recording:
    return previewed(ROOT, STACK, config())


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
