"""Several fleets in the program: the pods, the routes and the monitoring of each."""

from typing import Any

import pytest

from infra.platform.dashboards import dashboards
from infra.platform.prometheus_stack import prometheus_url
from infra.serving import routed_model, routes
from infra.serving.triton import FleetArgs, values
from infra.serving.worker import asked_of
from infra.serving.worker import values as worker_values
from spec.iam_policy import service_account_trust
from spec.names import PROMETHEUS_URL
from spec.prometheus import rule_file
from spec.scaling.manifests import autoscaler_spec, scaled_object_spec
from tests.charts import rendering
from tests.infra.access import stack
from tests.spec.test_fleets import GPU_MODEL
from tests.spec.test_fleets import released as read
from tests.spec.test_stack_mistakes_relations import WORKER

OF_G5 = 'pod=~"triton-g5-[0-9a-z]+-[0-9a-z]{5}"'


GATEWAY = {
    "certificateArn": "arn:aws:acm:us-west-2:123456789012:certificate/01234567-89ab-cdef-0123-456789abcdef",
    "replicas": 2,
    "cpu": "1",
    "memoryMiB": 512,
}


def pods(name: str, changes: dict[str, Any] | None = None) -> dict[str, Any]:
    settings = read(changes)
    args = FleetArgs.of(next(fleet for fleet in settings.each_fleet if fleet.name == name), settings)
    objects = rendering.render_values(values(stack(), args), environment="staging", name=args.name)
    deployment = rendering.only(objects, "Deployment")
    assert deployment["metadata"]["name"] == f"triton-{name}"
    assert rendering.only(objects, "ServiceAccount")["metadata"]["name"] == f"triton-{name}"
    found: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return found


@pytest.mark.parametrize(
    ("name", "models", "gpus", "pool"),
    [
        ("cpu", ["tokenize"], None, "cpu"),
        ("g5", ["embed", "pipeline", "tokenize"], "1", "g5"),
        ("p4d", ["rank"], "4", "p4d"),
    ],
)
def test_the_pods_of_a_fleet_load_its_models_alone_on_its_nodes(
    name: str, models: list[str], gpus: str | None, pool: str
) -> None:
    spec = pods(name)
    (container,) = spec["containers"]
    assert rendering.flag(container, "--model-control-mode") == "explicit"
    assert [arg for arg in container["args"] if "--load-model" in arg] == [f"--load-model={model}" for model in models]
    assert container["resources"]["limits"].get("nvidia.com/gpu") == gpus
    assert spec["nodeSelector"] == {"triton-eks/pool": pool}
    assert [toleration["key"] for toleration in spec["tolerations"]] == ["nvidia.com/gpu" if gpus else "triton-eks/pool"]


def test_in_place_the_pods_of_a_fleet_load_its_models_alone_of_the_live_prefix() -> None:
    (container,) = pods("g5", {"triton.rollout": "in-place", "models.serving.rank": GPU_MODEL})["containers"]
    assert container["args"][:5] == [
        "--model-repository=s3://triton-models-staging-123456789012-us-west-2/live",
        "--model-control-mode=explicit",
        "--load-model=embed",
        "--load-model=pipeline",
        "--load-model=tokenize",
    ]


ZONES = ["topology.kubernetes.io/zone"]
HOSTS = ["kubernetes.io/hostname", *ZONES]
# A p4d.24xlarge has 8 GPUs and 96 vCPUs. A pod of the fleet takes 4 GPUs and 40 vCPUs.
WHOLE_NODE = {"fleets[2].gpus": 8}
LARGE_PODS = {"fleets[2].cpu": "48"}


@pytest.mark.parametrize(
    ("name", "changes", "topologies"),
    [
        ("cpu", {}, ZONES),
        ("g5", {}, HOSTS),
        ("p4d", {}, ZONES),
        ("p4d", WHOLE_NODE, HOSTS),
        ("p4d", LARGE_PODS, HOSTS),
    ],
    ids=["no GPU", "one pod a node", "two pods a node", "all GPUs", "half the vCPUs"],
)
def test_pods_prefer_hosts_of_their_own_unless_a_node_holds_several(
    name: str, changes: dict[str, Any], topologies: list[str]
) -> None:
    assert [one["topologyKey"] for one in pods(name, changes)["topologySpreadConstraints"]] == topologies


@pytest.mark.parametrize(
    ("name", "replicas", "changes", "held"),
    [
        ("cpu", 1, {}, True),
        ("cpu", 2, {}, False),
        ("p4d", 1, {}, True),
        ("p4d", 2, {}, False),
        ("p4d", 1, WHOLE_NODE, False),
    ],
    ids=["one pod without a GPU", "two", "one of two that fit a GPU node", "both", "a GPU node with its only pod stays"],
)
def test_karpenter_does_not_move_the_only_pod_of_a_fleet_to_save_a_node(
    name: str, replicas: int, changes: dict[str, Any], held: bool
) -> None:
    index = ["cpu", "g5", "p4d"].index(name)
    settings = read({f"fleets[{index}].replicas": replicas, **changes})
    given = values(stack(), FleetArgs.of(settings.each_fleet[index], settings)).get("podAnnotations", {})
    assert (given == {"karpenter.sh/do-not-disrupt": "true"}) is held


