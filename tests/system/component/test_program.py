"""Rules that hold for the registrations of every stack."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from spec.gpu_pool import gpu_toleration
from spec.settings.fields import TagKey
from spec.settings.gpu import GpuPool
from tests.system.component.engine.recording import Registration
from tests.system.component.engine.stack_run import StackRun
from twin.aws import table

ACCOUNT = "123456789012"
REGION = "us-west-2"

CLUSTER = "aws:eks/cluster:Cluster"
INGRESS_RULE = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
ROLE = "aws:iam/role:Role"


def _document(text: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(text)
    return document


def test_every_kubernetes_resource_carries_the_programs_own_provider(stack_run: StackRun) -> None:
    explicit = stack_run.up.one("pulumi:providers:kubernetes", "cluster-kubernetes")
    kubernetes = [item for item in stack_run.up.registrations if item.type.startswith("kubernetes:")]
    without = [item.name for item in kubernetes if item.provider != f"{explicit.urn}::{explicit.id}"]
    assert kubernetes
    assert without == []


def test_no_two_resources_of_a_type_have_the_same_physical_name(stack_run: StackRun) -> None:
    named: list[tuple[str, str]] = []
    for item in stack_run.up.registrations:
        handler = table.HANDLERS.get(item.type)
        if handler and handler.name_input:
            named.append((item.type, item.checked[handler.name_input]))
    assert [name for name, count in Counter(named).items() if count > 1] == []


def test_every_taggable_resource_says_whose_it_is(stack_run: StackRun) -> None:
    required = {"owner", "cost-center", "project", "environment"}
    missing = {
        item.name: sorted(required - item.checked.get("tags", {}).keys())
        for item in stack_run.up.registrations
        if item.type in table.HANDLERS and table.HANDLERS[item.type].taggable
    }
    assert {name: keys for name, keys in missing.items() if keys} == {}


def test_a_stack_file_can_set_none_of_the_tags_that_the_program_sets(stack_run: StackRun) -> None:
    of_the_file = stack_run.settings.tags.keys()
    own = {key for item in stack_run.up.registrations for key in (item.checked.get("tags") or {}) if key not in of_the_file}
    assert {"project", "environment", "Name"} <= own
    for key in own:
        with pytest.raises(ValidationError):
            TypeAdapter(TagKey).validate_python(key)


def test_the_only_security_group_with_the_clusters_tag_is_the_one_that_eks_makes(stack_run: StackRun) -> None:
    tag = f"kubernetes.io/cluster/{stack_run.settings.cluster_name}"
    tagged = [
        group["GroupId"]
        for group in stack_run.account.security_groups
        if tag in [item["Key"] for item in group.get("Tags", [])]
    ]
    cluster = stack_run.up.one(CLUSTER)
    assert tagged == [cluster.outputs["vpcConfig"]["clusterSecurityGroupId"]]
    ours = [item.id for item in stack_run.up.of_type("aws:ec2/securityGroup:SecurityGroup")]
    assert tagged[0] not in ours


def test_the_control_plane_is_locked_down(stack_run: StackRun) -> None:
    settings, inputs = stack_run.settings, stack_run.up.one(CLUSTER).checked
    assert inputs["accessConfig"]["authenticationMode"] == "API"
    assert inputs["bootstrapSelfManagedAddons"] is False
    assert inputs["deletionProtection"] is settings.cluster.deletion_protection
    assert inputs["enabledClusterLogTypes"] == ["api", "audit", "authenticator", "controllerManager", "scheduler"]
    assert inputs["upgradePolicy"] == {"supportType": "STANDARD"}
    assert inputs["encryptionConfig"]["resources"] == ["secrets"]
    key = stack_run.up.one("aws:kms/key:Key", "cluster-secrets-key")
    assert inputs["encryptionConfig"]["provider"]["keyArn"] == key.outputs["arn"]
    assert inputs["vpcConfig"]["endpointPrivateAccess"] is True
    assert inputs["vpcConfig"]["endpointPublicAccess"] is (settings.cluster.endpoint == "public")


def test_cluster_vpc_keys_and_models_are_protected_and_never_what_has_to_change(
    stack_run: StackRun,
) -> None:
    """Of the children of `eks.Cluster`, only the cluster is protected: access entries have to be removable."""
    protected = {item.name for item in stack_run.up.registrations if item.protect}
    if stack_run.stack == "local":
        assert protected == set()
        return
    keys = {item.name for item in stack_run.up.of_type("aws:kms/key:Key")}
    assert len(keys) == (3 if stack_run.settings.worker is None else 4)
    assert protected == {"cluster-control-plane-eksCluster", "network-vpc", "models-bucket", *keys}


def test_what_guards_the_models_outlives_the_stack_with_them(stack_run: StackRun) -> None:
    retained = {item.name for item in stack_run.up.registrations if item.retain_on_delete}
    s3 = {
        item.name
        for item in stack_run.up.registrations
        if item.type.startswith("aws:s3/") and item.name.startswith("models-")
    }
    assert len(s3) == 7
    assert retained == ({*s3, "models-encryption-key"} if stack_run.stack == "prod" else set())


def test_cluster_services_wait_for_the_system_nodes_and_for_no_gpu_pool(stack_run: StackRun) -> None:
    """A component's children are registered after the component's dependencies."""
    groups = {item.urn: item.checked["labels"]["triton-eks/pool"] for item in stack_run.up.of_type(NODE_GROUP)}
    addons = stack_run.up.one("triton:addons:Addons")
    assert [groups[urn] for urn in addons.depends_on if urn in groups] == ["system"]
    coredns = stack_run.up.one("aws:eks/addon:Addon", "addons-coredns")
    assert (coredns.parent, set(coredns.depends_on) & groups.keys()) == (addons.urn, set())


def test_interface_endpoints_take_no_addresses_from_the_nodes_subnets(stack_run: StackRun) -> None:
    up = stack_run.up
    endpoints = [
        item for item in up.of_type("aws:ec2/vpcEndpoint:VpcEndpoint") if item.checked["vpcEndpointType"] == "Interface"
    ]
    intra = sorted(item.id for item in up.of_type("aws:ec2/subnet:Subnet") if "-intra-" in item.name)
    assert [sorted(item.checked["subnetIds"]) for item in endpoints] == [intra] * len(endpoints)
    assert len(endpoints) == {"none": 0, "minimal": 3, "full": 12}[stack_run.settings.network.endpoints]


def test_the_named_roles_and_nobody_else_get_access_entries(stack_run: StackRun) -> None:
    cluster = stack_run.settings.cluster
    entries = {
        item.checked["principalArn"]: item.checked.get("kubernetesGroups")
        for item in stack_run.up.of_type("aws:eks/accessEntry:AccessEntry")
    }
    assert entries == {
        **dict.fromkeys(cluster.admin_role_arns),
        **{arn: ["triton-rollouts"] for arn in cluster.rollout_role_arns},
    }
    policies = stack_run.up.of_type("aws:eks/accessPolicyAssociation:AccessPolicyAssociation")
    assert [item.checked["principalArn"] for item in policies] == sorted(cluster.admin_role_arns)
    assert {item.checked["policyArn"].rpartition("/")[2] for item in policies} == {"AmazonEKSClusterAdminPolicy"}


def test_every_add_on_is_pinned(stack_run: StackRun) -> None:
    add_ons = {
        item.checked["addonName"]: item.checked["addonVersion"] for item in stack_run.up.of_type("aws:eks/addon:Addon")
    }
    assert set(add_ons) == {
        "aws-ebs-csi-driver",
        "coredns",
        "eks-node-monitoring-agent",
        "eks-pod-identity-agent",
        "kube-proxy",
        "metrics-server",
        "vpc-cni",
    }


def test_what_asks_the_gpus_how_they_are_lands_on_gpu_nodes(stack_run: StackRun) -> None:
    (agent,) = [
        item
        for item in stack_run.up.of_type("aws:eks/addon:Addon")
        if item.checked["addonName"] == "eks-node-monitoring-agent"
    ]
    assert json.loads(agent.checked["configurationValues"]) == {"dcgmAgent": {"tolerations": [gpu_toleration()]}}


def test_tritons_role_trusts_its_pods_service_accounts_and_reads_one_prefix(stack_run: StackRun) -> None:
    up, cluster = stack_run.up, stack_run.settings.cluster_name
    role = next(item for item in up.of_type(ROLE) if item.checked["name"] == f"{cluster}-{REGION}-model-reader")
    provider = up.one("aws:iam/openIdConnectProvider:OpenIdConnectProvider")
    issuer = provider.checked["url"].removeprefix("https://")
    account, blue_green = "system:serviceaccount:triton:triton", stack_run.settings.triton.rollout == "blue-green"
    assert _document(role.checked["assumeRolePolicy"])["Statement"] == [
        {
            "Effect": "Allow",
            "Principal": {"Federated": provider.outputs["arn"]},
            "Action": "sts:AssumeRoleWithWebIdentity",
            "Condition": {
                "StringEquals": {
                    f"{issuer}:aud": "sts.amazonaws.com",
                    f"{issuer}:sub": [f"{account}-blue", f"{account}-green"] if blue_green else account,
                }
            },
        }
    ]
    bucket = up.one("aws:s3/bucket:Bucket", "models-bucket").outputs["arn"]
    key = up.one("aws:kms/key:Key", "models-encryption-key").outputs["arn"]
    policy = next(item for item in up.of_type("aws:iam/rolePolicy:RolePolicy") if item.checked["role"] == role.id)
    assert _document(policy.checked["policy"])["Statement"] == [
        {"Sid": "FindModels", "Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": [bucket]},
        {"Sid": "ReadReleases", "Effect": "Allow", "Action": ["s3:GetObject"], "Resource": [f"{bucket}/releases/*"]},
        {
            "Sid": "DecryptThroughS3",
            "Effect": "Allow",
            "Action": ["kms:Decrypt"],
            "Resource": [key],
            "Condition": {"StringEquals": {"kms:ViaService": f"s3.{REGION}.amazonaws.com"}},
        },
    ]
    attached = [
        item for item in up.of_type("aws:iam/rolePolicyAttachment:RolePolicyAttachment") if item.checked["role"] == role.id
    ]
    assert attached == []


def test_no_policy_grants_everything(stack_run: StackRun) -> None:
    """A key policy covers only its own key, so it may grant `kms:*` to the account."""
    wide = []
    for item in stack_run.up.of_type("aws:iam/rolePolicy:RolePolicy", "aws:iam/policy:Policy"):
        for statement in _document(item.checked["policy"])["Statement"]:
            actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
            wide += [f"{item.name}: {action}" for action in actions if action.endswith("*")]
    assert wide == []


def _setting(stack_run: StackRun, kind: str) -> dict[str, Any]:
    bucket = stack_run.up.one("aws:s3/bucket:Bucket", "models-bucket")
    settings = stack_run.up.of_type(f"aws:s3/{kind[0].lower()}{kind[1:]}:{kind}")
    (setting,) = [item for item in settings if item.checked["bucket"] == bucket.checked["bucket"]]
    return setting.checked


def test_the_model_bucket_is_encrypted_versioned_and_closed(stack_run: StackRun) -> None:
    key = stack_run.up.one("aws:kms/key:Key", "models-encryption-key").outputs["arn"]
    assert _setting(stack_run, "BucketServerSideEncryptionConfiguration")["rules"] == [
        {
            "applyServerSideEncryptionByDefault": {"sseAlgorithm": "aws:kms", "kmsMasterKeyId": key},
            "bucketKeyEnabled": True,
            "blockedEncryptionTypes": ["SSE-C"],
        }
    ]
    assert _setting(stack_run, "BucketVersioning")["versioningConfiguration"] == {"status": "Enabled"}
    blocked = _setting(stack_run, "BucketPublicAccessBlock")
    assert all(
        blocked[flag] for flag in ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")
    )
    assert _setting(stack_run, "BucketOwnershipControls")["rule"] == {"objectOwnership": "BucketOwnerEnforced"}


def test_the_model_bucket_speaks_tls_only(stack_run: StackRun) -> None:
    bucket = stack_run.up.one("aws:s3/bucket:Bucket", "models-bucket").outputs["arn"]
    statements = _document(_setting(stack_run, "BucketPolicy")["policy"])["Statement"]
    insecure = [
        item for item in statements if item.get("Condition", {}).get("Bool", {}).get("aws:SecureTransport") == "false"
    ]
    assert [(item["Effect"], item["Action"], sorted(item["Resource"])) for item in insecure] == [
        ("Deny", "s3:*", [bucket, f"{bucket}/*"])
    ]


def test_only_throwaway_environments_delete_models_with_their_bucket(stack_run: StackRun) -> None:
    bucket = stack_run.up.one("aws:s3/bucket:Bucket", "models-bucket")
    assert bucket.checked.get("forceDestroy", False) is (stack_run.stack == "local")


@pytest.mark.parametrize("attribute", ["labels", "taints"])
def test_the_scale_from_zero_tags_say_what_the_node_group_says(stack_run: StackRun, attribute: str) -> None:
    for group in _gpu_groups(stack_run):
        tags = _template_tags(stack_run, group)
        if attribute == "labels":
            said = {key: value for (kind, key), value in tags.items() if kind == "label"}
            assert said == group.checked["labels"]
        else:
            effects = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}
            said = {key: value for (kind, key), value in tags.items() if kind == "taint"}
            assert said == {
                taint["key"]: f"{taint['value']}:{effects[taint['effect']]}" for taint in group.checked["taints"]
            }


def test_gpu_groups_boot_with_the_driver_and_keep_other_pods_away(stack_run: StackRun) -> None:
    groups = {item.checked["labels"]["triton-eks/pool"]: item.checked for item in _gpu_groups(stack_run)}
    assert sorted(groups) == sorted(pool.name for pool in _node_group_pools(stack_run))
    for group in groups.values():
        assert group["amiType"] == "AL2023_x86_64_NVIDIA"
        assert group["labels"]["nvidia.com/gpu.present"] == "true"
        assert group["taints"] == [{"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}]


def test_node_groups_have_the_sizes_of_the_stack_file(stack_run: StackRun) -> None:
    settings = stack_run.settings
    expected = {
        "system": (settings.nodes.system.min, settings.nodes.system.desired, settings.nodes.system.max),
        **{pool.name: (pool.min, pool.desired, pool.max) for pool in _node_group_pools(stack_run)},
    }
    actual = {}
    for group in stack_run.account.auto_scaling_groups:
        tags = {tag["Key"]: tag["Value"] for tag in group["Tags"]}
        node_group = next(
            item for item in stack_run.account.node_groups if item["nodegroupName"] == tags["eks:nodegroup-name"]
        )
        sizes = (group["MinSize"], group["DesiredCapacity"], group["MaxSize"])
        actual[node_group["labels"]["triton-eks/pool"]] = sizes
        assert len(group["Instances"]) == group["DesiredCapacity"]
    assert actual == expected


def test_a_change_of_the_number_of_nodes_is_applied_unless_an_autoscaler_owns_it(stack_run: StackRun) -> None:
    """Only cluster-autoscaler changes the number of nodes itself."""
    ignored = {"dev": ("scalingConfig.desiredSize",)}.get(stack_run.stack, ())
    assert {item.ignore_changes for item in stack_run.up.of_type(NODE_GROUP)} == {ignored}


def test_instances_speak_the_second_version_of_the_metadata_service_only(stack_run: StackRun) -> None:
    for template in stack_run.up.of_type("aws:ec2/launchTemplate:LaunchTemplate"):
        assert template.checked["metadataOptions"]["httpTokens"] == "required"
        assert template.checked["metadataOptions"]["httpPutResponseHopLimit"] == 1
        assert [item["ebs"]["encrypted"] for item in template.checked["blockDeviceMappings"]] == ["true"]


def test_nodes_live_in_private_subnets(stack_run: StackRun) -> None:
    up = stack_run.up
    gateways = {item.checked["routeTableId"] for item in up.of_type("aws:ec2/route:Route") if "gatewayId" in item.checked}
    public = {
        item.checked["subnetId"]
        for item in up.of_type("aws:ec2/routeTableAssociation:RouteTableAssociation")
        if item.checked["routeTableId"] in gateways
    }
    assert public
    for group in up.of_type(NODE_GROUP):
        assert public.isdisjoint(group.checked["subnetIds"])


def test_log_groups_expire_and_are_encrypted(stack_run: StackRun) -> None:
    groups = stack_run.up.of_type("aws:cloudwatch/logGroup:LogGroup")
    assert groups
    for group in groups:
        assert group.checked["retentionInDays"] > 0
        assert group.checked["kmsKeyId"].startswith(f"arn:aws:kms:{REGION}:{ACCOUNT}:key/")


def test_nothing_reaches_the_internet_without_the_nat_that_the_stack_asks_for(stack_run: StackRun) -> None:
    count = {"none": 0, "single": 1, "per_az": len(stack_run.up.exports["zones"])}[stack_run.settings.network.nat]
    assert len(stack_run.up.of_type("aws:ec2/natGateway:NatGateway")) == count


def test_the_releases_objects_are_registered_where_a_release_is_pinned(stack_run: StackRun) -> None:
    names = [item.checked["metadata"]["name"] for item in stack_run.preview.of_type("kubernetes:apps/v1:Deployment")]
    server = "triton-blue" if stack_run.settings.triton.rollout == "blue-green" else "triton"
    assert (server in names) is (stack_run.settings.models.release is not None)


def _node_group_pools(stack_run: StackRun) -> tuple[GpuPool, ...]:
    """Return the GPU pools that are node groups. tests/system/component/test_autoscaling.py covers Karpenter's pools."""
    return stack_run.settings.gpu.pools if stack_run.settings.node_autoscaler != "karpenter" else ()


