"""Envoy Gateway: the controller, Envoy behind a network load balancer, and the listeners for HTTP and gRPC.

The models' routes (`infra.serving.routes`) define the destinations of requests.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from infra.aws.cluster_access import ClusterAccess
from infra.aws.domain import DomainCertificate, lead_to_load_balancer
from infra.aws.network_access import NetworkAccess
from infra.platform.client_keys import ClientKeys
from infra.platform.installed_chart import AwaitedObject, InstalledChart, chart_values, custom_resource
from infra.platform.load_balancer_controller import LOAD_BALANCER_CLASS, LoadBalancerController
from spec.charts import ENVOY_GATEWAY, ENVOY_IMAGE
from spec.names import (
    CLIENT_HEADER,
    GATEWAY,
    GATEWAY_HTTPS_PORT,
    GATEWAY_NAMESPACE,
    INFERENCE_CLIENT_LABEL,
    OTLP_GRPC_PORT,
    TRACE_COLLECTOR,
    TRACE_COLLECTOR_SERVICE,
    TRITON_GRPC_PORT,
    TRITON_HTTP_PORT,
    TRITON_NAMESPACE,
)
from spec.prometheus.gateway_slo import objectives_ms
from spec.settings import Settings
from spec.settings.fields import cpu_millis
from spec.settings.gateway import TARGET_LEAVES_SECONDS, Gateway

Manifest = dict[str, Any]

HTTP_LISTENER, GRPC_LISTENER = "http", "grpc"
MODEL_HEADER = "x-triton-model"
"""The header in which a gRPC client repeats the model's name. Proxies do not read the name in the message."""
# One port each, because on one port an HTTPRoute and a GRPCRoute for the same host exclude each other (Gateway API,
# GRPCRoute.hostnames).
ENCRYPTED_PORTS: Mapping[str, int] = {HTTP_LISTENER: GATEWAY_HTTPS_PORT, GRPC_LISTENER: 8443}
PLAIN_PORTS: Mapping[str, int] = {HTTP_LISTENER: TRITON_HTTP_PORT, GRPC_LISTENER: TRITON_GRPC_PORT}

# Shorter than an Envoy's wait at shutdown, so idle connections do not delay it; the load balancer's timeout is 350 s.
_CLIENT_IDLE_SECONDS = TARGET_LEAVES_SECONDS - 10
_READY_PORT, _READY_PATH = 19003, "/ready"
"""The endpoint of an Envoy's readiness. While it drains, an Envoy reports that it accepts no requests."""
_TLS_POLICY = "ELBSecurityPolicy-TLS13-1-2-2021-06"
_ANNOTATION = "service.beta.kubernetes.io/aws-load-balancer"
_MAX_STREAMS = 1000
# In CEL. A gRPC call has the code 200 even if it failed. Other responses have a gRPC status too, but it means nothing.
_GRPC = "request.headers['content-type'].startsWith('application/grpc')"
_FAILED = f"response.code >= 400 || ({_GRPC} && response.grpc_status != 0)"
# https://github.com/envoyproxy/envoy/blob/v1.39.0/source/common/stats/histogram_impl.cc
_BUCKETS_MS = (
    *(0.5, 1.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0, 10000.0, 30000.0, 60000.0),
    *(300000.0, 600000.0, 1800000.0, 3600000.0),
)
# A request is retried only if it fits into this buffer, which also limits the memory of a connection.
_BUFFER = "1Mi"


@dataclass(frozen=True)
class InferenceGatewayArgs:
    """Arguments of the gateway. `tags` are set on the load balancer.

    `traced`: Envoy sends a span of each request to the collector. `certificate_arn` is the certificate for TLS at the load
    balancer, if TLS ends there.
    """

    gateway: Gateway
    network: NetworkAccess
    longest_request_seconds: int
    """The longest time of a request, including Triton's queue. Envoy waits this long at shutdown."""
    traced: bool
    tags: Mapping[str, str]
    certificate_arn: pulumi.Input[str] | None
    slos_ms: Collection[int] = ()
    """Upper bounds of buckets that Envoy's latency histograms need."""


