"""Mistakes about the region, tags, network, cluster and system nodes of a stack file."""

from typing import Any

import pytest

from tests.spec.stack_config import ADMIN, DIGEST, complaints

_BY_WHOM = "aws: by AWS, kubernetes.io/ by EKS); use another tag key"
_OF_THE_INTERNET = (
    "has addresses of the internet, and nobody comes from there to an address inside of the VPC; give private ranges (the "
    "VPC's, a VPN's, a peered network's), or use endpoint: public with publicAccessCidrs"
)
MISTAKES: list[tuple[dict[str, Any], list[str]]] = [
    (
        {"aws:region": "us-east1", "network.zones": 2},
        ["aws:region: 'us-east1' is not a region of spec/catalog.py; did you mean 'us-east-1'?"],
    ),
    (
        {"aws:region": "ap-southeast-4", "network.zones": 2},
        [
            "gpu.pools[0].instanceTypes[0]: EC2 has no g5 in ap-southeast-4; "
            "that region has no GPUs at all, use another one",
            "gpu.pools[1].instanceTypes[0]: EC2 has no p4d in ap-southeast-4; "
            "that region has no GPUs at all, use another one",
        ],
    ),
    (
        {"aws:region": "ca-west-1", "network.zones": 2, "gpu.pools": "none"},
        [
            "nodes.system.instanceTypes[0]: EC2 has no m7i in ca-west-1; use m5, m6i, c6i, c7i or r6i",
            "gpu.pools: 'none' is text; give a list in square brackets",
        ],
    ),
    (
        {"aws:region": "us-west-22"},
        [("aws:region: 'us-west-22' is not a region of spec/catalog.py; did you mean 'us-west-2'?")],
    ),
    (
        {"aws:region": "Oregon"},
        [
            (
                "aws:region: 'Oregon' is not a region of spec/catalog.py; use af-south-1, ap-east-1,"
                " ap-east-2, ap-northeast-1, ap-northeast-2, ap-northeast-3, ap-south-1, ap-south-2, "
                "ap-southeast-1, ap-southeast-2, ap-southeast-3, ap-southeast-4, ap-southeast-5, ap-southeast-6, "
                "ap-southeast-7, ca-central-1, ca-west-1, cn-north-1, cn-northwest-1, eu-central-1, eu-central-2, "
                "eu-north-1, eu-south-1, eu-south-2, eu-west-1, eu-west-2, eu-west-3, il-central-1, me-central-1, "
                "me-south-1, mx-central-1, sa-east-1, us-east-1, us-east-2, us-gov-east-1, us-gov-west-1, us-west-1 or "
                "us-west-2"
            )
        ],
    ),
    (
        {"aws:region": "us-wset-2"},
        [("aws:region: 'us-wset-2' is not a region of spec/catalog.py; did you mean 'us-west-2'?")],
    ),
    ({"tags": {"owner": "a"}}, ["tags: 'cost-center' is missing; every resource is tagged with owner and cost-center"]),
    ({"tags.cost-center": 42}, ["tags.cost-center: 42 is a number; give text of 1 to 256 characters, in quotes"]),
    ({"tags.aws:x": "1"}, [("tags.aws:x: 'aws:x' is reserved (aws: by AWS, kubernetes.io/ by EKS); use another tag key")]),
    *(
        (
            {f"tags.{key}": "mine"},
            [
                f"tags.{key}: '{key}' is a tag that the program sets itself, in whatever case: a stack's own resources are "
                "told from others' by it; use another tag key"
            ],
        )
        for key in ("project", "Project", "PROJECT", "environment", "Environment", "Name", "name")
    ),
    (
        {"aws:defaultTags": {"tags": {"owner": "ml-platform", "cost-center": "inference", "project": "mine"}}},
        [
            "aws:defaultTags.tags.project: 'project' is a tag that the program sets itself, in whatever case: a stack's own "
            "resources are told from others' by it; use another tag key"
        ],
    ),
    *(
        ({"tags": {"owner": "a", "cost-center": "b", key: "1"}}, [f"tags.{key}: '{key}' is reserved ({_BY_WHOM}"])
        for key in ("eks:cluster-name", "AWS:x", "elbv2.k8s.aws/cluster", "node.k8s.amazonaws.com/instance_id", "k8s.io/x")
    ),
    (
        {"tags": {"owner": "a", "cost-center": "b", "Team": "c", "team": "d", "TEAM": "e"}},
        ["tags: Team and team and TEAM differ in case alone, which IAM refuses; keep one of them"],
    ),
    ({"tags.owner": ""}, ["tags.owner: it has 0 characters; give text of 1 to 256 characters"]),
    (
        {"tags": {"owner": "a", "cost-center": "b", "kubernetes.io/cluster/x": "1"}},
        [
            (
                "tags.kubernetes.io/cluster/x: 'kubernetes.io/cluster/x' is reserved (aws: by AWS, "
                "kubernetes.io/ by EKS); use another tag key"
            )
        ],
    ),
    (
        {"aws:defaultTags": {"tags": {"owner": "a"}}},
        [("aws:defaultTags.tags: cost-center, owner differ from triton-eks:tags; give the same tags in both")],
    ),
    (
        {"network.cidr": "10.30.0.0/255.255.0.0"},
        ["network.cidr: '10.30.0.0/255.255.0.0' gives its length as 255.255.0.0; write 10.30.0.0/16"],
    ),
    ({"network.cidr": "10.30.1.0/16"}, ["network.cidr: '10.30.1.0/16' has host bits set; write 10.30.0.0/16"]),
    (
        {"network.cidr": "10.30.0.0"},
        [
            "network.cidr: '10.30.0.0' has no prefix length; give an IPv4 range like 10.40.0.0/16, or that one address as "
            "10.30.0.0/32"
        ],
    ),
    (
        {"network.cidr": "10.30.0.300/16"},
        [("network.cidr: '10.30.0.300/16' is not an IPv4 range; give an IPv4 range like 10.40.0.0/16")],
    ),
    (
        {"network.cidr": "8.8.0.0/16"},
        [
            "network.cidr: 8.8.0.0/16 is not a private range; use one inside 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, "
            "100.64.0.0/10, 198.18.0.0/15"
        ],
    ),
    (
        {"network.cidr": "10.0.0.0/8"},
        [
            "network.cidr: 10.0.0.0/8 is larger than AWS allows; use a /16 to /20",
            (
                "network.cidr: 10.0.0.0/8 overlaps 10.100.0.0/16, from which EKS may take Kubernetes "
                "services; use another range"
            ),
        ],
    ),
    (
        {"network.cidr": "10.30.0.0/24"},
        [("network.cidr: 10.30.0.0/24 is too small for three subnets in each of four zones; use a /16 to /20")],
    ),
    (
        {"network.cidr": "10.100.0.0/16"},
        [
            (
                "network.cidr: 10.100.0.0/16 overlaps 10.100.0.0/16, from which EKS may take "
                "Kubernetes services; use another range"
            )
        ],
    ),
    (
        {"network.cidr": "172.20.0.0/18"},
        [
            (
                "network.cidr: 172.20.0.0/18 overlaps 172.20.0.0/16, from which EKS may take "
                "Kubernetes services; use another range"
            )
        ],
    ),
    (
        {"network.cidr": "10.30.0.0/20", "gpu.pools[0].max": 40},
        [
            "network.cidr: 10.30.0.0/20 gives each zone's private subnet 507 addresses and the nodes need 810 at least "
            "(every "
            "node group at max, one block of 16 for the pods of each node); use a larger range or lower max"
        ],
    ),
    ({"network.zones": 1}, ["network.zones: every outage of its one zone would be one of staging; use 2 to 4 zones"]),
    ({"network.zones": 0}, ["network.zones: 0 is out of range; use 1 to 4 zones"]),
    ({"network.zones": 5}, ["network.zones: 5 is out of range; use 1 to 4 zones"]),
    (
        {"network.zones": ["us-west-2a"]},
        ["network.zones: every outage of its one zone would be one of staging; use 2 to 4 zones"],
    ),
    (
        {"network.zones": "two"},
        [("network.zones: 'two' is text; give how many (1 to 4) or a list of zone names like [us-west-2a, us-west-2b]")],
    ),
    (
        {"network.zones": ["us-west-2a", "us-west-2a"]},
        ["network.zones[1]: 'us-west-2a' is listed twice; list each zone once"],
    ),
    (
        {"network.zones": ["us-west-2a", "us-east-1b"]},
        ["network.zones[1]: 'us-east-1b' is not a zone of us-west-2; give one like us-west-2a"],
    ),
    (
        {"network.zones": [1, 2]},
        [("network.zones: 1 is a number; give how many (1 to 4) or a list of zone names like [us-west-2a, us-west-2b]")],
    ),
    (
        {"network.nat": "none", "network.endpoints": "none"},
        [
            (
                "network.nat: 'none' with endpoints 'none' leaves nodes no way to join the cluster or"
                " to pull images; use single or per_az, or endpoints: full"
            )
        ],
    ),
    (
        {"network.nat": "none", "triton.image": f"nvcr.io/nvidia/tritonserver@{DIGEST}"},
        [
            (
                "triton.image: 'nvcr.io/nvidia/tritonserver' cannot be reached without NAT; mirror it"
                " to ECR in us-west-2 (<account>.dkr.ecr.us-west-2.amazonaws.com/...)"
            )
        ],
    ),
    (
        {"network.flowLogRetentionDays": 33},
        [
            (
                "network.flowLogRetentionDays: CloudWatch has no retention of 33 days; the next one "
                "is 60 (it accepts 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, "
                "1096, 1827, 2192, 2557, 2922, 3288, 3653)"
            )
        ],
    ),
    (
        {"cluster.logRetentionDays": 0},
        [
            (
                "cluster.logRetentionDays: CloudWatch has no retention of 0 days; the next one is 1 "
                "(it accepts 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, "
                "1827, 2192, 2557, 2922, 3288, 3653)"
            )
        ],
    ),
    (
        {"cluster.version": 1.35},
        [('cluster.version: 1.35 without quotes is a number (1.40 would become 1.4); quote it: "1.35"')],
    ),
    (
        {"cluster.version": "1.33"},
        [
            "cluster.version: EKS ended standard support of it on 2026-07-29, and spec/versions.py has no add-ons and no "
            "AMI "
            'for 1.33; use "1.34", "1.35" or "1.36"'
        ],
    ),
    (
        {"models.readerAccounts": ["222222222222", "123456789012", "222222222222", "2222"]},
        [
            "models.readerAccounts[3]: '2222' is not the id of an AWS account; give the 12 digits of an AWS account in "
            'quotes, like "123456789012"',
        ],
    ),
    (
        {"models.readerAccounts": ["222222222222", "123456789012", "222222222222"]},
        [
            "models.readerAccounts[2]: 222222222222 is listed twice; list each account once",
            "models.readerAccounts[1]: 123456789012 is the account of this stack, which reads them anyway; remove it",
        ],
    ),
    (
        {"cluster.version": "1.37"},
        [('cluster.version: spec/versions.py has no add-ons and no AMI for 1.37; use "1.34", "1.35" or "1.36"')],
    ),
    (
        {"cluster.version": "latest"},
        [("cluster.version: 'latest' is not a Kubernetes minor version; give a minor version like \"1.35\"")],
    ),
    (
        {"cluster.endpoint": "public"},
        [
            (
                "cluster.publicAccessCidrs: a public endpoint without a list is open to the world; "
                "list the ranges that may reach it"
            )
        ],
    ),
    (
        {"cluster.publicAccessCidrs": ["198.51.100.0/24"]},
        [("cluster.publicAccessCidrs: a private endpoint has no public access; remove the list or use endpoint: public")],
    ),
    (
        {"cluster.endpoint": "public", "cluster.publicAccessCidrs": ["0.0.0.0/0"]},
        [
            (
                "cluster.publicAccessCidrs[0]: 0.0.0.0/0 opens the API to the world; give the ranges "
                "of your offices, VPN or runners"
            )
        ],
    ),
    (
        {"cluster.endpoint": "public", "cluster.publicAccessCidrs": ["0.0.0.0/1"]},
        [
            (
                "cluster.publicAccessCidrs[0]: 0.0.0.0/1 opens the API to most of the internet; give "
                "the ranges of your offices, VPN or runners"
            )
        ],
    ),
    (
        {"cluster.apiAccess": {}},
        [
            "cluster.apiAccess: lets nobody in; list ranges in cidrs or groups in securityGroups, or remove the section",
        ],
    ),
    (
        {
            "cluster.apiAccess": {
                "cidrs": ["10.30.0.0/16", "0.0.0.0/0", "203.0.113.0/24", "127.0.0.0/8", "10.30.0.0/16", "10.0.0.0/7"],
            }
        },
        [
            f"cluster.apiAccess.cidrs[1]: 0.0.0.0/0 {_OF_THE_INTERNET}",
            f"cluster.apiAccess.cidrs[2]: 203.0.113.0/24 {_OF_THE_INTERNET}",
            "cluster.apiAccess.cidrs[3]: 127.0.0.0/8 is inside 127.0.0.0/8, in which no other machine has an address",
            "cluster.apiAccess.cidrs[4]: 10.30.0.0/16 is listed twice; list each range once",
            f"cluster.apiAccess.cidrs[5]: 10.0.0.0/7 {_OF_THE_INTERNET}",
        ],
    ),
    (
        {"cluster.apiAccess": {"securityGroups": ["sg-0123456789abcdef0", "default"]}},
        [
            "cluster.apiAccess.securityGroups[1]: 'default' is not the id of a security group; give the id of a security "
            "group, like sg-0123456789abcdef0",
        ],
    ),
    (
        {"cluster.apiAccess": {"securityGroups": ["sg-0123456789abcdef0", "sg-0123456789abcdef0"]}},
        ["cluster.apiAccess.securityGroups[1]: 'sg-0123456789abcdef0' is listed twice; list each group once"],
    ),
    ({"cluster.adminRoleArns": []}, ["cluster.adminRoleArns: is empty; give at least one"]),
    (
        {"cluster.viewRoleArns": ["arn:aws:iam::123456789012:role/platform-admin"]},
        [
            "cluster.viewRoleArns[0]: 'arn:aws:iam::123456789012:role/platform-admin' is in adminRoleArns, and may do more; "
            "remove it here"
        ],
    ),
    (
        {"cluster.viewRoleArns": ["arn:aws:iam::123456789012:role/looks"] * 2},
        ["cluster.viewRoleArns[1]: 'arn:aws:iam::123456789012:role/looks' is listed twice; list each role once"],
    ),
    (
        {
            "cluster.viewRoleArns": ["arn:aws:iam::123456789012:role/looks"],
            "cluster.rolloutRoleArns": [
                "arn:aws:iam::123456789012:role/platform-admin",
                "arn:aws:iam::123456789012:role/teams/looks",
                *["arn:aws:iam::123456789012:role/rolls"] * 2,
            ],
        },
        [
            "cluster.rolloutRoleArns[0]: 'arn:aws:iam::123456789012:role/platform-admin' is in adminRoleArns, and may do "
            "more; remove it here",
            "cluster.rolloutRoleArns[1]: 'arn:aws:iam::123456789012:role/teams/looks' is "
            "'arn:aws:iam::123456789012:role/looks' to IAM, which is in viewRoleArns; a role has one access entry: remove "
            "it from one of the two",
            "cluster.rolloutRoleArns[3]: 'arn:aws:iam::123456789012:role/rolls' is listed twice; list each role once",
        ],
    ),
    (
        {"cluster.adminRoleArns": ["arn:aws:iam::123456789012:user/bob"]},
        [
            (
                "cluster.adminRoleArns[0]: 'arn:aws:iam::123456789012:user/bob' is a person with "
                "lasting keys, not a role that one assumes; give the ARN of an IAM role, like "
                "arn:aws:iam::123456789012:role/platform-admin"
            )
        ],
    ),
    (
        {"cluster.adminRoleArns": ["arn:aws:sts::123456789012:assumed-role/a/b"]},
        [
            (
                "cluster.adminRoleArns[0]: 'arn:aws:sts::123456789012:assumed-role/a/b' is a session "
                "of a role, which ends; give the ARN of an IAM role, like "
                "arn:aws:iam::123456789012:role/platform-admin"
            )
        ],
    ),
    (
        {"cluster.adminRoleArns": ["platform-admin"]},
        [
            (
                "cluster.adminRoleArns[0]: 'platform-admin' is not the ARN of an IAM role; give the "
                "ARN of an IAM role, like arn:aws:iam::123456789012:role/platform-admin"
            )
        ],
    ),
    (
        {"cluster.adminRoleArns": [ADMIN, ADMIN]},
        [("cluster.adminRoleArns[1]: 'arn:aws:iam::123456789012:role/platform-admin' is listed twice; list each role once")],
    ),
    (
        {"cluster.adminRoleArns": [ADMIN, ADMIN.replace("platform-admin", "teams/Platform-Admin")]},
        [
            "cluster.adminRoleArns[1]: 'arn:aws:iam::123456789012:role/teams/Platform-Admin' is listed twice, and as "
            "'arn:aws:iam::123456789012:role/platform-admin', which is the same role to IAM; list each role once"
        ],
    ),
    (
        {"cluster.viewRoleArns": [ADMIN.upper().replace("ARN:AWS:IAM", "arn:aws:iam").replace("ROLE", "role")]},
        [
            "cluster.viewRoleArns[0]: 'arn:aws:iam::123456789012:role/PLATFORM-ADMIN' is "
            "'arn:aws:iam::123456789012:role/platform-admin' to IAM, which is in adminRoleArns, and may do more; remove it "
            "here"
        ],
    ),
    (
        {"models.readerAccounts": ["0" * 12]},
        [
            "models.readerAccounts[0]: '000000000000' is not the id of an AWS account; give the 12 digits of an AWS account "
            'in quotes, like "123456789012"'
        ],
    ),
    (
        {"nodes.system.instanceTypes": ["g5.xlarge"]},
        [
            (
                "nodes.system.instanceTypes[0]: 'g5.xlarge' has a GPU, which system nodes would "
                "waste; use m5, m6i, m7i, c6i, c7i, r6i or r7i, and gpu.pools for GPU nodes"
            )
        ],
    ),
    (
        {"nodes.system.instanceTypes": ["m7i.lrage"]},
        [
            (
                "nodes.system.instanceTypes[0]: unknown instance type 'm7i.lrage'; did you mean "
                "'m7i.large'? use a type of m5, m6i, m7i, c6i, c7i, r6i or r7i, or describe it in instanceTypes"
            )
        ],
    ),
    ({"nodes.system.min": 0}, ["nodes.system.min: 0 leaves no node for DNS and the metrics server; use at least 1"]),
    ({"nodes.system.diskGiB": 5}, ["nodes.system.diskGiB: 5 is out of range; use 20 to 16384 GiB"]),
    ({"nodes.system.min": 6}, ["nodes.system.min: 6 is more than max 3; give min <= desired <= max"]),
]


@pytest.mark.parametrize(("changes", "expected"), MISTAKES, ids=[str(changes) for changes, _ in MISTAKES])
def test_a_mistake_is_said_where_it_is_and_with_what_is_valid(changes: dict[str, Any], expected: list[str]) -> None:
    assert complaints(changes) == expected
