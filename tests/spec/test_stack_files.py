"""This repository's files: every stack is valid, and the project file leaves checks to the settings."""

import hashlib
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from spec import versions
from spec.settings import load_stack_file
from spec.stack_names import names
from tests.paths import ROOT
from tests.spec.stack_config import TODAY

STACKS = ("local", "dev", "staging", "prod")
ESTIMATED = [f"models.serving.text_{step}.gpuMemoryMiB" for step in ("detection", "direction", "recognition")]
"""Of the steps of dev's pipeline, which has one entry."""


def stack_path(stack: str) -> Path:
    return ROOT / "stacks" / f"Pulumi.{stack}.yaml"


@pytest.mark.parametrize("stack", STACKS)
def test_a_shipped_stack_is_valid_and_warns_of_little_beside_the_example_digest(stack: str) -> None:
    read = load_stack_file(stack_path(stack), today=TODAY)
    assert read.environment == stack
    with_own_images = ["triton.image", "models.fetcher.image", "monitoring.parityImage", "worker.image"]
    expected = {
        "local": [],
        "dev": ["triton.image", *ESTIMATED],
        "prod": ["models.signers[0]", *with_own_images],
    }
    assert [problem.path for problem in read.warnings] == expected.get(stack, with_own_images)


def test_every_other_stack_that_somebody_has_added_is_valid_too() -> None:
    assert [load_stack_file(stack_path(stack), today=TODAY).stack for stack in names(ROOT)] == names(ROOT)
    assert {path.name for path in (ROOT / "stacks").iterdir()} == {stack_path(stack).name for stack in names(ROOT)}


def test_the_vpcs_of_the_shipped_stacks_can_be_peered() -> None:
    ranges = [load_stack_file(stack_path(stack), today=TODAY).network.cidr for stack in STACKS]
    assert not any(one.overlaps(other) for one in ranges for other in ranges if one is not other)


def test_only_local_leaves_the_release_to_the_twin() -> None:
    releases = {stack: load_stack_file(stack_path(stack), today=TODAY).models.release for stack in STACKS}
    assert releases.pop("local") is None
    assert all(releases.values())


@pytest.mark.parametrize("stack", STACKS)
def test_the_example_digest_is_the_one_that_versions_documents(stack: str) -> None:
    triton = load_stack_file(stack_path(stack), today=TODAY).triton
    assert triton.version == versions.DEFAULT_TRITON_VERSION
    assert triton.image.endswith("@" + versions.example_digest(triton.version))


def test_nobody_has_the_private_key_of_the_example_signer() -> None:
    """Its x is a hash, so it was not computed from a private key."""
    (signer,) = load_stack_file(stack_path("prod"), today=TODAY).models.signers
    key = load_pem_public_key(signer.encode())
    assert isinstance(key, EllipticCurvePublicKey)
    assert key.public_numbers().x.to_bytes(32, "big") == hashlib.sha256(b"models.signers").digest()


def test_the_project_leaves_every_check_of_a_stack_file_to_the_settings() -> None:
    """Otherwise the engine refuses a stack without a declared key, before the program can report other mistakes."""
    project: dict[str, Any] = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())
    assert project["name"] == versions.PROJECT
    assert project["stackConfigDir"] == "stacks"
    assert not project.keys() & {"main", "config"}


def test_pins_look_like_what_aws_and_helm_publish() -> None:
    for version, pins in versions.KUBERNETES.items():
        assert version in versions.KUBERNETES_SUPPORT
        assert pins.ami_release.startswith(version + ".")
        assert re.fullmatch(r"\d+\.\d+\.\d+-20\d{6}", pins.ami_release)
        assert pins.addons.keys() == {
            *("vpc-cni", "coredns", "kube-proxy", "aws-ebs-csi-driver", "metrics-server", "eks-pod-identity-agent"),
            *("aws-mountpoint-s3-csi-driver", "aws-fsx-csi-driver", "eks-node-monitoring-agent"),
            "amazon-cloudwatch-observability",
        }
        assert all(re.fullmatch(r"v\d+\.\d+\.\d+-eksbuild\.\d+", addon) for addon in pins.addons.values())
        assert pins.addons["kube-proxy"].startswith(f"v{version}.")


def test_drivers_are_ordered_as_numbers() -> None:
    assert versions.driver_key("580.65.06") < versions.driver_key("580.159.03")
