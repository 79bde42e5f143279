"""The gateway and the collector in the program: only in the stacks that configure them, and in order."""

from __future__ import annotations

import json

from spec.route_names import object_name
from tests.system.component.engine.recording import Recording, Registration
from tests.system.component.engine.stack_run import StackRun

RELEASE = "kubernetes:helm.sh/v3:Release"
HTTP_ROUTE = "kubernetes:gateway.networking.k8s.io/v1:HTTPRoute"
GRPC_ROUTE = "kubernetes:gateway.networking.k8s.io/v1:GRPCRoute"
POLICY = "kubernetes:gateway.envoyproxy.io/v1alpha1:BackendTrafficPolicy"
GATEWAY = "kubernetes:gateway.networking.k8s.io/v1:Gateway"
ROLE_POLICY = "aws:iam/rolePolicy:RolePolicy"


def release(up: Recording, chart: str) -> Registration | None:
    return next((item for item in up.of_type(RELEASE) if item.checked["name"] == chart), None)


def test_stacks_have_a_gateway_and_a_collector_where_they_say_so(stack_run: StackRun) -> None:
    up, settings = stack_run.up, stack_run.settings
    wanted = stack_run.stack in ("staging", "prod")
    assert (settings.gateway is not None, settings.tracing is not None) == (wanted, wanted)
    for chart in ("gateway-helm", "aws-load-balancer-controller", "opentelemetry-collector"):
        assert (release(up, chart) is not None) is wanted
    assert bool(up.of_type("triton:platform:InferenceGateway")) is wanted
    assert bool(up.of_type("triton:platform:Collector")) is wanted


def test_every_model_of_the_release_has_its_routes_and_its_policy(stack_run: StackRun) -> None:
    up, settings = stack_run.up, stack_run.settings
    served = settings.models.release.models if settings.models.release is not None else {}
    # One more for clients that name no model in a header: each of these stacks has one fleet, and restricts no client.
    expected = sorted([*map(object_name, served), "all-models"]) if settings.gateway is not None else []
    for kind in (HTTP_ROUTE, GRPC_ROUTE, POLICY):
        found = up.of_type(kind)
        assert sorted(item.checked["metadata"]["name"] for item in found) == expected
        assert {item.checked["metadata"]["namespace"] for item in found} <= {"triton"}


def test_the_gateway_comes_after_its_load_balancers_controller_and_the_routes_after_both(stack_run: StackRun) -> None:
    up = stack_run.up
    if stack_run.settings.gateway is None:
        return
    controller = up.one("triton:platform:LoadBalancerController")
    gateway = up.one("triton:platform:InferenceGateway")
    order = [item.urn for item in up.registrations]
    assert order.index(controller.urn) < order.index(gateway.urn) < order.index(up.one(GATEWAY).urn)
    # The engine replaces a component dependency by the component's children.
    inside = {item.urn for item in up.registrations if item.parent == controller.urn}
    assert inside & set(gateway.depends_on)
    if stack_run.settings.models.release is not None:
        routes = up.one("triton:serving:ModelRoutes")
        for before in (gateway, up.one("triton:serving:TritonServer")):
            assert {item.urn for item in up.registrations if item.parent == before.urn} & set(routes.depends_on)


def test_the_controller_is_told_the_vpc_and_takes_no_service_on_its_own(stack_run: StackRun) -> None:
    found = release(stack_run.up, "aws-load-balancer-controller")
    if found is None:
        return
    values = found.checked["values"]
    assert values["vpcId"] == stack_run.up.one("aws:ec2/vpc:Vpc").id
    assert values["clusterName"] == stack_run.settings.cluster_name
    assert values["enableServiceMutatorWebhook"] is False


def test_the_collector_may_write_traces_and_nothing_else(stack_run: StackRun) -> None:
    found = [item for item in stack_run.up.of_type(ROLE_POLICY) if item.name.startswith("collector-")]
    xray = stack_run.settings.tracing is not None and stack_run.settings.tracing.exporter == "xray"
    assert len(found) == (1 if xray else 0)
    for item in found:
        (statement,) = json.loads(item.checked["policy"])["Statement"]
        assert statement["Action"] == ["xray:PutTraceSegments", "xray:PutTelemetryRecords"]


def test_triton_traces_where_there_is_a_collector(stack_run: StackRun) -> None:
    for item in stack_run.up.of_type("kubernetes:apps/v1:Deployment"):
        if item.checked["metadata"]["name"] != "triton":
            continue
        (container,) = item.checked["spec"]["template"]["spec"]["containers"]
        traced = [arg for arg in container["args"] if arg.startswith("--trace-config")]
        assert bool(traced) is (stack_run.settings.tracing is not None)
