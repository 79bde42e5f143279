"""Names and ports that several parts of the project share: in the cluster, in AWS, in the model bucket.

This module has only plain values and imports only the standard library, so any client of a stack can use it. A name that
only one module uses is defined in that module.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ServiceAccount:
    """A Kubernetes service account, by namespace and name."""

    namespace: str
    name: str


# --- Triton in the cluster ---------------------------------------------------------------------------------------------

TRITON = ServiceAccount("triton", "triton")
TRITON_NAMESPACE = TRITON.namespace
PLAN_BUILDER = ServiceAccount(TRITON_NAMESPACE, "plan-builder")
"""The service account of the Jobs that `modelctl build-plans` prints, and their name label."""
TRITON_CHART = "triton"
"""`charts/triton`, and the name label of its pods."""
TRITON_RELEASE = TRITON_CHART
"""The Helm release. It has the name of its chart, so the chart's objects have this name too (`triton.fullname`)."""
TRITON_DEPLOYMENT = TRITON_SERVICE = TRITON_CONTAINER = TRITON_RELEASE
ADMIN_KEY_FILE = "/run/triton/admin-key"
"""The file with the key of the control APIs, in a pod of the chart (`triton.start`)."""
POD_RELEASE = "triton-eks/release"
"""The annotation with the release id of a pod that serves one release for its lifetime. A label with this name has the short
id.

With in-place rollouts (`triton.rollout`) pods have neither.
"""
TRITON_HEADLESS_COMPONENT = "inference-headless"
"""The component label of each fleet's headless Service and of its EndpointSlices."""
TRITON_HTTP_PORT, TRITON_GRPC_PORT, TRITON_METRICS_PORT = 8000, 8001, 8002
FOLLOWER_PORT = 8003
"""The port of the container that copies releases of in-place rollouts to a pod's disk."""
TRITON_OPENAI_PORT = 9000
"""The Services' port of the OpenAI-compatible front end (`triton.openai`). In pods it uses the metrics port."""


def triton_http_url(release: str) -> str:
    """Return the URL for clients in the cluster of a Helm release's fleet."""
    return f"http://{release}.{TRITON_NAMESPACE}.svc.cluster.local:{TRITON_HTTP_PORT}"


def headless_service(release: str) -> str:
    """Return a Helm release's headless Service. It resolves to every pod, so a gRPC client can balance over them."""
    return f"{release}-headless"


def triton_grpc_url(release: str) -> str:
    """Return the gRPC name for clients in the cluster. It resolves to each pod of a Helm release's fleet."""
    return f"dns:///{headless_service(release)}.{TRITON_NAMESPACE}.svc.cluster.local:{TRITON_GRPC_PORT}"


TRITON_HTTP_URL, TRITON_GRPC_URL = triton_http_url(TRITON_RELEASE), triton_grpc_url(TRITON_RELEASE)
"""The URLs of the fleet of a stack without `fleets`."""
INFERENCE_CLIENT_LABEL = "triton-eks/inference-client"
"""Namespaces with this label set to `"true"` may call Triton: its NetworkPolicy allows them (helm-values/triton)."""
FLEET_LABEL = "triton-eks/fleet"
"""The label with the fleet's name. It is on objects of one of several fleets whose own names lack it."""
SERVED_VERSIONS = "triton-served-versions"
"""The ConfigMap in Triton's namespace with the version of each model that clients should request."""
PARITY_EXPORTER = "triton-parity"
"""The exporter of `modelctl parity` in Triton's namespace: the name of its objects and its name label."""
VIEWERS = "triton-viewers"
"""Group, ClusterRole and binding of `cluster.viewRoleArns`."""
ROLLOUTS = "triton-rollouts"
"""The Kubernetes group for model rollouts, and its Role in Triton's namespace."""
PARITY_PORT = 9108
COMPARER = "triton-compare"
"""The comparer of two releases' responses (`modelctl compare`), in Triton's namespace and on Triton's ports.

This is the name of its objects and its Service, and its name label.
"""

# --- other workloads of ours -------------------------------------------------------------------------------------------

WORKER = ServiceAccount("triton-worker", "triton-worker")
WORKER_CHART = "worker"
"""`charts/worker`, and the name label of its pods."""
WORKER_DEPLOYMENT = "triton-worker"
WARM_PODS_NAMESPACE = "triton-warm"

# --- the platform in the cluster ---------------------------------------------------------------------------------------

