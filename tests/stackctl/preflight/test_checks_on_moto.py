"""Checks whose operations moto has: zones and offerings, images, subnets, the model release."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from moto.eks.models import eks_backends

from spec.release_signature import bundle
from spec.versions import example_digest
from stackctl.preflight.checks import (
    api_access,
    images,
    instance_offerings,
    model_release,
    spot_role,
    subnet_addresses,
)
from stackctl.preflight.checks.check import Check, Status, Subject, findings
from tests.spec.stack_config import DIGEST, ECR, REMOVED
from tests.spec.test_blue_green import BLUE_GREEN
from tests.spec.test_stack_mistakes_monitoring import SECTION as MONITORING
from tests.stackctl.conftest import ApiServer

REGION = "us-west-2"
BUCKET = "triton-models-staging-123456789012-us-west-2"
OURS = [{"Key": "project", "Value": "triton-eks"}, {"Key": "environment", "Value": "staging"}]
G5_NOT_IN_D = {"network.zones": ["us-west-2a", "us-west-2d"]}


def results(check: Any, subject: Subject) -> list[tuple[Status, str]]:
    return [(finding.status, finding.message) for finding in check.check(subject)]


def test_types_that_every_zone_offers_are_ok(subject: Callable[..., Subject]) -> None:
    one = subject({"network.zones": ["us-west-2a", "us-west-2b"]})
    assert results(instance_offerings, one) == [
        (
            Status.OK,
            "g5.xlarge, m7i.xlarge, p4d.24xlarge are offered in us-west-2a, us-west-2b; that is no promise of capacity",
        )
    ]


def test_a_type_that_a_zone_lacks_fails_and_says_where_it_is_offered(subject: Callable[..., Subject]) -> None:
    (finding,) = instance_offerings.check(subject(G5_NOT_IN_D))
    assert finding.status is Status.FAIL
    assert finding.message == (
        "network.zones[1]: us-west-2d does not offer g5.xlarge; g5.xlarge is offered in us-west-2a, us-west-2b, us-west-2c"
    )
    assert finding.remedy.startswith("choose other zones or types in stacks/Pulumi.staging.yaml")


def pushed(repository: str) -> str:
    """Create an image in a new repository of the account's registry; return its digest."""
    ecr = boto3.client("ecr", region_name=REGION)
    ecr.create_repository(repositoryName=repository)
    layer = {"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", "size": 1, "digest": "sha256:" + "1" * 64}
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
        "config": {**layer, "mediaType": "application/vnd.docker.container.image.v1+json"},
        "layers": [layer],
    }
    image = ecr.put_image(repositoryName=repository, imageManifest=json.dumps(manifest), imageTag="26.07-py3")
    return str(image["image"]["imageId"]["imageDigest"])


def test_an_image_that_is_in_ecr_by_its_digest_is_ok(subject: Callable[..., Subject]) -> None:
    digest = pushed("nvidia/tritonserver")
    one = subject({"triton.image": f"{ECR}/nvidia/tritonserver@{digest}"})
    assert results(images, one) == [(Status.OK, f"triton.image: {ECR}/nvidia/tritonserver has {digest[:19]}…")]


def test_a_digest_that_the_repository_lacks_fails(subject: Callable[..., Subject]) -> None:
    pushed("nvidia/tritonserver")
    example = example_digest("26.07")
    (finding,) = images.check(subject({"triton.image": f"{ECR}/nvidia/tritonserver@{example}"}))
    assert (finding.status, finding.message) == (
        Status.FAIL,
        f"triton.image: {ECR}/nvidia/tritonserver has no image {example[:19]}…",
    )
    assert finding.remedy == (
        "python3 -m stackctl image 26.07 --stack staging --mirror copies it there and pins it "
        "(the digest in the stack file is the example that no registry has)"
    )


def test_a_repository_that_does_not_exist_fails_with_the_command_that_makes_it(subject: Callable[..., Subject]) -> None:
    (finding,) = images.check(subject())
    assert (finding.status, finding.message) == (
        Status.FAIL,
        "triton.image: account 123456789012 has no repository nvidia/tritonserver in us-west-2",
    )
    assert finding.remedy.startswith("python3 -m stackctl image 26.07 --stack staging --mirror copies it there")


