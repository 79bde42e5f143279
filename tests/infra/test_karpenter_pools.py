"""GPU pools as Karpenter gets them, from the same settings as node groups, with the kinds of Karpenter's Go module.

The chart of cluster-autoscaler cannot be pulled here: the tests compare its values with
docs/facts/charts.md#cluster-autoscaler.
"""

import json
from typing import Any

import pytest
import yaml

from infra.platform import cluster_autoscaler, karpenter, node_interruptions
from infra.platform.karpenter_policy import controller_policy
from infra.platform.karpenter_pools import ami_alias, cpu_pool_spec, node_class_spec, node_pool_spec
from spec import cpu_pool, gpu_pool
from spec.settings.gpu import GpuPool
from spec.settings.nodes import CpuPool
from spec.versions import CLUSTER_AUTOSCALER_IMAGES, KUBERNETES
from tests import crds
from tests.infra.access import ACCOUNT, access
from tests.infra.test_fetcher import LOCAL
from tests.pod_identity import assert_credentials
from tests.spec.stack_config import settings
from tests.spec.test_stack_mistakes_autoscaling import KARPENTER
from tests.spec.test_stack_mistakes_relations import WORKER

CLUSTER = access()
RESERVATION = "cr-0123456789abcdef0"
RESERVED = {"reservationId": RESERVATION, "zones": ["us-west-2b"]}


def pool(**changes: Any) -> GpuPool:
    merged = {**KARPENTER, **{f"gpu.pools[0].{key}": value for key, value in changes.items()}}
    return settings(merged).gpu.pools[0]


def requirement(spec: dict[str, Any], key: str) -> list[str]:
    (found,) = [item for item in spec["template"]["spec"]["requirements"] if item["key"] == key]
    assert found["operator"] == "In"
    return list(found["values"])


POOLS: dict[str, dict[str, Any]] = {
    "on-demand": {},
    "spot": {"capacity": "spot", "instanceTypes": ["g5.xlarge", "g5.2xlarge"]},
    "reservation": {"capacity": "reservation", **RESERVED},
    "one zone": {"zones": ["us-west-2a"]},
    "parallel pulls": {"imagePull": "soci"},
}


@pytest.mark.parametrize("changes", POOLS.values(), ids=POOLS)
def test_karpenter_accepts_what_is_made_of_a_pool(changes: dict[str, Any]) -> None:
    of = pool(**changes)
    metadata = {"name": of.name}
    node_class = {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": metadata}
    node_pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": metadata}
    assert crds.problems("karpenter-crd", {**node_class, "spec": node_class_spec(of, CLUSTER, "profile")}) == []
    assert crds.problems("karpenter-crd", {**node_pool, "spec": node_pool_spec(of)}) == []


def cached(**changes: Any) -> GpuPool:
    kept = {f"gpu.pools[0].{key}": value for key, value in {"modelCacheGiB": 100, **changes}.items()}
    return settings({**KARPENTER, **LOCAL, **kept}).gpu.pools[0]


def test_karpenters_nodes_have_the_folder_in_which_pods_share_releases() -> None:
    of = cached()
    said = node_class_spec(of, CLUSTER, "profile")["userData"]
    assert "install -d -o 1000 -g 1000 -m 0750 /var/lib/kubelet/model-cache" in said
    assert "FastImagePull" not in said
    both = cached(imagePull="soci")
    assert "FastImagePull: true" in node_class_spec(both, CLUSTER, "profile")["userData"]


def test_parallel_pulls_are_told_to_karpenters_nodes_beside_what_it_tells_them_itself() -> None:
    assert "userData" not in node_class_spec(pool(), CLUSTER, "profile")
    told = yaml.safe_load(node_class_spec(pool(imagePull="soci"), CLUSTER, "profile")["userData"])
    assert told == {
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "spec": {"featureGates": {"FastImagePull": True}},
    }


def test_karpenter_refuses_a_field_that_it_does_not_know() -> None:
    """Proves that the check can fail."""
    spec = node_pool_spec(pool())
    spec["disruption"]["consolidateWhen"] = "empty"
    node_pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "g5"}, "spec": spec}
    (problem,) = crds.problems("karpenter-crd", node_pool)
    assert problem.startswith("spec.disruption: Additional properties are not allowed ('consolidateWhen'")


