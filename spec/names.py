"""Names and ports that several parts of the project must agree on: in the cluster, in AWS, in the models bucket.

Plain values, and no import beyond the standard library: whatever talks to a stack may use them. A name that one module
alone uses stays in that module.
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
"""Of the Jobs that `modelctl build-plans` prints, and their name label."""
TRITON_CHART = "triton"
"""`charts/triton`, and the name label of its pods."""
TRITON_RELEASE = TRITON_CHART
"""The Helm release. It is called like its chart, so the chart calls its objects the same (`triton.fullname`)."""
TRITON_DEPLOYMENT = TRITON_SERVICE = TRITON_CONTAINER = TRITON_RELEASE
ADMIN_KEY_FILE = "/run/triton/admin-key"
"""In a pod of the chart: the key of the control APIs (`triton.start`)."""
POD_RELEASE = "triton-eks/release"
"""The annotation of a pod that serves one release as long as it lives: its id. A label of the same name has the short form.
In place (`triton.rollout`) pods have neither.
"""
TRITON_HEADLESS_COMPONENT = "inference-headless"
"""The component label of each fleet's headless Service, and so of its EndpointSlices."""
TRITON_HTTP_PORT, TRITON_GRPC_PORT, TRITON_METRICS_PORT = 8000, 8001, 8002
FOLLOWER_PORT = 8003
"""Of the container that brings the releases of rollouts in place to a pod's disk."""
TRITON_OPENAI_PORT = 9000
"""Of the Services, for the OpenAI-compatible front end (`triton.openai`); pods have it on the port of the metrics."""


def triton_http_url(release: str) -> str:
    """Return where clients in the cluster ask the fleet of a Helm release."""
    return f"http://{release}.{TRITON_NAMESPACE}.svc.cluster.local:{TRITON_HTTP_PORT}"


def headless_service(release: str) -> str:
    """Return the Service of a Helm release that resolves to every pod, so that a gRPC client balances over them."""
    return f"{release}-headless"


def triton_grpc_url(release: str) -> str:
    """Return the name by which gRPC clients in the cluster find each pod of the fleet of a Helm release."""
    return f"dns:///{headless_service(release)}.{TRITON_NAMESPACE}.svc.cluster.local:{TRITON_GRPC_PORT}"


TRITON_HTTP_URL, TRITON_GRPC_URL = triton_http_url(TRITON_RELEASE), triton_grpc_url(TRITON_RELEASE)
"""Of the fleet of a stack without `fleets`."""
INFERENCE_CLIENT_LABEL = "triton-eks/inference-client"
"""Namespaces with this label, `"true"`, may call Triton: its NetworkPolicy lets them in (helm-values/triton)."""
FLEET_LABEL = "triton-eks/fleet"
"""Of what belongs to one of several fleets, and is not called after it: its name."""
SERVED_VERSIONS = "triton-served-versions"
"""The ConfigMap in Triton's namespace that tells clients which version of each model to ask for."""
PARITY_EXPORTER = "triton-parity"
"""The exporter of `modelctl parity` in Triton's namespace: its objects and its name label."""
VIEWERS = "triton-viewers"
"""Group, ClusterRole and binding of `cluster.viewRoleArns`."""
ROLLOUTS = "triton-rollouts"
"""The Kubernetes group of who rolls out models, and the Role that it has in Triton's namespace."""
PARITY_PORT = 9108
COMPARER = "triton-compare"
"""The comparer of two releases' answers (`modelctl compare`) in Triton's namespace, at Triton's ports: its objects, its
Service and its name label.
"""

# --- other workloads of ours -------------------------------------------------------------------------------------------

WORKER = ServiceAccount("triton-worker", "triton-worker")
WORKER_CHART = "worker"
"""`charts/worker`, and the name label of its pods."""
WORKER_DEPLOYMENT = "triton-worker"
WARM_PODS_NAMESPACE = "triton-warm"

# --- the platform in the cluster ---------------------------------------------------------------------------------------

MONITORING_NAMESPACE = "monitoring"
"""The one namespace whose pods may read metrics: the NetworkPolicies of our charts name it."""
PROMETHEUS = ServiceAccount(MONITORING_NAMESPACE, "prometheus")
ALERTMANAGER = ServiceAccount(MONITORING_NAMESPACE, "alertmanager")
PROMETHEUS_SERVICE = "kube-prometheus-stack-prometheus"
PROMETHEUS_PORT = 9090
PROMETHEUS_URL = f"http://{PROMETHEUS_SERVICE}.{MONITORING_NAMESPACE}.svc:{PROMETHEUS_PORT}"
"""Where Prometheus answers inside the cluster."""