class InferenceGateway(InstalledChart):
    """All resources of the gateway except its routes.

    `opts.depends_on` has to name the AWS Load Balancer Controller. Without it no load balancer is created, and a load
    balancer that is deleted after it remains in AWS.
    """

    def __init__(
        self,
        name: str,
        cluster: ClusterAccess,
        args: InferenceGatewayArgs,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("triton:platform:InferenceGateway", name, cluster, opts)
        namespace = self._namespace(
            GATEWAY_NAMESPACE,
            "baseline",
            {
                INFERENCE_CLIENT_LABEL: "true",
                # A new Envoy counts as ready only when the load balancer sends to it, so updates are not too fast.
                "elbv2.k8s.aws/pod-readiness-gate-inject": "enabled",
            },
        )
        values = chart_values(ENVOY_GATEWAY, controller_values(args.gateway))
        last: pulumi.Resource = self._install(ENVOY_GATEWAY, GATEWAY_NAMESPACE, values, namespace)
        domain = args.gateway.domain
        for manifest in manifests(args):
            made, opts = f"{name}-{manifest['kind'].lower()}", self._after(last)
            if manifest["kind"] == "Gateway" and domain is not None:
                last = AwaitedObject(made, manifest, opts)
                lead_to_load_balancer(f"{name}-record", domain, last.status, pulumi.ResourceOptions(parent=self))
            else:
                last = custom_resource(made, manifest, opts)
        self.register_outputs({})


def install_gateway(
    cluster: ClusterAccess, settings: Settings, *, longest_request_seconds: int, after: Sequence[pulumi.Resource]
) -> list[pulumi.Resource]:
    """Install the gateway if the stack has one, and first the controller that creates its load balancer."""
    if settings.gateway is None:
        return []
    opts = pulumi.ResourceOptions(depends_on=list(after))
    controller = LoadBalancerController("load-balancer-controller", cluster, opts)
    certificate_arn: pulumi.Input[str] | None = settings.gateway.certificate_arn
    if settings.gateway.domain is not None and settings.gateway.certifies_its_domain:
        certificate_arn = DomainCertificate("gateway-certificate", cluster.stack, settings.gateway.domain).arn
    args = InferenceGatewayArgs(
        gateway=settings.gateway,
        network=cluster.network,
        longest_request_seconds=longest_request_seconds,
        traced=settings.tracing is not None,
        tags=cluster.stack.tags,
        certificate_arn=certificate_arn,
        slos_ms={*objectives_ms(settings).values()},
    )
    made: list[pulumi.Resource] = [
        InferenceGateway("gateway", cluster, args, pulumi.ResourceOptions(depends_on=[controller]))
    ]
    if settings.gateway.has_keys:
        keys = pulumi.ResourceOptions(depends_on=list(made))
        made.append(ClientKeys("client-keys", cluster, tuple(settings.gateway.clients or ()), keys))
    return made


def controller_values(gateway: Gateway) -> dict[str, Any]:
    """Return the chart's values computed from the stack: the registry of the controller's images, not of Envoy's."""
    return {} if gateway.image_registry is None else {"global": {"imageRegistry": gateway.image_registry}}


def ports(gateway: Gateway) -> Mapping[str, int]:
    """Return the port of each listener: a TLS port with TLS, else Triton's own port."""
    return ENCRYPTED_PORTS if gateway.encrypted else PLAIN_PORTS


def manifests(args: InferenceGatewayArgs) -> list[Manifest]:
    """Return the custom resources, each after the resources that it refers to."""
    proxy = _manifest("gateway.envoyproxy.io/v1alpha1", "EnvoyProxy", proxy_spec(args))
    gateway_class = _manifest(
        "gateway.networking.k8s.io/v1",
        "GatewayClass",
        {
            "controllerName": "gateway.envoyproxy.io/gatewayclass-controller",
            "parametersRef": {
                "group": "gateway.envoyproxy.io",
                "kind": "EnvoyProxy",
                "name": GATEWAY,
                "namespace": GATEWAY_NAMESPACE,
            },
        },
    )
    del gateway_class["metadata"]["namespace"]
    return [
        proxy,
        gateway_class,
        _awaited(args.gateway, _manifest("gateway.networking.k8s.io/v1", "Gateway", gateway_spec(args.gateway))),
        _manifest("gateway.envoyproxy.io/v1alpha1", "ClientTrafficPolicy", client_policy_spec(args.gateway)),
    ]


def gateway_spec(gateway: Gateway) -> Manifest:
    """Return two listeners that are open to the routes in Triton's namespace.

    With an ACM certificate, TLS ends at the load balancer: its private key is never in the cluster, AWS renews it, and
    cert-manager is not needed. Envoy then gets plain HTTP inside the VPC. If that hop has to be encrypted too, a Secret
    (from cert-manager or the External Secrets Operator) extends TLS to Envoy.
    """
    listeners = []
    for name, port in ports(gateway).items():
        listener: Manifest = {
            "name": name,
            "port": port,
            "protocol": "HTTP" if gateway.tls_secret is None else "HTTPS",
            "allowedRoutes": {
                "kinds": [{"kind": "HTTPRoute" if name == HTTP_LISTENER else "GRPCRoute"}],
                "namespaces": {
                    "from": "Selector",
                    "selector": {"matchLabels": {"kubernetes.io/metadata.name": TRITON_NAMESPACE}},
                },
            },
        }
        if gateway.tls_secret is not None:
            listener["tls"] = {
                "mode": "Terminate",
                "certificateRefs": [{"kind": "Secret", "name": gateway.tls_secret}],
            }
        listeners.append(listener)
    return {"gatewayClassName": GATEWAY, "listeners": listeners}


def client_policy_spec(gateway: Gateway) -> Manifest:
    """Return the limits on clients of Envoy. Envoy generates all request ids."""
    spec: Manifest = {
        "targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": GATEWAY}],
        "http2": {"maxConcurrentStreams": _MAX_STREAMS, "initialStreamWindowSize": _BUFFER},
        "connection": {"bufferLimit": _BUFFER},
        "timeout": {"http": {"idleTimeout": f"{_CLIENT_IDLE_SECONDS}s", "requestHeadersReceivedTimeout": "10s"}},
        "headers": {"requestID": "Generate"},
        # A matching proxy and a serving program may interpret %2F in a path differently.
        "path": {"escapedSlashesAction": "RejectRequest"},
    }
    if gateway.clients is not None:
        spec["headers"]["earlyRequestHeaders"] = {"remove": [CLIENT_HEADER]}
    if gateway.tls_secret is not None:
        spec["tls"] = {"minVersion": "1.2"}
    return spec


