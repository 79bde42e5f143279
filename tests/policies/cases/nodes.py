"""Cases of policies about nodes."""

from tests.policies.case import ABSENT, UNKNOWN, Case, fail, made
from triton_policies.nodes import NODE_CLASS, NODE_GROUP, NODE_POOL, STORAGE_CLASS, TEMPLATE

_DISK = {"deviceName": "/dev/xvda", "ebs": {"encrypted": "true", "deleteOnTermination": "true", "volumeType": "gp3"}}
_SUBNETS = (
    made(NODE_GROUP, "group", {"subnetIds": ["subnet-1"]}, subnetIds="private"),
    made("aws:ec2/subnet:Subnet", "private", {"id": "subnet-1"}),
    made("aws:ec2/subnet:Subnet", "public", {"id": "subnet-2"}),
    made("aws:ec2/routeTable:RouteTable", "private-table", {"id": "rtb-1"}),
    made("aws:ec2/routeTable:RouteTable", "public-table", {"id": "rtb-2"}),
    made(
        "aws:ec2/routeTableAssociation:RouteTableAssociation",
        "of-private",
        {},
        subnetId="private",
        routeTableId="private-table",
    ),
    made(
        "aws:ec2/routeTableAssociation:RouteTableAssociation",
        "of-public",
        {},
        subnetId="public",
        routeTableId="public-table",
    ),
    made("aws:ec2/internetGateway:InternetGateway", "gateway", {"id": "igw-1"}),
    made("aws:ec2/route:Route", "out", {"gatewayId": "igw-1"}, routeTableId="public-table", gatewayId="gateway"),
)

