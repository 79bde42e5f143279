"""Record-only types: created, read, changed and deleted by their row, with existing references."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.twin.aws.world import ACCESS_ENTRY, ADDON, POD_IDENTITY, World, kubernetes, network, roles
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError
from twin.aws.base.strict import StrictError

ALARM = "aws:cloudwatch/metricAlarm:MetricAlarm"
BUDGET = "aws:budgets/budget:Budget"
CERTIFICATE = "aws:acm/certificate:Certificate"
FILE_SYSTEM = "aws:fsx/lustreFileSystem:LustreFileSystem"
LINK = "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation"
PROJECT = "aws:codebuild/project:Project"
RECORD = "aws:route53/record:Record"
VALIDATION = "aws:acm/certificateValidation:CertificateValidation"
WEBHOOK = "aws:codebuild/webhook:Webhook"


@pytest.fixture(scope="module")
def world(clients: Clients) -> Iterator[World]:
    world = World(clients)
    network(world)
    roles(world)
    kubernetes(world)
    yield world


def alarm(**changes: Any) -> dict[str, Any]:
    return {"name": "a", "comparisonOperator": "GreaterThanThreshold", "evaluationPeriods": 1, "tags": {"a": "b"}, **changes}


def test_a_row_fills_id_and_outputs_and_its_record_follows_a_change(world: World) -> None:
    made = world.make(ALARM, "alarm", **alarm())
    arn = "arn:aws:cloudwatch:us-west-2:123456789012:alarm:a"
    defaults = {"actionsEnabled": True, "treatMissingData": "missing"}
    assert (made.id, made.outputs) == ("a", {**defaults, **alarm(), "tagsAll": {"a": "b"}, "arn": arn})
    changed = {**made.outputs, "evaluationPeriods": 3}
    assert world.update("alarm", evaluationPeriods=3).outputs == changed
    assert World(Clients("us-west-2"), world.made).read("alarm") == changed
    world.delete("alarm")
    assert world.read("alarm") is None


def test_a_value_is_refused_that_botocores_model_does_not_have(world: World) -> None:
    with pytest.raises(StrictError, match=r"^PutMetricAlarm: ComparisonOperator: 'Above' is not one of "):
        world.make(ALARM, "bad", **alarm(comparisonOperator="Above"))
    filters = [{"filters": [{"type": "ACTOR_ID", "pattern": "x"}]}]
    with pytest.raises(StrictError, match=r"^CreateWebhook: filterGroups\[0\]\[0\]\.type: 'ACTOR_ID' is not one of "):
        world.make(WEBHOOK, "bad", projectName="runner", filterGroups=filters)


def test_a_second_one_is_refused_where_the_service_has_an_error_for_it(world: World) -> None:
    budget = {"name": "b", "budgetType": "COST", "timeUnit": "MONTHLY", "limitAmount": "1", "limitUnit": "USD"}
    world.make(BUDGET, "budget", **budget)
    with pytest.raises(HandlerError, match=r"^123456789012:b: DuplicateRecordException$"):
        world.make(BUDGET, "again", **budget)


@pytest.mark.parametrize(
    ("token", "inputs", "said"),
    [
        (
            ALARM,
            alarm(alarmActions=["arn:aws:sns:us-west-2:123456789012:nobody"]),
            "MetricAlarm: alarmActions: the topic arn:aws:sns:us-west-2:123456789012:nobody does not exist",
        ),
        (WEBHOOK, {"projectName": "none"}, "Webhook: projectName: the Project none does not exist"),
        (
            POD_IDENTITY,
            {"clusterName": "none", "namespace": "n", "serviceAccount": "s", "roleArn": "arn"},
            "PodIdentityAssociation: clusterName: the cluster none does not exist",
        ),
        (
            RECORD,
            {"zoneId": "Z0", "name": "a.example.com", "type": "A", "ttl": 60, "records": ["192.0.2.1"]},
            "Record: zoneId: the hosted zone Z0 does not exist",
        ),
    ],
)
def test_what_an_input_names_exists(world: World, token: str, inputs: dict[str, Any], said: str) -> None:
    with pytest.raises(HandlerError) as refused:
        world.make(token, "bad", **inputs)
    assert str(refused.value) == said


def test_a_role_trusts_the_service_that_it_is_given_to(world: World) -> None:
    role = world.arn("node-role")
    with pytest.raises(HandlerError, match=r"does not allow pods\.eks\.amazonaws\.com to assume it"):
        world.make(POD_IDENTITY, "bad", clusterName="c", namespace="n", serviceAccount="s", roleArn=role)


def test_a_certificate_is_valid_once_its_record_exists(world: World) -> None:
    zone = world.clients("route53").create_hosted_zone(Name="example.com", CallerReference="1")["HostedZone"]["Id"]
    certificate = world.make(CERTIFICATE, "certificate", domainName="a.example.com", validationMethod="DNS")
    (proof,) = certificate.outputs["domainValidationOptions"]
    validation = {"certificateArn": certificate.id, "validationRecordFqdns": [proof["resourceRecordName"]]}
    with pytest.raises(HandlerError, match=f"the Record {proof['resourceRecordName']} does not exist"):
        world.make(VALIDATION, "early", **validation)
    values = {"type": proof["resourceRecordType"], "records": [proof["resourceRecordValue"]], "ttl": 60}
    world.make(RECORD, "proof", zoneId=zone.rpartition("/")[2], name=proof["resourceRecordName"], **values)
    assert world.make(VALIDATION, "validation", **validation).id == certificate.id


def test_parts_end_with_what_they_are_part_of(world: World) -> None:
    key = world.make("aws:kms/key:Key", "key").outputs["arn"]
    world.make("aws:s3/bucket:Bucket", "bucket", bucket="models-for-lustre")
    place = {"subnetIds": world.id("subnet-a"), "securityGroupIds": [world.id("group")], "kmsKeyId": key}
    system = world.make(FILE_SYSTEM, "system", storageCapacity=1200, deploymentType="PERSISTENT_2", **place).id
    path = "s3://models-for-lustre/releases/"
    world.make(LINK, "link", fileSystemId=system, dataRepositoryPath=path, fileSystemPath="/releases")
    assert world.read("link") == world.made["link"].outputs
    world.delete("system")
    assert (world.read("system"), world.read("link")) == (None, None)


def test_an_access_entry_needs_a_cluster_with_entries(world: World) -> None:
    name = lookup_name("c")
    record = json.loads(world.clients("ssm").get_parameter(Name=name)["Parameter"]["Value"])
    old = {**record, "accessConfig": {"authenticationMode": "CONFIG_MAP"}}
    world.clients("ssm").put_parameter(Name=name, Value=json.dumps(old), Type="String", Overwrite=True)
    with pytest.raises(HandlerError, match="InvalidRequestException: The cluster's authentication mode must"):
        world.make(ACCESS_ENTRY, "entry", clusterName="c", principalArn=world.arn("node-role"))
    world.clients("ssm").put_parameter(Name=name, Value=json.dumps(record), Type="String", Overwrite=True)


def lookup_name(cluster: str) -> str:
    return f"/twin/eks/{cluster}/cluster"


def test_coredns_needs_a_node_to_run_on(world: World) -> None:
    world.update("nodes", scalingConfig={"minSize": 0, "desiredSize": 0, "maxSize": 1})
    with pytest.raises(HandlerError, match="add-on coredns of c: no node group without taints has a node"):
        world.make(ADDON, "coredns", clusterName="c", addonName="coredns", addonVersion="v1.12.4-eksbuild.1")