def proxy_spec(args: InferenceGatewayArgs) -> Manifest:
    """Return Envoy's configuration: its pods, and the Service from which the load balancer is created."""
    gateway = args.gateway
    memory = f"{gateway.memory_mib}Mi"
    drain = TARGET_LEAVES_SECONDS + args.longest_request_seconds
    spec: Manifest = {
        "provider": {
            "type": "Kubernetes",
            "kubernetes": {
                "envoyDeployment": {
                    "replicas": gateway.replicas,
                    "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
                    "container": {
                        "resources": {"requests": {"cpu": gateway.cpu, "memory": memory}, "limits": {"memory": memory}}
                    },
                    "pod": {
                        # Without it Envoy has priority 0 and would be evicted for any pending cluster service.
                        "priorityClassName": "system-cluster-critical",
                        "topologySpreadConstraints": [_spread(key) for key in _SPREAD_OVER],
                    },
                },
                "envoyPDB": {"maxUnavailable": 1},
                "envoyService": {
                    "type": "LoadBalancer",
                    "loadBalancerClass": LOAD_BALANCER_CLASS,
                    "externalTrafficPolicy": "Cluster",
                    # Targets are pods, so no node port is needed.
                    "allocateLoadBalancerNodePorts": False,
                    "loadBalancerSourceRanges": _source_ranges(gateway, args.network.cidrs),
                    "annotations": service_annotations(args, drain),
                },
            },
        },
        # By default Envoy starts a thread for each CPU of the node.
        "concurrency": max(1, math.ceil(cpu_millis(gateway.cpu) / 1000)),
        "shutdown": {"drainTimeout": f"{drain}s", "minDrainDuration": f"{TARGET_LEAVES_SECONDS}s"},
    }
    container = spec["provider"]["kubernetes"]["envoyDeployment"]["container"]
    container["image"] = f"{gateway.image_registry or 'docker.io'}/{ENVOY_IMAGE}"
    spec["bootstrap"] = {"type": "Merge", "value": _bootstrap(args.slos_ms)}
    spec["telemetry"] = {"accessLog": _access_log(), **({"tracing": _tracing()} if args.traced else {})}
    return spec


def _bootstrap(slos_ms: Collection[int]) -> str:
    """Return additions to Envoy's bootstrap: a bucket at each SLO in the histograms of request times.

    The other buckets are Envoy's defaults. If a model adds a new SLO, the Envoys are replaced one after the other.
    """
    buckets = sorted({*_BUCKETS_MS, *map(float, slos_ms)})
    settings = {"match": {"suffix": ".upstream_rq_time"}, "buckets": buckets}
    return json.dumps({"stats_config": {"histogram_bucket_settings": [settings]}})


