"""`stackctl image`: a release's digest, its copy in another registry, and messages if either is unavailable."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from spec.settings import load_stack_file
from stackctl.images import mirror, upstream
from stackctl.images.registry import NoSuchImage, RegistryFailed
from stackctl.images.registry import Registry as Client
from tests.aws_environment import use_none_of_the_developers
from tests.command import Ended, run
from tests.stackctl.images import registry_server
from tests.stackctl.images.registry_server import INDEX, OCI, Registry, digest, serving

PATH = "nvidia/tritonserver"
LAYERS = (b"one" * 1000, b"two" * 700_000)
LOGIN = "Basic " + base64.b64encode(b"AWS:secret").decode()


@pytest.fixture
def nvidia(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """Yield NVIDIA's registry, with a release for two architectures, whose blobs come from a separate store."""
    registry = Registry(elsewhere=True)
    registry.push("26.11-py3", *LAYERS, platforms=("arm64", "amd64"))
    with serving(registry):
        monkeypatch.setattr(upstream, "triton_upstream_tag", lambda version: f"{registry.host}/{PATH}:{version}-py3")
        yield registry


def image(*arguments: str, version: str = "26.11", stack: str = "dev") -> Ended:
    return run("stackctl", "image", version, "--stack", stack, *arguments)


def wanted(nvidia: Registry) -> str:
    return digest(nvidia.manifests["26.11-py3"][1]) and next(
        found for found, (kind, content) in nvidia.manifests.items() if kind == OCI and not content.endswith(b" ")
    )


def test_the_digest_of_the_image_for_the_nodes_is_written(nvidia: Registry, stacks: Path) -> None:
    before = (stacks / "Pulumi.dev.yaml").read_text()
    done = image()
    assert done.exit_code == 0, done.output
    named = f"{nvidia.host}/{PATH}@{wanted(nvidia)}"
    assert load_stack_file(stacks / "Pulumi.dev.yaml").triton.image == named
    assert done.stdout.splitlines()[-1] == f"stacks/Pulumi.dev.yaml: triton.image {named}"
    after = (stacks / "Pulumi.dev.yaml").read_text()
    assert [line for line in before.splitlines() if line not in after.splitlines()] == [
        *[line for line in before.splitlines() if line.startswith("      123456789012.dkr.ecr.")],
    ]
    assert nvidia.tokens == 1
    assert image().stdout.splitlines()[-1] == "stacks/Pulumi.dev.yaml has it already"


def test_a_mirror_has_the_image_byte_by_byte(nvidia: Registry, ecr: Registry, stacks: Path) -> None:
    done = image("--mirror")
    assert done.exit_code == 0, done.output
    assert ecr.manifests["26.11-py3"] == nvidia.manifests[wanted(nvidia)]
    assert {ecr.blobs[digest(layer)] for layer in LAYERS} == set(LAYERS)
    assert load_stack_file(stacks / "Pulumi.dev.yaml").triton.image == f"{ecr.host}/{PATH}@{wanted(nvidia)}"
    [repository] = boto3.client("ecr", region_name="us-west-2").describe_repositories()["repositories"]
    assert (repository["repositoryName"], repository["imageTagMutability"]) == (PATH, "IMMUTABLE")
    assert repository["imageScanningConfiguration"] == {"scanOnPush": True}
    tags = boto3.client("ecr", region_name="us-west-2").list_tags_for_resource(resourceArn=repository["repositoryArn"])[
        "tags"
    ]
    assert {"Key": "project", "Value": "triton-eks"} in tags and {"Key": "owner", "Value": "ml-platform"} in tags


