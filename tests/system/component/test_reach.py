"""The table of connections against every stack, against stacks with more components, and with seeded defects."""

from __future__ import annotations

import ast
import copy
import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import yaml

from spec.endpoints import INTERFACE_SERVICES
from spec.reach import AWS_CALLS, PLACES, PODS, connections
from spec.settings import load
from tests.paths import ROOT
from tests.spec.stack_config import config
from tests.spec.test_blue_green import COMPARED, MODELCTL
from tests.spec.test_openai import GATEWAY, OPENAI, RELEASE
from tests.spec.test_stack_mistakes_monitoring import SECTION
from tests.system.component import reach
from tests.system.component.engine.account import fresh_account, seed_roles, seed_topics
from tests.system.component.engine.recording import Recording
from tests.system.component.engine.stack_run import STACKS, TODAY, StackRun, deployed, required_config
from tests.system.component.reach import World
from tests.system.component.test_runner import RUNNER
from twin.aws.base.clients import Clients

Config = dict[str, Any]
Worlds = Callable[[str], World]


def _file(stack: str) -> Config:
    found: Config = yaml.safe_load((ROOT / "stacks" / f"Pulumi.{stack}.yaml").read_text())["config"]
    return found


def _without_nat() -> tuple[str, Config]:
    found = required_config(ROOT, "dev") | {"triton-eks:worker": {**_file("local")["triton-eks:worker"], "memoryMiB": 1024}}
    found["triton-eks:network"] |= {"nat": "none", "endpoints": "full"}
    return "dev", found


_ROOM = {"nodes.system.instanceTypes": ["m7i.2xlarge"]}
_MOST: Config = {
    **OPENAI,
    **_ROOM,
    "models.release": RELEASE,
    "gateway": {**GATEWAY, "clients": {"web": {}}},
    "monitoring": {
        **SECTION,
        "parityImage": MODELCTL,
        "openCost": True,
        "amp": {"workspaceId": f"ws-{'0' * 8}-89ab-cdef-0123-{'4' * 12}"},
    },
    "nodes.autoscaler": "cluster-autoscaler",
    "cluster.apiAccess": {"cidrs": ["172.16.8.0/22"], "runner": RUNNER},
    "logs": {"containers": {"retentionDays": 30}, "containerInsights": {"retentionDays": 30}},
}
OTHERS: dict[str, Callable[[], tuple[str, Config]]] = {
    "most parts": lambda: ("staging", config(_MOST)),
    "compared": lambda: ("staging", config({**COMPARED, **_ROOM, "monitoring": SECTION})),
    "without NAT": _without_nat,
}


@pytest.fixture(scope="module")
def worlds(stack_runs: Callable[[str], StackRun]) -> Worlds:
    @cache
    def world(name: str) -> World:
        if name in STACKS:
            return World(stack_runs(name).up, stack_runs(name).settings)
        stack, given = OTHERS[name]()
        settings = load(given, stack, today=TODAY)
        with fresh_account():
            clients = Clients(settings.region)
            seed_roles(clients, settings.cluster)
            seed_topics(clients, given)
            return World(deployed(settings, given, clients, preview=False), settings)

    return world


CHECKS: dict[str, Callable[[World], list[str]]] = {
    "a required connection is blocked": reach.blocked,
    "an unneeded connection is open": reach.needless,
    "a workload has no policy": reach.unguarded,
    "AWS does not enforce a policy as written": reach.beyond_limits,
    "a port is in no row": lambda world: reach.unlisted(world.objects),
    "a monitor is in no row": reach.unscraped,
    "a chart, an add-on or an address is in no row": reach.unnamed,
    "a right to an AWS service is in no row": reach.unlisted_calls,
    "a called AWS service has no endpoint": reach.without_endpoint,
    "a security group blocks a connection": lambda world: reach.groups(world)[0],
    "a rule of a security group is in no row": lambda world: reach.groups(world)[1],
}


@pytest.mark.parametrize("stack", [*STACKS, *OTHERS])
@pytest.mark.parametrize("check", CHECKS)
def test_no_stack_has_it_that(check: str, stack: str, worlds: Worlds) -> None:
    assert CHECKS[check](worlds(stack)) == []


