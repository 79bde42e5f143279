"""One owner of Triton's pods and one of the nodes, for every combination that a stack can select."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

import pytest
import yaml

from spec.settings import load
from spec.settings.model import Document
from spec.versions import PROJECT
from tests.paths import ROOT
from tests.system.component.engine.account import living, seed_roles
from tests.system.component.engine.lifecycle import destroy, refresh
from tests.system.component.engine.recording import Recording
from tests.system.component.engine.stack_run import TODAY, deployed
from twin.aws.base.clients import Clients

STACK = "staging"
REGION = "us-west-2"
RELEASE = "kubernetes:helm.sh/v3:Release"
NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
HPA = "kubernetes:autoscaling/v2:HorizontalPodAutoscaler"
COMBINATIONS = list(product(("none", "keda", "hpa"), ("none", "karpenter", "cluster-autoscaler")))

Config = dict[str, Any]


def stack_config(pods: str, nodes: str) -> Config:
    """Return the staging stack with these owners and their required settings."""
    config: Config = yaml.safe_load((ROOT / "stacks" / f"Pulumi.{STACK}.yaml").read_text())["config"]
    own: Config = copy.deepcopy({key: config[f"{PROJECT}:{key}"] for key in ("triton", "nodes", "gpu")})
    for name, field in Document.model_fields.items():
        if not field.is_required():
            config.pop(f"{PROJECT}:{name}", None)
    own["triton"]["autoscaler"] = pods
    own["nodes"]["autoscaler"] = nodes
    own["nodes"].pop("cpu", None)  # used only by the workers, which the test excludes
    own["triton"].pop("replicas", None)
    if pods == "none":
        own["triton"]["replicas"] = 2
    else:
        warm = 0 if nodes == "none" else 1
        own["autoscaling"] = {"minReplicas": 1, "maxReplicas": 2, "prometheusUrl": "http://p.o.svc:9090", "warmPods": warm}
    (pool,) = own["gpu"]["pools"]
    pool |= {"min": 0, "desired": 0} if nodes == "karpenter" else {"min": 1, "desired": 2}
    return {**config, **{f"{PROJECT}:{key}": value for key, value in own.items()}}


@pytest.fixture(scope="module")
def account(clients: Clients) -> Clients:
    """Return one account for all runs: a preview creates nothing, and the only update is destroyed."""
    seed_roles(clients, load(stack_config("none", "none"), STACK, today=TODAY).cluster)
    return clients


def register(clients: Clients, config: Config, *, preview: bool) -> Recording:
    """Return the program's registrations. Refreshes and destroys an update, which must leave no resource."""
    settings = load(config, STACK, today=TODAY)
    before = living(clients)
    recording = deployed(settings, config, clients, preview=preview)
    if not preview:
        seen = refresh(clients, recording)
        assert (seen.outputs, seen.inputs) == ([], [])
        destroy(clients, recording)
    assert living(clients) == before
    return recording


@pytest.fixture(scope="module")
def programs(account: Clients) -> Callable[[str, str], Recording]:
    """Return a function that previews a combination and returns its registrations."""
    return cache(lambda pods, nodes: register(account, stack_config(pods, nodes), preview=True))


def scalers(recording: Recording) -> dict[str, str]:
    """Return the resources that set the number of Triton's pods: kind -> name."""
    found = {
        "ScaledObject": [
            item for item in recording.registrations if item.type == "kubernetes:keda.sh/v1alpha1:ScaledObject"
        ],
        "HorizontalPodAutoscaler": recording.of_type(HPA),
        "Deployment": [
            item
            for item in recording.of_type("kubernetes:apps/v1:Deployment")
            if item.inputs["metadata"]["name"] == "triton" and "replicas" in item.inputs["spec"]
        ],
    }
    return {kind: item.inputs["metadata"]["name"] for kind, items in found.items() for item in items}


def charts(recording: Recording) -> set[str]:
    return {item.inputs["name"] for item in recording.of_type(RELEASE)}


