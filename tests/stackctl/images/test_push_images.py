"""`stackctl push-images`: from the folder of `make images`, or a published release, to ECR and into the stack file."""

from __future__ import annotations

import json
from pathlib import Path

import boto3
import pytest

from spec.settings import load_stack_file
from tests.command import Ended, run
from tests.stackctl.images.registry_server import INDEX, OCI, Registry, digest, serving

LAYERS = {"modelctl": (b"shared" * 900, b"modelctl"), "triton-worker": (b"shared" * 900, b"worker")}


def layout(folder: Path, name: str) -> str:
    """Write an image in OCI's image layout; return its digest."""
    config, *layers = (b'{"architecture": "amd64"}', *LAYERS[name])
    parts = [{"digest": digest(part), "size": len(part)} for part in (config, *layers)]
    manifest = json.dumps({"schemaVersion": 2, "config": parts[0], "layers": parts[1:]}).encode()
    blobs = folder / name / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    for content in (config, *layers, manifest):
        (blobs / digest(content).removeprefix("sha256:")).write_bytes(content)
    entry = {"mediaType": OCI, "digest": digest(manifest), "size": len(manifest)}
    (folder / name / "index.json").write_text(json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]}))
    return digest(manifest)


@pytest.fixture
def built(stacks: Path) -> dict[str, str]:
    return {name: layout(stacks.parent / ".images", name) for name in LAYERS}


def push(*arguments: str, stack: str = "prod") -> Ended:
    return run("stackctl", "push-images", "--stack", stack, *arguments)


@pytest.mark.parametrize("stack", ["staging", "prod"])
def test_one_command_pins_every_image_of_a_shipped_stack(
    stack: str,
    ecr: Registry,
    stacks: Path,
    built: dict[str, str],
) -> None:
    file = stacks / f"Pulumi.{stack}.yaml"
    before = file.read_text().splitlines()
    done = push(stack=stack)
    assert done.exit_code == 0, done.output
    modelctl, worker = (f"{ecr.host}/{name}@{built[name]}" for name in ("modelctl", "triton-worker"))
    settings = load_stack_file(file)
    assert settings.models.fetcher and settings.monitoring and settings.worker
    assert (settings.models.fetcher.image, settings.monitoring.parity_image) == (modelctl, modelctl)
    assert settings.worker.image == worker
    left = ["models.signers[0]", "triton.image"] if stack == "prod" else ["triton.image"]
    assert [problem.path for problem in settings.warnings if "is the example" in str(problem)] == left
    assert {len(before) - len(file.read_text().splitlines())} == {0}
    assert {ecr.blobs[digest(layer)] for layers in LAYERS.values() for layer in layers} == {
        *LAYERS["modelctl"],
        *LAYERS["triton-worker"],
    }
    repositories = boto3.client("ecr", region_name="us-west-2").describe_repositories()["repositories"]
    assert {one["repositoryName"]: one["imageTagMutability"] for one in repositories} == {
        "modelctl": "IMMUTABLE",
        "triton-worker": "IMMUTABLE",
    }
    assert [line for line in push(stack=stack).stdout.splitlines() if line.startswith("  part")] == []


def test_the_comparer_has_the_same_image(ecr: Registry, stacks: Path, built: dict[str, str]) -> None:
    file = stacks / "Pulumi.prod.yaml"
    example = f"123456789012.dkr.ecr.us-west-2.amazonaws.com/modelctl@sha256:{'0123456789abcdef' * 4}"
    file.write_text(
        file.read_text().replace("  triton-eks:triton:\n", f"  triton-eks:triton:\n    comparerImage: {example}\n")
    )
    assert push().exit_code == 0
    assert f"    comparerImage: {ecr.host}/modelctl@{built['modelctl']}\n" in file.read_text()


def test_a_published_release_is_copied_byte_by_byte(
    ecr: Registry,
    stacks: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    published = Registry()
    published.authorization = None  # type: ignore[assignment] - anyone may read it
    with serving(published):
        # Both repositories of the fake have the same images: one tag, one image.
        pinned = published.push("v0.1.0", *LAYERS["modelctl"])
        done = push("--source", f"{published.host}/owner/repository:v0.1.0")
    assert done.exit_code == 0, done.output
    assert {request for request in published.requests if "manifests" in request} == {
        "GET /v2/owner/repository/modelctl/manifests/v0.1.0",
        "GET /v2/owner/repository/triton-worker/manifests/v0.1.0",
    }
    worker = load_stack_file(stacks / "Pulumi.prod.yaml").worker
    assert worker and worker.image == f"{ecr.host}/triton-worker@{pinned}"


def test_a_stack_without_such_a_key_is_told_which_there_are(ecr: Registry, stacks: Path, built: dict[str, str]) -> None:
    done = push(stack="dev")
    assert (done.exit_code, done.stderr) == (
        2,
        "error: stacks/Pulumi.dev.yaml: has none of worker.image, models.fetcher.image, models.planBuilder.image, "
        "monitoring.parityImage, triton.comparerImage; write one with an example (docs/images.md)\n",
    )
    assert ecr.requests == []


def test_without_built_images_the_command_that_builds_them_is_named(ecr: Registry, stacks: Path) -> None:
    before = (stacks / "Pulumi.prod.yaml").read_text()
    done = push()
    assert (done.exit_code, done.stderr) == (
        2,
        "error: .images has no image modelctl; run `sudo make images`, or name a published release by --source\n",
    )
    assert (stacks / "Pulumi.prod.yaml").read_text() == before


@pytest.mark.parametrize("part", ["manifest", "layer"])
def test_a_damaged_image_is_not_pushed(part: str, ecr: Registry, stacks: Path, built: dict[str, str]) -> None:
    blobs = stacks.parent / ".images" / "modelctl" / "blobs" / "sha256"
    name = built["modelctl"] if part == "manifest" else digest(LAYERS["modelctl"][1])
    damaged = blobs / name.removeprefix("sha256:")
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    before = (stacks / "Pulumi.prod.yaml").read_text()
    done = push()
    assert done.exit_code == 2
    assert ("has another digest; build" if part == "manifest" else "that are not part sha256:") in done.stderr
    assert not ecr.manifests
    assert (stacks / "Pulumi.prod.yaml").read_text() == before