@pytest.mark.parametrize(
    ("changes", "chain"),
    [
        ({}, ["on-demand"]),
        ({"capacity": "spot"}, ["spot", "on-demand"]),
        ({"capacity": "reservation", **RESERVED}, ["reserved", "spot", "on-demand"]),
        ({"capacity": "capacity-block", **RESERVED, "instanceTypes": ["p5.48xlarge"]}, ["reserved"]),
    ],
)
def test_capacity_is_taken_from_where_the_pool_begins_down_to_on_demand(changes: dict[str, Any], chain: list[str]) -> None:
    assert requirement(node_pool_spec(pool(**changes)), "karpenter.sh/capacity-type") == chain


def test_nodes_are_like_those_of_a_node_group() -> None:
    of = pool()
    template = node_pool_spec(of)["template"]
    assert template["metadata"]["labels"] == gpu_pool.labels(of)
    assert template["spec"]["taints"] == [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    assert requirement(node_pool_spec(of), "node.kubernetes.io/instance-type") == ["g5.xlarge"]


def test_a_pool_has_no_more_gpus_than_its_largest_number_of_nodes() -> None:
    assert node_pool_spec(pool(max=6))["limits"] == {"nvidia.com/gpu": "6"}
    p4d = settings(KARPENTER).gpu.pools[1]
    assert node_pool_spec(p4d)["limits"] == {"nvidia.com/gpu": "16"}


def test_only_an_empty_node_goes_and_one_at_a_time() -> None:
    """No node expires by age, because expiry ignores disruption budgets."""
    assert node_pool_spec(pool())["template"]["spec"]["expireAfter"] == "Never"
    assert node_pool_spec(pool())["disruption"] == {
        "consolidationPolicy": "WhenEmpty",
        "consolidateAfter": "15m",
        "budgets": [{"nodes": "1"}],
    }


def test_nodes_that_hold_several_pods_are_joined_one_at_a_time() -> None:
    spec = node_pool_spec(pool(), packed=True)
    node_pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "g5"}, "spec": spec}
    assert crds.problems("karpenter-crd", node_pool) == []
    assert spec["disruption"] == {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": "15m",
        "budgets": [{"nodes": "1"}],
    }


def workers_pool() -> CpuPool:
    section = {"instanceTypes": ["m7i.xlarge", "m6i.xlarge"], "max": 4, "diskGiB": 50}
    found = settings({**KARPENTER, "worker": WORKER, "nodes.cpu": section}).nodes.cpu
    assert found is not None
    return found


def test_nodes_for_workers_are_for_nobody_else() -> None:
    of = workers_pool()
    spec = cpu_pool_spec(of)
    node_pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": of.name}, "spec": spec}
    assert crds.problems("karpenter-crd", node_pool) == []
    placement = cpu_pool.placement()
    assert spec["template"]["metadata"]["labels"] == placement["nodeSelector"] == {"triton-eks/pool": "cpu"}
    (taint,), (toleration,) = spec["template"]["spec"]["taints"], placement["tolerations"]
    assert toleration == {**taint, "operator": "Equal"}
    assert requirement(spec, "node.kubernetes.io/instance-type") == ["m7i.xlarge", "m6i.xlarge"]
    assert requirement(spec, "karpenter.sh/capacity-type") == ["on-demand"]
    assert spec["limits"] == {"cpu": "16"}, "four nodes of four vCPUs"


