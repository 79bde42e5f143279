"""Make what kube-prometheus-stack makes of a release's values, as far as its Prometheus goes, made to run on this machine.

`prometheus.prometheusSpec` of the values is the specification of the custom resource Prometheus, apart from a few keys
that the chart turns into others (docs/facts/charts.md#kube-prometheus-stack). It is passed on as it is, so what the
program selects, keeps and labels is what prometheus-operator reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spec.names import PROMETHEUS_PORT
from twin.cluster.certificates import PROMETHEUS_OPERATOR
from twin.cluster.kube_api import Object, object_path

CHART = "kube-prometheus-stack"
LABEL = "twin.triton-eks/chart"
"""Which chart an object of the twin stands for."""
_PROMETHEUS_VERSION = "v3.14.0"
"""The version that chart 88.5.3 runs, and so for which the operator writes the configuration."""
_SELECTORS = ("serviceMonitor", "podMonitor", "probe", "rule", "scrapeConfig")
_TOKENS = "/var/run/secrets/kubernetes.io/serviceaccount"

# The roles that the chart makes, which are those that the operator's documentation asks for.
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
    """Return what the names of the chart's objects begin with."""
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
"""API version, kind and plural of everything that `objects` makes, in the order in which it can be removed."""
_PLURALS = {kind: plural for _, kind, plural in KINDS}


def objects(release: str, namespace: str, values: Mapping[str, Any], server: str) -> list[tuple[str, Object]]:
    """Return path and object of all that the release has here, in the order in which it is applied.

    `server` is the API server's URL, which Prometheus finds its targets with.
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
    """Return the specification of the Prometheus: the program's, what the chart adds to it, and what this machine needs.

    What this machine cannot have is left out: volumes (the samples go with the pod), remote writes (they would go to AWS),
    and an Alertmanager to tell.
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
    # An empty one is not a choice: the chart's templates see no difference between it and none.
    spec |= {key: value for key, value in given.items() if value not in ("", None, {}, [])}
    return spec | {
        "apiserverConfig": _api_server(server),
        "scrapeClasses": _scrape_classes(spec.get("scrapeClasses") or []),
    }


def _api_server(server: str) -> Object:
    """In a pod, Prometheus finds the API server by variables and paths that it has built in; a process here does not.

    Who it is stays the same: the token of its service account, with the rights of the chart's ClusterRole.
    """
    return {
        "host": server,
        "authorization": {"type": "Bearer", "credentialsFile": f"{_TOKENS}/token"},
        "tlsConfig": {"caFile": f"{_TOKENS}/ca.crt"},
    }


def _scrape_classes(given: list[Object]) -> list[Object]:
    """Scrapes go to 127.244.a.b where the API says 10.244.a.b (pod_addresses.py). The label `instance` stays true."""
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