def test_every_workload_of_ours_is_in_one_of_these_stacks(worlds: Worlds) -> None:
    ours = {name for name, pods in PODS.items() if not pods.part}
    # `modelctl build-plans` prints its Job; no stack has it.
    assert ours - {name for stack in (*STACKS, *OTHERS) for name in worlds(stack).peers} == {"plan builder"}


def test_every_end_of_a_row_is_known_and_no_row_is_there_twice() -> None:
    rows = list(connections())
    ends = {end for row in rows for end in (row.source, row.destination) if not end.startswith("AWS: ")}
    assert ends <= {*PODS, *PLACES}
    edges = [(row.source, row.destination, port) for row in rows for port in row.ports]
    # Prometheus reads the metrics of the servers that get its alerts or list its targets.
    twice = {("Prometheus", "Alertmanager", 9093), ("Prometheus", "API server", 443)}
    assert {edge for edge in edges if edges.count(edge) > 1} == twice


def test_each_interface_endpoint_has_a_caller() -> None:
    called = {service for services in AWS_CALLS.values() for service in services} | {"sts"}
    assert set(INTERFACE_SERVICES["full"]) - called == set()


@pytest.mark.parametrize(("package", "source"), [("worker", "worker"), ("modelctl", "Triton")])
def test_each_client_of_boto3_in_a_pods_program_is_in_a_row(package: str, source: str) -> None:
    """modelctl in Triton's pod fetches models. People sign releases outside the cluster."""
    names = set()
    for path in {*(ROOT / package).rglob("*.py")} - {ROOT / "modelctl" / "store" / "signer.py"}:
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and call.args and isinstance(call.args[0], ast.Constant):
                function = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
                if function in ("client", "resource", "Service"):
                    names.add(call.args[0].value)
    assert names and names <= AWS_CALLS[source].keys()


# Seeded defects: one of each kind.


def _objects(kind: str, name: str, change: Callable[[Any], object]) -> Callable[[World], World]:
    def seeded(world: World) -> World:
        found = World(world.recording, world.settings)
        found.objects = copy.deepcopy(world.objects)
        (one,) = [item for item in found.objects if (item["kind"], item.get("metadata", item)["name"]) == (kind, name)]
        change(one)
        return found

    return seeded


def _resource(name: str, change: Callable[[Config], Config | None]) -> Callable[[World], World]:
    def seeded(world: World) -> World:
        kept = []
        for item in world.recording.registrations:
            checked = change(copy.deepcopy(item.checked)) if item.name == name else item.checked
            kept += [replace(item, checked=checked)] if checked is not None else []
        assert kept != world.recording.registrations
        return World(Recording(kept), world.settings)

    return seeded


def _allows(action: str) -> Callable[[Config], Config]:
    def change(checked: Config) -> Config:
        document = json.loads(checked["policy"])
        document["Statement"].append({"Effect": "Allow", "Action": action, "Resource": "*"})
        return {**checked, "policy": json.dumps(document)}

    return change


def _without_agent(policy: Any) -> None:
    egress = policy["spec"]["egress"]
    egress.remove(next(rule for rule in egress if rule["ports"][0]["port"] == 80))


def _lets_triton_in(policy: Any) -> None:
    near = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "triton"}}}
    policy["spec"]["ingress"][0]["from"].append(near)


def _many_ports(policy: Any) -> None:
    policy["spec"]["egress"][0]["ports"] += [{"port": port} for port in range(30000, 30023)]


def _container_port(deployment: Any) -> None:
    deployment["spec"]["template"]["spec"]["containers"][0]["ports"].append({"name": "debug", "containerPort": 5678})


