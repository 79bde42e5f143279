"""Reports for the golden files' comments: the engine's output, and additional facts."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from stackctl.review import preview
from stackctl.review.report import (
    Cost,
    CostLine,
    Figures,
    MeasuredCost,
    ModelChange,
    Quota,
    Range,
    Replay,
    ReplayedFleet,
    Report,
)

Event = dict[str, Any]
SECRET = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "ciphertext": "c2VjcmV0"}
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


def urn(type_: str, name: str) -> str:
    return f"urn:pulumi:prod::triton-eks::triton:nodes:Nodes${type_}::{name}"


def step(op: str, type_: str, name: str, old: Any = None, new: Any = None, **metadata: Any) -> Event:
    """Return an event of a step; `old` and `new` are inputs."""
    states = {
        key: {"inputs": value, "outputs": {}, "custom": not type_.startswith("triton:")}
        for key, value in (("old", old), ("new", new))
        if value is not None
    }
    return {"resourcePreEvent": {"metadata": {"op": op, "urn": urn(type_, name), "type": type_, **states, **metadata}}}


def replacement(type_: str, name: str, old: Any, new: Any, id_: str = "", outputs: Any = None) -> Event:
    """Return an event of a resource whose every input forces its replacement; `id_` and `outputs` are the current ones."""
    event = step("replace", type_, name, old, new, keys=list(old))
    event["resourcePreEvent"]["metadata"]["old"] |= {"id": id_, "outputs": {**old, **(outputs or {})}}
    return event


def diff(kind: str, *paths: str) -> dict[str, Any]:
    return {path: {"diffKind": kind, "inputDiff": True} for path in paths}


def violation(level: str, policy: str, resource: str, message: str, severity: str = "high") -> Event:
    names = {"policyName": policy, "policyPackName": "triton-eks", "policyPackVersion": "1.0.0"}
    where = {"resourceUrn": urn("aws:eks/cluster:Cluster", resource)} if resource else {}
    return {"policyEvent": {**names, **where, "message": message, "enforcementLevel": level, "severity": severity}}


def summary(packs: dict[str, str] | None = None, **counts: int) -> Event:
    return {"summaryEvent": {"resourceChanges": counts, "PolicyPacks": packs or {}, "isPreview": True}}


def stream(*events: Event) -> str:
    return "".join(json.dumps(event) + "\n" for event in events)


_STARTS = "a pod starts in 300 s, on a new node in 540 s (assumed)"


def much() -> Report:
    """Return a pull request with a bit of everything, some of it bad."""
    cluster, group = "aws:eks/cluster:Cluster", "aws:eks/nodeGroup:NodeGroup"
    deployment, secret = "kubernetes:apps/v1:Deployment", "kubernetes:core/v1:Secret"
    image = "spec.template.spec.containers[0].image"
    with_image = [{"spec": {"template": {"spec": {"containers": [{"image": f"triton@{tag}"}]}}}} for tag in ("a", "b")]
    zones = {"old": {"vpcConfig": {"subnetIds": ["subnet-1"]}}, "new": {"vpcConfig": {"subnetIds": ["subnet-1", UNKNOWN]}}}
    policy = [json.dumps({"Statement": [{"Action": action}]}) for action in ("s3:GetObject", "s3:*")]
    text = stream(
        {"preludeEvent": {"config": {"triton-eks:environment": "prod"}}},
        step("create-replacement", cluster, "cluster", **zones, keys=["vpcConfig.subnetIds"]),
        step(
            "replace",
            cluster,
            "cluster",
            **zones,
            keys=["vpcConfig", "vpcConfig.subnetIds"],
            detailedDiff=diff("add-replace", "vpcConfig.subnetIds[1]"),
        ),
        step("delete-replaced", cluster, "cluster", old=zones["old"]),
        step("update", deployment, "triton", *with_image, detailedDiff=diff("update", image)),
        step("update", "aws:iam/rolePolicy:RolePolicy", "reader", *({"policy": one} for one in policy), diffs=["policy"]),
        step("update", secret, "tls", {"data": {"key": "b2xk"}}, {"data": {"key": "bmV3"}}, diffs=["data"]),
        step("update", "aws:x/y:Z", "database", {"auth": SECRET}, {"auth": "plain text of a secret"}, diffs=["auth"]),
        step("delete", group, "nodes-pool-old-group", old={}),
        step("create", "triton:nodes:NodeGroup", "nodes-pool-new", new={}),
        step("create", group, "nodes-pool-new-group", new={}),
        *(step("create", "aws:autoscaling/tag:Tag", f"tag-{number:02}", new={}) for number in range(23)),
        step("same", "aws:ec2/vpc:Vpc", "vpc", {}, {}),
        violation("advisory", "nat-ha-in-prod", "", "one NAT gateway; <@everyone> | use `nat: per_az`", "medium"),
        violation(
            "mandatory", "iam-no-wildcard", "reader", "<{%fg 1%}>policy: Action s3:* is a wildcard<{%reset%}>", "critical"
        ),
        violation(
            "advisory",
            "judged-at-up",
            "",
            "Which checks wait.\n2 checks wait for values: iam-no-wildcard (reader.policy), s3-tls-only (models.policy)",
            "low",
        ),
        {
            "diagnosticEvent": {
                "severity": "warning",
                "prefix": "warning: ",
                "message": "prod.yaml: 2 warnings\n  triton.image: the digest is an example\n  worker.image: and so is this",
            }
        },
        {"diagnosticEvent": {"severity": "info", "message": "not told"}},
        summary({"triton-eks|local|/somewhere/policies": "1.0.0"}, same=200, create=25, update=4, delete=1, replace=1),
    )
    return Report(
        stack="prod",
        plan=preview.read(text),
        base="4f1d2c3b",
        models=(ModelChange("classify", None, 1), ModelChange("old", 2, None), ModelChange("resnet50", 3, 4)),
        release_before="9e0e34d8d342",
        release_after="0123456789ab",
        cost=Cost(
            region="us-west-2",
            as_of="2025-06-05",
            before=_range("1000.00", "1200.50", "3000"),
            after=_range("1000.00", "1901.25", "9000"),
            lines=(
                CostLine("control plane", _range("73", "73", "73"), _range("73", "73", "73")),
                CostLine("pool new", None, _range("0", "700.75", "6000")),
                CostLine("pool old", _range("0.5", "0.5", "0.5"), None),
            ),
            per_million_before=Decimal("18.071"),
            per_million_after=Decimal("28.5"),
            measured=(
                MeasuredCost("classify", None, Decimal("9.5123")),
                MeasuredCost("old", Decimal("3.1"), None),
                MeasuredCost("resnet50", Decimal("4.25"), Decimal("3.75")),
            ),
            notes=("spot instances at 50% of the on-demand price", "no measured throughput of normalize"),
        ),
        quotas=(
            Quota("Running On-Demand G and VT instances", "ec2/L-DB2E81BA", "vCPUs", 36, 60),
            Quota("VPCs per Region", "vpc/L-F678F1CE", "VPCs", 1, 1),
        ),
        replays=(
            Replay(
                "diurnal",
                (
                    ReplayedFleet("triton", _figures("0.0003", "96.04", "96.58"), _figures("0.0412", "72.3", "72.73")),
                    ReplayedFleet("triton-new", None, _figures("0", "24", None)),
                ),
                (_STARTS,),
            ),
            Replay("slow-pod", (), (_STARTS,)),
            Replay(
                "flash-crowd",
                (
                    ReplayedFleet(
                        "triton",
                        Figures(Decimal("0.01"), Decimal(7), Decimal("7.04"), 40, 1),
                        Figures(Decimal("0.2"), Decimal(5), Decimal("5.03"), 610, 3),
                    ),
                ),
                (_STARTS,),
            ),
        ),
    )


def moved() -> Report:
    """Return a VPC with another address range: consequences are not reported as separate changes."""
    vpc, subnet, group = "aws:ec2/vpc:Vpc", "aws:ec2/subnet:Subnet", "aws:eks/nodeGroup:NodeGroup"
    tag, log = "aws:autoscaling/tag:Tag", "aws:cloudwatch/logGroup:LogGroup"
    # The VPC comes last: its consequences are still below it, and before no other change.
    return Report(
        "dev",
        preview.read(
            stream(
                replacement(tag, "a-tag", {"autoscalingGroupName": "eks-1"}, {"autoscalingGroupName": UNKNOWN}),
                *(
                    replacement(
                        subnet,
                        f"subnet-{zone}",
                        {"cidrBlock": f"10.20.{zone}.0/24", "vpcId": "vpc-1"},
                        {"cidrBlock": f"10.21.{zone}.0/24", "vpcId": UNKNOWN},
                        id_=f"subnet-id-{zone}",
                    )
                    for zone in (1, 2)
                ),
                replacement(
                    group,
                    "group",
                    {"subnetIds": ["subnet-id-1", "subnet-id-2"]},
                    {"subnetIds": [UNKNOWN, UNKNOWN]},
                    id_="dev:group",
                    outputs={"resources": [{"autoscalingGroups": [{"name": "eks-1"}]}], "subnetIds": ["subnet-id-1"]},
                ),
                step(
                    "update",
                    "aws:eks/cluster:Cluster",
                    "cluster",
                    {"vpcConfig": {"subnetIds": ["subnet-id-1"]}},
                    {"vpcConfig": {"subnetIds": [UNKNOWN]}},
                    detailedDiff=diff("update", "vpcConfig.subnetIds[0]"),
                ),
                replacement(log, "logs", {"name": "a"}, {"name": "b"}),
                replacement(vpc, "vpc", {"cidrBlock": "10.20.0.0/16"}, {"cidrBlock": "10.21.0.0/16"}, id_="vpc-1"),
                summary({"triton-eks": "1.0.0"}, replace=6, update=1, same=76),
            )
        ),
    )


def nothing() -> Report:
    """Return a pull request without changes of resources or policy violations."""
    return Report("dev", preview.read(stream(summary({"triton-eks": "1.0.0"}, same=113))), base="4f1d2c3b", models=())


def failed() -> Report:
    """Return a preview that the program itself refuses."""
    message = (
        "the program ended\n"
        + "  File somewhere\n" * 100
        + "ValueError: gpu.pools[0].min: 5 is out of range\n```\nuse 0 to 4\n"
    )
    return Report(
        "staging",
        preview.read(
            stream({"diagnosticEvent": {"severity": "error", "message": message}}, summary({"triton-eks": "1.0.0"}))
        ),
    )


def _figures(missed: str, gpu_hours: str, usd: str | None) -> Figures:
    return Figures(Decimal(missed), Decimal(gpu_hours), Decimal(usd) if usd is not None else None)


def _range(*amounts: str) -> Range:
    return Range(*(Decimal(amount) for amount in amounts))
