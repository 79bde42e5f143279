"""Errors in `helm-values/triton` and `helm-values/worker` that a chart's schema cannot express.

An error is reported for the file whose value Helm uses: the environment's file before the base file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from itertools import takewhile
from typing import Any

from spec import helm_values
from spec.capacity import packs_pods
from spec.names import TRITON_CHART, TRITON_NAMESPACE, WORKER_CHART
from spec.problem import Problem, SettingsError, render_path
from spec.settings.chart_values import mebibytes
from spec.settings.model import Settings
from spec.triton_options import check_arguments

Location = tuple[str | int, ...]
Mistakes = Iterator[tuple[Location, str]]
Values = Mapping[str, Any]

LONGEST_REQUEST = ("drain", "longestRequestSeconds")
TRITON_OWNED = (
    *("image.repository", "image.digest", "release", "replicaCount", "autoscaling", "gpu"),
    *("tracing.endpoint", "tracing.serviceName"),
    *("server.version", "server.responseCacheBytes", "server.rateLimiter", "server.openai", "server.cpuInstances"),
    *("resources.cpu", "resources.memory", "shm.enabled", "startup.engines", "rollout.mode"),
    *("modelRepository.s3", "modelRepository.volume", "modelRepository.fetch.image"),
    *("modelRepository.fetch.signers", "modelRepository.fetch.cache"),
    *("serviceAccount.name", "serviceAccount.annotations", "nodeSelector", "tolerations"),
)
"""The values of Triton's chart that the program computes from the stack file."""
WORKER_OWNED = (
    *("image.repository", "image.digest", "aws", "bucket", "triton", "concurrency", "inputMiB", "resources", "drain"),
    *("queue.url", "queue.visibilityTimeoutSeconds", "queue.pollSeconds", "queue.replyUrls"),
    *("replicaCount", "autoscaling", "serviceAccount.name"),
)
"""The values of the worker's chart that the program computes from the stack file."""
_OWN_FLAGS = re.compile(
    "--(help|model-(repository|store|control-mode|namespacing)|repository-|load-model|exit-|strict-|disable-auto-complete|"
    "(allow|reuse)-|(http|grpc|metrics)-(port|address)|http-(restricted|max-input)|grpc-(restricted|max-connection)|"
    "metrics-(config|interval)|log-format|rate-limit|cache-config=local|response-cache|model-config-name)"
)
_VOLUMES = frozenset({"shm", "models", "tmp", "cache", "admin"})
_PORTS = {8000: "triton", 8001: "triton", 8002: "triton", 8003: "follow"}
_CONTAINERS = frozenset({"triton", "fetch", "follow"})
_SERVERS_PATHS = re.compile(
    "/(dev(/shm)?|proc|sys|etc|run(/triton)?|tmp|models(/.*)?|var/run/secrets/.*|opt(/tritonserver(/(bin|lib|backends))?)?)"
)
_LABELS_OF_THE_CHART = re.compile(r"app\.kubernetes\.io/(name|instance|version)|pod-template-hash|triton-eks/.*")
_ANNOTATIONS_OF_THE_CHART = re.compile(
    r"kubectl\.kubernetes\.io/default-container|karpenter\.sh/do-not-disrupt|triton-eks/.*"
)
_VARIABLES = (
    ("LD_.*|PATH|PYTHONPATH|PYTHONHOME", "decides which libraries the server loads; the image sets it"),
    ("NVIDIA_.*|CUDA_VISIBLE_DEVICES", "is set by the device plugin; another value breaks the isolation of GPUs"),
    ("POD_IP|HOME|AWS_(DEFAULT_)?REGION|AWS_EC2_METADATA_DISABLED|TRITON_AWS_MOUNT_DIRECTORY", "is set by the chart"),
    ("AWS_ENDPOINT_URL.*", "follows from models.s3Endpoint of the stack file, which the NetworkPolicy uses too"),
)
_CREDENTIALS = re.compile("AWS_(ACCESS|SECRET|SESSION)_.*")
_OTHER_ROLES = re.compile("AWS_(CONTAINER_.*|ROLE_ARN|WEB_IDENTITY_TOKEN_FILE|PROFILE|CONFIG_FILE|SHARED_CREDENTIALS_FILE)")
_CLUSTER_WIDE = re.compile(
    "Cluster[A-Z].*|Namespace|PersistentVolume|StorageClass|PriorityClass|CustomResourceDefinition|APIService|"
    "(Mutating|Validating)WebhookConfiguration"
)
_WIDEST_PREFIX = 8


