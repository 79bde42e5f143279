"""Every connection that the platform's programs open: source, destination, port and purpose.

docs/security.md shows the table. tests/system/component/reach.py compares it with the objects that each stack registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from spec import names
from spec.names import ServiceAccount

NAME_LABEL = "app.kubernetes.io/name"


@dataclass(frozen=True)
class Pods:
    """The pods of one workload. `account`: their service account, if they have an IAM role.

    `part`: the chart or add-on that creates them; "" for objects that the program and its charts create.
    """

    namespace: str
    labels: Mapping[str, str]
    account: str = ""
    part: str = ""


def _pods(namespace: str, name: str, part: str = "") -> Pods:
    return Pods(namespace, {NAME_LABEL: name}, part=part)


def _with_role(account: ServiceAccount, labels: str | Mapping[str, str], part: str = "") -> Pods:
    """Return the pods of a service account with an IAM role. `labels` are all labels, or the value of the name label."""
    return Pods(account.namespace, {NAME_LABEL: labels} if isinstance(labels, str) else labels, account.name, part)


_STACK, _KEDA, _SYSTEM = "kube-prometheus-stack", "keda", "kube-system"

PODS: Mapping[str, Pods] = {
    "Triton": _with_role(names.TRITON, names.TRITON_CHART),
    "worker": _with_role(names.WORKER, names.WORKER_CHART),
    "parity exporter": _pods(names.TRITON_NAMESPACE, names.PARITY_EXPORTER),
    "comparer": _pods(names.TRITON_NAMESPACE, names.COMPARER),
    "plan builder": _with_role(names.PLAN_BUILDER, names.PLAN_BUILDER.name),
    "warm pod": _pods(names.WARM_PODS_NAMESPACE, "triton-warm"),
    "Envoy": _pods(names.GATEWAY_NAMESPACE, "envoy", "gateway-helm"),
    "Envoy Gateway": _pods(names.GATEWAY_NAMESPACE, "gateway-helm", "gateway-helm"),
    "Load Balancer Controller": _with_role(
        names.LOAD_BALANCER_CONTROLLER, "aws-load-balancer-controller", "aws-load-balancer-controller"
    ),
    "External Secrets": _with_role(names.EXTERNAL_SECRETS, "external-secrets", "external-secrets"),
    "Prometheus": _with_role(names.PROMETHEUS, "prometheus", _STACK),
    "Alertmanager": _with_role(names.ALERTMANAGER, "alertmanager", _STACK),
    "Prometheus Operator": _pods(names.MONITORING_NAMESPACE, "kube-prometheus-stack-prometheus-operator", _STACK),
    "Grafana": _pods(names.MONITORING_NAMESPACE, "grafana", _STACK),
    "kube-state-metrics": _pods(names.MONITORING_NAMESPACE, "kube-state-metrics", _STACK),
    "node exporter": _pods(names.MONITORING_NAMESPACE, "prometheus-node-exporter", _STACK),
    "DCGM exporter": _pods(names.MONITORING_NAMESPACE, "dcgm-exporter", "dcgm-exporter"),
    "OpenCost": _pods(names.MONITORING_NAMESPACE, "opencost", "opencost"),
    "KEDA operator": _with_role(names.KEDA_OPERATOR, "keda-operator", _KEDA),
    "KEDA metrics server": _pods(names.KEDA_OPERATOR.namespace, "keda-operator-metrics-apiserver", _KEDA),
    "KEDA webhooks": _pods(names.KEDA_OPERATOR.namespace, "keda-admission-webhooks", _KEDA),
    "prometheus-adapter": _pods(names.PROMETHEUS_ADAPTER_NAMESPACE, "prometheus-adapter", "prometheus-adapter"),
    "collector": _with_role(names.TRACE_COLLECTOR, "opentelemetry-collector", "opentelemetry-collector"),
    "Fluent Bit": _with_role(names.LOG_SENDER, "fluent-bit", "fluent-bit"),
    "Karpenter": _with_role(names.KARPENTER, "karpenter", "karpenter"),
    "cluster-autoscaler": _with_role(names.CLUSTER_AUTOSCALER, "aws-cluster-autoscaler", "cluster-autoscaler"),
    "device plugin": _pods(names.DEVICE_PLUGIN_NAMESPACE, "nvidia-device-plugin", "nvidia-device-plugin"),
    "CoreDNS": Pods(_SYSTEM, {"k8s-app": "kube-dns"}, part="coredns"),
    "metrics-server": _pods(_SYSTEM, "metrics-server", "metrics-server"),
    "EBS CSI controller": _with_role(names.EBS_CSI_CONTROLLER, {"app": "ebs-csi-controller"}, "aws-ebs-csi-driver"),
    "CloudWatch agent": _with_role(names.INSIGHTS_AGENT, "cloudwatch-agent", "amazon-cloudwatch-observability"),
    "CloudWatch operator": _pods(
        names.INSIGHTS_AGENT.namespace, "amazon-cloudwatch-observability", "amazon-cloudwatch-observability"
    ),
    "network plugin": _with_role(names.NETWORK_PLUGIN, {"k8s-app": "aws-node"}, "vpc-cni"),
    "kube-proxy": Pods(_SYSTEM, {"k8s-app": "kube-proxy"}, part="kube-proxy"),
    "Pod Identity agent": _pods(_SYSTEM, "eks-pod-identity-agent", "eks-pod-identity-agent"),
    "node monitoring agent": _pods(_SYSTEM, "eks-node-monitoring-agent", "eks-node-monitoring-agent"),
    "Mountpoint": Pods(_SYSTEM, {"app": "s3-csi-node"}, part="aws-mountpoint-s3-csi-driver"),
    "FSx CSI driver": Pods(_SYSTEM, {"app": "fsx-csi-controller"}, part="aws-fsx-csi-driver"),
}
"""By the name that the table uses."""

CLIENT_PODS, ROLE_PODS, ALL_PODS, NODES = "pods of client namespaces", "pods with an IAM role", "all pods", "nodes"
API_SERVER, VPC, UNUSED, INTERNET, LUSTRE = "API server", "the VPC", "unused", "the internet", "FSx for Lustre"
AWS, HTTPS = "AWS: ", 443
ENDPOINTS, PEOPLE, RUNNER, BALANCER = "VPC endpoints", "people and CI", "runner in the VPC", "load balancer"
CLIENTS, RESOLVER, KUBELET, METADATA = "clients", "VPC resolver", "kubelet", "instance metadata"
OWN_S3, OWN_PROMETHEUS = "your own S3 server", "your own Prometheus"
PLACES: Mapping[str, str] = {
    CLIENT_PODS: f'namespaces with the label `{names.INFERENCE_CLIENT_LABEL}: "true"`',
    ROLE_PODS: "every row with a destination `AWS: …`",
    ALL_PODS: "but the warm pods",
    NODES: "host network: kubelet, containerd, SSM agent, add-ons of a node",
    KUBELET: "always the node of the pod itself",
    API_SERVER: "EKS's control plane, by its interfaces in the VPC",
    VPC: "every address of the VPC",
    UNUSED: "a port that listens without a client in the cluster",
    INTERNET: "through NAT",
    LUSTRE: "only with `models.fsx`",
    ENDPOINTS: "interface endpoints of the stack",
    PEOPLE: "laptops and GitHub's runners, also through `stackctl tunnel`",
    RUNNER: "`cluster.apiAccess.runner`",
    BALANCER: "network load balancer of the gateway",
    CLIENTS: "`gateway.exposure` and `gateway.allowedCidrs` bound them",
    RESOLVER: "the VPC's second address",
    METADATA: "169.254.169.254; no pod reaches it",
    OWN_S3: "only with `models.s3Endpoint`",
    OWN_PROMETHEUS: "only with `autoscaling.prometheusUrl`",
}
"""The sources and destinations that are not pods of one workload, each with a note."""


@dataclass(frozen=True)
class Connection:
    """One row of the table. Without `ports`, the port is part of an address in the stack file.

    `when` is the key of the stack file that the connection depends on.
    """

    source: str
    destination: str
    ports: tuple[int, ...]
    purpose: str
    when: str = ""
    protocols: tuple[str, ...] = field(default=("TCP",))


_HTTP, _GRPC, _METRICS = names.TRITON_HTTP_PORT, names.TRITON_GRPC_PORT, names.TRITON_METRICS_PORT
_C = Connection

_REQUESTS = (
    _C(CLIENTS, BALANCER, (443, 8443), "requests over TLS: HTTP, gRPC", "gateway.encrypted"),
    _C(CLIENTS, BALANCER, (_HTTP, _GRPC), "requests without TLS"),
    _C(BALANCER, "Envoy", (10443, 8443, _HTTP, _GRPC), "requests, to the pods' addresses"),
    _C(BALANCER, "Envoy", (19003,), "health checks"),
    _C("Envoy", "Triton", (_HTTP, _GRPC), "requests"),
    _C("Envoy", "Triton", (_METRICS,), "OpenAI-compatible requests; the Service has port 9000", "triton.openai"),
    _C("Envoy", "comparer", (_HTTP, _GRPC), "copies of requests"),
    _C("Envoy", "Envoy Gateway", (18000,), "configuration (xDS)"),
    _C("Envoy", "collector", (names.OTLP_GRPC_PORT,), "spans"),
    _C("Envoy", INTERNET, (443,), "keys of an issuer of JWTs", "gateway.jwt"),
    _C(CLIENT_PODS, "Triton", (_HTTP, _GRPC), "requests"),
    _C(CLIENT_PODS, "Triton", (_METRICS,), "OpenAI-compatible requests", "triton.openai"),
    _C("worker", "Triton", (_GRPC,), "requests of the queue"),
    _C("comparer", "Triton", (_HTTP, _GRPC), "the same request to both releases"),
    _C("parity exporter", "Triton", (_HTTP,), "served models and configurations"),
    _C("parity exporter", API_SERVER, (443,), "list of the pods"),
    _C("Triton", "collector", (names.OTLP_HTTP_PORT,), "spans"),
    _C("Triton", OWN_S3, (), "models", "models.s3Endpoint"),
    _C(CLIENTS, f"{AWS}sqs", (HTTPS,), "requests that can wait"),
    _C(CLIENTS, f"{AWS}s3", (HTTPS,), "large inputs, and results"),
    _C(NODES, LUSTRE, (988, *range(1018, 1024)), "mounted models"),
    _C(LUSTRE, NODES, (988, *range(1018, 1024)), "calls back to Lustre clients"),
)

_OPERATION = (
    _C("KEDA operator", "Prometheus", (9090,), "figures to scale on"),
    _C("KEDA metrics server", "KEDA operator", (9666,), "figures of scaled objects"),
    _C("prometheus-adapter", "Prometheus", (9090,), "figures to scale on"),
    _C("KEDA operator", OWN_PROMETHEUS, (), "figures to scale on", "autoscaling.prometheusUrl"),
    _C("prometheus-adapter", OWN_PROMETHEUS, (), "figures to scale on", "autoscaling.prometheusUrl"),
    _C("Grafana", "Prometheus", (9090,), "dashboards"),
    _C("Grafana", "Alertmanager", (9093,), "list of alerts"),
    _C("OpenCost", "Prometheus", (9090,), "usage"),
    _C("OpenCost", INTERNET, (443,), "AWS price list"),
    _C("Prometheus", "Alertmanager", (9093,), "alerts"),
    _C("Alertmanager", "Alertmanager", (9094,), "silences and sent alerts of the replicas", protocols=("TCP", "UDP")),
    _C("Prometheus", "Alertmanager", (8080,), "metrics of the configuration's reloader"),
    _C("Prometheus", "Prometheus", (8080,), "metrics of the configuration's reloader"),
    _C("metrics-server", NODES, (10250,), "usage of pods, from kubelet"),
    _C("CloudWatch agent", NODES, (10250,), "usage of pods, from kubelet"),
    _C("collector", INTERNET, (), "spans, to `tracing.endpoint`", "tracing.endpoint"),
    _C(API_SERVER, NODES, (10250,), "logs, exec, port forward"),
    _C(API_SERVER, "Load Balancer Controller", (9443,), "webhooks"),
    _C(API_SERVER, "KEDA webhooks", (9443,), "webhook"),
    _C(API_SERVER, "Prometheus Operator", (10250,), "webhook"),
    _C(API_SERVER, "CloudWatch operator", (9443,), "webhook"),
    _C(API_SERVER, "KEDA metrics server", (6443,), "API external.metrics.k8s.io"),
    _C(API_SERVER, "prometheus-adapter", (6443,), "API custom.metrics.k8s.io"),
    _C(API_SERVER, "metrics-server", (10251,), "API metrics.k8s.io"),
    _C(UNUSED, "Triton", (names.FOLLOWER_PORT,), "files of a rollout in place; modelctl reads it by port forward"),
    _C(UNUSED, "Envoy Gateway", (18001, 18002, 19001), "rate limit service, Wasm modules, metrics"),
    _C(UNUSED, "Load Balancer Controller", (8080,), "metrics"),
    _C(UNUSED, "External Secrets", (8080,), "metrics"),
)

_SCRAPED: Mapping[str, int] = {
    "Triton": _METRICS,
    "worker": 8080,
    "parity exporter": names.PARITY_PORT,
    "comparer": _METRICS,
    "Envoy": 19001,
    "Alertmanager": 9093,
    "Prometheus": 9090,
    "Prometheus Operator": 10250,
    "Grafana": 3000,
    "kube-state-metrics": 8080,
    "node exporter": 9100,
    "DCGM exporter": 9400,
    "OpenCost": 9003,
    "KEDA operator": 8080,
    "KEDA metrics server": 8080,
    "KEDA webhooks": 8080,
    "Karpenter": 8080,
    "cluster-autoscaler": 8085,
    "CoreDNS": 9153,
    NODES: 10250,
    API_SERVER: 443,
}
_PROBED: Mapping[str, tuple[int, ...]] = {
    "Triton": (_HTTP,),
    "worker": (8080,),
    "parity exporter": (names.PARITY_PORT,),
    "comparer": (_HTTP,),
    "Envoy": (19003,),
    "Envoy Gateway": (8081,),
    "Load Balancer Controller": (61779,),
    "Karpenter": (8081,),
}
_ASK_THE_API = (
    *("Envoy Gateway", "Load Balancer Controller", "External Secrets", "Prometheus", "Prometheus Operator", "Grafana"),
    *("kube-state-metrics", "DCGM exporter", "OpenCost", "KEDA operator", "KEDA metrics server", "KEDA webhooks"),
    *("prometheus-adapter", "Fluent Bit", "Karpenter", "cluster-autoscaler", "device plugin", "CoreDNS", "metrics-server"),
    *("EBS CSI controller", "CloudWatch agent", "CloudWatch operator", "network plugin", "kube-proxy"),
    *("node monitoring agent", "Mountpoint", "FSx CSI driver", NODES),
)

AWS_CALLS: Mapping[str, Mapping[str, str]] = {
    "Triton": {"s3": "models"},
    "Mountpoint": {"s3": "models"},
    "worker": {"sqs": "requests and replies", "s3": "inputs and results"},
    "plan builder": {"s3": "releases and plans"},
    "KEDA operator": {"sqs": "length of the queue"},
    "Prometheus": {"aps-workspaces": "samples, with `monitoring.amp`"},
    "Alertmanager": {"sns": "alerts"},
    "collector": {"xray": "traces"},
    "Fluent Bit": {"logs": "logs of containers"},
    "CloudWatch agent": {"logs": "Container Insights", "ec2": "volumes of nodes"},
    "External Secrets": {"secretsmanager": "keys of clients"},
    "Load Balancer Controller": {
        "ec2": "security groups",
        "elasticloadbalancing": "load balancers",
        "acm": "certificates",
        "iam": "role of Elastic Load Balancing",
    },
    "Karpenter": {
        "ec2": "nodes",
        "eks": "address of the cluster",
        "sqs": "interruptions",
        "ssm": "current images",
        "pricing": "prices; not in a VPC without NAT",
        "iam": "instance profile",
    },
    "cluster-autoscaler": {"autoscaling": "node groups", "ec2": "instance types", "eks": "node groups"},
    "EBS CSI controller": {"ec2": "volumes"},
    "network plugin": {"ec2": "addresses of pods"},
    "Pod Identity agent": {"eks-auth": "credentials of pods"},
    NODES: {
        "ec2": "instance of the node",
        "eks": "address of the cluster",
        "ecr.api": "tokens of registries",
        "ecr.dkr": "images",
        "s3": "layers of images",
        "ssm": "SSM agent",
        "ssmmessages": "sessions of `stackctl tunnel`",
    },
}
"""Source -> AWS service, by the name of its endpoint -> purpose. All use HTTPS."""
POD_IDENTITY_ADDRESS, POD_IDENTITY_PORT = "169.254.170.23", 80


def connections() -> Iterator[Connection]:
    """Yield all rows, in the order of docs/security.md."""
    yield from _REQUESTS
    yield from _OPERATION
    for scraped, port in _SCRAPED.items():
        yield Connection("Prometheus", scraped, (port,), "metrics")
    for probed, ports in _PROBED.items():
        yield Connection(KUBELET, probed, ports, "probes")
    yield Connection(ALL_PODS, "CoreDNS", (53,), "names", protocols=("UDP", "TCP"))
    yield Connection("CoreDNS", RESOLVER, (53,), "names outside the cluster", protocols=("UDP", "TCP"))
    for source in _ASK_THE_API:
        yield Connection(source, API_SERVER, (HTTPS,), "Kubernetes API")
    for source, services in AWS_CALLS.items():
        for service, purpose in services.items():
            yield Connection(source, f"{AWS}{service}", (HTTPS,), purpose)
    yield Connection(ROLE_PODS, f"{AWS}sts", (HTTPS,), "credentials, by IRSA")
    yield Connection(ROLE_PODS, "Pod Identity agent", (POD_IDENTITY_PORT,), f"credentials, at {POD_IDENTITY_ADDRESS}")
    yield Connection(NODES, METADATA, (80,), "identity of the instance")
    yield Connection(VPC, ENDPOINTS, (HTTPS,), "AWS's APIs from nodes and pods")
    yield Connection(PEOPLE, API_SERVER, (HTTPS,), "Pulumi, kubectl, modelctl; pods by its port forward")
    yield Connection(PEOPLE, f"{AWS}all APIs", (HTTPS,), "Pulumi, stackctl, modelctl, the tunnel's SSM session")
    yield Connection(RUNNER, API_SERVER, (HTTPS,), "jobs of GitHub: Pulumi, modelctl")
    yield Connection(RUNNER, INTERNET, (HTTPS,), "GitHub, package registries, AWS")
    yield Connection(NODES, INTERNET, (HTTPS,), "images of charts; not in a VPC without NAT")
