"""Create kube-prometheus-stack's objects for Prometheus from a release's values, adapted to this machine.

`prometheus.prometheusSpec` of the values is the specification of the custom resource Prometheus, except for a few keys that
the chart converts (docs/facts/charts.md#kube-prometheus-stack). It is passed on unchanged, so prometheus-operator reads
exactly the program's selectors, retention and labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spec.names import PROMETHEUS_PORT
from twin.cluster.certificates import PROMETHEUS_OPERATOR
from twin.cluster.kube_api import Object, object_path

CHART = "kube-prometheus-stack"
LABEL = "twin.triton-eks/chart"
"""The chart for which an object of the twin was created."""
_PROMETHEUS_VERSION = "v3.14.0"
"""The version that chart 88.5.3 runs; the operator writes the configuration for it."""
_SELECTORS = ("serviceMonitor", "podMonitor", "probe", "rule", "scrapeConfig")
_TOKENS = "/var/run/secrets/kubernetes.io/serviceaccount"

# The chart's roles, which are the roles that the operator's documentation requires.
_OPERATOR_RULES: list[Object] = [
    {"apiGroups": ["monitoring.coreos.com"], "resources": ["*"], "verbs": ["*"]},
    {"apiGroups": ["apps"], "resources": ["statefulsets"], "verbs": ["*"]},
    {"apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": ["*"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "delete"]},
    {
        "apiGroups": [""],
        "resources": ["services", "services/finalizers", "endpoints"],
        "verbs": ["get", "create", "update", "delete"],
    },
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["patch", "create"]},
    {"apiGroups": ["networking.k8s.io"], "resources": ["ingresses"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["storage.k8s.io"], "resources": ["storageclasses"], "verbs": ["get"]},
]
_PROMETHEUS_RULES: list[Object] = [
    {
        "apiGroups": [""],
        "resources": ["nodes", "nodes/metrics", "services", "endpoints", "pods"],
        "verbs": ["get", "list", "watch"],
    },
    {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["networking.k8s.io"], "resources": ["ingresses"], "verbs": ["get", "list", "watch"]},
    {"nonResourceURLs": ["/metrics", "/metrics/cadvisor"], "verbs": ["get"]},
]


def full_name(release: str, values: Mapping[str, Any]) -> str:
    """Return the prefix of the names of the chart's objects."""
    name = values.get("nameOverride") or CHART
    default = release if name in release else f"{release}-{name}"
    return str(values.get("fullnameOverride") or default)[:26].removesuffix("-")


def prometheus_name(release: str, values: Mapping[str, Any]) -> str:
    """Return the name of the Prometheus, its Service and its ClusterRole."""
    return f"{full_name(release, values)}-prometheus"