GATEWAY_NAMESPACE = "envoy-gateway-system"
GATEWAY = "inference"
"""The name of the Gateway, of its class and of its EnvoyProxy."""
GATEWAY_HTTPS_PORT = 443
"""Of HTTP where the gateway has TLS; without, it has Triton's own port."""
ALL_MODELS_ROUTE, OPENAI_ROUTE = "all-models", "openai-v1"
"""The routes of no model: of clients that name none in a header, and of the OpenAI-compatible front end. No dot: Envoy takes
what follows it for a part of the metric's name."""
CLIENT_HEADER = "x-triton-client"
"""In which Envoy tells its own filters and Triton who asks; what a client sends in it is removed."""
EXTERNAL_SECRETS = ServiceAccount("client-keys", "external-secrets")
"""The operator that copies the keys of clients from Secrets Manager; nothing else is in its namespace."""
CLIENT_KEYS = "client-keys"
"""The Secret there that Envoy knows the keys from."""
KEY_SLOTS = ("current", "next", "previous")
"""The keys that a client may have at one time, by the names that they have in Secrets Manager."""
LOAD_BALANCER_CONTROLLER = ServiceAccount("aws-load-balancer-controller", "aws-load-balancer-controller")

KEDA_OPERATOR = ServiceAccount("keda", "keda-operator")
PROMETHEUS_ADAPTER_NAMESPACE = "prometheus-adapter"
KARPENTER = ServiceAccount("kube-system", "karpenter")
"""In kube-system, as its authors say: the API server serves the leader election of that namespace first."""
CLUSTER_AUTOSCALER = ServiceAccount("kube-system", "cluster-autoscaler")
DEVICE_PLUGIN_NAMESPACE = "nvidia-device-plugin"
"""The chart refuses the namespace `default`."""

LOG_SENDER = ServiceAccount("logging", "fluent-bit")
"""Fluent Bit, one pod on each node, which sends the logs of containers to CloudWatch."""

INSIGHTS_AGENT = ServiceAccount("amazon-cloudwatch", "cloudwatch-agent")
"""The agent of Container Insights, one pod on each node; both names are the add-on's own choice."""

TRACE_COLLECTOR = ServiceAccount("tracing", "otel-collector")
TRACE_COLLECTOR_SERVICE = "otel-collector"
OTLP_GRPC_PORT, OTLP_HTTP_PORT = 4317, 4318
OTLP_HTTP_URL = f"http://{TRACE_COLLECTOR_SERVICE}.{TRACE_COLLECTOR.namespace}.svc.cluster.local:{OTLP_HTTP_PORT}/v1/traces"
"""Where Triton sends spans to: it speaks OTLP over HTTP only (docs/facts/triton-server.md#tracing)."""

EBS_CSI_CONTROLLER = ServiceAccount("kube-system", "ebs-csi-controller-sa")
"""The add-on's own choice, as is the network plugin's."""
NETWORK_PLUGIN = ServiceAccount("kube-system", "aws-node")

# --- AWS ---------------------------------------------------------------------------------------------------------------


def cluster_name(stack: str) -> str:
    """Return the name of the EKS cluster, which is the prefix of what other systems address by name."""
    return f"triton-{stack}"


def control_plane_log_group(cluster: str) -> str:
    """Return the log group that EKS writes to; the name is EKS's choice."""
    return f"/aws/eks/{cluster}/cluster"


def flow_log_group(cluster: str) -> str:
    """Return the log group that the VPC's flow logs go to."""
    return f"/aws/vpc/{cluster}/flow-logs"


def container_log_group(cluster: str) -> str:
    """Return the log group of the containers, called as CloudWatch's own set-up calls it: the console looks for it there.

    https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/Container-Insights-setup-logs-FluentBit.html
    """
    return f"/aws/containerinsights/{cluster}/application"


def insights_log_group(cluster: str) -> str:
    """Return the log group of the events of Container Insights; the name is the agent's choice."""
    return f"/aws/containerinsights/{cluster}/performance"


def runner_project(cluster: str) -> str:
    """Return the CodeBuild project whose name is in the label of a runner inside the VPC (.github/workflows)."""
    return f"{cluster}-runner"


def runner_log_group(cluster: str) -> str:
    """Return the log group of the jobs of that runner."""
    return f"/aws/codebuild/{cluster}/runner"


def model_bucket(stack: str, account_id: str, region: str) -> str:
    """Return the bucket of the models. People and `modelctl` address it; account and region make it unique in the world."""
    return f"triton-models-{stack}-{account_id}-{region}"