MONITORING_NAMESPACE = "monitoring"
"""The only namespace whose pods may read metrics. Our charts' NetworkPolicies name it."""
PROMETHEUS = ServiceAccount(MONITORING_NAMESPACE, "prometheus")
ALERTMANAGER = ServiceAccount(MONITORING_NAMESPACE, "alertmanager")
PROMETHEUS_SERVICE = "kube-prometheus-stack-prometheus"
PROMETHEUS_PORT = 9090
PROMETHEUS_URL = f"http://{PROMETHEUS_SERVICE}.{MONITORING_NAMESPACE}.svc:{PROMETHEUS_PORT}"
"""The URL of Prometheus inside the cluster."""

GATEWAY_NAMESPACE = "envoy-gateway-system"
GATEWAY = "inference"
"""The name of the Gateway, its GatewayClass and its EnvoyProxy."""
GATEWAY_HTTPS_PORT = 443
"""The HTTP port of a gateway with TLS. Without TLS it uses Triton's own port."""
ALL_MODELS_ROUTE, OPENAI_ROUTE = "all-models", "openai-v1"
"""The routes without a model: for clients that send no model header, and for the OpenAI-compatible front end.

The names have no dot, because Envoy treats the text after a dot as part of the metric's name.
"""
CLIENT_HEADER = "x-triton-client"
"""The header in which Envoy passes the client's name to its own filters and to Triton. Envoy removes it from client
requests."""
EXTERNAL_SECRETS = ServiceAccount("client-keys", "external-secrets")
"""The operator that copies clients' keys from Secrets Manager. Its namespace contains nothing else."""
CLIENT_KEYS = "client-keys"
"""The Secret in that namespace from which Envoy reads the keys."""
KEY_SLOTS = ("current", "next", "previous")
"""The keys that a client may have at one time, by their names in Secrets Manager."""
LOAD_BALANCER_CONTROLLER = ServiceAccount("aws-load-balancer-controller", "aws-load-balancer-controller")

KEDA_OPERATOR = ServiceAccount("keda", "keda-operator")
PROMETHEUS_ADAPTER_NAMESPACE = "prometheus-adapter"
KARPENTER = ServiceAccount("kube-system", "karpenter")
"""In kube-system, as Karpenter recommends: the API server serves leader election in that namespace first."""
CLUSTER_AUTOSCALER = ServiceAccount("kube-system", "cluster-autoscaler")
DEVICE_PLUGIN_NAMESPACE = "nvidia-device-plugin"
"""The chart refuses the namespace `default`."""

LOG_SENDER = ServiceAccount("logging", "fluent-bit")
"""Fluent Bit, one pod on each node, which sends container logs to CloudWatch."""

INSIGHTS_AGENT = ServiceAccount("amazon-cloudwatch", "cloudwatch-agent")
"""The agent of Container Insights, one pod on each node. The add-on defines both names."""

TRACE_COLLECTOR = ServiceAccount("tracing", "otel-collector")
TRACE_COLLECTOR_SERVICE = "otel-collector"
OTLP_GRPC_PORT, OTLP_HTTP_PORT = 4317, 4318
OTLP_HTTP_URL = f"http://{TRACE_COLLECTOR_SERVICE}.{TRACE_COLLECTOR.namespace}.svc.cluster.local:{OTLP_HTTP_PORT}/v1/traces"
"""The URL to which Triton sends spans. Triton supports OTLP only over HTTP (docs/facts/triton-server.md#tracing)."""

EBS_CSI_CONTROLLER = ServiceAccount("kube-system", "ebs-csi-controller-sa")
"""The add-on defines this name, and the network plugin defines its own."""
NETWORK_PLUGIN = ServiceAccount("kube-system", "aws-node")

# --- AWS ---------------------------------------------------------------------------------------------------------------


def cluster_name(stack: str) -> str:
    """Return the name of the EKS cluster. It is also the prefix of names that other systems use."""
    return f"triton-{stack}"


def control_plane_log_group(cluster: str) -> str:
    """Return the log group of the control plane; EKS defines its name."""
    return f"/aws/eks/{cluster}/cluster"


def flow_log_group(cluster: str) -> str:
    """Return the log group of the VPC flow logs."""
    return f"/aws/vpc/{cluster}/flow-logs"


def container_log_group(cluster: str) -> str:
    """Return the log group of the containers. The CloudWatch console expects this name:

    https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/Container-Insights-setup-logs-FluentBit.html
    """
    return f"/aws/containerinsights/{cluster}/application"


def insights_log_group(cluster: str) -> str:
    """Return the log group of Container Insights events; the agent defines its name."""
    return f"/aws/containerinsights/{cluster}/performance"


def runner_project(cluster: str) -> str:
    """Return the CodeBuild project of the VPC's runner. The runner's label contains the name (.github/workflows)."""
    return f"{cluster}-runner"


def runner_log_group(cluster: str) -> str:
    """Return the log group of the runner's jobs."""
    return f"/aws/codebuild/{cluster}/runner"