def test_the_workers_image_is_looked_for_too(subject: Callable[..., Subject]) -> None:
    worker = {
        "image": f"{ECR}/triton-worker@sha256:{'0123456789abcdef' * 4}",
        "autoscaler": "none",
        "replicas": 1,
        "cpu": "1",
        "memoryMiB": 512,
        "longestRequestSeconds": 10,
        "oldMessageMinutes": 15,
        "resultDays": 1,
    }
    (_, finding) = images.check(subject({"worker": worker}))
    assert finding.message == "worker.image: account 123456789012 has no repository triton-worker in us-west-2"
    assert finding.remedy == ("`sudo make images` and `python3 -m stackctl push-images --stack staging`, which pins it")


_MODELCTL = f"{ECR}/modelctl@sha256:{'0123456789abcdef' * 4}"


@pytest.mark.parametrize(
    ("key", "changes"),
    [
        ("models.fetcher.image", {"models.access": "local", "models.fetcher": {"image": _MODELCTL}}),
        ("monitoring.parityImage", {"monitoring": {**MONITORING, "parityImage": _MODELCTL}}),
        ("triton.comparerImage", {**BLUE_GREEN, "triton.comparerImage": _MODELCTL}),
    ],
)
def test_the_image_of_modelctl_is_looked_for_wherever_it_runs(
    subject: Callable[..., Subject], key: str, changes: dict[str, Any]
) -> None:
    (_, finding) = images.check(subject(changes))
    assert finding.message == f"{key}: account 123456789012 has no repository modelctl in us-west-2"


def test_another_registry_cannot_be_asked(subject: Callable[..., Subject]) -> None:
    one = subject({"triton.image": f"ghcr.io/acme/tritonserver@sha256:{'0123456789abcdef' * 4}"})
    assert results(images, one) == [
        (
            Status.UNKNOWN,
            "triton.image: ghcr.io/acme/tritonserver is not in ECR, which is the only registry that can be asked here",
        )
    ]


def test_before_the_vpc_is_there_the_plan_counts(subject: Callable[..., Subject]) -> None:
    assert results(subnet_addresses, subject()) == [
        (Status.OK, "planned: 10.30.0.0/16 has room for every node group at its max")
    ]


def private_subnet(cidr: str, zone: str = "us-west-2a") -> str:
    """Create a subnet like the program's."""
    ec2 = boto3.client("ec2", region_name=REGION)
    vpc = ec2.create_vpc(CidrBlock=cidr)["Vpc"]["VpcId"]
    subnet = str(ec2.create_subnet(VpcId=vpc, CidrBlock=cidr, AvailabilityZone=zone)["Subnet"]["SubnetId"])
    ec2.create_tags(Resources=[subnet], Tags=[*OURS, {"Key": "kubernetes.io/role/internal-elb", "Value": "1"}])
    return subnet


def test_a_private_subnet_with_room_for_every_node_is_ok(subject: Callable[..., Subject]) -> None:
    subnet = private_subnet("10.30.0.0/18")
    ((status, message),) = results(subnet_addresses, subject())
    assert status is Status.OK
    assert message.startswith(f"{subnet} (us-west-2a, 10.30.0.0/18): 16379 addresses free; nodes still to come take up to ")


def test_a_private_subnet_that_others_have_filled_is_told(subject: Callable[..., Subject]) -> None:
    # One node takes 130 addresses (7 blocks of 16 for 110 pods, one in advance, 2 interfaces), a p4d.24xlarge 274.
    private_subnet("10.30.0.0/24", "us-west-2a")
    private_subnet("10.31.0.0/22", "us-west-2b")
    first, second = results(subnet_addresses, subject())
    assert (first[0], first[1].partition("free, ")[2]) == (Status.FAIL, "and the next node takes up to 274")
    assert (second[0], second[1].partition("free, ")[2].rstrip("0123456789")) == (
        Status.WARN,
        "and nodes still to come take up to ",
    )


def test_a_strangers_subnet_is_none_of_ours(subject: Callable[..., Subject]) -> None:
    subnet = private_subnet("10.30.0.0/28")
    ec2 = boto3.client("ec2", region_name=REGION)
    ec2.create_tags(Resources=[subnet], Tags=[{"Key": "environment", "Value": "prod"}])
    ((status, message),) = results(subnet_addresses, subject())
    assert (status, message.partition(":")[0]) == (Status.OK, "planned")