def request_bucket(stack: str, account_id: str, region: str) -> str:
    """Return the bucket of the asynchronous path: its inputs, results and failures."""
    return f"triton-requests-{stack}-{account_id}-{region}"


def state_bucket(account_id: str, region: str) -> str:
    """Return the bucket of Pulumi's state, which people type into `pulumi login`."""
    return f"pulumi-state-{account_id}-{region}"


def state_log_bucket(account_id: str, region: str) -> str:
    """Return the bucket of the access log of the state's bucket."""
    return f"pulumi-state-log-{account_id}-{region}"


SECRETS_ALIAS = "pulumi-secrets"
"""The alias of the key that encrypts secrets of stacks."""


def request_queue(cluster: str) -> str:
    """Return the queue of the asynchronous path."""
    return f"{cluster}-requests"


def dns_suffix(partition: str) -> str:
    """Return what names of AWS's hosts end in, in a partition."""
    return "amazonaws.com.cn" if partition == "aws-cn" else "amazonaws.com"


def client_secret(cluster: str, client: str) -> str:
    """Return the secret of Secrets Manager that has the keys of one client of the gateway."""
    return f"{cluster}/clients/{client}"


def budget(cluster: str, region: str) -> str:
    """Return the name of a stack's budget. Budgets and cost monitors are the account's, hence the region in it."""
    return f"{cluster}-{region}"


def interruption_queue(cluster: str) -> str:
    """Return the queue of notices that Karpenter reads, and the prefix of the rules of EventBridge that fill it."""
    return f"{cluster}-interruptions"


def queue_url(name: str, account_id: str, region: str, partition: str = "aws") -> str:
    """Return the URL of a queue, known before the queue exists."""
    return f"https://sqs.{region}.{dns_suffix(partition)}/{account_id}/{name}"


DEPLOY_ROLE = "triton-eks-deploy"
"""How the names of the roles begin that GitHub's workflows deploy with: then the environment, then a further region."""


def role_path(stack: str) -> str:
    """Return the IAM path of a stack's roles, by which policies tell them from another stack's."""
    return f"/triton-eks/{stack}/"


def permissions_boundary(stack: str) -> str:
    """Return the managed policy that bounds the roles of a stack (`spec.boundary`)."""
    return f"triton-eks-boundary-{stack}"


WORKLOAD_ROLES = ("model-reader",)
"""The purposes of the roles whose ARN has to be known before they exist (`workload_role`)."""


def workload_role(cluster: str, region: str, purpose: str) -> str:
    """Return the name of an IAM role whose ARN has to be known before it exists. IAM is global, hence the region in it.

    The deployment role may make roles of these names only (`bootstrap.deploy_identity`).
    """
    return f"{cluster}-{region}-{purpose}"


# --- objects in the buckets --------------------------------------------------------------------------------------------

RELEASES_PREFIX = "releases/"
"""Every release is an immutable `releases/<id>/`."""


def release_label(release_id: str) -> str:
    """Return the first 12 digits of a release's id, for people and for labels of Kubernetes. It identifies no release."""
    return release_id[:12]


PLANS_PREFIX = "plans/"
"""TensorRT plans that were built of a release: `plans/<id>/<version of Triton>/<model>/<version>/model_cc86.plan`."""
RELEASE_MANIFEST = "manifest.json"
RELEASE_SIGNATURE = "manifest.sig"
"""Written last into a release: where it is, the release is whole."""
MODEL_CACHE_PATH = "/var/lib/kubelet/model-cache"
"""The folder of a GPU node in which its pods share releases: on the instance store, as the kubelet's own."""
TRITON_USER = 1000
"""User and group of Triton's pods (charts/triton)."""
CURRENT_RELEASE = "current"
"""Where `modelctl fetch` puts releases on a disk, the link that leads to the one to serve."""
FETCH_METRIC = "model_fetch_release_bytes"
"""A metric that a pod has while it fetches its release, and never afterwards: the size of that."""
MAX_OBJECT_BYTES = 5 * 1024**4
"""S3's limit for one object."""
LIVE_PREFIX = "live/"
"""The prefix that in-place rollouts write to and the pods of such a stack read: always what they should serve now."""
RETIRED_TAG = ("retired", "true")
"""The object tag that says a release may be removed. Nothing that is not tagged ever expires."""
INPUTS_PREFIX, RESULTS_PREFIX, FAILURES_PREFIX = "inputs/", "results/", "failures/"
"""Of the request bucket; `worker.store` has them again, because the worker is shipped alone."""