KINDS = (
    ("monitoring.coreos.com/v1", "Prometheus", "prometheuses"),
    ("v1", "Service", "services"),
    ("v1", "ServiceAccount", "serviceaccounts"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles"),
)
"""API version, kind and plural of all that `objects` creates, in the order of deletion."""
_PLURALS = {kind: plural for _, kind, plural in KINDS}


def objects(release: str, namespace: str, values: Mapping[str, Any], server: str) -> list[tuple[str, Object]]:
    """Return path and object of everything in the release, in the order in which it is applied.

    `server` is the API server's URL, which Prometheus uses to find its targets.
    """
    prometheus = values.get("prometheus") or {}
    name = prometheus_name(release, values)
    operator = f"{full_name(release, values)}-operator"
    account = prometheus.get("serviceAccount") or {}
    account_name = account.get("name") or name
    subject = {"kind": "ServiceAccount", "name": account_name, "namespace": namespace}
    user = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": PROMETHEUS_OPERATOR.user}
    ports = [{"name": "http-web", "port": PROMETHEUS_PORT, "targetPort": "http-web"}]
    selector = {"app.kubernetes.io/name": "prometheus", "operator.prometheus.io/name": name}
    made = [
        *_role(operator, _OPERATOR_RULES, user),
        *_role(name, _PROMETHEUS_RULES, subject),
        _object("v1", "ServiceAccount", account_name, {}, namespace),
        _object("v1", "Service", name, {"spec": {"ports": ports, "selector": selector}}, namespace),
        _object(
            "monitoring.coreos.com/v1",
            "Prometheus",
            name,
            {"spec": specification(release, values, account_name, server)},
            namespace,
        ),
    ]
    return [(_path(item), item) for item in made]


def specification(release: str, values: Mapping[str, Any], account: str, server: str) -> Object:
    """Return the specification of the Prometheus: the program's, with the additions of the chart and of this machine.

    Settings that cannot work on this machine are left out: volumes, remote writes and an Alertmanager. The samples are
    deleted with the pod, and remote writes would go to AWS.
    """
    given = dict((values.get("prometheus") or {}).get("prometheusSpec") or {})
    spec: Object = {
        "image": f"quay.io/prometheus/prometheus:{_PROMETHEUS_VERSION}-distroless",
        "version": _PROMETHEUS_VERSION,
        "portName": "http-web",
        "retention": "10d",
        "serviceAccountName": account,
    }
    for kind in _SELECTORS:
        own_release_only = given.pop(f"{kind}SelectorNilUsesHelmValues", True)
        spec[f"{kind}Selector"] = {"matchLabels": {"release": release}} if own_release_only else {}
        spec[f"{kind}NamespaceSelector"] = {}
    affinity = _anti_affinity(
        given.pop("podAntiAffinity", "soft"),
        given.pop("podAntiAffinityTopologyKey", "kubernetes.io/hostname"),
        prometheus_name(release, values),
    )
    if affinity:
        spec["affinity"] = affinity
    for absent in ("storageSpec", "remoteWrite"):
        given.pop(absent, None)
    # Drop empty values: the chart's templates treat them like missing ones.
    spec |= {key: value for key, value in given.items() if value not in ("", None, {}, [])}
    return spec | {
        "apiserverConfig": _api_server(server),
        "scrapeClasses": _scrape_classes(spec.get("scrapeClasses") or []),
    }


def _api_server(server: str) -> Object:
    """Return the settings of the API server, which Prometheus takes from built-in variables and paths only in a pod.

    Its identity stays the same: the token of its service account, with the permissions of the chart's ClusterRole.
    """
    return {
        "host": server,
        "authorization": {"type": "Bearer", "credentialsFile": f"{_TOKENS}/token"},
        "tlsConfig": {"caFile": f"{_TOKENS}/ca.crt"},
    }


def _scrape_classes(given: list[Object]) -> list[Object]:
    """Return the scrape classes, with scrapes sent to 127.244.a.b if the API shows 10.244.a.b (pod_addresses.py).

    The label `instance` keeps the API's address.
    """
    moved = [
        {"sourceLabels": ["__address__"], "targetLabel": "instance"},
        {
            "sourceLabels": ["__address__"],
            "targetLabel": "__address__",
            "regex": r"10\.244\.(.+)",
            "replacement": "127.244.${1}",
        },
    ]
    classes = [{**item, "relabelings": [*(item.get("relabelings") or []), *moved]} for item in given]
    if not any(item.get("default") for item in classes):
        classes.append({"name": "twin", "default": True, "relabelings": moved})
    return classes


def _anti_affinity(how: str, topology_key: str, name: str) -> Object | None:
    labels = {"app.kubernetes.io/name": "prometheus", "app.kubernetes.io/instance": name}
    expressions = [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]
    term = {"topologyKey": topology_key, "labelSelector": {"matchExpressions": expressions}}
    if how == "hard":
        return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    if how == "soft":
        weighted = {"weight": 100, "podAffinityTerm": term}
        return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}
    return None


def _role(name: str, rules: list[Object], subject: Object) -> list[Object]:
    group = "rbac.authorization.k8s.io"
    role = {"apiGroup": group, "kind": "ClusterRole", "name": name}
    return [
        _object(f"{group}/v1", "ClusterRole", name, {"rules": rules}),
        _object(f"{group}/v1", "ClusterRoleBinding", name, {"roleRef": role, "subjects": [subject]}),
    ]


def _object(api_version: str, kind: str, name: str, content: Object, namespace: str | None = None) -> Object:
    metadata: Object = {"name": name, "labels": {LABEL: CHART}}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}


def _path(item: Object) -> str:
    metadata = item["metadata"]
    return object_path(item["apiVersion"], _PLURALS[item["kind"]], metadata.get("namespace"), metadata["name"])
