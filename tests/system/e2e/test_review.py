"""The comment of a pull request, from the real engine's output, by the commands of docs/pull-requests.md."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from tests.system.e2e.conftest import Twin, change, clone

VPC, BUCKET = "aws:ec2/vpc:Vpc", "aws:s3/bucket:Bucket"
ENTRY = re.compile(r"^- \*\*`(?P<name>[^`]+)` \(`(?P<type>[^`]+)`\) is replaced\*\* because ")
FOLLOWERS = re.compile(r"^    - (?:\*\*)?(?P<count>\d+) `(?P<type>[^`]+)`")
OF_THE_VPC = {
    "aws:ec2/subnet:Subnet": 6,
    "aws:ec2/natGateway:NatGateway": 1,
    "aws:ec2/internetGateway:InternetGateway": 1,
    "aws:ec2/vpcEndpoint:VpcEndpoint": 4,
    "aws:ec2/routeTable:RouteTable": 4,
    "aws:ec2/securityGroup:SecurityGroup": 1,
    "aws:eks/nodeGroup:NodeGroup": 2,
    "aws:autoscaling/tag:Tag": 7,
    "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup": 1,
    "aws:ec2/flowLog:FlowLog": 1,
    "aws:ec2/route:Route": 3,
    "aws:ec2/routeTableAssociation:RouteTableAssociation": 6,
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": 1,
}
OF_THE_BUCKET = dict.fromkeys(
    (
        "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration",
        "aws:s3/bucketOwnershipControls:BucketOwnershipControls",
        "aws:s3/bucketPolicy:BucketPolicy",
        "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock",
        "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration",
        "aws:s3/bucketVersioning:BucketVersioning",
    ),
    1,
)


def test_the_comment_says_what_is_replaced_why_and_what_goes_with_it(own_twin: Twin, tmp_path: Path) -> None:
    """On `local`, the only stack without protected resources."""
    checkout = clone(tmp_path)
    change(checkout / "stacks" / "Pulumi.local.yaml", "cidr: 10.10.0.0/16", "cidr: 10.11.0.0/16")
    change(checkout / "spec" / "names.py", 'f"triton-models-{', 'f"triton-releases-{')
    changed = replace(own_twin, checkout=checkout)

    events, report = tmp_path / "events.json", tmp_path / "local.json"
    events.write_text(_output(changed, "twin", "preview", "local", "--against", "HEAD", "--events"))
    _output(
        changed,
        "stackctl",
        "review",
        "collect",
        "local",
        "--preview",
        str(events),
        "--against",
        "HEAD",
        "--output",
        str(report),
    )
    _output(changed, "stackctl", "review", "gate", str(report))
    comment = _output(changed, "stackctl", "review", "render", str(report))

    assert re.search(r"^\| `local` \| \*\*46\*\* \| 0 \| 3 \| 0 \| kept \| ", comment, re.MULTILINE), comment
    replaced = _replaced(comment)
    assert set(replaced) == {(VPC, "network-vpc"), (BUCKET, "models-bucket")}
    assert replaced[VPC, "network-vpc"] == OF_THE_VPC
    assert replaced[BUCKET, "models-bucket"] == OF_THE_BUCKET
    assert "  **Effect:** deletes the whole network with the cluster and everything on it" in comment
    assert "  **Effect:** empties the bucket, or fails to delete it" in comment
    assert re.search(
        r"^    - \*\*2 `aws:eks/nodeGroup:NodeGroup`: .*`nodes-system-group`\*\*, because of `subnetIds",
        comment,
        re.MULTILINE,
    )
    assert "`cluster-control-plane-eksCluster` (`aws:eks/cluster:Cluster`)**: EKS refuses this update" in comment
    assert re.search(r"^`triton-eks` [\d.]+: no violation\.$", comment, re.MULTILINE)
    assert "\n  - `s3-tls-only`: `models-policy.policy`\n" in comment
    assert "#### The preview failed" not in comment


def _output(twin: Twin, package: str, *arguments: str) -> str:
    """Run `python3 -m PACKAGE`, which must succeed, and return its output."""
    done = subprocess.run(
        [sys.executable, "-m", package, *arguments],
        cwd=twin.checkout,
        env=twin.environment(),
        text=True,
        capture_output=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    return done.stdout


def _replaced(comment: str) -> dict[tuple[str, str], dict[str, int]]:
    """Return type and name of each replacement with its own cause, and by type the number of replacements that it causes."""
    section = comment.partition("#### Replaced: deleted and created again\n")[2].partition("\n#### ")[0]
    found: dict[tuple[str, str], dict[str, int]] = {}
    for line in section.splitlines():
        if entry := ENTRY.match(line):
            below = found.setdefault((entry["type"], entry["name"]), {})
        elif followers := FOLLOWERS.match(line):
            below[followers["type"]] = int(followers["count"])
    return found
