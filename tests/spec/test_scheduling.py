"""A stack's pods and its nodes' capacity: the arithmetic, and stacks whose pods would stay Pending."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import yaml

from spec import helm_values
from spec.capacity import nodes_for_workers
from spec.catalog import INSTANCE_TYPES
from spec.charts import CHARTS, PODS_OF_MPS
from spec.pod_sets import REPLICAS_OF_MONITORING, Request
from spec.problem import SettingsError
from spec.settings import Settings, load, load_stack_file
from spec.settings.scheduling import add_ons, packing, pods
from spec.settings.scheduling.packing import Room, after_losing_a_zone, room_of, surge, without_room
from spec.settings.scheduling.pods import Pods
from spec.settings.scheduling.requests import requested
from tests.paths import ROOT
from tests.spec.stack_config import TODAY, complaints, settings
from tests.spec.test_stack_mistakes_autoscaling import KARPENTER
from tests.spec.test_stack_mistakes_relations import MONITORING, WORKER

ROOM = Room(Request(2000, 4096), pods=3)
LARGER = "m7i.2xlarge for nodes.system.instanceTypes"
EIGHT_CORES = {"instanceTypes": ["m7i.2xlarge"], "max": 12, "diskGiB": 50}
CPU = {"instanceTypes": ["m7i.xlarge"], "max": 2, "diskGiB": 50}


def told(stack: str, changes: Mapping[str, Any]) -> list[str]:
    """Return the errors of a shipped stack file with changes, by section and key."""
    config = copy.deepcopy(yaml.safe_load((ROOT / "stacks" / f"Pulumi.{stack}.yaml").read_text())["config"])
    for path, value in changes.items():
        section, _, key = path.partition(".")
        config[f"triton-eks:{section}"][key] = value
    try:
        load(config, stack, today=TODAY)
    except SettingsError as error:
        return [str(problem) for problem in error.problems]
    return []


@pytest.mark.parametrize(
    ("resources", "request_"),
    [
        ({"requests": {"cpu": "250m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}, Request(250, 1024)),
        ({"requests": {"cpu": 1}}, Request(1000, 0)),
        ({"limits": {"cpu": "0.5", "memory": "64Mi"}}, Request(500, 64)),
        ({"requests": {"memory": "100M"}}, Request(0, 96)),
        ({"requests": {"memory": 1048577}}, Request(0, 2)),
        ({}, Request(0, 0)),
    ],
)
def test_a_container_asks_for_its_requests_and_without_them_for_its_limits(
    resources: dict[str, Any], request_: Request
) -> None:
    assert requested(resources) == request_


@pytest.mark.parametrize(
    ("wanted", "nodes", "left"),
    [
        ([Pods("a", Request(1000, 1), 4)], 2, {}),
        ([Pods("a", Request(1000, 1), 5)], 2, {"a": 1}),
        ([Pods("a", Request(1, 2000), 5)], 2, {"a": 1}),
        # Together the nodes have room for it, but no single node has.
        ([Pods("a", Request(1500, 1), 2), Pods("b", Request(600, 1), 1)], 2, {"b": 1}),
        # In this order, the small pods would leave no node empty.
        ([Pods("a", Request(600, 1), 3), Pods("b", Request(2000, 1), 1)], 2, {}),
        ([Pods("a", Request(1, 1), 7)], 2, {"a": 1}),
        ([Pods("a", Request(1, 1), 2), Pods("b", Request(2, 2), 2)], 1, {"a": 1}),
        ([Pods("a", Request(1, 1), 3, apart=True)], 2, {"a": 1}),
        # Pods that refuse to share a node come first; the others fill the rest.
        ([Pods("a", Request(900, 1), 2, apart=True), Pods("b", Request(1000, 1), 2)], 2, {}),
        ([Pods("a", Request(1, 1), 1)], 0, {"a": 1}),
    ],
)
def test_pods_are_put_onto_nodes_largest_first(wanted: list[Pods], nodes: int, left: dict[str, int]) -> None:
    assert without_room(wanted, nodes, ROOM) == left


@pytest.mark.parametrize(("nodes", "zones", "left"), [(3, 3, 2), (2, 3, 1), (5, 3, 3), (6, 3, 4), (1, 2, 0), (4, 2, 2)])
def test_the_zone_with_the_most_nodes_is_lost(nodes: int, zones: int, left: int) -> None:
    assert after_losing_a_zone(nodes, zones) == left


def test_an_update_needs_room_for_the_largest_of_the_pods_that_start_first() -> None:
    others = [Pods("a", Request(100, 512), 2), Pods("b", Request(1000, 64), 1), Pods("none", Request(9000, 9000), 0)]
    ends_first = Pods("c", Request(2000, 2048), 2, surges=False)
    (one,) = surge([*others, ends_first])
    assert (one.request, one.count) == (Request(1000, 512), 1)
    assert surge([ends_first]) == []


def test_a_node_keeps_room_for_its_daemon_sets() -> None:
    small, large = INSTANCE_TYPES["m7i.large"], INSTANCE_TYPES["c7i.xlarge"]
    room = room_of([small, large], pods.daemons(settings(), gpu=False))
    # vpc-cni 50, kube-proxy 100, EBS 30, monitoring agent 10; memory 120 and 30; with the identity agent five pods.
    assert room.free.millis == small.allocatable_cpu_millis - 190
    assert room.free.mib == large.allocatable_mib - 150
    assert room.pods == 110 - 5


def test_a_gpu_node_has_the_plugin_and_where_it_is_watched_the_exporters_too() -> None:
    names = [[one.name for one in pods.daemons(settings(changes), gpu=True)] for changes in ({}, {"monitoring": MONITORING})]
    assert names[0][-1] == "nvidia-device-plugin"
    assert names[1] == [*names[0], "node-exporter", "dcgm-exporter"]


def test_a_shared_gpus_pods_are_called_as_the_chart_calls_them() -> None:
    """https://github.com/kubernetes-sigs/node-feature-discovery/tree/v0.19.0/deployment/helm/node-feature-discovery/templates,
    and the templates of NVIDIA/k8s-device-plugin v0.20.0.
    """
    assert [one.name for one in PODS_OF_MPS] == [
        "gpu-feature-discovery",
        "mps-control-daemon",
        "node-feature-discovery-worker",
        "node-feature-discovery-master",
        "node-feature-discovery-gc",
    ]


@pytest.mark.parametrize(
    ("chart", "path", "level"),
    [
        ("gateway-helm", "deployment.priorityClassName", "cluster"),
        ("aws-load-balancer-controller", "priorityClassName", "cluster"),
        ("keda", "priorityClassName", "cluster"),
        ("prometheus-adapter", "priorityClassName", "cluster"),
        ("cluster-autoscaler", "priorityClassName", "cluster"),
        ("nvidia-device-plugin", "priorityClassName", "node"),
    ],
)
def test_no_server_and_no_placeholder_takes_the_place_of_what_routes_scales_or_offers_gpus(
    chart: str, path: str, level: str
) -> None:
    """Triton, workers and placeholder pods have priority 0 or less; Karpenter's chart sets its own class."""
    assert helm_values.value_at(helm_values.base_values(chart, ROOT), path) == f"system-{level}-critical"