def check(settings: Settings) -> None:
    """Check the Helm values of an environment. Raises SettingsError with all errors by file."""
    errors = list(_errors(TRITON_CHART, settings.environment, lambda values: _triton(values, settings)))
    if settings.worker is not None:
        errors += _errors(WORKER_CHART, settings.environment, lambda values: _worker(values, settings))
    if errors:
        raise SettingsError.of_all(errors)


def _errors(chart: str, environment: str, rules: Callable[[Values], Mistakes]) -> Iterator[SettingsError]:
    layers = helm_values.value_layers(chart, environment)
    values = helm_values.merge(helm_values.default_values(chart), *layers.values())
    written = helm_values.merge(*layers.values())
    owned = TRITON_OWNED if chart == TRITON_CHART else WORKER_OWNED
    decided = [key for key in owned if helm_values.value_at(written, key) is not None]
    mistakes = [(tuple(key.split(".")), "the stack file decides it; remove it here") for key in decided]
    for location, message in [*mistakes, *rules(values)]:
        yield SettingsError(_file(layers, location), [Problem(render_path(location), message)])


def _file(layers: dict[str, dict[str, Any]], location: Location) -> str:
    """Return the topmost file that has the value or, if none has it, the mapping around it."""
    keys = list(takewhile(lambda part: isinstance(part, str), location))
    for depth in range(len(keys), 0, -1):
        for path, values in reversed(layers.items()):
            found: Any = values
            for key in keys[:depth]:
                found = found.get(key) if isinstance(found, Mapping) else None
            if found is not None:
                return path
    return next(iter(layers))


def _triton(values: Values, settings: Settings) -> Mistakes:
    yield from _arguments(values, settings)
    yield from _drain(values, settings)
    for probe in ("readiness", "liveness"):
        yield from _probe(values, probe)
    yield from _peers(values)
    yield from _placement(values, settings)
    for key in values.get("resources") or {}:
        if str(key).startswith("nvidia.com/"):
            yield ("resources", key), "triton.gpus of the stack file sets the GPUs; remove it"
    own_store = settings.models.s3_endpoint is not None
    yield from _environment(("extraEnv",), values.get("extraEnv"), own_store=own_store)
    for key in values.get("podLabels") or {}:
        if _LABELS_OF_THE_CHART.fullmatch(str(key)):
            yield ("podLabels", key), "is set by the chart or by Kubernetes; use another key"
    for key in values.get("podAnnotations") or {}:
        if _ANNOTATIONS_OF_THE_CHART.fullmatch(str(key)):
            yield ("podAnnotations", key), "is set by the program or the chart; use another key"
        elif str(key).startswith("container.apparmor.security.beta.kubernetes.io/"):
            yield ("podAnnotations", key), "the restricted standard requires the runtime's profile; remove it"
    yield from _volumes_and_containers(values)
    yield from _objects(values)


def _worker(values: Values, settings: Settings) -> Mistakes:
    yield from _probe(values, "probes")
    yield from _peers(values)
    if settings.nodes.cpu is not None:
        for key, default in (("nodeSelector", {}), ("tolerations", []), ("spread", {"hosts": True})):
            if values.get(key) != default:
                yield (key,), "nodes.cpu of the stack file decides it; remove it here"


def _placement(values: Values, settings: Settings) -> Mistakes:
    """Refuse values that the program computes only for some fleets."""
    fleets = [fleet.stack for fleet in settings.each_fleet]
    if helm_values.value_at(values, "spread.host") != "ScheduleAnyway" and any(
        packs_pods(settings, fleet.triton_nodes) for fleet in fleets
    ):
        yield ("spread", "host"), "Karpenter packs these pods on nodes, so the program sets it; remove it here"
    fetching = mebibytes(helm_values.value_at(values, "modelRepository.fetch.memory"), 0)
    smallest = min(fleet.triton.memory_gib for fleet in fleets)
    if fetching > smallest * 1024:
        yield (
            ("modelRepository", "fetch", "memory"),
            f"{fetching} MiB are more than the {smallest} GiB of a pod (triton.memoryGiB); give {smallest}Gi or less",
        )