DEFECTS: dict[str, tuple[str, Callable[[World], World], str, list[str]]] = {
    "a closed port": (
        "prod",
        _objects("NetworkPolicy", "triton-blue", lambda one: one["spec"]["ingress"][0]["ports"].pop(1)),
        "a required connection is blocked",
        [f"{source} → Triton: 8001/TCP" for source in ("Envoy", "pods of client namespaces", "worker")],
    ),
    "metrics without a policy": (
        "prod",
        _resource("device-plugin-ingress-none", lambda _: None),
        "a workload has no policy",
        ["device plugin"],
    ),
    "a webhook that the API server does not reach": (
        "prod",
        _objects("NetworkPolicy", "ingress-keda-admission-webhooks", lambda one: one["spec"]["ingress"].pop(0)),
        "a required connection is blocked",
        ["API server → KEDA webhooks: 9443/TCP"],
    ),
    "a door to Prometheus": (
        "prod",
        _objects("NetworkPolicy", "ingress-prometheus", _lets_triton_in),
        "an unneeded connection is open",
        ["any other pod → Prometheus: 9090/TCP"],
    ),
    "Pod Identity without a way to its agent": (
        "prod",
        _objects("NetworkPolicy", "triton-worker", _without_agent),
        "a required connection is blocked",
        ["worker → Pod Identity agent: 80/TCP"],
    ),
    "an open port": (
        "prod",
        _objects("NetworkPolicy", "triton-blue", lambda one: one["spec"]["egress"].append({"ports": [{"port": 80}]})),
        "an unneeded connection is open",
        [f"Triton → {end}: 80/TCP" for end in ("the internet", "instance metadata", "Pod Identity agent", "nodes")],
    ),
    "the port of a follower, which only port forwards reach": (
        "prod",
        _objects("NetworkPolicy", "triton-blue", lambda one: one["spec"]["ingress"][1]["ports"].append({"port": 8003})),
        "an unneeded connection is open",
        ["Prometheus → Triton: 8003/TCP"],
    ),
    "25 ports for CoreDNS": (
        "prod",
        _objects("NetworkPolicy", "triton-blue", _many_ports),
        "AWS does not enforce a policy as written",
        ["Triton: 26 ports in Egress for one address; AWS enforces 24"],
    ),
    "a Service with another port": (
        "compared",
        _objects("Service", "triton-blue", lambda one: one["spec"]["ports"][0].update(port=80)),
        "AWS does not enforce a policy as written",
        ["comparer → Triton: the Service has port 80, the container 8000"],
    ),
    "a port of a container": (
        "prod",
        _objects("Deployment", "triton-worker", _container_port),
        "a port is in no row",
        ["worker: port 5678"],
    ),
    "a monitor": (
        "prod",
        _objects("PodMonitor", "worker", lambda one: one["spec"]["selector"]["matchLabels"].update({reach.NAME_LABEL: "x"})),
        "a monitor is in no row",
        ["PodMonitor worker"],
    ),
    "a chart": (
        "prod",
        _objects("Release", "keda", lambda one: one.update(name="another")),
        "a chart, an add-on or an address is in no row",
        ["another"],
    ),
    "an address": (
        "prod",
        _objects("ScaledObject", "triton-blue", lambda one: one.update(url="http://cache.redis.svc:6379")),
        "a chart, an add-on or an address is in no row",
        ["ScaledObject: cache.redis:6379"],
    ),
    "a right": (
        "prod",
        _resource("worker-policy", _allows("dynamodb:GetItem")),
        "a right to an AWS service is in no row",
        ["worker: dynamodb (worker-policy)"],
    ),
    "a dropped endpoint": (
        "without NAT",
        _resource("network-endpoints-sqs", lambda _: None),
        "a called AWS service has no endpoint",
        ["sqs"],
    ),
    "a dropped rule": (
        "most parts",
        _resource("runner-to-api", lambda _: None),
        "a security group blocks a connection",
        ["runner in the VPC → API server: 443"],
    ),
    "an open rule": (
        "most parts",
        _resource("network-endpoints-https", lambda checked: {**checked, "fromPort": 442}),
        "a rule of a security group is in no row",
        ["network-endpoints-https: the VPC → VPC endpoints: 442"],
    ),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_seeded_defect_is_found(defect: str, worlds: Worlds) -> None:
    stack, seeded, check, findings = DEFECTS[defect]
    assert sorted(CHECKS[check](seeded(worlds(stack)))) == sorted(findings)


def test_the_checks_are_all_seeded() -> None:
    assert {check for _, _, check, _ in DEFECTS.values()} == CHECKS.keys()
