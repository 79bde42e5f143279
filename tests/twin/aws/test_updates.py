"""Changed, lost and deleted resources: the handlers' update, read and delete in AWS."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.twin.aws.world import (
    ACCESS_ENTRY,
    ACCESS_POLICY,
    ADDON,
    ADDRESS,
    BUCKET,
    CLUSTER,
    ENDPOINT,
    INGRESS,
    KEY,
    LOG_GROUP,
    NAT,
    NODE_GROUP,
    PROFILE,
    ROLE,
    ROLE_POLICY,
    TEMPLATE,
    World,
    kubernetes,
    network,
    policy,
    roles,
    trust,
)
from twin.aws import table
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError
from twin.aws.base.handler import UNKNOWN


@pytest.fixture(scope="module")
def world(clients: Clients) -> Iterator[World]:
    world = World(clients)
    network(world)
    roles(world)
    kubernetes(world)
    yield world


def test_tags_changed_by_hand_show_in_a_refresh(world: World) -> None:
    world.make(ADDRESS, "tagged", domain="vpc", tags={"owner": "me"})
    world.clients("ec2").create_tags(Resources=[world.id("tagged")], Tags=[{"Key": "owner", "Value": "you"}])
    found = world.read("tagged")
    assert found is not None
    assert found["tags"] == {"owner": "you"}
    handler = table.handler(ADDRESS)
    refreshed = handler.refreshed_inputs(world.made["tagged"].inputs, found)
    assert handler.diff(refreshed, world.made["tagged"].inputs).changed == ("tags",)


def test_a_role_gets_changes_and_loses_a_boundary_and_never_one_that_does_not_exist(world: World) -> None:
    iam = world.clients("iam")
    first, second = (
        iam.create_policy(PolicyName=name, PolicyDocument=policy(Effect="Allow", Action="s3:GetObject", Resource="*"))[
            "Policy"
        ]["Arn"]
        for name in ("first", "second")
    )
    inputs = {"assumeRolePolicy": trust("ec2.amazonaws.com")}
    world.make(ROLE, "bounded", **inputs, permissionsBoundary=first)
    name = world.id("bounded")

    def bound() -> str | None:
        found: str | None = iam.get_role(RoleName=name)["Role"].get("PermissionsBoundary", {}).get("PermissionsBoundaryArn")
        return found

    assert bound() == first
    world.update("bounded", permissionsBoundary=second)
    assert bound() == second
    iam.put_role_permissions_boundary(RoleName=name, PermissionsBoundary=first)
    found = world.read("bounded")
    assert found is not None and found["permissionsBoundary"] == first
    gone = first.replace("first", "gone")
    for attempt in (
        lambda: world.update("bounded", permissionsBoundary=gone),
        lambda: world.make(ROLE, "never", **inputs, permissionsBoundary=gone),
    ):
        with pytest.raises(HandlerError, match=f"NoSuchEntity: Scope ARN: {gone} does not exist or is not attachable"):
            attempt()
    iam.delete_role_permissions_boundary(RoleName=name)
    assert "permissionsBoundary" not in (world.read("bounded") or {})


def test_an_update_removes_and_adds_tags(world: World) -> None:
    world.update("vpc", tags={"a": "1", "b": "2"})
    world.update("vpc", tags={"b": "3", "c": "4"})
    found = world.read("vpc")
    assert found is not None
    assert found["tags"] == {"b": "3", "c": "4"}


def test_a_resource_deleted_by_hand_is_gone(world: World) -> None:
    world.make(ADDRESS, "lost", domain="vpc")
    world.clients("ec2").release_address(AllocationId=world.id("lost"))
    assert world.read("lost") is None
    world.delete("lost")


def test_versioning_suspended_by_hand_shows_in_a_refresh(world: World) -> None:
    world.make(BUCKET, "bucket", bucket="some-models", forceDestroy=True)
    status = {"bucket": "some-models", "versioningConfiguration": {"status": "Enabled"}}
    world.make("aws:s3/bucketVersioning:BucketVersioning", "versioning", **status)
    world.clients("s3").put_bucket_versioning(Bucket="some-models", VersioningConfiguration={"Status": "Suspended"})
    found = world.read("versioning")
    assert found is not None
    assert found["versioningConfiguration"] == {"status": "Suspended"}


def test_a_bucket_with_objects_goes_only_by_force(world: World) -> None:
    s3 = world.clients("s3")
    world.make(BUCKET, "kept", bucket="kept-models")
    s3.put_object(Bucket="kept-models", Key="a", Body=b"1")
    with pytest.raises(s3.exceptions.ClientError, match="BucketNotEmpty"):
        world.delete("kept")
    world.make(BUCKET, "forced", bucket="forced-models", forceDestroy=True)
    s3.put_bucket_versioning(Bucket="forced-models", VersioningConfiguration={"Status": "Enabled"})
    for body in (b"1", b"2"):
        s3.put_object(Bucket="forced-models", Key="a", Body=body)
    s3.delete_object(Bucket="forced-models", Key="a")
    world.delete("forced")
    assert "forced-models" not in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]


def test_a_changed_trust_policy_reaches_the_role_and_drift_of_it_shows(world: World) -> None:
    world.make(ROLE, "role", assumeRolePolicy=trust("ec2.amazonaws.com"))
    world.update("role", assumeRolePolicy=trust("lambda.amazonaws.com"))
    iam = world.clients("iam")
    role = iam.get_role(RoleName=world.id("role"))["Role"]
    assert role["AssumeRolePolicyDocument"] == json.loads(trust("lambda.amazonaws.com"))
    iam.update_assume_role_policy(RoleName=world.id("role"), PolicyDocument=trust("ec2.amazonaws.com"))
    found = world.read("role")
    assert found is not None
    assert json.loads(found["assumeRolePolicy"]) == json.loads(trust("ec2.amazonaws.com"))


def test_a_role_policy_is_rewritten_in_place(world: World) -> None:
    world.make(ROLE, "policy-role", assumeRolePolicy=trust("ec2.amazonaws.com"))
    statement = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}
    world.make(ROLE_POLICY, "inline", role=world.id("policy-role"), policy=policy(**statement))
    world.update("inline", policy=policy(**{**statement, "Action": "s3:ListBucket"}))
    found = world.read("inline")
    assert found is not None
    assert json.loads(found["policy"])["Statement"] == [{**statement, "Action": "s3:ListBucket"}]


def test_an_instance_profile_changes_its_role(world: World) -> None:
    world.make(PROFILE, "profile", role=world.id("node-role"))
    world.update("profile", role=world.id("bare-node-role"))
    found = world.read("profile")
    assert found is not None
    assert found["role"] == world.id("bare-node-role")


def test_a_deleted_key_waits_for_its_window(world: World) -> None:
    world.make(KEY, "key", deletionWindowInDays=7)
    world.delete("key")
    metadata = world.clients("kms").describe_key(KeyId=world.id("key"))["KeyMetadata"]
    assert metadata["KeyState"] == "PendingDeletion"
    assert world.read("key") is None


def test_a_log_group_changes_its_retention(world: World) -> None:
    world.make(LOG_GROUP, "logs", name="/logs", retentionInDays=7)
    world.update("logs", retentionInDays=None)
    found = world.read("logs")
    assert found is not None
    assert found["retentionInDays"] == 0


def test_a_log_group_takes_another_key_and_none(world: World) -> None:
    world.make(LOG_GROUP, "encrypted", name="/encrypted", kmsKeyId=_key_for_logs(world, "first"))
    for key in (_key_for_logs(world, "second"), None):
        world.update("encrypted", kmsKeyId=key)
        found = world.read("encrypted")
        assert found is not None
        assert found.get("kmsKeyId") == key


def _key_for_logs(world: World, name: str) -> str:
    principals = ({"Service": "logs.us-west-2.amazonaws.com"}, {"AWS": "*"})
    statements = [{"Effect": "Allow", "Principal": one, "Action": "kms:*", "Resource": "*"} for one in principals]
    world.make(KEY, f"key-{name}", policy=json.dumps({"Version": "2012-10-17", "Statement": statements}))
    return world.arn(f"key-{name}")


def test_a_security_group_rule_changes_in_place(world: World) -> None:
    rule = {"securityGroupId": world.id("group"), "ipProtocol": "tcp", "cidrIpv4": "10.0.0.0/8"}
    world.make(INGRESS, "rule", fromPort=80, toPort=80, description="web", **rule)
    world.update("rule", fromPort=443, toPort=443)
    found = world.read("rule")
    assert found is not None
    assert (found["fromPort"], found["toPort"], found["description"]) == (443, 443, "web")


def test_a_group_in_use_is_not_deleted(world: World) -> None:
    interface = {"vpcEndpointType": "Interface", "subnetIds": [world.id("subnet-a")]}
    group = {"securityGroupIds": [world.id("group")], "privateDnsEnabled": False}
    world.make(ENDPOINT, "endpoint", vpcId=world.id("vpc"), serviceName="com.amazonaws.us-west-2.sts", **interface, **group)
    with pytest.raises(HandlerError, match=f"security group {world.id('group')} is in use by {world.id('endpoint')}"):
        world.delete("group")
    world.delete("endpoint")
    assert world.read("endpoint") is None


def test_an_address_in_use_is_not_released(world: World) -> None:
    world.make(ADDRESS, "nat-address", domain="vpc")
    world.make(NAT, "nat", subnetId=world.id("subnet-a"), allocationId=world.id("nat-address"))
    with pytest.raises(
        HandlerError, match=f"elastic IP {world.id('nat-address')} is in use by NAT gateway {world.id('nat')}"
    ):
        world.delete("nat-address")
    with pytest.raises(HandlerError, match=f"subnet {world.id('subnet-a')} has network interfaces in it: eni-"):
        world.delete("subnet-a")
    world.delete("nat")
    world.delete("nat-address")
    assert world.read("nat-address") is None


def test_a_changed_launch_template_gets_a_version_that_a_preview_does_not_know(world: World) -> None:
    made = world.make(TEMPLATE, "versions", updateDefaultVersion=True, monitoring={"enabled": True})
    handler = table.handler(TEMPLATE)
    changed = {**made.inputs, "monitoring": {"enabled": False}}
    assert handler.preview_update(made.outputs, changed)["latestVersion"] == UNKNOWN
    assert handler.preview_update(made.outputs, {**made.inputs, "tags": {"a": "b"}})["latestVersion"] == 1
    assert world.update("versions", monitoring={"enabled": False}).outputs["latestVersion"] == 2
    assert world.update("versions", tags={"a": "b"}).outputs["latestVersion"] == 2
    data = world.clients("ec2").describe_launch_template_versions(
        LaunchTemplateId=world.id("versions"), Versions=["$Default"]
    )["LaunchTemplateVersions"][0]
    assert (data["VersionNumber"], data["LaunchTemplateData"]["Monitoring"]) == (2, {"Enabled": False})


def test_a_resized_node_group_resizes_its_auto_scaling_group(world: World) -> None:
    outputs = world.update("nodes", scalingConfig={"minSize": 0, "desiredSize": 1, "maxSize": 5}).outputs
    name = outputs["resources"][0]["autoscalingGroups"][0]["name"]
    group = world.clients("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=[name])["AutoScalingGroups"][0]
    assert (group["MinSize"], group["DesiredCapacity"], group["MaxSize"]) == (0, 1, 5)
    found = world.read("nodes")
    assert found is not None
    assert found["scalingConfig"] == {"minSize": 0, "desiredSize": 1, "maxSize": 5}


def test_labels_and_taints_of_a_node_group_change_in_place(world: World) -> None:
    taint = {"key": "gpu", "value": "yes", "effect": "NO_SCHEDULE"}
    world.update("nodes", labels={"pool": "gpu", "x": "y"}, taints=[taint])
    world.update("nodes", labels={"pool": "gpu"}, taints=[{**taint, "value": "no"}])
    group = world.clients("eks").describe_nodegroup(
        clusterName="c", nodegroupName=world.made["nodes"].inputs["nodeGroupName"]
    )
    assert group["nodegroup"]["labels"] == {"pool": "gpu"}
    assert group["nodegroup"]["taints"] == [{**taint, "value": "no"}]
    world.update("nodes", taints=None)


def test_a_cluster_goes_up_one_minor_version_at_a_time(world: World) -> None:
    world.make(CLUSTER, "versions-cluster", **{**world.made["cluster"].inputs, "name": "v", "version": "1.32"})
    with pytest.raises(HandlerError, match=r"one minor version at a time; 1\.32 can go to 1\.33, not 1\.34"):
        world.update("versions-cluster", version="1.34")
    with pytest.raises(HandlerError, match=r"Kubernetes cannot go back from 1\.32 to 1\.31"):
        world.update("versions-cluster", version="1.31")
    world.update("versions-cluster", version="1.33")
    found = world.read("versions-cluster")
    assert found is not None
    assert found["version"] == "1.33"
    world.delete("versions-cluster")


def test_the_preview_refuses_a_kubernetes_version_that_the_update_would_refuse(world: World) -> None:
    made = world.made["cluster"]
    back = {**made.inputs, "version": "1.33"}
    with pytest.raises(HandlerError, match=r"Kubernetes cannot go back from 1\.34 to 1\.33"):
        table.handler(CLUSTER).preview_update({**made.outputs, "version": "1.34"}, back)


def test_the_preview_of_a_clusters_update_knows_what_does_not_change(world: World) -> None:
    made = world.made["cluster"]
    planned = table.handler(CLUSTER).preview_update(made.outputs, {**made.inputs, "version": "1.35"})
    assert planned == {**made.outputs, "version": "1.35"}


def test_a_cluster_with_node_groups_is_not_deleted(world: World) -> None:
    with pytest.raises(HandlerError, match="EKS cluster c still has node groups: nodes-0000000"):
        world.delete("cluster")


def test_what_moto_does_not_have_is_seen_by_another_process(world: World) -> None:
    world.make(ADDON, "agent", clusterName="c", addonName="eks-pod-identity-agent", addonVersion="v1.3.9-eksbuild.5")
    another = World(Clients(world.clients.region), world.made)
    assert another.read("agent") == world.made["agent"].outputs


def test_an_access_entry_takes_its_policies_along(world: World) -> None:
    entry = {"clusterName": "c", "principalArn": world.arn("node-role")}
    world.make(ACCESS_ENTRY, "entry", **entry)
    admin = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
    world.make(ACCESS_POLICY, "entry-policy", policyArn=admin, accessScope={"type": "cluster"}, **entry)
    world.delete("entry")
    assert world.read("entry") is None
    assert world.read("entry-policy") is None


def test_replacements_are_what_aws_cannot_change() -> None:
    handler = table.handler(NODE_GROUP)
    old = {"nodeGroupName": "a-1", "amiType": "AL2023_x86_64_NVIDIA", "labels": {"a": "b"}}
    difference = handler.diff(old, {**old, "amiType": "AL2023_x86_64_STANDARD", "labels": {}})
    assert (difference.changed, difference.replaces) == (("amiType", "labels"), ("amiType",))
    # Two groups of one name cannot exist at the same time.
    assert difference.delete_first is True
    assert handler.diff(old, {**old, "nodeGroupName": "a-2", "amiType": "CUSTOM"}).delete_first is False


def test_of_an_object_only_the_members_replace_that_cannot_be_changed() -> None:
    handler, old = table.handler(NODE_GROUP), {"launchTemplate": {"id": "lt-1", "version": "1"}}
    assert handler.diff(old, {"launchTemplate": {"id": "lt-1", "version": "2"}}).replaces == ()
    assert handler.diff(old, {"launchTemplate": {"id": UNKNOWN, "version": "1"}}).replaces == ("launchTemplate.id",)
    assert handler.diff(old, {"launchTemplate": UNKNOWN}).replaces == ("launchTemplate.id", "launchTemplate.name")


def test_the_order_of_a_set_says_nothing() -> None:
    handler = table.handler(CLUSTER)
    config = {"subnetIds": ["a", "b"], "endpointPublicAccess": True}
    assert handler.diff({"vpcConfig": config}, {"vpcConfig": {**config, "subnetIds": ["b", "a"]}}).changed == ()
    assert handler.diff({"vpcConfig": config}, {"vpcConfig": {**config, "subnetIds": ["b"]}}).changed == ("vpcConfig",)


def test_a_cluster_gets_a_key_in_place_and_loses_it_only_with_itself() -> None:
    handler, key = table.handler(CLUSTER), {"encryptionConfig": {"provider": {"keyArn": "k"}}}
    assert handler.diff({}, key).replaces == ()
    assert handler.diff(key, {}).replaces == ("encryptionConfig",)


def test_a_file_system_grows_in_place_and_does_not_shrink() -> None:
    handler = table.handler("aws:fsx/lustreFileSystem:LustreFileSystem")
    assert handler.diff({"storageCapacity": 2400}, {"storageCapacity": 4800}).replaces == ()
    assert handler.diff({"storageCapacity": 4800}, {"storageCapacity": 2400}).replaces == ("storageCapacity",)


def test_every_handlers_update_is_asked_only_for_what_it_can_change() -> None:
    """An input that is neither replaced nor updatable would be dropped silently."""
    base_update = table.handler("aws:iam/rolePolicyAttachment:RolePolicyAttachment").__class__.update
    for handler in table.HANDLERS.values():
        if type(handler).update is base_update:
            assert handler.inputs == handler.replace_on, handler.token