@pytest.mark.parametrize("chart", sorted(CHARTS))
def test_every_path_in_the_values_of_a_chart_is_there(chart: str) -> None:
    """A misspelled path would count as zero."""
    values = helm_values.base_values(chart, ROOT) if CHARTS[chart].pods else {}
    for one in CHARTS[chart].pods:
        asked = requested(helm_values.value_at(values, str(one.request)))
        assert asked.millis > 0 < asked.mib, one
        if isinstance(one.count, str) and one.count != REPLICAS_OF_MONITORING:
            assert helm_values.value_at(values, one.count) > 0, one


PROD_AS_IT_WAS = {
    "nodes.system": {"instanceTypes": ["m7i.large", "m6i.large"], "min": 2, "desired": 3, "max": 3, "diskGiB": 50},
    "nodes.cpu": None,
}
STAGING_AS_IT_WAS = {
    "nodes.system": {"instanceTypes": ["m7i.large"], "min": 2, "desired": 2, "max": 2, "diskGiB": 50},
    "nodes.cpu": None,
}


@pytest.mark.parametrize(
    ("stack", "changes", "sentence"),
    [
        (
            "prod",
            PROD_AS_IT_WAS,
            "nodes.system.desired: 3 x m7i.large or m6i.large, of which 2 are left when a zone is lost, have no room for "
            "envoy (2 of 3, 1010m CPU and 1056 MiB each), triton-worker (10 of 10, 1000m CPU and 1024 MiB each), "
            "otel-collector (1 of 1, 200m CPU and 1024 MiB), coredns (2 of 2, 100m CPU and 70 MiB each) and 8 others: "
            "the 41 pods ask for 16880m CPU and 22980 MiB, and 2 nodes have room for 3360m CPU and 11778 MiB beside the "
            "kubelet and DaemonSets; give 21 nodes, m7i.4xlarge for nodes.system.instanceTypes or nodes.cpu for the workers "
            "beside one of these",
        ),
        (
            "staging",
            STAGING_AS_IT_WAS,
            "nodes.system.desired: 2 x m7i.large, of which 1 is left when a zone is lost, have no room for "
            "envoy (1 of 2, 510m CPU and 544 MiB each), triton-worker (4 of 4, 500m CPU and 768 MiB each), "
            "karpenter (1 of 2, 250m CPU and 1024 MiB each), otel-collector (1 of 1, 200m CPU and 1024 MiB) and 12 others: "
            "the 32 pods ask for 6090m CPU and 12512 MiB, and that node has room for 1680m CPU and 5889 MiB beside the "
            "kubelet and DaemonSets; give 6 nodes or nodes.cpu for the workers beside one of these",
        ),
        (
            "staging",
            {
                "nodes.system": {"instanceTypes": ["m7i.large"], "min": 2, "desired": 5, "max": 5, "diskGiB": 50},
                "nodes.cpu": None,
                "worker.cpu": "500m",
                "worker.maxReplicas": 3,
            },
            "nodes.system.desired: 5 x m7i.large, of which 3 are left when a zone is lost, have no room for "
            "coredns (1 of 2, 100m CPU and 70 MiB each), aws-load-balancer-controller (2 of 2, 100m CPU and 128 MiB each), "
            "ebs-csi-controller (2 of 2, 60m CPU and 240 MiB each), kube-prometheus-stack-operator (1 of 1, 50m CPU and "
            "128 MiB) and 1 other: the 31 pods ask for 5590m CPU and 11744 MiB, and 3 nodes have room for 5040m CPU and "
            "17667 MiB beside the kubelet and DaemonSets; give 6 nodes, m7i.xlarge for nodes.system.instanceTypes or "
            "nodes.cpu for the workers",
        ),
    ],
)
def test_a_stack_whose_pods_would_wait_is_refused_with_the_numbers(
    stack: str, changes: dict[str, Any], sentence: str
) -> None:
    assert told(stack, changes) == [sentence]