def backends(changes: dict[str, Any], model: str) -> list[dict[str, Any]]:
    made = read({"gateway": GATEWAY, **changes})
    assert made.gateway is not None
    found = routed_model.routed(made.models, made.gateway, made.each_fleet)
    (routed,) = [one for one in found if one.name == model]
    given: list[dict[str, Any]] = routes.http_route_spec(routed)["rules"][0]["backendRefs"]
    return given


def test_a_model_is_asked_where_it_is_served_and_by_weight_where_several_serve_it() -> None:
    assert backends({}, "rank") == [{"name": "triton-p4d", "port": 8000}]
    assert backends({}, "tokenize") == [
        {"name": "triton-cpu", "port": 8000, "weight": 1},
        {"name": "triton-g5", "port": 8000, "weight": 1},
    ]
    moving = {"fleets[0].weights": {"tokenize": 3}, "fleets[1].weights": {"tokenize": 0}}
    assert [one["weight"] for one in backends(moving, "tokenize")] == [3, 0]


def test_a_request_for_a_model_starts_the_first_pod_of_a_fleet_that_serves_it() -> None:
    bounds = {"fleets[1].autoscaling": {"minReplicas": 0, "maxReplicas": 4}}
    made = read({"gateway": GATEWAY, **bounds})
    assert made.gateway is not None
    woken = {one.name: one.woken for one in routed_model.routed(made.models, made.gateway, made.each_fleet)}
    assert woken == {"embed": True, "pipeline": True, "rank": False, "tokenize": True}


def test_a_fleet_is_scaled_by_an_object_of_its_own() -> None:
    fleet = read().each_fleet[1]
    keda, hpa = (
        scaled_object_spec(fleet.stack, "http://p:9090", fleet.deployment),
        autoscaler_spec(fleet.stack, fleet.deployment),
    )
    assert keda["scaleTargetRef"]["name"] == hpa["scaleTargetRef"]["name"] == "triton-g5"
    assert keda["advanced"]["horizontalPodAutoscalerConfig"]["name"] == "triton-g5"
    assert {OF_G5 in trigger["metadata"]["query"] for trigger in keda["triggers"]} == {True}


def test_each_fleet_is_down_and_lacks_a_model_by_itself() -> None:
    rules = [rule for group in rule_file.groups(read()) for rule in group["rules"] if "alert" in rule]
    down = {rule["labels"]["fleet"]: rule["expr"] for rule in rules if rule["alert"] == "TritonDown"}
    created = 'kube_deployment_created{namespace="triton",deployment="triton-g5"}'
    assert down["g5"].startswith(f'absent(up{{namespace="triton",job="triton",{OF_G5}}} == 1)\nand on () (')
    assert created in down["g5"]
    lacking = sorted(
        (rule["labels"]["fleet"], rule["labels"].get("model", ""))
        for rule in rules
        if rule["alert"] == "TritonModelNotServed"
    )
    assert lacking == [
        ("cpu", ""),
        ("cpu", "tokenize"),
        ("g5", ""),
        ("g5", "embed"),
        ("g5", "pipeline"),
        ("g5", "tokenize"),
        ("p4d", ""),
        ("p4d", "rank"),
    ]
    stuck = next(rule for rule in rules if rule["alert"] == "TritonRolloutStuck")
    assert 'deployment=~"(triton-cpu|triton-g5|triton-p4d)"' in stuck["expr"]


def test_the_board_of_scaling_shows_every_fleet() -> None:
    assert 'deployment=~"(triton-cpu|triton-g5|triton-p4d)"' in str(dashboards(read())[-1])


def test_a_worker_asks_the_fleet_with_the_larger_part_first() -> None:
    cpu, g5, p4d = (f"dns:///triton-{name}-headless.triton.svc.cluster.local:8001" for name in ("cpu", "g5", "p4d"))
    asked = asked_of(read({"fleets[0].weights": {"tokenize": 0}}).each_fleet)
    assert asked == {"embed": [g5], "pipeline": [g5], "rank": [p4d], "tokenize": [g5, cpu]}
    worker = read({"worker": {**WORKER, "memoryMiB": 1024}}).worker
    given = worker_values(stack(), worker, read())["triton"]
    assert (given["url"], given["fleets"]["tokenize"]) == (cpu, [cpu, g5])


def test_the_role_that_reads_models_trusts_the_account_of_each_fleet() -> None:
    names = [fleet.release for fleet in read().each_fleet]
    trust = service_account_trust("arn", "issuer", "triton", *names)
    assert '["system:serviceaccount:triton:triton-cpu","system:serviceaccount:triton:triton-g5",' in trust.replace(", ", ",")


def test_every_autoscaler_asks_the_prometheus_that_a_fleet_names() -> None:
    bounds = {"minReplicas": 2, "maxReplicas": 4, "prometheusUrl": "http://prometheus.observability.svc:9090"}
    assert prometheus_url(read({"fleets[1].autoscaling": bounds})) == "http://prometheus.observability.svc:9090"
    assert prometheus_url(read()) == PROMETHEUS_URL