def _gpu_groups(stack_run: StackRun) -> list[Registration]:
    return [item for item in stack_run.up.of_type(NODE_GROUP) if item.checked.get("taints")]


def _template_tags(stack_run: StackRun, group: Registration) -> dict[tuple[str, str], str]:
    """Return cluster-autoscaler's template tags of the group's ASG: (label | taint | resources, key) -> value."""
    name = group.outputs["resources"][0]["autoscalingGroups"][0]["name"]
    found = next(item for item in stack_run.account.auto_scaling_groups if item["AutoScalingGroupName"] == name)
    prefix = "k8s.io/cluster-autoscaler/node-template/"
    parts = {tag["Key"].removeprefix(prefix): tag["Value"] for tag in found["Tags"] if tag["Key"].startswith(prefix)}
    return {(key.partition("/")[0], key.partition("/")[2]): value for key, value in parts.items()}


def test_who_may_reach_the_api_server_is_let_in_before_anything_asks_it(stack_run: StackRun) -> None:
    rules = [item for item in stack_run.up.of_type(INGRESS_RULE) if item.name.startswith("cluster-api-from-")]
    named = {"staging": ["10.30.0.0/16"], "prod": ["10.40.0.0/16"]}.get(stack_run.stack, [])
    group = stack_run.up.one(CLUSTER).outputs["vpcConfig"]["clusterSecurityGroupId"]
    port = {"ipProtocol": "tcp", "fromPort": 443, "toPort": 443}
    assert [{key: item.checked[key] for key in ("securityGroupId", "cidrIpv4", *port)} for item in rules] == [
        {"securityGroupId": group, "cidrIpv4": cidr, **port} for cidr in named
    ]
    provider = stack_run.up.one("pulumi:providers:kubernetes", "cluster-kubernetes")
    assert {item.urn for item in rules} <= set(provider.depends_on)