def bucket() -> Any:
    s3 = boto3.client("s3", region_name=REGION)
    s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    return s3


def test_a_release_with_its_manifest_in_the_bucket_is_ok(subject: Callable[..., Subject]) -> None:
    bucket().put_object(Bucket=BUCKET, Key=f"releases/3f2a9c1b7d04{52 * '0'}/manifest.json", Body=b"{}")
    assert results(model_release, subject()) == [(Status.OK, f"3f2a9c1b7d04{52 * '0'} is in {BUCKET}")]


def test_a_release_that_is_not_in_the_bucket_fails_with_the_command_that_makes_it(subject: Callable[..., Subject]) -> None:
    bucket()
    (finding,) = model_release.check(subject())
    assert (finding.status, finding.message, finding.remedy) == (
        Status.FAIL,
        f"release 3f2a9c1b7d04 is pinned, and s3://{BUCKET}/releases/3f2a9c1b7d04{52 * '0'}/manifest.json is not there",
        f"python3 -m modelctl release MODELS_DIR --bucket {BUCKET} --pin stacks/Pulumi.staging.yaml",
    )


def test_a_release_is_ok_only_with_a_signature_of_the_stack(subject: Callable[..., Subject]) -> None:
    release_id, key = f"3f2a9c1b7d04{52 * '0'}", ec.generate_private_key(ec.SECP256R1())
    pem = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()
    modelctl = {"image": f"{ECR}/modelctl@{DIGEST}"}
    signed = subject({"models.signers": [pem], "models.access": "local", "models.fetcher": modelctl})
    manifest = json.dumps({"id": release_id, "objects": {}}).encode()
    folder = f"releases/{release_id}"
    s3 = bucket()
    s3.put_object(Bucket=BUCKET, Key=f"{folder}/manifest.json", Body=manifest)
    remedy = "a signer of models.signers runs `modelctl release MODELS_DIR --bucket BUCKET --sign KEY` on its models"
    (finding,) = model_release.check(signed)
    unsigned = f"release {release_id} has no signature, and models.signers requires one"
    assert (finding.status, finding.message, finding.remedy) == (Status.FAIL, unsigned, remedy)
    signature = bundle(release_id, manifest, lambda data: key.sign(data, ec.ECDSA(hashes.SHA256())), key.public_key())
    s3.put_object(Bucket=BUCKET, Key=f"{folder}/manifest.sig", Body=signature)
    assert results(model_release, signed) == [(Status.OK, f"{release_id} is in {BUCKET}, signed by one of models.signers")]
    s3.put_object(Bucket=BUCKET, Key=f"{folder}/manifest.json", Body=manifest + b" ")
    (finding,) = model_release.check(signed)
    assert (finding.status, finding.remedy) == (Status.FAIL, f"delete {folder}/manifest.sig, then {remedy}")
    assert "(it signs another release)" in finding.message


def test_a_release_without_a_bucket_fails_and_says_what_goes_first(subject: Callable[..., Subject]) -> None:
    (finding,) = model_release.check(subject())
    assert (finding.status, finding.message) == (
        Status.FAIL,
        f"release 3f2a9c1b7d04 is pinned, and there is no bucket {BUCKET} yet",
    )
    assert finding.remedy.startswith(
        "pulumi config rm --path triton-eks:models.release --stack staging; after the first `up`"
    )


def test_a_stack_without_a_release_has_nothing_to_look_for(subject: Callable[..., Subject]) -> None:
    assert results(model_release, subject({"models.release": REMOVED})) == [
        (Status.OK, "the stack pins none yet: the platform comes up without Triton")
    ]


KARPENTER = {"nodes.autoscaler": "karpenter", "gpu.pools[0].min": 0, "gpu.pools[0].desired": 0, "triton.replicas": 4}