def service_annotations(args: InferenceGatewayArgs, drain_seconds: int) -> dict[str, pulumi.Input[str]]:
    """Return the annotations from which the AWS Load Balancer Controller creates the load balancer of the Service.

    If the network names no subnets for it, the controller finds them by their tags.

    A deregistered target keeps its connections while its Envoy drains. The health check uses Envoy's readiness, which
    reports draining; an open port would look healthy until the drain ends.
    """
    gateway, subnet_ids = args.gateway, _subnets(args)
    annotations: dict[str, pulumi.Input[str]] = {
        "scheme": "internal" if gateway.exposure == "internal" else "internet-facing",
        "nlb-target-type": "ip",
        "attributes": "load_balancing.cross_zone.enabled=true",
        "target-group-attributes": f"deregistration_delay.timeout_seconds={drain_seconds}",
        "healthcheck-protocol": "http",
        "healthcheck-port": str(_READY_PORT),
        "healthcheck-path": _READY_PATH,
        "healthcheck-interval": "5",
        "healthcheck-timeout": "3",
        "healthcheck-healthy-threshold": "2",
        "healthcheck-unhealthy-threshold": "2",
        # The annotation is a list of key=value, so a comma would begin the next tag.
        "additional-resource-tags": ",".join(
            f"{key}={value}" for key, value in sorted(args.tags.items()) if not {",", "="} & {*key, *value}
        ),
    }
    if subnet_ids:
        annotations["subnets"] = ",".join(subnet_ids)
    if args.certificate_arn is not None:
        annotations |= {
            "ssl-cert": args.certificate_arn,
            "ssl-ports": ",".join(str(port) for port in ports(gateway).values()),
            "ssl-negotiation-policy": _TLS_POLICY,
            # gRPC needs HTTP/2, which TLS negotiates by ALPN. Without this policy the load balancer offers no ALPN.
            "alpn-policy": "HTTP2Preferred",
        }
    return {f"{_ANNOTATION}-{key}": value for key, value in annotations.items()}


def _subnets(args: InferenceGatewayArgs) -> Sequence[str]:
    return args.network.load_balancer_subnet_ids.get(args.gateway.exposure, ())


_SPREAD_OVER = ("topology.kubernetes.io/zone", "kubernetes.io/hostname")


def _spread(key: str) -> Manifest:
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"gateway.envoyproxy.io/owning-gateway-name": GATEWAY}},
    }


def _source_ranges(gateway: Gateway, vpc_cidrs: Sequence[str]) -> list[str]:
    within = vpc_cidrs if gateway.exposure == "internal" else ()
    return [*within, *(str(cidr) for cidr in gateway.allowed_cidrs)]


def _access_log() -> Manifest:
    """Return the log of failed requests only; Envoy Gateway's default is a line of 0.8 kB for each request.

    See docs/facts/envoy.md#defaults-that-nobody-asked-for.
    """
    return {"settings": [{"matches": [_FAILED], "sinks": [{"type": "File", "file": {"path": "/dev/stdout"}}]}]}


def _tracing() -> Manifest:
    """Return the settings for a span of each request. The collector finds slow and failed requests when they have ended.

    A smaller share would not reduce Triton's work: it traces every request with a `traceparent`, sampled or not.
    """
    backend = {
        "group": "",
        "kind": "Service",
        "name": TRACE_COLLECTOR_SERVICE,
        "namespace": TRACE_COLLECTOR.namespace,
        "port": OTLP_GRPC_PORT,
    }
    return {
        "samplingFraction": {"numerator": 100, "denominator": 100},
        "provider": {"type": "OpenTelemetry", "serviceName": "gateway", "backendRefs": [backend]},
        # The name of this attribute in Triton's own spans. HTTP routes set the header, and gRPC clients send it.
        "tags": {"triton.model_name": f"%REQ({MODEL_HEADER})%"},
    }


def _awaited(gateway: Gateway, manifest: Manifest) -> Manifest:
    """Make the update wait for the load balancer's name if the gateway has a domain."""
    if gateway.domain is not None:
        manifest["metadata"]["annotations"] = {"pulumi.com/waitFor": "jsonpath={.status.addresses[0].value}"}
    return manifest


def _manifest(api_version: str, kind: str, spec: Manifest) -> Manifest:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": GATEWAY, "namespace": GATEWAY_NAMESPACE},
        "spec": spec,
    }