def test_a_copy_that_was_cut_short_goes_on_with_what_is_missing(nvidia: Registry, ecr: Registry, stacks: Path) -> None:
    nvidia.damaged.add(digest(LAYERS[1]))
    failed = image("--mirror")
    assert (failed.exit_code, failed.stderr) == (
        2,
        f"error: {nvidia.host} has sent 2100000 bytes that are not part {digest(LAYERS[1])[:19]}…; run it again\n",
    )
    assert "26.11-py3" not in ecr.manifests and digest(LAYERS[1]) not in ecr.blobs
    nvidia.damaged.clear()
    ecr.requests.clear()
    done = image("--mirror")
    assert done.exit_code == 0, done.output
    assert [line.partition(": ")[2] for line in done.stdout.splitlines() if line.startswith("  part")] == [
        "there already",
        "there already",
        "copied",
    ]
    assert [request for request in ecr.requests if request.startswith("POST")] == [f"POST /v2/{PATH}/blobs/uploads/"]
    ecr.requests.clear()
    assert image("--mirror").exit_code == 0
    assert ecr.requests == [f"GET /v2/{PATH}/manifests/26.11-py3"]


def test_a_part_that_breaks_off_is_told_of_the_registry_that_sends_it(nvidia: Registry, ecr: Registry, stacks: Path) -> None:
    nvidia.cut.add(digest(LAYERS[1]))
    failed = image("--mirror")
    assert (failed.exit_code, failed.stderr.startswith(f"error: {nvidia.host} cannot be asked: peer closed connection")) == (
        2,
        True,
    ), failed.stderr
    assert digest(LAYERS[1]) not in ecr.blobs


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("config: [", "not valid YAML"),
        ("config: {}", "has no triton-eks:triton, where the image belongs"),
        (
            "config: {'aws:region': us-west-2, 'triton-eks:triton': {}, 'triton-eks:tags': a}",
            "config.triton-eks:tags is not a mapping",
        ),
    ],
)
def test_a_file_that_cannot_be_changed_is_a_sentence(
    text: str, said: str, nvidia: Registry, ecr: Registry, stacks: Path
) -> None:
    (stacks / "Pulumi.dev.yaml").write_text(text)
    done = image("--mirror")
    assert (done.exit_code, done.stderr.startswith("error: stacks/Pulumi.dev.yaml:"), said in done.stderr) == (
        2,
        True,
        True,
    ), done.stderr


def test_a_tag_of_another_image_is_not_pushed_over(nvidia: Registry, ecr: Registry, stacks: Path) -> None:
    other = ecr.push("26.11-py3", b"other")
    done = image("--mirror")
    assert done.exit_code == 2
    assert f"/{PATH}:26.11-py3 is another image ({other[:19]}…) than " in done.stderr
    assert "cannot be pushed again; delete it there, if no stack runs it" in done.stderr


def test_a_token_that_expires_is_asked_for_anew(nvidia: Registry, ecr: Registry, stacks: Path) -> None:
    nvidia.expires_after = 4
    done = image("--mirror")
    assert (done.exit_code, nvidia.tokens) == (0, 2), done.output


def test_another_account_is_not_copied_to(nvidia: Registry, ecr: Registry, stacks: Path) -> None:
    file = stacks / "Pulumi.dev.yaml"
    file.write_text(
        file.read_text().replace('aws:allowedAccountIds: ["123456789012"]', 'aws:allowedAccountIds: ["999999999999"]')
    )
    done = image("--mirror")
    assert (done.exit_code, done.stderr.partition(", and ")[2]) == (
        2,
        "stacks/Pulumi.dev.yaml is for 999999999999 (aws:allowedAccountIds); log in to that one\n",
    )