def _arguments(values: Values, settings: Settings) -> Mistakes:
    """Refuse flags that the chart sets, and flags that the stack's server version does not support."""
    at = ("server", "extraArgs")
    arguments = helm_values.value_at(values, "server.extraArgs")
    given = [str(argument) for argument in arguments] if isinstance(arguments, list) else []
    own = [argument for argument in given if _OWN_FLAGS.match(argument)]
    if settings.tracing is not None:
        own += [argument for argument in given if argument.startswith("--trace-")]
    for argument in own:
        yield at, f"{argument} is set by the chart, or undoes what the chart relies on; remove it"
    others = [argument for argument in given if argument not in own]
    for problem in check_arguments(others, settings.triton.ngc_release.server):
        yield at, problem


def _drain(values: Values, settings: Settings) -> Mistakes:
    """Require that a stopping pod waits for each accepted request, including a full queue (docs/drain.md).

    The duration of an ensemble is the sum of its steps and is not in the stack file. For streams with a configured duration
    the program sets the wait itself.
    """
    longest, batch = (helm_values.value_at(values, f"drain.longest{name}Seconds") for name in ("Request", "Batch"))
    if not isinstance(longest, int):
        return
    if isinstance(batch, int) and batch > longest:
        message = f"{batch} s are more than drain.longestRequestSeconds ({longest}), and a batch is a part of its requests"
        yield ("drain", "longestBatchSeconds"), f"{message}; give {longest} or less"
    serving = {name: model for name, model in settings.models.serving.items() if model.longest_stream_seconds is None}
    if not serving:
        return
    slowest = max(serving, key=lambda name: serving[name].longest_request_seconds)
    model, needed = serving[slowest], serving[slowest].longest_request_seconds
    if longest < needed:
        yield (
            LONGEST_REQUEST,
            f"{longest} s, but a request of {slowest} may wait {model.queue_timeout_us / 1_000_000:g} s in the queue and "
            f"then take its SLO, {model.slo_p95_ms / 1000:g} s; give {needed} or more",
        )


def _probe(values: Values, key: str) -> Mistakes:
    period, timeout = (helm_values.value_at(values, f"{key}.{name}Seconds") for name in ("period", "timeout"))
    if isinstance(period, int) and isinstance(timeout, int) and timeout > period:
        yield (key, "timeoutSeconds"), f"{timeout} s are more than {key}.periodSeconds; give {period} or less"


def _peers(values: Values) -> Mistakes:
    """Refuse invalid address ranges, and sources as wide as the internet, because Triton has no authentication."""
    policy = values.get("networkPolicy")
    policy = policy if isinstance(policy, Mapping) else {}
    peers: list[tuple[Location, Values, bool]] = [
        (("networkPolicy", key, index), peer, True)
        for key in ("clients", "monitoring")
        for index, peer in _items(policy.get(key))
    ]
    for index, rule in _items(policy.get("extraEgress")):
        egress = ("networkPolicy", "extraEgress", index)
        peers += [((*egress, "to", place), peer, False) for place, peer in _items(rule.get("to"))]
        for place, port in _items(rule.get("ports")):
            first, last = port.get("port"), port.get("endPort")
            if isinstance(first, int) and isinstance(last, int) and last < first:
                yield (*egress, "ports", place, "endPort"), f"{last} is less than port; give {first} or more"
    for at, peer, incoming in peers:
        block = peer.get("ipBlock")
        if not isinstance(block, Mapping):
            continue
        whole = _range(block.get("cidr"))
        if whole is None:
            yield (*at, "ipBlock", "cidr"), f"'{block.get('cidr')}' is not a range of addresses; give one like 10.0.0.0/16"
            continue
        if incoming and whole.prefixlen < _WIDEST_PREFIX:
            yield (
                (*at, "ipBlock", "cidr"),
                f"{block['cidr']} is open to the internet without authentication; give a range of /{_WIDEST_PREFIX} or "
                "narrower",
            )
        for index, text in enumerate(block.get("except") or []):
            part = _range(text)
            if part is None or part.version != whole.version or part == whole or not part.subnet_of(whole):  # type: ignore[arg-type]
                yield (
                    (*at, "ipBlock", "except", index),
                    f"'{text}' is not a part of {block['cidr']}; give a smaller range inside it",
                )


def _range(text: Any) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(str(text), strict=False)
    except ValueError:
        return None