@pytest.mark.parametrize(("pods", "nodes"), COMBINATIONS)
def test_one_thing_says_how_many_pods_there_are(programs: Callable[[str, str], Recording], pods: str, nodes: str) -> None:
    owner = {"none": "Deployment", "keda": "ScaledObject", "hpa": "HorizontalPodAutoscaler"}[pods]
    assert scalers(programs(pods, nodes)) == {owner: "triton"}


@pytest.mark.parametrize(("pods", "nodes"), COMBINATIONS)
def test_one_chart_at_most_scales_pods_and_one_nodes(
    programs: Callable[[str, str], Recording], pods: str, nodes: str
) -> None:
    for_pods = {"none": set(), "keda": {"keda"}, "hpa": {"prometheus-adapter"}}[pods]
    for_nodes = {
        "none": set(),
        "karpenter": {"karpenter", "karpenter-crd"},
        "cluster-autoscaler": {"cluster-autoscaler"},
    }[nodes]
    assert charts(programs(pods, nodes)) - {"nvidia-device-plugin"} == for_pods | for_nodes
    settings = load(stack_config(pods, nodes), STACK, today=TODAY)
    assert charts(programs(pods, nodes)) == {chart.name for chart in settings.installed_charts}, (
        "the rules about room count the same"
    )


@pytest.mark.parametrize("nodes", ["none", "karpenter", "cluster-autoscaler"])
def test_a_gpu_pool_is_a_node_group_or_karpenters_and_never_both(
    programs: Callable[[str, str], Recording], nodes: str
) -> None:
    recording = programs("none", nodes)
    groups = {item.inputs["labels"]["triton-eks/pool"] for item in recording.of_type(NODE_GROUP)}
    pools = {
        item.inputs["metadata"]["name"]
        for item in recording.registrations
        if item.type == "kubernetes:karpenter.sh/v1:NodePool"
    }
    assert (groups, pools) == (({"system"}, {"g5"}) if nodes == "karpenter" else ({"system", "g5"}, set()))


@pytest.mark.parametrize("nodes", ["none", "karpenter", "cluster-autoscaler"])
def test_only_cluster_autoscaler_takes_the_size_of_a_group_out_of_this_programs_hands(
    programs: Callable[[str, str], Recording], nodes: str
) -> None:
    ignored = {item.ignore_changes for item in programs("none", nodes).of_type(NODE_GROUP)}
    assert ignored == {("scalingConfig.desiredSize",) if nodes == "cluster-autoscaler" else ()}


@pytest.mark.parametrize(("pods", "ignored"), [("keda", ("spec.replicas",)), ("hpa", ("spec.replicas",)), ("none", ())])
def test_a_stack_that_gets_an_autoscaler_keeps_its_pods(
    programs: Callable[[str, str], Recording], pods: str, ignored: tuple[str, ...]
) -> None:
    # Why: tests/system/serving/test_replicas_owner.py
    (triton,) = (
        item
        for item in programs(pods, "none").of_type("kubernetes:apps/v1:Deployment")
        if item.inputs["metadata"]["name"] == "triton"
    )
    assert triton.ignore_changes == ignored
    assert ("replicas" in triton.inputs["spec"]) == (pods == "none")


@pytest.mark.parametrize("nodes", ["karpenter", "cluster-autoscaler"])
def test_warm_pods_are_of_tritons_size_and_give_way(programs: Callable[[str, str], Recording], nodes: str) -> None:
    recording = programs("keda", nodes)
    warm, triton = (
        next(
            item.inputs
            for item in recording.of_type("kubernetes:apps/v1:Deployment")
            if item.inputs["metadata"]["name"] == n
        )
        for n in ("triton-warm", "triton")
    )
    pod, server = (item["spec"]["template"]["spec"] for item in (warm, triton))
    size = pod["containers"][0]["resources"]
    asked = next(c for c in server["containers"] if c["name"] == "triton")["resources"]["requests"]
    assert size["requests"] == size["limits"] == {key: asked[key] for key in ("cpu", "memory", "nvidia.com/gpu")}
    assert (pod["nodeSelector"], warm["spec"]["replicas"]) == (server["nodeSelector"], 1)
    assert {(t["key"], t["value"], t["effect"]) for t in pod["tolerations"]} == {("nvidia.com/gpu", "present", "NoSchedule")}
    (priority,) = recording.of_type("kubernetes:scheduling.k8s.io/v1:PriorityClass")
    assert (priority.inputs["value"], priority.inputs["preemptionPolicy"]) == (-10, "Never")
    assert pod["priorityClassName"] == priority.inputs["metadata"]["name"]