def test_karpenter_on_spot_needs_the_role_of_spot_instances(subject: Callable[..., Subject]) -> None:
    one = subject({**KARPENTER, "gpu.pools[0].capacity": "spot"})
    (finding,) = spot_role.check(one)
    assert (finding.status, finding.message, finding.remedy) == (
        Status.FAIL,
        "the account has no role AWSServiceRoleForEC2Spot: Karpenter gets no spot instance for pool g5",
        "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com, or `pulumi up` in bootstrap/",
    )
    boto3.client("iam").create_role(RoleName="AWSServiceRoleForEC2Spot", AssumeRolePolicyDocument="{}")
    assert results(spot_role, one) == [(Status.OK, "the account has AWSServiceRoleForEC2Spot")]


@pytest.mark.parametrize("changes", [{}, KARPENTER, {"gpu.pools[0].capacity": "spot"}])
def test_nobody_else_needs_it(subject: Callable[..., Subject], changes: dict[str, Any]) -> None:
    assert results(spot_role, subject(changes)) == [(Status.OK, "not needed: Karpenter starts no spot instances")]


def test_a_bucket_that_may_not_be_read_is_unknown(subject: Callable[..., Subject], answers: Callable[..., Stubber]) -> None:
    one = subject()
    answers(one, "s3").add_client_error("head_bucket", "403", http_status_code=403)
    (finding,) = findings(Check("model release", model_release.check), one)
    assert (finding.status, finding.message) == (Status.UNKNOWN, "needs s3:ListBucket")


@pytest.mark.parametrize("page", ["<!doctype html>\n<html lang=en>\n<title>500</title>", "  <HTML><body>Bad gateway"])
def test_a_page_of_html_is_one_short_line(subject: Callable[..., Subject], page: str) -> None:
    def ask(one: Subject) -> Any:
        raise ClientError({"Error": {"Code": "500", "Message": page}}, "DescribeVpcs")

    (finding,) = findings(Check("x", ask), subject())
    said = "a page of HTML: a proxy or a test server answers, not AWS"
    assert finding.message == f"AWS answered ec2:DescribeVpcs with 500: {said}"


def test_a_long_answer_is_cut_and_stands_on_one_line(subject: Callable[..., Subject]) -> None:
    def ask(one: Subject) -> Any:
        raise ClientError({"Error": {"Code": "Odd", "Message": "so\nlong " + "x" * 400}}, "DescribeVpcs")

    (finding,) = findings(Check("x", ask), subject())
    assert finding.message == f"AWS answered ec2:DescribeVpcs with Odd: so long {'x' * 292} …"


def test_what_aws_answers_otherwise_is_told(subject: Callable[..., Subject]) -> None:
    def ask(one: Subject) -> Any:
        raise ClientError({"Error": {"Code": "InternalError", "Message": "try later"}}, "DescribeVpcs")

    (finding,) = findings(Check("x", ask), subject())
    assert (finding.status, finding.message) == (
        Status.UNKNOWN,
        "AWS answered ec2:DescribeVpcs with InternalError: try later",
    )


def test_who_reaches_the_api_server_is_said_before_there_is_one(subject: Callable[..., Subject]) -> None:
    assert results(api_access, subject()) == [
        (Status.OK, "reached by the nodes, 10.30.0.0/16 inside of the VPC or connected to it")
    ]
    (finding,) = api_access.check(subject({"cluster.apiAccess": REMOVED}))
    assert (finding.status, finding.message, finding.remedy) == (
        Status.WARN,
        "reached by the nodes",
        "give cluster.apiAccess, or go through a node: "
        "`python3 -m stackctl tunnel staging -- COMMAND` (docs/private-api.md)",
    )


def test_an_api_server_that_this_machine_does_not_reach_is_a_warning(
    subject: Callable[..., Subject], account: str, api: ApiServer
) -> None:
    boto3.client("eks", region_name=REGION).create_cluster(
        name="triton-staging", roleArn=f"arn:aws:iam::{account}:role/control-plane", resourcesVpcConfig={}
    )
    made = eks_backends[account][REGION].clusters["triton-staging"]
    made.endpoint = "https://127.0.0.1:1"
    made.certificate_authority = {"data": base64.b64encode(api.authority).decode()}
    _, finding = api_access.check(subject())
    assert (finding.status, finding.message) == (
        Status.WARN,
        "127.0.0.1 does not answer this machine ([Errno 111] Connection refused); `pulumi up` from here would end there",
    )
    assert finding.remedy.startswith("come from a network or security group of cluster.apiAccess, or go through a node: ")