def test_a_file_that_is_wrong_in_its_image_alone_is_mended(nvidia: Registry, ecr: Registry, stacks: Path) -> None:
    file = stacks / "Pulumi.prod.yaml"
    shipped = load_stack_file(file).triton.image
    text = file.read_text().replace(shipped, f"nvcr.io/nvidia/tritonserver@sha256:{'0123456789abcdef' * 4}")
    file.write_text(text)
    assert image("--mirror", stack="prod").exit_code == 0
    assert load_stack_file(file).triton.image == f"{ecr.host}/{PATH}@{wanted(nvidia)}"


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("25.01", "spec/versions.py does not know Triton 25.01; use "),
        ("26.07", " has no image nvidia/tritonserver:26.07-py3; "),
    ],
)
def test_a_release_that_is_none_is_told(version: str, said: str, nvidia: Registry, stacks: Path) -> None:
    done = image(version=version)
    assert (done.exit_code, said in done.stderr) == (2, True), done.stderr


def test_a_registry_that_does_not_answer_is_a_sentence(
    nvidia: Registry, stacks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream, "triton_upstream_tag", lambda version: f"127.0.0.1:1/{PATH}:{version}-py3")
    done = image()
    assert (done.exit_code, done.stderr) == (
        2,
        "error: 127.0.0.1:1 cannot be asked: [Errno 111] Connection refused; check the network and HTTPS_PROXY\n",
    )


def test_an_index_without_the_nodes_platform_is_told(nvidia: Registry) -> None:
    nvidia.push("arm", *LAYERS, platforms=("arm64",))
    with pytest.raises(NoSuchImage, match=r"has arm for other machines than linux/amd64; choose another$"):
        Client(nvidia.host).image(PATH, "arm")


@pytest.mark.parametrize(
    ("kind", "content", "said"),
    [
        ("text/html", b"<html>", "answers for nvidia/tritonserver:x with text/html, which is no image's manifest"),
        (INDEX, b"{", "the registry's answer cannot be used: "),
        (INDEX, b'{"manifests": 1}', "the registry's answer cannot be used: the index.manifests is "),
        (INDEX, b'{"manifests": [{"digest": "a", "platform": "linux"}]}', "the index.manifests[0].platform is text, where "),
        (INDEX, b'{"manifests": [{"digest": 5}]}', "the index.manifests[0].digest is a number, where "),
    ],
)
def test_what_is_no_manifest_is_a_sentence(kind: str, content: bytes, said: str, nvidia: Registry) -> None:
    nvidia.manifests["x"] = (kind, content)
    with pytest.raises(RegistryFailed) as told:
        Client(nvidia.host).image(PATH, "x")
    assert said in str(told.value)


@pytest.mark.parametrize("size", [-1, True, 1.5, "3", None])
def test_a_part_without_a_size_is_told(size: object, nvidia: Registry) -> None:
    part = {"digest": digest(b"x"), "size": size}
    nvidia.manifests["x"] = (OCI, json.dumps({"config": part, "layers": []}).encode())
    client = Client(nvidia.host)
    with pytest.raises(RegistryFailed, match=r"^the registry's answer cannot be used: the manifest"):
        client.blobs(client.image(PATH, "x"))


@pytest.mark.parametrize("token", ["", "\u00e9", "a\nX-Other: b"])
def test_a_token_that_no_header_takes_is_none_and_is_not_printed(
    token: str, nvidia: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry_server, "TOKEN", token)
    with pytest.raises(RegistryFailed, match=r"^127\.0\.0\.1 gives no token for nvidia/tritonserver; does a proxy answer"):
        Client(nvidia.host).image(PATH, "26.11-py3")


def test_a_login_that_is_refused_is_told(ecr: Registry) -> None:
    with pytest.raises(
        RegistryFailed, match=r"does not let nvidia/tritonserver be read or written; check the name and the rights$"
    ):
        Client(ecr.host, "Basic wrong").has_blob(PATH, digest(b"x"))


def test_the_accounts_registry_is_the_one_that_its_token_is_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_none_of_the_developers(monkeypatch, tmp_path)
    with mock_aws():
        first, again = (mirror.ecr("us-west-2", PATH, {}) for _ in range(2))
    assert (first.host, first.url) == (again.host, "https://123456789012.dkr.ecr.us-west-2.amazonaws.com")