def model_bucket(stack: str, account_id: str, region: str) -> str:
    """Return the model bucket, which users and `modelctl` address. Account and region make its name globally unique."""
    return f"triton-models-{stack}-{account_id}-{region}"


def request_bucket(stack: str, account_id: str, region: str) -> str:
    """Return the bucket of asynchronous requests: their inputs, results and failures."""
    return f"triton-requests-{stack}-{account_id}-{region}"


def state_bucket(account_id: str, region: str) -> str:
    """Return the bucket of Pulumi's state, the argument of `pulumi login`."""
    return f"pulumi-state-{account_id}-{region}"


def state_log_bucket(account_id: str, region: str) -> str:
    """Return the bucket with the access log of the state bucket."""
    return f"pulumi-state-log-{account_id}-{region}"


SECRETS_ALIAS = "pulumi-secrets"
"""The alias of the KMS key that encrypts the stacks' secrets."""


def request_queue(cluster: str) -> str:
    """Return the queue of asynchronous requests."""
    return f"{cluster}-requests"


def dns_suffix(partition: str) -> str:
    """Return the DNS suffix of AWS host names in a partition."""
    return "amazonaws.com.cn" if partition == "aws-cn" else "amazonaws.com"


def client_secret(cluster: str, client: str) -> str:
    """Return the Secrets Manager secret with the keys of one gateway client."""
    return f"{cluster}/clients/{client}"


def budget(cluster: str, region: str) -> str:
    """Return the name of a stack's budget. It contains the region, because budgets and cost monitors belong to the
    account."""
    return f"{cluster}-{region}"


def interruption_queue(cluster: str) -> str:
    """Return the queue of interruption notices that Karpenter reads. It is also the prefix of the EventBridge rules that
    fill it."""
    return f"{cluster}-interruptions"


def queue_url(name: str, account_id: str, region: str, partition: str = "aws") -> str:
    """Return the URL of a queue, known before the queue exists."""
    return f"https://sqs.{region}.{dns_suffix(partition)}/{account_id}/{name}"


DEPLOY_ROLE = "triton-eks-deploy"
"""The prefix of the roles with which GitHub workflows deploy. The environment follows, and in further regions the region."""


def role_path(stack: str) -> str:
    """Return the IAM path of a stack's roles, by which policies distinguish the stacks."""
    return f"/triton-eks/{stack}/"


def permissions_boundary(stack: str) -> str:
    """Return the name of the managed policy that limits the roles of a stack (`spec.boundary`)."""
    return f"triton-eks-boundary-{stack}"


WORKLOAD_ROLES = ("model-reader",)
"""The purposes of roles whose ARN is needed before they exist (`workload_role`)."""


def workload_role(cluster: str, region: str, purpose: str) -> str:
    """Return the name of an IAM role whose ARN is needed before it exists. It contains the region, because IAM is global.

    The deployment role may create only roles with these names (`bootstrap.deploy_identity`).
    """
    return f"{cluster}-{region}-{purpose}"


# --- objects in the buckets --------------------------------------------------------------------------------------------

RELEASES_PREFIX = "releases/"
"""Every release is an immutable `releases/<id>/`."""


def release_label(release_id: str) -> str:
    """Return the first 12 digits of a release id, for users and Kubernetes labels. They do not identify a release."""
    return release_id[:12]


PLANS_PREFIX = "plans/"
"""TensorRT plans built from a release: `plans/<id>/<version of Triton>/<model>/<version>/model_cc86.plan`."""
RELEASE_MANIFEST = "manifest.json"
RELEASE_SIGNATURE = "manifest.sig"
"""The last file written into a release. If it exists, the release is complete."""
MODEL_CACHE_PATH = "/var/lib/kubelet/model-cache"
"""The folder on a GPU node in which its pods share releases. It is on the instance store, like the kubelet's folder."""
TRITON_USER = 1000
"""User and group of Triton's pods (charts/triton)."""
CURRENT_RELEASE = "current"
"""The link to the served release, in the folder to which `modelctl fetch` copies releases."""
FETCH_METRIC = "model_fetch_release_bytes"
"""A metric with the size of the release. A pod exports it only while it fetches the release."""
MAX_OBJECT_BYTES = 5 * 1024**4
"""S3's limit for one object."""
LIVE_PREFIX = "live/"
"""The prefix that in-place rollouts write and their pods read. It always contains the models to serve now."""
RETIRED_TAG = ("retired", "true")
"""The object tag that marks a release for removal. Objects without it never expire."""
INPUTS_PREFIX, RESULTS_PREFIX, FAILURES_PREFIX = "inputs/", "results/", "failures/"
"""Prefixes of the request bucket. `worker.store` repeats them, because the worker is shipped separately."""