def test_warm_pods_have_room_for_what_fetches_releases_beside_the_server(account: Clients) -> None:
    config = stack_config("keda", "karpenter")
    image = f"123456789012.dkr.ecr.us-west-2.amazonaws.com/modelctl@sha256:{'7c' * 32}"
    config[f"{PROJECT}:models"] |= {"access": "local", "fetcher": {"image": image}}
    config[f"{PROJECT}:triton"] |= {"rollout": "in-place", "cpu": "2500m"}
    recording = register(account, config, preview=True)
    warm, triton = (
        next(
            item.inputs["spec"]["template"]["spec"]
            for item in recording.of_type("kubernetes:apps/v1:Deployment")
            if item.inputs["metadata"]["name"] == name
        )
        for name in ("triton-warm", "triton")
    )
    server, beside = triton["containers"][0], triton["initContainers"][1]
    requests = [container["resources"]["requests"] for container in (server, beside)]
    memory = config[f"{PROJECT}:triton"]["memoryGiB"]
    assert [(one["cpu"], one["memory"]) for one in requests] == [("2500m", f"{memory}Gi"), ("250m", "256Mi")]
    asked = warm["containers"][0]["resources"]["requests"]
    assert (asked["cpu"], asked["memory"]) == ("2750m", f"{memory * 1024 + 256}Mi")


@pytest.fixture(scope="module")
def with_karpenter(account: Clients) -> Recording:
    return register(account, stack_config("keda", "karpenter"), preview=False)


def test_karpenter_hears_of_every_kind_of_interruption_in_one_queue(with_karpenter: Recording) -> None:
    queue = with_karpenter.one("aws:sqs/queue:Queue")
    assert queue.checked["name"] == "triton-staging-interruptions"
    targets = with_karpenter.of_type("aws:cloudwatch/eventTarget:EventTarget")
    rules = with_karpenter.of_type("aws:cloudwatch/eventRule:EventRule")
    assert {target.checked["arn"] for target in targets} == {queue.outputs["arn"]}
    assert {target.checked["rule"] for target in targets} == {rule.checked["name"] for rule in rules}
    assert sorted(json.loads(rule.checked["eventPattern"])["detail-type"][0] for rule in rules) == [
        "AWS Health Event",
        "EC2 Capacity Reservation Instance Interruption Warning",
        "EC2 Instance Rebalance Recommendation",
        "EC2 Instance State-change Notification",
        "EC2 Spot Instance Interruption Warning",
    ]
    (controller,) = [item for item in with_karpenter.of_type(RELEASE) if item.inputs["name"] == "karpenter"]
    assert controller.inputs["values"]["settings"]["interruptionQueue"] == queue.checked["name"]


def test_karpenters_controller_may_pass_on_the_nodes_role_alone(with_karpenter: Recording) -> None:
    node_role = with_karpenter.one("aws:iam/role:Role", "nodes-role").outputs["arn"]
    document = json.loads(
        with_karpenter.one("aws:iam/rolePolicy:RolePolicy", "karpenter-controller-policy").checked["policy"]
    )
    passing = [item["Resource"] for item in document["Statement"] if "iam:PassRole" in item["Action"]]
    assert passing == [[node_role]]
    profile = with_karpenter.one("aws:iam/instanceProfile:InstanceProfile")
    assert profile.outputs["role"] == with_karpenter.one("aws:iam/role:Role", "nodes-role").outputs["name"]


def test_karpenter_runs_after_its_identity_is_told_of_and_has_had_the_time_of_its_definitions(
    with_karpenter: Recording,
) -> None:
    identity = with_karpenter.one("aws:eks/podIdentityAssociation:PodIdentityAssociation")
    releases = {item.inputs["name"]: item for item in with_karpenter.of_type(RELEASE)}
    assert identity.urn in releases["karpenter-crd"].depends_on
    assert releases["karpenter-crd"].urn in releases["karpenter"].depends_on
