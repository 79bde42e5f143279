"""Each check on an account's and a cluster's answers: correct, wrong, and empty."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from botocore.stub import ANY, Stubber

from spec import gpu_pool
from spec.gpu_pool import GPU_TAINT
from spec.settings import Settings
from stackctl.account.guard import Caller
from stackctl.account.read_only import Readers
from stackctl.certify.checks import account, nodes, platform, run, serving
from stackctl.certify.operations import OPERATIONS
from stackctl.certify.outcome import Outcome, agree, differ, not_tried
from stackctl.certify.subject import FIRST_INFERENCE, TEARDOWN, UP, Subject
from stackctl.cost.prices import Price, PriceTable
from stackctl.cost.refresh import Refreshed
from stackctl.destroy.state import Resource
from stackctl.orphans.search import Leftover
from stackctl.preflight.checks.check import fail, ok
from stackctl.preflight.command import Row
from tests.aws_environment import use_none_of_the_developers
from tests.spec.stack_config import settings
from tests.spec.test_fleets import THREE
from tests.spec.test_stack_mistakes_autoscaling import HPA, KARPENTER, MONITORED
from tests.spec.test_stack_mistakes_traffic import GATEWAY

ARN = "arn:aws:iam::123456789012:role/reader-1"
CALLER = Caller("123456789012", "arn:aws:sts::123456789012:assumed-role/admin/jane")
ROLE = Resource(
    "urn:pulumi:staging::triton-eks::aws:iam/role:Role::model-reader-role",
    "reader-1",
    "aws:iam/role:Role",
    True,
    False,
    False,
    {},
)


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Readers:
    use_none_of_the_developers(monkeypatch, tmp_path)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of-nobody")
    return Readers("us-west-2", OPERATIONS)


def subject(
    objects: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    given: Settings | None = None,
    readers: Readers | None = None,
    **more: Any,
) -> Subject:
    """Return a run of staging: `objects` by a part of their path."""

    def listed(path: str) -> Sequence[Mapping[str, Any]]:
        return next((found for part, found in (objects or {}).items() if path.endswith(part)), [])

    known: dict[str, Any] = {
        "resources": (ROLE,),
        "objects": listed,
        "drift": lambda: "",
        "caller": CALLER,
        "text": str,
        **more,
    }
    return Subject(given or settings(), readers or Readers("us-west-2", {}), **known)


def node(given: Settings, **changes: Any) -> dict[str, Any]:
    """Return a node of the first pool as declared, except for `changes`: labels, taints, GPUs, the pool."""
    pool = given.gpu.pools[changes.get("pool", 0)]
    resource = gpu_pool.gpu_resource(pool.sharing)
    taint = {"key": GPU_TAINT.key, "value": GPU_TAINT.value, "effect": GPU_TAINT.effect}
    return {
        "metadata": {"name": "ip-10-0-0-1", "labels": {**gpu_pool.labels(pool), **changes.get("labels", {})}},
        "spec": {"taints": changes.get("taints", [taint])},
        "status": {"allocatable": {resource: changes.get("gpus", gpu_pool.advertised(pool)[resource])}},
    }


def with_condition(name: str, kind: str, status: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"conditions": [{"type": kind, "status": status}], **more}}


def deployment(ready: int, wanted: int = 2) -> dict[str, Any]:
    return {"metadata": {"name": "triton"}, "spec": {"replicas": wanted}, "status": {"readyReplicas": ready}}


def pod(restarts: int) -> dict[str, Any]:
    container = {"name": "triton", "restartCount": restarts, "imageID": "repository@sha256:0"}
    return {"metadata": {"name": "triton-a", "namespace": "triton"}, "status": {"containerStatuses": [container]}}


def stateful(name: str, ready: int) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"replicas": 1}, "status": {"readyReplicas": ready}}


def service(name: str, balancer: dict[str, Any] | None) -> dict[str, Any]:
    kind = {"type": "ClusterIP"} if balancer is None else {"type": "LoadBalancer"}
    return {"metadata": {"name": name}, "spec": kind, "status": {"loadBalancer": balancer or {}}}


GIVEN = settings()
WATCHED = settings(MONITORED)
BEHIND_A_GATEWAY = settings({"gateway": GATEWAY})
SHARING = settings({"gpu.pools[1].sharing": {"strategy": "time-slicing", "replicas": 4}})
MOUNTED = settings({"models.access": "mountpoint"})
SCALED = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "triton"}


def autoscaler(status: str) -> dict[str, Any]:
    return {**with_condition("triton", "ScalingActive", status), "spec": {"scaleTargetRef": SCALED}}


CASES: list[tuple[Callable[[Subject], Outcome], dict[str, Any], Settings | None, Outcome]] = [
    (nodes.as_declared, {"nodes": [node(GIVEN)]}, None, agree("ip-10-0-0-1 of g5: labels, taint and GPUs as declared")),
    (
        nodes.as_declared,
        {"nodes": [node(GIVEN, gpus="0", taints=[], labels={"nvidia.com/gpu.present": "false"})]},
        None,
        differ(
            "ip-10-0-0-1 of g5: label nvidia.com/gpu.present is false, not true; the taint "
            "nvidia.com/gpu=present:NoSchedule is missing; nvidia.com/gpu is 0, not 1"
        ),
    ),
    (nodes.as_declared, {"nodes": []}, None, not_tried("no GPU node has joined")),
    (nodes.share_their_gpus, {"nodes": [node(GIVEN)]}, None, not_tried("no node of a pool that shares GPUs has joined")),
    (
        nodes.started_by_an_autoscaler,
        {},
        None,
        not_tried("only Karpenter leaves a record of the nodes that it starts, and the stack has none"),
    ),
    (
        nodes.started_by_an_autoscaler,
        {"nodeclaims": [with_condition("g5-x", "Ready", "True")]},
        settings(KARPENTER),
        agree("NodeClaim g5-x: Ready is True"),
    ),
    (
        nodes.started_by_an_autoscaler,
        {"nodeclaims": [with_condition("g5-x", "Ready", "True"), with_condition("g5-y", "Launched", "False")]},
        settings(KARPENTER),
        differ("NodeClaim g5-y: Ready is missing"),
    ),
    (nodes.every_pod_has_room, {"pods": [pod(0)]}, None, agree("each of 1 pods has a node")),
    (
        nodes.every_pod_has_room,
        {
            "pods": [
                {
                    "metadata": {"name": "envoy-1", "namespace": "gateway"},
                    "status": {"conditions": [{"type": "PodScheduled", "status": "False", "message": "Insufficient cpu"}]},
                }
            ]
        },
        None,
        differ("gateway/envoy-1: Insufficient cpu"),
    ),
    (
        serving.triton_is_ready,
        {"deployments": [deployment(2)], "pods": [pod(0)]},
        None,
        agree("2 of 2 pods are ready", "triton-a runs repository@sha256:0"),
    ),
    (
        serving.triton_is_ready,
        {"deployments": [deployment(1)], "pods": [pod(3)]},
        None,
        differ("1 of 2 pods are ready", "container triton of triton-a was restarted 3 times"),
    ),
    (serving.triton_is_ready, {}, None, differ("there is no Deployment triton in triton")),
    (serving.models_are_mounted, {}, None, not_tried("the stack's pods read models from S3 and mount none")),
    (
        serving.disruption_budget,
        {"poddisruptionbudgets": [with_condition("triton", "DisruptionAllowed", "True", expectedPods=2)]},
        None,
        agree("PodDisruptionBudget triton counts 2 pods; DisruptionAllowed is True"),
    ),
    (
        serving.disruption_budget,
        {"poddisruptionbudgets": [with_condition("triton", "DisruptionAllowed", "False", expectedPods=0)]},
        None,
        differ("PodDisruptionBudget triton counts 0 pods; DisruptionAllowed is False"),
    ),
    (platform.monitoring_runs, {}, None, not_tried("the stack has no monitoring")),
    (
        platform.monitoring_runs,
        {"statefulsets": [stateful("prometheus", 1), stateful("alertmanager", 1)]},
        WATCHED,
        agree("prometheus: 1 of 1 pods are ready", "alertmanager: 1 of 1 pods are ready"),
    ),
    (
        platform.monitoring_runs,
        {"statefulsets": [stateful("prometheus", 0), stateful("alertmanager", 1)]},
        WATCHED,
        differ("prometheus: 0 of 1 pods are ready"),
    ),
    (platform.monitoring_runs, {}, WATCHED, differ("the operator has made no Prometheus")),
    (
        platform.gateway,
        {"gateways": [with_condition("inference", "Programmed", "True", addresses=[{"value": "lb.example.com"}])]},
        BEHIND_A_GATEWAY,
        agree("gateway inference: Programmed is True, its address is lb.example.com"),
    ),
    (
        platform.gateway,
        {"gateways": [with_condition("inference", "Programmed", "True")]},
        BEHIND_A_GATEWAY,
        differ("gateway inference: Programmed is True, its address is missing"),
    ),
    (platform.gateway, {}, BEHIND_A_GATEWAY, differ("there is no gateway")),
    (
        platform.load_balancer,
        {"services": [service("envoy", {"ingress": [{"hostname": "lb.example.com"}]}), service("metrics", None)]},
        BEHIND_A_GATEWAY,
        agree("Service envoy: lb.example.com"),
    ),
    (
        platform.load_balancer,
        {"services": [service("envoy", {})]},
        BEHIND_A_GATEWAY,
        differ("Service envoy: no load balancer"),
    ),
    (platform.load_balancer, {}, BEHIND_A_GATEWAY, differ("no Service asks for a load balancer")),
    (
        nodes.share_their_gpus,
        {"nodes": [node(SHARING, pool=1)]},
        SHARING,
        agree("ip-10-0-0-1 of p4d offers 32 nvidia.com/gpu.shared"),
    ),
    (
        nodes.share_their_gpus,
        {"nodes": [node(SHARING, pool=1, gpus="8")]},
        SHARING,
        differ("ip-10-0-0-1 of p4d offers 8 nvidia.com/gpu.shared"),
    ),
    (
        serving.models_are_mounted,
        {"persistentvolumeclaims": [{"metadata": {"name": "models"}, "status": {"phase": "Bound"}}]},
        MOUNTED,
        agree("claim models is Bound"),
    ),
    (
        serving.models_are_mounted,
        {"persistentvolumeclaims": [{"metadata": {"name": "models"}, "status": {"phase": "Pending"}}]},
        MOUNTED,
        differ("claim models is Pending"),
    ),
    (serving.models_are_mounted, {}, MOUNTED, not_tried("there is no claim of a volume")),
    (platform.profiling_counters, {}, None, not_tried("no exporter of GPU metrics runs")),
    (platform.gateway, {}, None, not_tried("the stack has no gateway")),
    (platform.load_balancer, {}, None, not_tried("the stack has no gateway, and so no load balancer")),
    (
        platform.one_autoscaler_owns_the_pods,
        {},
        None,
        not_tried("the stack's pods are not scaled"),
    ),
    (
        platform.one_autoscaler_owns_the_pods,
        {"horizontalpodautoscalers": [autoscaler("True")]},
        settings(HPA),
        agree("triton: ScalingActive is True"),
    ),
    (
        platform.one_autoscaler_owns_the_pods,
        {"horizontalpodautoscalers": [autoscaler("True"), autoscaler("True")]},
        settings(HPA),
        differ("triton: ScalingActive is True", "triton: ScalingActive is True"),
    ),
    (
        platform.one_autoscaler_owns_the_pods,
        {"horizontalpodautoscalers": []},
        settings(HPA),
        differ("no autoscaler has the Deployment triton as its target"),
    ),
    (
        serving.triton_is_ready,
        {"deployments": [{**deployment(2), "metadata": {"name": name}} for name in ("triton-cpu", "triton-g5")]},
        settings(THREE),
        differ("there is no Deployment triton-p4d in triton"),
    ),
]


@pytest.mark.parametrize(("check", "objects", "given", "outcome"), CASES)
def test_what_a_cluster_says_is_judged(
    check: Callable[[Subject], Outcome], objects: dict[str, Any], given: Settings | None, outcome: Outcome
) -> None:
    assert check(subject(objects, given)) == outcome


LEFT = Leftover("volume", "vol-1", "disk", "its tag", 0.0, "aws ec2 delete-volume")


@pytest.mark.parametrize(
    ("check", "more", "outcome"),
    [
        (run.nothing_has_drifted, {}, agree("1 resources were made; read again twice, none has changed")),
        (run.nothing_has_drifted, {"trouble": {UP: "no quota"}}, differ("`pulumi up` failed: no quota")),
        (run.preflight_was_right, {}, not_tried("preflight found nothing to look at")),
        (
            run.preflight_was_right,
            {"found": [Row("quotas", ok("enough"))]},
            agree("preflight said: 1 ok", "`pulumi up` did not fail"),
        ),
        (
            run.preflight_was_right,
            {"found": [Row("quotas", ok("enough"))], "trouble": {UP: "no quota"}},
            differ("preflight said: 1 ok", "`pulumi up` failed: no quota"),
        ),
        (
            run.preflight_was_right,
            {"found": [Row("quotas", fail("0 of 4", ""))], "trouble": {UP: "no quota"}},
            agree("preflight said: 1 fail", "`pulumi up` failed"),
        ),
        (
            run.preflight_was_right,
            {"found": [Row("quotas", fail("0 of 4", ""))]},
            differ("preflight said: 1 fail", "0 of 4", "`pulumi up` did not fail"),
        ),
        (run.nothing_is_left, {}, not_tried("there was no teardown")),
        (run.nothing_is_left, {"left": []}, agree("the search of `stackctl orphans` found nothing of the stack")),
        (run.nothing_is_left, {"left": [LEFT]}, differ("AWS still has volume vol-1")),
        (run.nothing_is_left, {"trouble": {TEARDOWN: "locked"}}, differ("the teardown failed: locked")),
        (
            run.from_nothing_to_an_answer_and_back,
            {"trouble": {FIRST_INFERENCE: "no node"}},
            differ("first inference: no node"),
        ),
        (
            run.from_nothing_to_an_answer_and_back,
            {"answer": "pipeline answered", "left": []},
            agree("pulumi up, first inference and teardown went well: pipeline answered"),
        ),
        (serving.first_inference, {"answer": "pipeline answered"}, agree("pipeline answered")),
        (serving.first_inference, {"trouble": {FIRST_INFERENCE: "no node"}}, differ("no node")),
        (serving.first_inference, {}, not_tried("no inference was made")),
    ],
)
def test_what_the_run_has_seen_is_judged(
    check: Callable[[Subject], Outcome], more: dict[str, Any], outcome: Outcome
) -> None:
    assert check(subject(**more)) == outcome


class Answers:
    """AWS answers, in order, by service."""

    def __init__(self, readers: Readers) -> None:
        self.readers, self._stubbers = readers, dict[str, Stubber]()

    def give(self, service: str, operation: str, answer: dict[str, Any], asked: dict[str, Any] | None = None) -> None:
        if service not in self._stubbers:
            region = "us-east-1" if service == "budgets" else None
            self._stubbers[service] = Stubber(self.readers(service, region))
            self._stubbers[service].activate()
        self._stubbers[service].add_response(operation, answer, asked)


@pytest.fixture
def aws(readers: Readers) -> Iterator[Answers]:
    yield Answers(readers)


@pytest.mark.parametrize(
    ("status", "entries", "outcome"),
    [
        (
            "ACTIVE",
            ["arn:aws:iam::123456789012:role/platform-admin"],
            agree("coredns v1 is ACTIVE", "arn:aws:iam::123456789012:role/platform-admin has an access entry"),
        ),
        (
            "DEGRADED",
            [],
            differ("coredns v1 is DEGRADED no node", "arn:aws:iam::123456789012:role/platform-admin has no access entry"),
        ),
    ],
)
def test_add_ons_and_entries_are_as_eks_says(aws: Answers, status: str, entries: list[str], outcome: Outcome) -> None:
    issues = [] if status == "ACTIVE" else [{"code": "InsufficientNumberOfReplicas", "message": "no node"}]
    addon = {"status": status, "addonVersion": "v1", "health": {"issues": issues}}
    cluster = {"clusterName": "triton-staging"}
    aws.give("eks", "list_addons", {"addons": ["coredns"]}, cluster)
    aws.give("eks", "describe_addon", {"addon": addon}, {**cluster, "addonName": "coredns"})
    aws.give("eks", "list_access_entries", {"accessEntries": entries}, cluster)
    assert account.add_ons_and_access_entries(subject(readers=aws.readers)) == outcome


def role(document: dict[str, Any]) -> dict[str, Any]:
    return {
        "Role": {
            "Path": "/",
            "RoleName": "reader-1",
            "RoleId": "AROAEXAMPLEEXAMPLE00",
            "Arn": ARN,
            "CreateDate": datetime(2026, 1, 1),
            "AssumeRolePolicyDocument": json.dumps(document),
        }
    }


@pytest.mark.parametrize(
    ("decisions", "agrees"),
    [
        (["allowed", "implicitDeny", "implicitDeny", "implicitDeny"], True),
        (["allowed", "allowed", "implicitDeny", "implicitDeny"], False),
    ],
)
def test_the_readers_rights_are_those_that_iam_simulates(aws: Answers, decisions: list[str], agrees: bool) -> None:
    aws.give("iam", "get_role", role({}))
    bucket = "arn:aws:s3:::triton-models-staging-123456789012-us-west-2"
    for decision, (action, resource) in zip(
        decisions,
        [
            ("s3:GetObject", f"{bucket}/releases/0/model"),
            ("s3:GetObject", f"{bucket}/elsewhere/model"),
            ("s3:PutObject", f"{bucket}/releases/0/model"),
            ("s3:GetObject", "arn:aws:s3:::another-bucket/releases/0/model"),
        ],
        strict=True,
    ):
        asked = {"PolicySourceArn": ARN, "ActionNames": [action], "ResourceArns": [resource]}
        answer = {"EvaluationResults": [{"EvalActionName": action, "EvalDecision": decision}]}
        aws.give("iam", "simulate_principal_policy", answer, asked)
    found = account.reader_reads_releases_alone(subject(readers=aws.readers))
    assert found.verdict == ("agree" if agrees else "differ")
    assert found.evidence[0] == (
        f"s3:GetObject on {bucket}/releases/0/model: allowed"
        if agrees
        else f"s3:GetObject on {bucket}/elsewhere/model: allowed"
    )


@pytest.mark.parametrize(("kind", "agrees"), [("SUGGESTION", True), ("SECURITY_WARNING", False)])
def test_the_roles_documents_are_asked_about_one_by_one(aws: Answers, kind: str, agrees: bool) -> None:
    finding = {
        "findingDetails": "too wide",
        "findingType": kind,
        "issueCode": "X",
        "learnMoreLink": "https://docs.aws.amazon.com/",
        "locations": [],
    }
    aws.give("iam", "get_role", role({"Version": "2012-10-17"}))
    aws.give(
        "accessanalyzer",
        "validate_policy",
        {"findings": [finding]},
        {
            "policyDocument": ANY,
            "policyType": "RESOURCE_POLICY",
            "validatePolicyResourceType": "AWS::IAM::AssumeRolePolicyDocument",
        },
    )
    aws.give("iam", "list_role_policies", {"PolicyNames": ["read"]})
    document = {"RoleName": "reader-1", "PolicyName": "read", "PolicyDocument": "{}"}
    aws.give("iam", "get_role_policy", document)
    aws.give("accessanalyzer", "validate_policy", {"findings": []}, {"policyDocument": ANY, "policyType": "IDENTITY_POLICY"})
    managed = {"PolicyName": "AmazonEKS_CNI_Policy", "PolicyArn": "arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy"}
    aws.give("iam", "list_attached_role_policies", {"AttachedPolicies": [managed]})
    fine = ("reader-1, trust: no error and no security warning", "reader-1, read: no error and no security warning")
    assert account.iam_documents(subject(readers=aws.readers)) == (
        agree(*fine) if agrees else differ("reader-1, trust: too wide")
    )


@pytest.mark.parametrize(
    ("let_in", "outcome"),
    [
        (["10.30.0.0/16"], agree("10.30.0.0/16 is let in")),
        ([], differ("10.30.0.0/16 is not let in")),
        (["10.30.0.0/16", "0.0.0.0/0"], differ("0.0.0.0/0 is let in, and not named")),
    ],
)
def test_who_reaches_the_api_server_is_read_from_eks_own_group(aws: Answers, let_in: list[str], outcome: Outcome) -> None:
    aws.give("eks", "describe_cluster", {"cluster": {"resourcesVpcConfig": {"clusterSecurityGroupId": "sg-1"}}})
    nodes_alone = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": "sg-1"}]}
    https = {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "IpRanges": [{"CidrIp": cidr} for cidr in let_in]}
    aws.give(
        "ec2",
        "describe_security_groups",
        {"SecurityGroups": [{"IpPermissions": [nodes_alone, https]}]},
        {"GroupIds": ["sg-1"]},
    )
    assert account.who_reaches_the_api_server(subject(readers=aws.readers)) == outcome


@pytest.mark.parametrize(
    ("made", "let_in", "outcome"),
    [
        (["sg-runner"], ["sg-runner"], agree("sg-runner is let in")),
        (["sg-runner"], ["sg-other"], differ("sg-runner is not let in", "sg-other is let in, and not named")),
        ([], [], differ("the runner is not let in")),
    ],
)
def test_the_runner_in_the_vpc_is_one_of_those_who_reach_it(
    aws: Answers, made: list[str], let_in: list[str], outcome: Outcome
) -> None:
    vpc = {"clusterSecurityGroupId": "sg-1", "vpcId": "vpc-1"}
    aws.give("eks", "describe_cluster", {"cluster": {"resourcesVpcConfig": vpc}})
    filters = [{"Name": "vpc-id", "Values": ["vpc-1"]}, {"Name": "tag:Name", "Values": ["triton-staging-runner"]}]
    groups = {"SecurityGroups": [{"GroupId": one} for one in made]}
    aws.give("ec2", "describe_security_groups", groups, {"Filters": filters})
    https = {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "UserIdGroupPairs": [{"GroupId": one} for one in let_in]}
    aws.give("ec2", "describe_security_groups", {"SecurityGroups": [{"IpPermissions": [https]}]}, {"GroupIds": ["sg-1"]})
    connection = "arn:aws:codeconnections:us-west-2:123456789012:connection/01234567-89ab-cdef-0123-456789abcdef"
    runner = {"repository": "example/platform", "connectionArn": connection, "actors": [583231]}
    given = settings({"cluster.apiAccess": {"runner": runner}})
    assert account.who_reaches_the_api_server(subject(given=given, readers=aws.readers)) == outcome


@pytest.mark.parametrize(
    ("key", "streams", "outcome"),
    [
        (
            "arn:key",
            2,
            agree(
                "/aws/containerinsights/triton-staging/application is encrypted with arn:key",
                "/aws/containerinsights/triton-staging/application has 2 streams, of the first 50",
            ),
        ),
        (
            None,
            0,
            differ(
                "/aws/containerinsights/triton-staging/application is encrypted with no key of ours",
                "/aws/containerinsights/triton-staging/application has 0 streams, of the first 50",
            ),
        ),
    ],
)
def test_logs_arrive_in_an_encrypted_group(aws: Answers, key: str | None, streams: int, outcome: Outcome) -> None:
    group = {"logGroupName": "/aws/containerinsights/triton-staging/application", **({"kmsKeyId": key} if key else {})}
    aws.give("logs", "describe_log_groups", {"logGroups": [group]})
    aws.give("logs", "describe_log_streams", {"logStreams": [{"logStreamName": str(one)} for one in range(streams)]})
    given = settings({"logs": {"containers": {"retentionDays": 30}}})
    assert account.logs_arrive(subject(given=given, readers=aws.readers)) == outcome


@pytest.mark.parametrize(
    ("now", "missing", "outcome"),
    [
        ("0.101", {}, agree("2 of 2 prices were found, and each is within 1 % of the table")),
        ("0.11", {}, differ("nat.hour: 0.10 US$ in the table, 0.11 now")),
        (
            "0.10",
            {"nat.hour": "none", "eks.cluster-hour": "none"},
            not_tried("AWS's price list has none of the table's prices"),
        ),
    ],
)
def test_prices_are_held_against_the_price_list(
    readers: Readers, monkeypatch: pytest.MonkeyPatch, now: str, missing: dict[str, str], outcome: Outcome
) -> None:
    day = date(2026, 1, 1)
    old = PriceTable("us-west-2", {"nat.hour": Price(Decimal("0.10"), day), "eks.cluster-hour": Price(Decimal("0.10"), day)})
    new = PriceTable("us-west-2", {**old.prices, "nat.hour": Price(Decimal(now), day)})
    changed = {"nat.hour": Decimal("0.10")} if now != "0.10" else {}
    monkeypatch.setattr(account.price_tables, "load", lambda _region: old)
    monkeypatch.setattr(account, "look_up", lambda *_: Refreshed(table=new, changed=changed, missing=missing))
    assert account.prices(subject(readers=readers)) == outcome


EXPORTER = {"metadata": {"name": "dcgm-x", "labels": {"app.kubernetes.io/name": "dcgm-exporter"}}}
SCRAPE = "# TYPE DCGM_FI_PROF_GR_ENGINE_ACTIVE gauge\n"


@pytest.mark.parametrize(
    ("scrape", "outcome"),
    [
        (
            SCRAPE + 'DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0"} 0.5\nDCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="1"} 0\n',
            agree("dcgm-x exports 2 series of DCGM_FI_PROF_GR_ENGINE_ACTIVE"),
        ),
        (
            SCRAPE + 'DCGM_FI_DEV_GPU_TEMP{gpu="0"} 40\n',
            differ("dcgm-x exports 0 series of DCGM_FI_PROF_GR_ENGINE_ACTIVE"),
        ),
    ],
)
def test_profiling_counters_are_read_from_each_exporter(scrape: str, outcome: Outcome) -> None:
    other = {"metadata": {"name": "grafana", "labels": {}}}
    pages = {"/api/v1/namespaces/monitoring/pods/dcgm-x:9400/proxy/metrics": scrape}
    assert platform.profiling_counters(subject({"pods": [EXPORTER, other]}, text=pages.__getitem__)) == outcome


ENDPOINTS = [
    Resource(f"urn:pulumi:staging::triton-eks::{kind}::network-endpoints-{id}", id, kind, True, False, False, {})
    for kind, id in (("aws:ec2/vpcEndpoint:VpcEndpoint", "vpce-1"), ("aws:ec2/vpc:Vpc", "vpc-1"))
]


@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        ("available", agree("com.amazonaws.us-west-2.ecr.api is available")),
        ("failed", differ("com.amazonaws.us-west-2.ecr.api is failed")),
        (None, differ("AWS has none of the endpoints vpce-1")),
    ],
)
def test_each_endpoint_is_looked_up(aws: Answers, state: str | None, outcome: Outcome) -> None:
    there = {"VpcEndpointId": "vpce-1", "ServiceName": "com.amazonaws.us-west-2.ecr.api", "State": state}
    answer = {"VpcEndpoints": [there] if state else []}
    aws.give("ec2", "describe_vpc_endpoints", answer, {"VpcEndpointIds": ["vpce-1"]})
    assert account.endpoints_are_available(subject(readers=aws.readers, resources=ENDPOINTS)) == outcome


def test_a_stack_without_endpoints_shows_nothing_of_them(aws: Answers) -> None:
    assert account.endpoints_are_available(subject(readers=aws.readers)) == not_tried("the stack has no VPC endpoint")


LIMITED = settings({"cost": {"monthlyUsd": 5000, "emails": ["oncall@example.com"]}})
BUDGET = {
    "BudgetName": "triton-staging-us-west-2",
    "TimeUnit": "MONTHLY",
    "BudgetType": "COST",
}


def budget(amount: str) -> dict[str, Any]:
    return {"Budget": {**BUDGET, "CalculatedSpend": {"ActualSpend": {"Amount": amount, "Unit": "USD"}}}}


def test_a_budget_is_waited_for_until_it_counts_something(aws: Answers) -> None:
    asked, slept = {"AccountId": "123456789012", "BudgetName": "triton-staging-us-west-2"}, list[float]()
    for amount in ("0.0", "0.0", "3.21"):
        aws.give("budgets", "describe_budget", budget(amount), asked)
    one = subject(given=LIMITED, readers=aws.readers, time_left=lambda: 30 * 3600, sleep=slept.append)
    assert account.budget_counts(one) == agree("triton-staging-us-west-2 counts 3.21 USD")
    assert slept == [3600, 3600]


def test_a_budget_that_counts_nothing_for_a_day_differs(aws: Answers) -> None:
    slept = list[float]()
    for _ in range(25):
        aws.give("budgets", "describe_budget", budget("0"))
    one = subject(given=LIMITED, readers=aws.readers, time_left=lambda: 30 * 3600, sleep=slept.append)
    assert account.budget_counts(one) == differ(
        "after a day triton-staging-us-west-2 counts 0: are project and environment cost allocation tags? (docs/cost.md)"
    )
    assert sum(slept) == 24 * 3600


def test_a_short_run_waits_for_no_budget(aws: Answers) -> None:
    aws.give("budgets", "describe_budget", {"Budget": BUDGET})
    one = subject(given=LIMITED, readers=aws.readers, time_left=lambda: 3 * 3600, sleep=_no_sleep)
    assert account.budget_counts(one) == not_tried(
        "triton-staging-us-west-2 counts 0, and costs reach a budget within a day: give certify --hours 30"
    )
    assert account.budget_counts(subject(readers=aws.readers)) == not_tried("the stack has no budget (section cost)")


def _no_sleep(_seconds: float) -> None:
    raise AssertionError("nothing is waited for")


@pytest.mark.parametrize(
    ("arn", "trouble", "outcome"),
    [
        (
            "arn:aws:sts::123456789012:assumed-role/triton-eks-deploy/GitHubActions",
            {},
            agree("`pulumi up` as triton-eks-deploy succeeded at the first try"),
        ),
        (
            "arn:aws:sts::123456789012:assumed-role/triton-eks-deploy-eu-west-1/GitHubActions",
            {UP: "AccessDenied: kms:CreateAlias"},
            differ("`pulumi up` as triton-eks-deploy-eu-west-1 failed: AccessDenied: kms:CreateAlias"),
        ),
        (
            "arn:aws:iam::123456789012:root",
            {},
            not_tried("the run is not triton-eks-deploy's: assume that role, and run certify again"),
        ),
    ],
)
def test_the_deploy_role_is_judged_by_its_own_run(arn: str, trouble: dict[str, str], outcome: Outcome) -> None:
    assert run.deploy_role_suffices(subject(caller=Caller("123456789012", arn), trouble=trouble)) == outcome
