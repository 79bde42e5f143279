"""A stack's leftovers are found, and strangers' resources are not: exact lists over created resources."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from botocore.stub import Stubber
from moto.eks.models import eks_backends

from stackctl.orphans import computing, networking, storing
from stackctl.orphans.find import FINDERS, leftovers
from stackctl.orphans.report import document
from stackctl.orphans.search import Leftover, Search
from tests.stackctl.destroy.conftest import CLUSTER, OURS, REGION, STRANGERS, Tags, client, new_search
from tests.system.component import existing_account
from twin.aws.base.clients import Clients

CLUSTERS_TAG = [{"Key": f"kubernetes.io/cluster/{CLUSTER}", "Value": "owned"}]
ASSUME = "arn:aws:iam::123456789012:role/eks"


def specification(kind: str, tags: Tags) -> dict[str, Any]:
    return {"TagSpecifications": [{"ResourceType": kind, "Tags": tags}]} if tags else {}


def ids(found: list[Leftover]) -> list[str]:
    return sorted(item.id for item in found)


def vpc(tags: Tags, cidr: str = "10.20.0.0/16") -> str:
    return str(client("ec2").create_vpc(CidrBlock=cidr, **specification("vpc", tags))["Vpc"]["VpcId"])


def subnet(vpc_id: str, cidr: str = "10.20.0.0/24") -> str:
    return str(client("ec2").create_subnet(VpcId=vpc_id, CidrBlock=cidr)["Subnet"]["SubnetId"])


def put_alarm(name: str, tags: Tags) -> None:
    client("cloudwatch").put_metric_alarm(
        AlarmName=name,
        Namespace="AWS/SQS",
        MetricName="m",
        Statistic="Sum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=1,
        ComparisonOperator="GreaterThanThreshold",
        Tags=tags,
    )


def test_instances_of_node_groups_and_of_node_claims_are_found(search: Search) -> None:
    ec2 = client("ec2")

    def run(tags: Tags, instance_type: str = "g5.xlarge") -> str:
        one = {"ImageId": "ami-12345678", "InstanceType": instance_type, "MinCount": 1, "MaxCount": 1}
        return str(ec2.run_instances(**one, **specification("instance", tags))["Instances"][0]["InstanceId"])

    managed = run([*OURS, {"Key": "Name", "Value": "triton-dev-system"}], "m7i.large")
    claimed = run([*CLUSTERS_TAG, {"Key": "karpenter.sh/nodeclaim", "Value": "g5-x7k2p"}])
    for tags in STRANGERS:
        run(tags)
    gone = run(OURS)
    ec2.terminate_instances(InstanceIds=[gone])

    found = {item.id: item for item in computing.instances(search)}

    assert set(found) == {managed, claimed}
    assert (found[claimed].name, found[claimed].reason) == (
        "g5.xlarge g5-x7k2p",
        "kubernetes.io/cluster/triton-dev=owned",
    )
    assert found[claimed].usd_a_month == 734.38
    assert str(found[managed].usd_a_month) == "nan"  # the table has no price for its type
    assert found[managed].name == "m7i.large triton-dev-system"
    assert found[managed].reason == "project=triton-eks, environment=dev"
    assert found[managed].remove == f"aws ec2 terminate-instances --instance-ids {managed} --region us-west-2"
    assert ids(list(computing.node_claims(search))) == [claimed]


def test_every_page_is_read(search: Search) -> None:
    """By script: moto returns hundreds on a page."""
    with Stubber(search.readers("ec2")) as ec2:
        for page, token in ((1, None), (2, "2"), (3, "3")):
            volume = {"VolumeId": f"vol-{page}", "Size": 1, "VolumeType": "gp3", "Tags": OURS}
            more = {"NextToken": str(page + 1)} if page < 3 else {}
            ec2.add_response("describe_volumes", {"Volumes": [volume], **more}, {"NextToken": token} if token else {})
        assert ids(list(computing.volumes(search))) == ["vol-1", "vol-2", "vol-3"]


def test_volumes_and_snapshots_are_found(search: Search) -> None:
    ec2 = client("ec2")

    def volume(tags: Tags) -> str:
        made = ec2.create_volume(AvailabilityZone="us-west-2a", Size=100, VolumeType="gp3", **specification("volume", tags))
        return str(made["VolumeId"])

    claimed = volume([*CLUSTERS_TAG, {"Key": "kubernetes.io/created-for/pvc/name", "Value": "prometheus-db-0"}])
    plain = volume(OURS)
    foreign = [volume(tags) for tags in STRANGERS]
    kept = ec2.create_snapshot(VolumeId=plain, **specification("snapshot", OURS))["SnapshotId"]
    ec2.create_snapshot(VolumeId=foreign[0])

    found = {item.id: (item.name, item.usd_a_month) for item in computing.volumes(search)}

    assert found == {claimed: ("100 GiB prometheus-db-0", 8.0), plain: ("100 GiB", 8.0)}
    assert ids(list(computing.claimed_volumes(search))) == [claimed]
    assert [(item.id, item.usd_a_month) for item in computing.snapshots(search)] == [(kept, 5.0)]


def test_load_balancers_and_target_groups_are_found_beyond_the_twentieth(search: Search) -> None:
    """DescribeTags accepts twenty ARNs at a time; moto does not check it, so the test counts the calls."""
    asked: list[int] = []
    search.readers("elbv2").meta.events.register(
        "provide-client-params.*.DescribeTags", lambda params, **_: asked.append(len(params["ResourceArns"]))
    )
    elb = client("elbv2")
    mine = subnet(vpc(OURS))
    by_controller = [{"Key": "elbv2.k8s.aws/cluster", "Value": CLUSTER}]
    for number in range(22):
        elb.create_load_balancer(
            Name=f"other-{number}", Subnets=[mine], Type="network", Tags=STRANGERS[number % 6] or OURS[2:]
        )
    elb.create_load_balancer(Name="k8s-gateway", Subnets=[mine], Type="network", Scheme="internal", Tags=by_controller)
    elb.create_target_group(Name="other", Protocol="TCP", Port=443, TargetType="ip", VpcId=vpc([], "10.9.0.0/16"))
    elb.create_target_group(
        Name="k8s-https", Protocol="TCP", Port=443, TargetType="ip", VpcId=vpc([], "10.8.0.0/16"), Tags=by_controller
    )

    assert [(item.name, item.reason, item.usd_a_month) for item in networking.load_balancers(search)] == [
        ("k8s-gateway", "elbv2.k8s.aws/cluster=triton-dev", 16.43)
    ]
    assert [(item.name, item.usd_a_month) for item in networking.target_groups(search)] == [("k8s-https", 0)]
    assert asked == [20, 3, 2]


def test_interfaces_and_groups_are_found_by_tag_and_by_the_stacks_vpc(search: Search) -> None:
    ec2 = client("ec2")
    ours, theirs = subnet(vpc(OURS)), subnet(vpc([], "10.9.0.0/16"), "10.9.0.0/24")

    def interface(where: str, tags: Tags) -> str:
        made = ec2.create_network_interface(
            SubnetId=where, Description="aws-K8S-i-1", **specification("network-interface", tags)
        )
        return str(made["NetworkInterface"]["NetworkInterfaceId"])

    untagged, tagged = interface(ours, []), interface(theirs, [{"Key": "cluster.k8s.amazonaws.com/name", "Value": CLUSTER}])
    for tags in STRANGERS:
        interface(theirs, tags)
    (own_vpc,) = search.vpcs
    group = ec2.create_security_group(GroupName="k8s-traffic", Description="x", VpcId=own_vpc)["GroupId"]
    ec2.create_security_group(GroupName="theirs", Description="x")

    found = {item.id: item.reason for item in networking.interfaces(search)}

    assert found == {untagged: f"in {own_vpc}", tagged: "cluster.k8s.amazonaws.com/name=triton-dev"}
    assert [(item.id, item.name) for item in networking.security_groups(search)] == [(group, "k8s-traffic")]


def test_addresses_gateways_endpoints_and_the_vpc_are_found(search: Search) -> None:
    ec2 = client("ec2")
    own_vpc, other_vpc = vpc(OURS), vpc([], "10.9.0.0/16")
    own, other = subnet(own_vpc), subnet(other_vpc, "10.9.0.0/24")

    def address(tags: Tags) -> str:
        return str(ec2.allocate_address(Domain="vpc", **specification("elastic-ip", tags))["AllocationId"])

    def gateway(where: str, tags: Tags) -> str:
        made = ec2.create_nat_gateway(SubnetId=where, AllocationId=address([]), **specification("natgateway", tags))
        return str(made["NatGateway"]["NatGatewayId"])

    def endpoint(where: str, service: str, tags: Tags, **more: Any) -> str:
        made = ec2.create_vpc_endpoint(
            VpcId=where, ServiceName=f"com.amazonaws.us-west-2.{service}", **more, **specification("vpc-endpoint", tags)
        )
        return str(made["VpcEndpoint"]["VpcEndpointId"])

    mine = address(OURS)
    for tags in STRANGERS:
        address(tags)
    nat = gateway(own, OURS)
    gateway(other, [])
    ec2.delete_nat_gateway(NatGatewayId=gateway(own, OURS))
    interface = endpoint(own_vpc, "sts", OURS, VpcEndpointType="Interface", SubnetIds=[own])
    free = endpoint(own_vpc, "s3", OURS)
    endpoint(other_vpc, "sts", [], VpcEndpointType="Interface", SubnetIds=[other])

    assert [(item.id, item.usd_a_month) for item in networking.addresses(search)] == [(mine, 3.65)]
    assert [(item.id, item.usd_a_month) for item in networking.nat_gateways(search)] == [(nat, 32.85)]
    assert {item.id: item.usd_a_month for item in networking.endpoints(search)} == {interface: 7.3, free: 0}
    assert [(item.id, item.reason) for item in networking.vpcs(search)] == [(own_vpc, "project=triton-eks, environment=dev")]


def test_buckets_queues_alarms_and_keys_are_found_by_the_stacks_own_tags(search: Search) -> None:
    s3, sqs, kms = client("s3"), client("sqs"), client("kms")
    place = {"CreateBucketConfiguration": {"LocationConstraint": "us-west-2"}}
    for name, tags in (("triton-models-dev", OURS), ("theirs", STRANGERS[1])):
        s3.create_bucket(Bucket=name, **place)
        s3.put_bucket_tagging(Bucket=name, Tagging={"TagSet": tags})
        sqs.create_queue(QueueName=name, tags={tag["Key"]: tag["Value"] for tag in tags})
        put_alarm(name, tags)
    for tags in (STRANGERS[1], OURS):
        arguments = {"DomainName": "inference.example.com", "ValidationMethod": "DNS", "Tags": tags}
        certificate = client("acm").request_certificate(**arguments)["CertificateArn"]
    of_kms = [{"TagKey": tag["Key"], "TagValue": tag["Value"]} for tag in OURS]
    key = kms.create_key(Description="Models", Tags=of_kms)["KeyMetadata"]["KeyId"]
    kms.create_key(Description="Theirs")
    kms.schedule_key_deletion(KeyId=kms.create_key(Tags=of_kms)["KeyMetadata"]["KeyId"])

    assert [(item.id, item.usd_a_month) for item in storing.buckets(search)] == [("triton-models-dev", None)]
    assert [item.remove for item in storing.queues(search)] == [
        "aws sqs delete-queue --queue-url https://sqs.us-west-2.amazonaws.com/123456789012/triton-models-dev "
        "--region us-west-2"
    ]
    assert [item.id for item in storing.alarms(search)] == ["triton-models-dev"]
    assert [(item.id, item.remove, item.usd_a_month) for item in storing.certificates(search)] == [
        (
            certificate.rpartition("/")[2],
            f"aws acm delete-certificate --certificate-arn {certificate} --region us-west-2",
            0,
        )
    ]
    assert [(item.id, item.name, item.usd_a_month) for item in storing.keys(search)] == [(key, "Models", 1.0)]


def test_file_systems_are_found(search: Search) -> None:
    fsx = client("fsx")
    where = [subnet(vpc([]))]

    def lustre(tags: Tags) -> str:
        made = fsx.create_file_system(
            FileSystemType="LUSTRE",
            StorageCapacity=1200,
            SubnetIds=where,
            LustreConfiguration={"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 250},
            Tags=tags or [{"Key": "Name", "Value": "theirs"}],
        )
        return str(made["FileSystem"]["FileSystemId"])

    mine = lustre([*OURS, {"Key": "Name", "Value": "triton-dev-models"}])
    for tags in STRANGERS:
        lustre(tags)

    (found,) = storing.file_systems(search)
    assert (found.id, found.name, found.usd_a_month) == (mine, "1200 GiB triton-dev-models", 252.0)
    assert found.remove == f"aws fsx delete-file-system --file-system-id {mine} --region us-west-2"


def test_a_strangers_things_in_the_stacks_vpc_are_named_and_no_command_removes_them(search: Search) -> None:
    ec2 = client("ec2")
    ours = vpc(OURS)
    theirs = [{"Key": "project", "Value": "other"}]
    group = ec2.create_security_group(
        GroupName="theirs", Description="x", VpcId=ours, **specification("security-group", theirs)
    )["GroupId"]

    (found,) = networking.security_groups(search)
    assert (found.id, found.reason) == (group, f"in {ours}, and somebody else's: project=other")
    assert found.remove == f"# no command, ask its owner: {group} is in {ours}, and somebody else's: project=other"


def test_guarddutys_endpoint_and_its_group_in_the_stacks_vpc_are_removed_by_commands(search: Search) -> None:
    ec2 = client("ec2")
    ours = vpc(OURS)
    guardduty = [{"Key": "GuardDutyManaged", "Value": "true"}]
    group = ec2.create_security_group(
        GroupName=f"GuardDutyManagedSecurityGroup-{ours}",
        Description="x",
        VpcId=ours,
        **specification("security-group", guardduty),
    )["GroupId"]
    endpoint = ec2.create_vpc_endpoint(
        VpcId=ours,
        ServiceName="com.amazonaws.us-west-2.guardduty-data",
        VpcEndpointType="Interface",
        SubnetIds=[subnet(ours)],
        SecurityGroupIds=[group],
        **specification("vpc-endpoint", guardduty),
    )["VpcEndpoint"]["VpcEndpointId"]
    ec2.create_vpc_endpoint(VpcId=vpc([]), ServiceName="com.amazonaws.us-west-2.guardduty-data")

    found = leftovers(search, ("VPC endpoint", "security group"))
    assert [(item.id, item.reason) for item in found] == [
        (endpoint, f"in {ours}, created by GuardDuty"),
        (group, f"in {ours}, created by GuardDuty"),
    ]
    assert [item.remove for item in found] == [
        f"aws ec2 delete-vpc-endpoints --vpc-endpoint-ids {endpoint} --region us-west-2",
        f"aws ec2 delete-security-group --group-id {group} --region us-west-2",
    ]


def test_a_name_that_is_a_command_stays_a_name(search: Search) -> None:
    name = "late; rm -rf ~"
    put_alarm(name, OURS)
    (found,) = storing.alarms(search)
    assert found.remove == "aws cloudwatch delete-alarms --alarm-names 'late; rm -rf ~' --region us-west-2"


def test_a_load_balancer_that_goes_during_the_search_hides_no_other(search: Search) -> None:
    """A teardown looks every few seconds while they are being deleted."""
    balancers = [{"LoadBalancerArn": f"arn:aws:elb:loadbalancer/net/{name}", "LoadBalancerName": name} for name in "ab"]
    gone, there = (one["LoadBalancerArn"] for one in balancers)
    tags = {"TagDescriptions": [{"ResourceArn": there, "Tags": OURS}]}
    with Stubber(search.readers("elbv2")) as elb:
        elb.add_response("describe_load_balancers", {"LoadBalancers": balancers})
        elb.add_client_error("describe_tags", "LoadBalancerNotFound", expected_params={"ResourceArns": [gone, there]})
        elb.add_client_error("describe_tags", "LoadBalancerNotFound", expected_params={"ResourceArns": [gone]})
        elb.add_response("describe_tags", tags, {"ResourceArns": [there]})
        assert [item.name for item in networking.load_balancers(search)] == ["b"]


def test_the_log_groups_are_known_by_name_though_eks_makes_its_own_anew_without_tags(search: Search) -> None:
    logs = client("logs")
    ours = [
        "/aws/eks/triton-dev/cluster",
        "/aws/vpc/triton-dev/flow-logs",
        "/aws/containerinsights/triton-dev/application",
        # Container Insights' group, which may have been added by hand.
        "/aws/containerinsights/triton-dev/performance",
    ]
    theirs = (
        "/aws/eks/triton-dev/cluster-2",
        "/aws/eks/triton-prod/cluster",
        "/aws/containerinsights/triton-dev-2/performance",
    )
    for name in (*ours, *theirs):
        logs.create_log_group(logGroupName=name)
    assert [item.id for item in storing.log_groups(search)] == ours


def test_the_cluster_is_found_by_its_name(search: Search) -> None:
    for name in ("triton-dev", "triton-dev-2"):
        client("eks").create_cluster(name=name, roleArn=ASSUME, resourcesVpcConfig={"subnetIds": [subnet(vpc([]))]})
    assert [(item.id, item.usd_a_month) for item in computing.cluster(search)] == [("triton-dev", 73.0)]


def test_in_an_account_of_strangers_nothing_is_found(search: Search) -> None:
    other = subnet(vpc([], "10.9.0.0/16"), "10.9.0.0/24")
    for tags in STRANGERS:
        client("ec2").create_network_interface(SubnetId=other, **specification("network-interface", tags))
        client("ec2").create_volume(AvailabilityZone="us-west-2a", Size=1, **specification("volume", tags))
    assert leftovers(search) == []


def test_every_kind_is_searched_in_the_order_in_which_it_can_be_removed() -> None:
    order = list(FINDERS)
    for first, then in (
        ("load balancer", "target group"),
        ("instance", "volume"),
        ("network interface", "security group"),
        ("NAT gateway", "elastic IP"),
        ("security group", "VPC"),
    ):
        assert order.index(first) < order.index(then)


def test_a_new_search_sees_what_was_made_since(account: str) -> None:
    assert list(new_search().vpcs) == []
    made = vpc(OURS)
    assert list(new_search().vpcs) == [made]


def test_in_a_cluster_that_was_there_only_the_stacks_own_node_groups_are_found(account: str) -> None:
    """They also show that the stack is up. Its VPC and cluster belong to others, and are never listed."""
    private = existing_account.make_vpc(Clients("us-west-2")).private
    config = {"subnetIds": list(private.values())}
    client("eks").create_cluster(name="shared", roleArn=ASSUME, resourcesVpcConfig=config)
    search = replace(new_search(), existing_cluster="shared")
    assert leftovers(search) == []
    for name, tags in (("triton-dev-system", {"project": "triton-eks", "environment": "dev"}), ("owners", {})):
        client("eks").create_nodegroup(
            clusterName="shared", nodegroupName=name, nodeRole=ASSUME, subnets=["subnet-0"], tags=tags
        )
    eks_backends[account][REGION].clusters["shared"].nodegroups["owners"].tags = None
    [found] = leftovers(search, ["node group"])
    assert (found.kind, found.id, found.name) == ("node group", "triton-dev-system", "of shared")
    assert found.remove.startswith("aws eks delete-nodegroup --cluster-name shared --nodegroup-name triton-dev-system ")
    assert document([found])["up"] is True
    assert leftovers(new_search(), ["node group"]) == []
    assert leftovers(replace(search, existing_cluster="gone"), ["node group"]) == []