CASES = (
    Case(
        policy="ng-private-subnets",
        type="",
        passes=_SUBNETS,
        fails=(
            fail(
                {"group": made(NODE_GROUP, "group", {}, subnetIds="private public")},
                (
                    "group: subnetIds: has public, whose route out leads to an internet gateway: nodes are on the "
                    "internet. "
                    "Fix: give node groups private subnets, whose default route is a NAT gateway or nothing"
                ),
            ),
            # Only by ids, as in `up`, which does not say where values come from.
            fail(
                {"group": made(NODE_GROUP, "group", {"subnetIds": ["subnet-2"]})},
                (
                    "group: subnetIds: has public, whose route out leads to an internet gateway: nodes are on the "
                    "internet. "
                    "Fix: give node groups private subnets, whose default route is a NAT gateway or nothing"
                ),
            ),
            fail(
                {"class": made(NODE_CLASS, "class", {"spec": {"subnetSelectorTerms": [{"id": "subnet-2"}]}})},
                (
                    "class: spec.subnetSelectorTerms: has public, whose route out leads to an internet gateway: "
                    "nodes are on the internet. "
                    "Fix: give node groups private subnets, whose default route is a NAT gateway or nothing"
                ),
            ),
        ),
        unknown=("group", "subnetIds"),
        needs_no_value=True,
    ),
    Case(
        policy="ng-private-subnets",
        type="",
        passes=(
            made(NODE_GROUP, "group", {"subnetIds": ["subnet-9"]}),
            made("aws:ec2/subnet:Subnet", "private", {"id": "subnet-1"}),
        ),
        fails=(),
        unknown=("group", "subnetIds"),
    ),
    Case(
        policy="lt-imdsv2",
        type=NODE_GROUP,
        passes={"launchTemplate": {"id": "lt-1"}},
        fails=(
            fail(
                {"launchTemplate": ABSENT},
                (
                    "it: launchTemplate: is not set: EKS takes its own, and pods reach the node's credentials. "
                    "Fix: give the group a launch template"
                ),
            ),
        ),
        unknown="launchTemplate",
        needs_no_value=True,
    ),
    Case(
        policy="lt-encrypted-gp3",
        type=NODE_GROUP,
        passes={"launchTemplate": {"id": "lt-1"}},
        fails=(
            fail(
                {"launchTemplate": ABSENT},
                (
                    "it: launchTemplate: is not set: EKS takes its own, and the nodes' disks are not encrypted. "
                    "Fix: give the group a launch template"
                ),
            ),
        ),
        unknown="launchTemplate",
        needs_no_value=True,
    ),
    Case(
        policy="ng-no-ssh",
        type=NODE_GROUP,
        passes={},
        # An unknown key is no better than a known key.
        fails=(
            fail(
                {"remoteAccess": {"ec2SshKey": "mine"}},
                (
                    "it: remoteAccess: is set: whoever has the key gets on every node, and nothing logs it. "
                    "Fix: leave it out, and use `aws ssm start-session`"
                ),
            ),
            fail(
                {"remoteAccess": UNKNOWN},
                (
                    "it: remoteAccess: is set: whoever has the key gets on every node, and nothing logs it. "
                    "Fix: leave it out, and use `aws ssm start-session`"
                ),
            ),
        ),
        unknown=None,
    ),
    Case(
        policy="ng-no-ssh",
        type=TEMPLATE,
        passes={},
        fails=(
            fail(
                {"keyName": "mine"},
                (
                    "it: keyName: is set: whoever has the key gets on every node, and nothing logs it. "
                    "Fix: leave it out, and use `aws ssm start-session`"
                ),
            ),
            fail(
                {"keyName": UNKNOWN},
                (
                    "it: keyName: is set: whoever has the key gets on every node, and nothing logs it. "
                    "Fix: leave it out, and use `aws ssm start-session`"
                ),
            ),
        ),
        unknown=None,
    ),
    Case(
        policy="lt-imdsv2",
        type=TEMPLATE,
        passes={"metadataOptions": {"httpTokens": "required", "httpPutResponseHopLimit": 1}},
        fails=(
            fail(
                {"metadataOptions.httpTokens": "optional"},
                (
                    "it: metadataOptions.httpTokens: is optional: a request forged by a pod reads the node's "
                    "credentials (IMDSv1). "
                    "Fix: set it to required"
                ),
            ),
            fail(
                {"metadataOptions.httpPutResponseHopLimit": 2},
                (
                    "it: metadataOptions.httpPutResponseHopLimit: is 2; more than 1 lets pods reach the node's "
                    "credentials. "
                    "Fix: set it to 1"
                ),
            ),
            fail(
                {"metadataOptions": ABSENT},
                (
                    "it: metadataOptions.httpTokens: is not set: a request forged by a pod reads the node's "
                    "credentials (IMDSv1). "
                    "Fix: set it to required"
                ),
                (
                    "it: metadataOptions.httpPutResponseHopLimit: is not set; more than 1 lets pods reach the "
                    "node's credentials. "
                    "Fix: set it to 1"
                ),
            ),
        ),
        unknown="metadataOptions.httpTokens",
    ),
    Case(
        policy="lt-imdsv2",
        type=NODE_CLASS,
        passes={"spec": {"metadataOptions": {"httpTokens": "required", "httpPutResponseHopLimit": 1}}},
        fails=(
            fail(
                {"spec.metadataOptions.httpTokens": "optional"},
                (
                    "it: spec.metadataOptions.httpTokens: is optional: a request forged by a pod reads the node's "
                    "credentials (IMDSv1). "
                    "Fix: set it to required"
                ),
            ),
        ),
        unknown="spec.metadataOptions.httpTokens",
    ),
    Case(
        policy="lt-encrypted-gp3",
        type=TEMPLATE,
        passes={"blockDeviceMappings": [_DISK]},
        fails=(
            fail(
                {"blockDeviceMappings": ABSENT},
                (
                    "it: blockDeviceMappings: is not set: the AMI decides, and its volume is not encrypted. "
                    "Fix: set encrypted and deleteOnTermination to true, volumeType to gp3"
                ),
            ),
            fail(
                {"blockDeviceMappings[0].ebs.encrypted": "false"},
                (
                    "it: blockDeviceMappings[0].ebs.encrypted: is false: the node's disk is not encrypted. "
                    "Fix: set encrypted and deleteOnTermination to true, volumeType to gp3"
                ),
            ),
            fail(
                {"blockDeviceMappings[0].ebs.volumeType": "gp2"},
                (
                    "it: blockDeviceMappings[0].ebs.volumeType: is gp2: gp3 is faster and cheaper. "
                    "Fix: set encrypted and deleteOnTermination to true, volumeType to gp3"
                ),
            ),
            fail(
                {"blockDeviceMappings[0].ebs.deleteOnTermination": "false"},
                (
                    "it: blockDeviceMappings[0].ebs.deleteOnTermination: is false: disks of nodes that are gone are "
                    "billed for ever. "
                    "Fix: set encrypted and deleteOnTermination to true, volumeType to gp3"
                ),
            ),
        ),
        unknown="blockDeviceMappings[0].ebs.encrypted",
    ),
    Case(
        policy="lt-encrypted-gp3",
        type=NODE_CLASS,
        passes={
            "spec": {"blockDeviceMappings": [{"ebs": {"encrypted": True, "deleteOnTermination": True, "volumeType": "gp3"}}]}
        },
        fails=(
            fail(
                {"spec.blockDeviceMappings[0].ebs.encrypted": ABSENT},
                (
                    "it: spec.blockDeviceMappings[0].ebs.encrypted: is not set: the node's disk is not encrypted. "
                    "Fix: set encrypted and deleteOnTermination to true, volumeType to gp3"
                ),
            ),
        ),
        unknown="spec.blockDeviceMappings",
    ),
    Case(
        policy="lt-encrypted-gp3",
        type=STORAGE_CLASS,
        passes={"provisioner": "ebs.csi.aws.com", "parameters": {"type": "gp3", "encrypted": "true"}},
        fails=(
            fail(
                {"parameters.encrypted": ABSENT},
                ('it: parameters.encrypted: is not set: volumes of pods are not encrypted. Fix: set it to "true"'),
            ),
        ),
        unknown="parameters",
    ),
    Case(
        policy="lt-no-public-address",
        type=TEMPLATE,
        passes={"networkInterfaces": [{"associatePublicIpAddress": "false"}]},
        fails=(
            fail(
                {"networkInterfaces[0].associatePublicIpAddress": "true"},
                (
                    "it: networkInterfaces[0].associatePublicIpAddress: is true: nodes have addresses on the "
                    "internet. "
                    "Fix: leave it out"
                ),
            ),
        ),
        unknown="networkInterfaces[0].associatePublicIpAddress",
    ),
    Case(
        policy="lt-no-public-address",
        type=NODE_CLASS,
        passes={"spec": {}},
        fails=(
            fail(
                {"spec.associatePublicIPAddress": True},
                ("it: spec.associatePublicIPAddress: is true: nodes have addresses on the internet. Fix: leave it out"),
            ),
        ),
        unknown="spec.associatePublicIPAddress",
    ),
    Case(
        policy="ng-release-pinned",
        type=NODE_GROUP,
        passes={"amiType": "AL2023_x86_64_NVIDIA", "releaseVersion": "1.35.6-20260728"},
        fails=(
            fail(
                {"releaseVersion": ABSENT},
                ("it: releaseVersion: is not set: each new node may run another image. Fix: set releaseVersion"),
            ),
        ),
        unknown="releaseVersion",
    ),
    Case(
        policy="ng-release-pinned",
        type=NODE_CLASS,
        passes={"spec": {"amiSelectorTerms": [{"alias": "al2023@v20260728"}]}},
        fails=(
            fail(
                {"spec.amiSelectorTerms[0].alias": "al2023@latest"},
                (
                    "it: spec.amiSelectorTerms[0].alias: is al2023@latest: nodes change their image the day AWS "
                    "publishes one. "
                    "Fix: name the release, e.g. al2023@v20260728"
                ),
            ),
        ),
        unknown="spec.amiSelectorTerms",
    ),
    Case(
        policy="ng-release-pinned",
        type=NODE_CLASS,
        passes={"spec": {"amiSelectorTerms": [{"id": "ami-1"}]}},
        fails=(
            fail(
                {"spec.amiSelectorTerms[0]": {"name": "amazon-eks-node-*"}},
                (
                    "it: spec.amiSelectorTerms[0]: has neither alias nor id: nodes take the newest image that matches. "
                    "Fix: name the release, e.g. al2023@v20260728"
                ),
            ),
        ),
        unknown="spec.amiSelectorTerms",
    ),
    Case(
        policy="karpenter-pool-limits",
        type=NODE_POOL,
        passes={"spec": {"limits": {"nvidia.com/gpu": "9"}, "disruption": {"budgets": [{"nodes": "1"}]}}},
        fails=(
            fail(
                {"spec.limits": ABSENT},
                ("it: spec.limits: is not set: pending pods may start nodes without end. Fix: set nvidia.com/gpu or cpu"),
            ),
            fail(
                {"spec.disruption": {}},
                (
                    "it: spec.disruption.budgets: is not set: a tenth of all nodes may be replaced at a time. "
                    "Fix: set it, e.g. nodes: 1"
                ),
            ),
        ),
        unknown="spec.limits",
    ),
)