@pytest.mark.parametrize(
    ("stack", "changes", "path", "fits"),
    [
        ("prod", {"gateway.replicas": 4}, "nodes.system.desired", f"5 nodes or {LARGER}"),
        (
            "staging",
            {"gateway.replicas": 9},
            "nodes.system.desired",
            f"5 nodes or {LARGER}",
        ),
        ("prod", {"worker.maxReplicas": 12}, "nodes.cpu.max", "5, larger types, or fewer workers"),
        ("prod", {"worker.maxReplicas": 1000}, "nodes.cpu.max", "334, larger types, or fewer workers"),
        (
            "prod",
            {"gateway.memoryMiB": 8192},
            "nodes.system.desired",
            f"6 nodes or {LARGER}",
        ),
        # A worker that is larger than a system node is no problem if it has its own nodes.
        (
            "prod",
            {"gateway.replicas": 4, "worker.cpu": "4", "nodes.cpu": EIGHT_CORES},
            "nodes.system.desired",
            f"5 nodes or {LARGER}",
        ),
    ],
)
def test_one_more_pod_than_fits_is_found_with_what_would_fit(
    stack: str, changes: dict[str, Any], path: str, fits: str
) -> None:
    (found,) = told(stack, changes)
    assert (found.partition(":")[0], found.rpartition("; give ")[2]) == (path, fits)


def test_a_server_that_leaves_no_room_for_daemon_sets_is_found() -> None:
    """Of 3920m next to the kubelet, add-ons take 190m, the plugin 50m, exporters 110m, and the log sender the rest."""
    (found,) = told("prod", {"triton.cpu": "3600m"})
    room = 3920 - sum(one.request.millis for one in pods.daemons(prod(), gpu=True))
    assert found.startswith("triton.cpu: 3600m vCPUs are more than a g5.xlarge of pool 'g5' has left")
    assert found.endswith(f'use at most "{room}m"') and 3500 <= room < 3600


@pytest.mark.parametrize("stack", ["local", "dev", "staging", "prod"])
def test_the_shipped_stacks_have_room_for_everything(stack: str) -> None:
    assert told(stack, {}) == []


def prod() -> Settings:
    return load_stack_file(ROOT / "stacks" / "Pulumi.prod.yaml", today=TODAY)


def test_a_larger_prometheus_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    values, before = pods._values, packing.total(pods.on_system_nodes(prod()))

    def larger(chart: str) -> Mapping[str, Any]:
        resources = {"prometheus": {"prometheusSpec": {"resources": {"requests": {"cpu": "1", "memory": "8Gi"}}}}}
        return helm_values.merge(values(chart), resources if chart == "kube-prometheus-stack" else {})

    monkeypatch.setattr(pods, "_values", larger)
    (found,) = told("prod", {})
    surge_ = Request(1010, 1056)  # of an Envoy
    assert f"pods ask for {before + surge_ + Request(750, 7 * 1024) * 2}, and" in found