def test_their_instances_start_without_a_driver_in_every_zone() -> None:
    of = workers_pool()
    spec = node_class_spec(of, CLUSTER, "profile")
    node_class = {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": of.name}}
    assert crds.problems("karpenter-crd", {**node_class, "spec": spec}) == []
    assert [term["id"] for term in spec["subnetSelectorTerms"]] == ["subnet-0a", "subnet-0b", "subnet-0c"]
    assert "instanceStorePolicy" not in spec and "capacityReservationSelectorTerms" not in spec
    assert spec["tags"] == {**CLUSTER.stack.named("triton-staging-cpu"), "ebs.csi.aws.com/cluster-name": "triton-staging"}


def test_instances_start_as_those_of_a_node_group_do() -> None:
    spec = node_class_spec(pool(), CLUSTER, "profile")
    assert spec["amiSelectorTerms"] == [{"alias": "al2023@v20260911"}]
    assert spec["metadataOptions"] == {"httpEndpoint": "enabled", "httpTokens": "required", "httpPutResponseHopLimit": 1}
    (disk,) = spec["blockDeviceMappings"]
    assert (disk["ebs"]["encrypted"], disk["ebs"]["volumeType"], disk["ebs"]["volumeSize"]) == (True, "gp3", "200Gi")
    assert spec["instanceStorePolicy"] == "RAID0"
    assert spec["kubelet"] == {"maxPods": 110}
    assert spec["tags"] == {**CLUSTER.stack.named("triton-staging-g5"), "ebs.csi.aws.com/cluster-name": "triton-staging"}


def test_instances_start_in_the_zones_of_their_pool() -> None:
    everywhere = [{"id": "subnet-0a"}, {"id": "subnet-0b"}, {"id": "subnet-0c"}]
    assert node_class_spec(pool(), CLUSTER, "profile")["subnetSelectorTerms"] == everywhere
    assert node_class_spec(pool(zones=["us-west-2b"]), CLUSTER, "profile")["subnetSelectorTerms"] == [{"id": "subnet-0b"}]


def test_a_reservation_is_named() -> None:
    assert "capacityReservationSelectorTerms" not in node_class_spec(pool(), CLUSTER, "profile")
    spec = node_class_spec(pool(capacity="reservation", **RESERVED), CLUSTER, "profile")
    assert spec["capacityReservationSelectorTerms"] == [{"id": RESERVATION}]


@pytest.mark.parametrize("version", KUBERNETES)
def test_each_release_of_the_images_has_an_alias(version: str) -> None:
    assert ami_alias(KUBERNETES[version].ami_release).startswith("al2023@v2026")


def policy() -> dict[str, dict[str, Any]]:
    document = json.loads(controller_policy(ACCOUNT, "c", "arn:role", "arn:queue"))
    return {statement["Sid"]: statement for statement in document["Statement"]}


def test_the_controller_changes_only_what_carries_the_clusters_tag() -> None:
    free = {"LaunchWithWhatIsThere", "LookAround"}
    for sid, statement in policy().items():
        if sid in free or not any(action.startswith("ec2:") for action in statement["Action"]):
            continue
        tags = {key.partition("/")[2]: value for key, value in statement["Condition"]["StringEquals"].items()}
        assert tags["kubernetes.io/cluster/c"] == "owned", sid


def test_the_controller_makes_no_instance_profiles_and_has_no_wildcards() -> None:
    actions = {action for statement in policy().values() for action in statement["Action"]}
    assert {action for action in actions if "InstanceProfile" in action} == {
        "iam:GetInstanceProfile",
        "iam:ListInstanceProfiles",
    }
    assert not [action for action in actions if "*" in action]


def test_the_policy_fits_a_role() -> None:
    """All inline policies of a role may have 10,240 characters, without white space (IAM quotas)."""
    assert len(controller_policy(ACCOUNT, "triton-staging", "arn:aws:iam::123456789012:role/" + "x" * 64, "q" * 80)) < 10_240


def test_only_our_rules_may_write_to_the_queue_of_interruptions() -> None:
    statements = json.loads(node_interruptions.queue_policy("arn:queue", "arn:rules"))["Statement"]
    (allowed,) = [item for item in statements if item["Effect"] == "Allow"]
    assert allowed["Principal"] == {"Service": "events.amazonaws.com"}
    assert allowed["Condition"] == {"ArnLike": {"aws:SourceArn": "arn:rules"}}


def karpenter_values(**changes: Any) -> dict[str, Any]:
    given = settings({**KARPENTER, **changes})
    cluster = access(internet=given.network.nat != "none")
    return karpenter.values(cluster, "q", monitored=given.monitoring is not None)


def test_karpenter_is_told_its_cluster_and_its_queue() -> None:
    given = karpenter_values(**{"network.nat": "none"})
    assert given["settings"] == {
        "clusterName": "triton-staging",
        "interruptionQueue": "q",
        "isolatedVPC": True,
        "eksControlPlane": True,
        "vmMemoryOverheadPercent": 0.06,
        "featureGates": {"reservedCapacity": True, "nodeRepair": True},
    }
    assert (given["replicas"], given["serviceAccount"]["name"]) == (2, "karpenter")


def test_karpenter_has_its_identity_in_its_own_pod_however_late_the_association_is() -> None:
    """The values set the additions of EKS's webhook (defaults of its main.go). It skips a pod that is admitted too early."""
    given = karpenter_values()
    assert given["controller"]["env"] == [
        {"name": "AWS_REGION", "value": "us-west-2"},
        {"name": "AWS_CONTAINER_CREDENTIALS_FULL_URI", "value": "http://169.254.170.23/v1/credentials"},
        {
            "name": "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
            "value": "/var/run/secrets/pods.eks.amazonaws.com/serviceaccount/eks-pod-identity-token",
        },
    ]
    (mount,) = given["controller"]["extraVolumeMounts"]
    (volume,) = given["extraVolumes"]
    assert (mount["name"], volume["name"]) == ("eks-pod-identity-token",) * 2, "the webhook looks for this name"
    assert mount["mountPath"] == "/var/run/secrets/pods.eks.amazonaws.com/serviceaccount"
    assert volume["projected"]["sources"] == [
        {
            "serviceAccountToken": {
                "audience": "pods.eks.amazonaws.com",
                "expirationSeconds": 86400,
                "path": "eks-pod-identity-token",
            }
        }
    ]
    assert given["controller"]["resources"], "what base.yaml has of the controller is kept"


def autoscaler_values(version: str) -> dict[str, Any]:
    return cluster_autoscaler.values(access(version=version), monitored=False)


def test_cluster_autoscaler_is_told_where_to_look_or_it_would_not_be_there_at_all() -> None:
    given = autoscaler_values("1.35")
    assert (given["autoDiscovery"], given["awsRegion"]) == ({"clusterName": "triton-staging"}, "us-west-2")


def test_cluster_autoscaler_gets_credentials_by_pod_identity() -> None:
    """Its chart takes environment variables as a mapping (docs/facts/charts.md#identity-in-aws)."""
    given = autoscaler_values("1.35")
    assert isinstance(given["extraEnv"], dict)
    assert_credentials(given["extraEnv"], given["extraVolumeMounts"], given["extraVolumes"])


@pytest.mark.parametrize("version", KUBERNETES)
def test_cluster_autoscaler_is_of_the_clusters_minor_version(version: str) -> None:
    assert autoscaler_values(version)["image"]["tag"].startswith(f"v{version}.")
    assert version in CLUSTER_AUTOSCALER_IMAGES


def test_an_empty_gpu_node_is_below_the_threshold_at_which_it_goes() -> None:
    assert 0 < autoscaler_values("1.35")["extraArgs"]["scale-down-gpu-utilization-threshold"] < 1 / 8


def test_cluster_autoscaler_resizes_the_groups_of_its_cluster_alone() -> None:
    statements = json.loads(cluster_autoscaler.autoscaler_policy(ACCOUNT, "c"))["Statement"]
    (changing,) = [item for item in statements if "autoscaling:SetDesiredCapacity" in item["Action"]]
    assert changing["Resource"] == ["arn:aws:autoscaling:us-west-2:123456789012:autoScalingGroup:*:autoScalingGroupName/*"]
    assert changing["Condition"] == {"StringEquals": {"aws:ResourceTag/k8s.io/cluster-autoscaler/c": "owned"}}
    assert [item["Resource"] for item in statements if "*" in item["Resource"] and item["Sid"] != "LookAround"] == []