def _environment(at: Location, variables: Any, *, own_store: bool) -> Mistakes:
    yield from _twice(at, variables, "name")
    for index, variable in _items(variables):
        name, where = str(variable.get("name")), (*at, index, "name")
        for pattern, why in _VARIABLES:
            if re.fullmatch(pattern, name):
                yield where, f"{name} {why}; remove it"
        if not own_store and (_OTHER_ROLES.fullmatch(name) or _CREDENTIALS.fullmatch(name)):
            yield where, f"{name} would replace the role of the service account; remove it"
        elif _CREDENTIALS.fullmatch(name) and "valueFrom" not in variable:
            yield where, f"{name} is a secret in plain text; take it from a Secret (valueFrom)"


def _volumes_and_containers(values: Values) -> Mistakes:
    """Refuse additions to the pod that replace or weaken the chart's own settings."""
    yield from _twice(("extraVolumes",), values.get("extraVolumes"), "name", _VOLUMES)
    known = _VOLUMES | {str(volume.get("name")) for _, volume in _items(values.get("extraVolumes"))}
    mounts: list[tuple[Location, Any]] = [(("extraVolumeMounts",), values.get("extraVolumeMounts"))]
    for index, mount in _items(values.get("extraVolumeMounts")):
        if _SERVERS_PATHS.fullmatch(str(mount.get("mountPath"))):
            yield (
                ("extraVolumeMounts", index, "mountPath"),
                f"{mount['mountPath']} would hide files that the server needs; use another path, like /mnt/data or "
                "/opt/tritonserver/backends/mine",
            )
    names, ports = set(_CONTAINERS), dict[Any, str](_PORTS)
    for key in ("extraInitContainers", "extraContainers"):
        yield from _twice((key,), values.get(key), "name", names)
        for index, container in _items(values.get(key)):
            name, at = str(container.get("name")), (key, index)
            names.add(name)
            if key == "extraContainers" and "restartPolicy" in container:
                yield (*at, "restartPolicy"), "belongs to extraInitContainers, where Always makes a sidecar; remove it"
            for place, port in _items(container.get("ports")):
                number = port.get("containerPort")
                if number in ports:
                    yield (
                        (*at, "ports", place, "containerPort"),
                        f"{number} is the port of {ports[number]}, and containers of a pod share ports; use another",
                    )
                ports.setdefault(number, name)
            for place, variable in _items(container.get("env")):
                called, where = str(variable.get("name")), (*at, "env", place, "name")
                if _CREDENTIALS.fullmatch(called) and "valueFrom" not in variable:
                    yield where, f"{called} is a secret in plain text; take it from a Secret (valueFrom)"
                if re.fullmatch("NVIDIA_.*|CUDA_VISIBLE_DEVICES", called):
                    yield where, f"{called} would give the container the server's GPUs past the device plugin; remove it"
            mounts.append(((*at, "volumeMounts"), container.get("volumeMounts")))
    for location, mounted in mounts:
        yield from _twice(location, mounted, "mountPath")
        for index, mount in _items(mounted):
            if mount.get("name") not in known:
                yield (*location, index, "name"), f"there is no volume {mount.get('name')}; add it to extraVolumes"


def _objects(values: Values) -> Mistakes:
    seen: set[str] = set()
    for index, item in _items(values.get("extraObjects")):
        kind, namespace, at = (
            str(item.get("kind")),
            helm_values.value_at(item, "metadata.namespace"),
            ("extraObjects", index),
        )
        name = f"{kind} {helm_values.value_at(item, 'metadata.name')}"
        if name in seen:
            yield at, f"{name} is listed twice; list it once"
        seen.add(name)
        if kind == "Secret":
            yield (*at, "kind"), "values must not contain a Secret; create it elsewhere, or by an ExternalSecret"
        if _CLUSTER_WIDE.fullmatch(kind):
            yield (*at, "kind"), f"a {kind} belongs to the whole cluster; create it elsewhere"
        if namespace not in (None, TRITON_NAMESPACE):
            yield (*at, "metadata", "namespace"), f"{namespace} is not {TRITON_NAMESPACE}; remove it"


def _twice(at: Location, items: Any, key: str, taken: Iterable[str] = ()) -> Mistakes:
    seen = set(taken)
    for index, item in _items(items):
        value = str(item.get(key))
        if value in seen:
            yield (*at, index, key), f"{value} is already used; give each its own"
        seen.add(value)


def _items(items: Any) -> Iterator[tuple[int, Values]]:
    """Yield the mappings of a list with their index. The chart's schema refuses other items."""
    for index, item in enumerate(items if isinstance(items, list) else []):
        if isinstance(item, Mapping):
            yield index, item