def test_one_more_daemon_set_is_found_on_every_node(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = replace(add_ons.ADDONS["kube-proxy"][0], name="agent", request=Request(700, 256))
    monkeypatch.setattr(pods, "ADDONS", {**add_ons.ADDONS, "kube-proxy": (*add_ons.ADDONS["kube-proxy"], agent)})
    assert sorted(sentence.partition(":")[0] for sentence in told("prod", {})) == [
        "nodes.cpu.max",
        "nodes.system.desired",
        "triton.cpu",
    ]


# Two nodes hold the services and 13 workers of 500m; three nodes hold 20.
_SCALED_BY_KEDA = {**WORKER, "maxReplicas": 20, "memoryMiB": 320, "concurrency": 1}


@pytest.mark.parametrize(
    ("changes", "fits"),
    [
        ({"nodes.autoscaler": "none"}, False),
        ({"nodes.autoscaler": "none", "nodes.system.max": 9}, False),
        ({"nodes.autoscaler": "cluster-autoscaler", "nodes.system.max": 3}, False),
        ({"nodes.autoscaler": "cluster-autoscaler", "nodes.system.max": 4}, True),
        ({**KARPENTER, "nodes.cpu": {**CPU, "max": 3}}, True),
    ],
)
def test_only_who_starts_nodes_makes_room_by_them(changes: dict[str, Any], fits: bool) -> None:
    found = complaints({"worker": _SCALED_BY_KEDA, **changes}) if not fits else []
    assert [sentence.partition(":")[0] for sentence in found] == (
        [] if fits else ["nodes.system.max" if "cluster" in changes["nodes.autoscaler"] else "nodes.system.desired"]
    )
    if fits:
        settings({"worker": _SCALED_BY_KEDA, **changes})


def test_workers_fill_their_own_nodes() -> None:
    stack = settings({**KARPENTER, "nodes.cpu": CPU, "worker": {**WORKER, "cpu": "1"}})
    assert [nodes_for_workers(stack, count) for count in (0, 1, 3, 4, 7)] == [0, 1, 1, 2, 3]
    assert nodes_for_workers(settings({"worker": WORKER}), 3) == 0


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"worker": WORKER, "nodes.cpu": CPU},
            "nodes.cpu: Karpenter starts these nodes, and nodes.autoscaler is none; remove it, with enough nodes.system for "
            "the workers, or use nodes.autoscaler: karpenter",
        ),
        (
            {**KARPENTER, "nodes.cpu": CPU},
            "nodes.cpu: only workers and fleets without GPUs run on these nodes, and the stack has neither; remove it, or "
            "add worker",
        ),
        (
            {**KARPENTER, "worker": WORKER, "nodes.cpu": {**CPU, "instanceTypes": ["m7i.xlarge", "m7i.large"]}},
            "nodes.cpu.instanceTypes: m7i.xlarge has 4 vCPUs and m7i.large 2, so that max would be no number of nodes; give "
            "types of the same size",
        ),
        (
            {**KARPENTER, "worker": WORKER, "nodes.cpu": {**CPU, "instanceTypes": ["g5.xlarge"]}},
            "nodes.cpu.instanceTypes[0]: 'g5.xlarge' has a GPU, which nodes for workers would waste; use m5, m6i, m7i, c6i, "
            "c7i, r6i or r7i, and gpu.pools for GPU nodes",
        ),
        (
            {**KARPENTER, "worker": WORKER, "nodes.cpu": CPU, "gpu.pools[1].name": "cpu"},
            "gpu.pools[1].name: 'cpu' is the name of the nodes for workers; use another",
        ),
        (
            {**KARPENTER, "worker": {**WORKER, "cpu": "3800m"}, "nodes.cpu": CPU},
            "worker.cpu: 3.8 vCPUs are more than a m7i.xlarge of the nodes for workers has left beside the kubelet and the "
            'add-ons; use at most "3730m", or larger nodes',
        ),
        (
            {**KARPENTER, "nodes.system.max": 4},
            "nodes.system.max: nothing starts more than the 3 system nodes of desired: Karpenter starts those of gpu.pools "
            "and nodes.cpu alone; use 3, or raise desired",
        ),
    ],
)
def test_nodes_for_workers_are_karpenters_and_of_one_size(changes: dict[str, Any], sentence: str) -> None:
    assert complaints(changes) == [sentence]
