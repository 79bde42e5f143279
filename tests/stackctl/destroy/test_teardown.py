"""The order of a teardown, its waits, and the conditions before any deletion."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber
from moto.eks.models import eks_backends

from console.pulumi_program import PulumiFailed
from stackctl.account.read_only import Readers
from stackctl.destroy.engine import Engine
from stackctl.destroy.guards import objections
from stackctl.destroy.run import BroughtBack, StillThere, Teardown, until_gone
from stackctl.destroy.state import EVERYTHING, IN_CLUSTER, MAKERS, read
from stackctl.orphans.search import Leftover, Search
from tests.command import Ended, run
from tests.paths import ROOT
from tests.spec.stack_config import settings
from tests.stackctl.conftest import ApiServer
from tests.stackctl.destroy.conftest import CLUSTER, OURS, REGION, Pulumi, client, new_search, resource

NODE_POOL = resource("kubernetes:karpenter.sh/v1:NodePool", "pool")
NODE_CLASS = resource("kubernetes:karpenter.k8s.aws/v1:EC2NodeClass", "class")
GATEWAY = resource("kubernetes:gateway.networking.k8s.io/v1:Gateway", "gateway")
BALANCED = resource("kubernetes:core/v1:Service", "balanced", inputs={"spec": {"type": "LoadBalancer"}})
INNER = resource("kubernetes:core/v1:Service", "inner", inputs={"spec": {"type": "ClusterIP"}})
SCALED = resource("kubernetes:keda.sh/v1alpha1:ScaledObject", "scaled")
RELEASE = resource("kubernetes:helm.sh/v3:Release", "release")
PROVIDER = resource("pulumi:providers:kubernetes", "provider")
VPC = resource("aws:ec2/vpc:Vpc", "network-vpc")
COMPONENT = {"urn": "urn:pulumi:dev::triton-eks::kubernetes:helm.sh/v4:Chart::chart", "type": "kubernetes:helm.sh/v4:Chart"}
ALL = (NODE_POOL, NODE_CLASS, GATEWAY, BALANCED, INNER, SCALED, RELEASE, PROVIDER, VPC, COMPONENT)


def urns(*resources: dict[str, Any]) -> list[str]:
    return sorted(found["urn"] for found in resources)


def test_what_makes_things_in_aws_goes_first_then_the_rest_of_the_clusters_inside() -> None:
    state = read({"resources": list(ALL)})
    assert MAKERS.targets(state) == urns(NODE_POOL, GATEWAY, BALANCED, SCALED)
    assert IN_CLUSTER.targets(state) == urns(NODE_POOL, NODE_CLASS, GATEWAY, BALANCED, INNER, SCALED, RELEASE)
    assert EVERYTHING.targets(state) == urns(*(found for found in ALL if found is not COMPONENT))


def targets(arguments: list[str]) -> list[str]:
    return [arguments[place + 1] for place, word in enumerate(arguments) if word == "--target"]


def teardown(said: list[str], look: Any = new_search) -> Teardown:
    return Teardown(Engine("dev"), look, said.append, seconds=0, poll_seconds=0)


def test_each_phase_destroys_what_it_names_with_its_dependents_and_the_last_one_everything(
    account: str, pulumi: Pulumi
) -> None:
    pulumi.holds(*ALL)
    said: list[str] = []
    assert teardown(said).run() == []
    first, second, last = pulumi.destroys()
    assert targets(first) == urns(NODE_POOL, GATEWAY, BALANCED, SCALED)
    assert targets(second) == urns(NODE_CLASS, INNER, RELEASE)
    assert last == ["destroy", "--stack", "dev", "--yes", "--skip-preview", "--non-interactive"]
    assert ["--target-dependents" in arguments for arguments in (first, second)] == [True, True]
    assert [line.partition(":")[0] for line in said] == [
        "makers (4, and what depends on them)",
        "everything else in the cluster (3, and what depends on them)",
        "everything",
    ]


def test_pulumi_never_forgets_a_cluster_that_it_cannot_reach(account: str, pulumi: Pulumi) -> None:
    teardown([]).run()
    assert pulumi.unreachable() == {"false"}


def test_a_stack_without_kubernetes_objects_goes_at_once(account: str, pulumi: Pulumi) -> None:
    pulumi.holds(VPC)
    teardown([]).run()
    assert [targets(arguments) for arguments in pulumi.destroys()] == [[]]


def test_controllers_stay_until_what_they_made_in_aws_is_gone(account: str, pulumi: Pulumi) -> None:
    """A run that stops there has removed no controller; another run continues when the node is gone."""
    claim = [{"Key": f"kubernetes.io/cluster/{CLUSTER}", "Value": "owned"}, {"Key": "karpenter.sh/nodeclaim", "Value": "g5"}]
    one = {"ImageId": "ami-12345678", "InstanceType": "g5.xlarge", "MinCount": 1, "MaxCount": 1}
    specification = [{"ResourceType": "instance", "Tags": claim}]
    node = client("ec2").run_instances(**one, TagSpecifications=specification)["Instances"][0]["InstanceId"]
    pulumi.holds(*ALL)
    with pytest.raises(StillThere, match=rf"^still there after 0 s: instance {node}\. Nothing that takes them away was "):
        teardown([]).run()
    assert pulumi.state() == [found["urn"] for found in ALL if found not in (NODE_POOL, GATEWAY, BALANCED, SCALED)]

    client("ec2").terminate_instances(InstanceIds=[node])
    teardown([]).run()

    assert pulumi.state() == []


def test_the_ebs_driver_stays_until_the_volumes_of_claims_are_gone(account: str, pulumi: Pulumi) -> None:
    tags = [*OURS, {"Key": "kubernetes.io/created-for/pvc/name", "Value": "db"}]
    made = client("ec2").create_volume(
        AvailabilityZone="us-west-2a", Size=1, TagSpecifications=[{"ResourceType": "volume", "Tags": tags}]
    )
    pulumi.holds(*ALL)
    with pytest.raises(StillThere, match=f"volume {made['VolumeId']}"):
        teardown([]).run()
    assert pulumi.state() == [found["urn"] for found in (PROVIDER, VPC, COMPONENT)]


def test_a_wait_says_what_it_waits_for_once(account: str) -> None:
    answers = iter([["a", "b"], ["a", "b"], ["b"], []])
    said: list[str] = []

    def finder(search: Search) -> Iterator[Leftover]:
        yield from (Leftover("volume", id, "", "", None, "") for id in next(answers))

    until_gone(new_search, [finder], 60, said.append, poll_seconds=0)
    assert said == [
        "  waiting for AWS to delete volume a, volume b ...",
        "  waiting for AWS to delete volume b ...",
    ]


@pytest.mark.parametrize(("back", "phases"), [(GATEWAY, 1), (INNER, 2)])
def test_what_another_up_makes_between_two_phases_stops_the_teardown(
    account: str, pulumi: Pulumi, back: dict[str, Any], phases: int
) -> None:
    pulumi.holds(*ALL)

    def search() -> Search:
        if len(pulumi.destroys()) == phases:
            pulumi.holds(back, VPC)
        return new_search()

    with pytest.raises(BroughtBack) as refused:
        teardown([], search).run()
    assert str(refused.value) == (
        f"somebody has run `pulumi up` for dev meanwhile: 1 of its resources are there again (first: {back['urn']}). Agree "
        "on what is to be; to take the stack away, run the same command again"
    )
    assert len(pulumi.destroys()) == phases
    assert pulumi.state() == [back["urn"], VPC["urn"]]


def test_an_engine_that_fails_says_that_one_can_go_on(account: str, pulumi: Pulumi) -> None:
    pulumi.holds(*ALL)
    pulumi.fails()
    with pytest.raises(PulumiFailed, match=r"What is gone is gone; mend the cause and run the same command again"):
        teardown([]).run()
    assert len(pulumi.destroys()) == 1


def test_a_stack_that_the_backend_does_not_know_is_a_sentence(pulumi: Pulumi) -> None:
    pulumi.knows_no_stack()
    with pytest.raises(PulumiFailed, match=r"^the state of dev cannot be read: error: no stack named 'dev' found$"):
        Engine("dev").resources()


def test_without_pulumi_it_says_where_one_gets_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PulumiFailed, match=r"^there is no pulumi on PATH: "):
        Engine("dev").resources()


def readers() -> Readers:
    return new_search().readers


def test_a_protected_stack_says_which_change_lifts_it(account: str) -> None:
    assert objections(settings(), readers(), []) == [
        "staging is protected: write triton-eks:allowDestroy: true in stacks/Pulumi.staging.yaml, have that reviewed, and "
        "run `pulumi up --stack staging`"
    ]


def test_what_the_last_up_has_protected_needs_another_up(account: str) -> None:
    protected = [{**VPC, "protect": True}, resource("aws:kms/key:Key", "key", protect=True), RELEASE]
    state = read({"resources": [{**one, "urn": one["urn"].replace(":dev:", ":staging:")} for one in protected]})
    assert objections(settings({"allowDestroy": True}), readers(), state) == [
        "the last `up` has protected key, network-vpc: run `pulumi up --stack staging`, which lifts that, as "
        "stacks/Pulumi.staging.yaml allows it now"
    ]


def test_the_clusters_own_deletion_protection_is_asked_of_eks(account: str) -> None:
    """moto has no deletion protection, so a script answers for EKS."""
    one = readers()
    with Stubber(one("eks")) as stubber:
        stubber.add_response(
            "describe_cluster",
            {"cluster": {"name": "triton-staging", "deletionProtection": True}},
            {"name": "triton-staging"},
        )
        assert objections(settings({"allowDestroy": True}), one, []) == [
            "EKS protects triton-staging against deletion: run `pulumi up --stack staging` with "
            "cluster.deletionProtection: false or allowDestroy: true"
        ]


def _in(stack: str, project: str, found: dict[str, Any]) -> dict[str, Any]:
    return {**found, "urn": f"urn:pulumi:{stack}::{project}::{found['type']}::x"}


def test_an_unprotected_stack_may_go(account: str) -> None:
    state = read({"resources": [_in("staging", "triton-eks", VPC)]})
    assert objections(settings({"allowDestroy": True}), readers(), state) == []


@pytest.mark.parametrize(("stack", "project"), [("prod", "triton-eks"), ("staging", "another")])
def test_what_the_state_has_of_another_stack_is_not_destroyed(account: str, stack: str, project: str) -> None:
    state = read({"resources": [_in("staging", "triton-eks", RELEASE), _in(stack, project, VPC)]})
    assert objections(settings({"allowDestroy": True}), readers(), state) == [
        f"the state of staging has 1 resources of another stack or project (first: urn:pulumi:{stack}::{project}::"
        "aws:ec2/vpc:Vpc::x): it was imported or renamed; put it right (`pulumi stack rename`, `pulumi state delete`) "
        "before anything is deleted"
    ]


@pytest.fixture
def let_go(tmp_path: Path) -> Path:
    """Return a checkout in which `dev` may be destroyed."""
    text = (ROOT / "stacks" / "Pulumi.dev.yaml").read_text()
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "Pulumi.dev.yaml").write_text(f"{text}  triton-eks:allowDestroy: true\n")
    return tmp_path


def destroy(*arguments: str, checkout: Path = ROOT, monkeypatch: pytest.MonkeyPatch) -> Ended:
    monkeypatch.chdir(checkout)
    return run("stackctl", "destroy", *arguments)


def test_the_command_deletes_a_stack_that_is_named_twice(
    account: str, pulumi: Pulumi, monkeypatch: pytest.MonkeyPatch, let_go: Path
) -> None:
    kept = resource("aws:s3/bucket:Bucket", "models-bucket", retainOnDelete=True)
    pulumi.holds(VPC, kept)
    done = destroy("dev", "--confirm", "dev", checkout=let_go, monkeypatch=monkeypatch)
    assert done.exit_code == 0, done.output
    assert done.output.splitlines() == [
        "dev: 2 resources of account 123456789012 in us-west-2, cluster triton-dev.",
        "Forgotten and left in AWS: models-bucket.",
        "everything: nodes, add-ons, cluster, network, in the order of their dependencies",
        "dev: nothing is left in AWS",
        "To remove the empty stack from Pulumi's state too: pulumi stack rm dev --preserve-config",
    ]


def test_a_pin_of_a_release_that_has_gone_with_its_bucket_is_told(
    account: str, pulumi: Pulumi, monkeypatch: pytest.MonkeyPatch, let_go: Path
) -> None:
    pulumi.holds(VPC, resource("aws:s3/bucket:Bucket", "models-bucket"))
    done = destroy("dev", "--confirm", "dev", checkout=let_go, monkeypatch=monkeypatch)
    assert done.stdout.splitlines()[-2] == (
        "stacks/Pulumi.dev.yaml pins a release that has gone with its bucket; before another `up`: pulumi config rm --path "
        "triton-eks:models.release --stack dev"
    )


def test_an_engine_that_fails_where_the_api_server_is_not_reached_says_how_it_is(
    account: str, pulumi: Pulumi, monkeypatch: pytest.MonkeyPatch, let_go: Path, api: ApiServer
) -> None:
    role = f"arn:aws:iam::{account}:role/control-plane"
    client("eks").create_cluster(name=CLUSTER, roleArn=role, resourcesVpcConfig={"endpointPublicAccess": True})
    made = eks_backends[account][REGION].clusters[CLUSTER]
    made.endpoint = "https://127.0.0.1:1"
    made.certificate_authority = {"data": base64.b64encode(api.authority).decode()}
    pulumi.holds(NODE_POOL, VPC)
    pulumi.fails()
    done = destroy("dev", "--confirm", "dev", checkout=let_go, monkeypatch=monkeypatch)
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (
        1,
        "The API server 127.0.0.1 does not answer this machine ([Errno 111] Connection refused): add the address of this "
        "machine to cluster.publicAccessCidrs, or go through a node: `python3 -m stackctl tunnel dev -- COMMAND` "
        "(docs/private-api.md)",
    )


def test_an_engine_that_fails_is_told_where_eks_cannot_be_asked_for_the_api_server(
    account: str, pulumi: Pulumi, monkeypatch: pytest.MonkeyPatch, let_go: Path
) -> None:
    def find(*_: object) -> None:
        raise ClientError({"Error": {"Code": "ExpiredTokenException"}}, "DescribeCluster")

    monkeypatch.setattr("stackctl.destroy.command.api_server.find", find)
    pulumi.holds(NODE_POOL, VPC)
    pulumi.fails()
    done = destroy("dev", "--confirm", "dev", checkout=let_go, monkeypatch=monkeypatch)
    assert (done.exit_code, done.stderr.startswith("error: `pulumi destroy")) == (1, True), done.stderr


@pytest.mark.parametrize("confirm", [[], ["--confirm", ""], ["--confirm", "prod"], ["--confirm", "yes"]])
def test_without_the_name_of_the_stack_nothing_is_deleted(
    account: str, pulumi: Pulumi, monkeypatch: pytest.MonkeyPatch, let_go: Path, confirm: list[str]
) -> None:
    pulumi.holds(VPC)
    done = destroy("dev", *confirm, checkout=let_go, monkeypatch=monkeypatch)
    assert (done.exit_code, done.stderr) == (
        2,
        "error: nothing was deleted: to delete dev, say so: make destroy STACK=dev CONFIRM=dev\n",
    )
    assert pulumi.destroys() == []


@pytest.mark.parametrize("stack", ["dev", "staging", "prod"])
def test_a_protected_stack_is_not_deleted_whoever_names_it(
    account: str, pulumi: Pulumi, monkeypatch: pytest.MonkeyPatch, stack: str
) -> None:
    pulumi.holds(VPC)
    done = destroy(stack, "--confirm", stack, monkeypatch=monkeypatch)
    assert done.exit_code == 2
    assert done.stderr == (
        f"error: {stack} is not taken away:\n  {stack} is protected: write triton-eks:allowDestroy: true in "
        f"stacks/Pulumi.{stack}.yaml, have that reviewed, and run `pulumi up --stack {stack}`\n"
    )
    assert pulumi.destroys() == []


def test_in_another_account_nothing_is_deleted(
    account: str, pulumi: Pulumi, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pulumi.holds(VPC)
    (tmp_path / "stacks").mkdir()
    text = (ROOT / "stacks" / "Pulumi.dev.yaml").read_text()
    other = text.replace("123456789012", "999999999999")
    (tmp_path / "stacks" / "Pulumi.dev.yaml").write_text(other)
    done = destroy("dev", "--confirm", "dev", checkout=tmp_path, monkeypatch=monkeypatch)
    assert done.exit_code == 2
    assert "is for 999999999999 (aws:allowedAccountIds); log in to that one" in done.stderr
    assert pulumi.destroys() == []


def test_what_is_left_is_listed_and_the_command_ends_with_1(
    account: str, pulumi: Pulumi, monkeypatch: pytest.MonkeyPatch, let_go: Path
) -> None:
    client("logs").create_log_group(logGroupName="/aws/eks/triton-dev/cluster")
    done = destroy("dev", "--confirm", "dev", checkout=let_go, monkeypatch=monkeypatch)
    assert done.exit_code == 1
    assert "aws logs delete-log-group --log-group-name /aws/eks/triton-dev/cluster --region us-west-2" in done.output


def test_what_is_meant_to_stay_is_no_leftover(account: str, pulumi: Pulumi, monkeypatch: pytest.MonkeyPatch) -> None:
    s3 = client("s3")
    for name in ("models", "forgotten"):
        s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        s3.put_bucket_tagging(Bucket=name, Tagging={"TagSet": OURS})
    pulumi.holds(resource("aws:s3/bucket:Bucket", "models-bucket", id="models", retainOnDelete=True))
    assert [item.id for item in teardown([]).run()] == ["forgotten"]
