"""Rules about Triton: startup, shutdown, spread and scaling."""

from __future__ import annotations

import re
from collections.abc import Iterator

from triton_policies.findings import Finding, Violation, each, require
from triton_policies.pods import DEPLOYMENT, containers, namespace_of, object_name, pod_labels, pod_spec, selects
from triton_policies.policy import Policy, ResourcePolicy, Settings, StackPolicy, number, strings, switch
from triton_policies.reading import Property
from triton_policies.resources import Resource, Stack

SCALED_OBJECT = "kubernetes:keda.sh/v1alpha1:ScaledObject"
HPA = "kubernetes:autoscaling/v2:HorizontalPodAutoscaler"
DISRUPTION_BUDGET = "kubernetes:policy/v1:PodDisruptionBudget"
MONITORS = ("kubernetes:monitoring.coreos.com/v1:PodMonitor", "kubernetes:monitoring.coreos.com/v1:ServiceMonitor")

_S3_RELEASE = re.compile(r"s3://(https?://[^/]+/)?[^/]+/(releases/[^/]+|live)(/.*)?$")
_METRICS_PORT = 8002


def _tritons(workload: Resource) -> Iterator[Property]:
    """Yield the containers that run the server, directly or in its OpenAI-compatible front end.

    Warm pods, which only hold the image, run another command and are excluded.
    """
    for container in containers(pod_spec(workload)):
        command = container["command"].value or []
        image = str(container["image"].value or "")
        by_image = not command and "/tritonserver" in image.partition("@")[0]
        names = {str(word).rpartition("/")[2] for word in command}
        if by_image or "tritonserver" in names or any(str(word).endswith("/openai_frontend/main.py") for word in command):
            yield container


def _flags(container: Property) -> dict[str, Property]:
    """Return flag -> the argument that sets it; the last argument for duplicate flags."""
    return {str(one.value).partition("=")[0]: one for one in container["args"].elements}


def _flag_value(container: Property, flag: str) -> str | None:
    at = _flags(container).get(flag)
    return None if at is None else str(at.value).partition("=")[2]


def _probes(deployment: Resource, settings: Settings) -> Iterator[Finding]:
    for container in _tritons(deployment):
        for probe, problem in (
            ("startupProbe", "a model that loads for minutes is killed for it"),
            ("readinessProbe", "requests come before the models are there"),
            ("livenessProbe", "a server that hangs stays"),
        ):
            if not container[probe].given:
                yield Violation(container[probe].path, f"is not set: {problem}", fix=f"set {probe}")
        if not any(port["containerPort"].value == _METRICS_PORT for port in container["ports"].elements):
            yield Violation(
                container["ports"].path, f"has no {_METRICS_PORT}: nobody sees its metrics", fix="name the metrics port"
            )


def _grace(deployment: Resource, settings: Settings) -> Iterator[Finding]:
    spec = pod_spec(deployment)
    grace = spec["terminationGracePeriodSeconds"]
    for container in _tritons(deployment):
        sleep = int(container.at("lifecycle.preStop.sleep.seconds").value or 0)
        # Triton's default wait for requests is 30 seconds.
        leave = int(_flag_value(container, "--exit-timeout-secs") or 30)
        # The default of Kubernetes is 30 seconds.
        seconds = int(30 if grace.value is None else grace.value)
        if seconds < sleep + leave:
            yield Violation(
                grace.path,
                f"is {seconds}, less than preStop {sleep} + --exit-timeout-secs {leave}: "
                "requests are cut off at every rollout",
            )


def _models(deployment: Resource, settings: Settings) -> Iterator[Finding]:
    for container in _tritons(deployment):
        flags = _flags(container)
        mode = flags.get("--model-control-mode")
        if mode is None or str(mode.value).endswith("=poll"):
            at = mode.path if mode is not None else container["args"].path
            says = "is poll" if mode is not None else "has no --model-control-mode"
            if mode is not None:
                yield Violation(
                    at,
                    f"{says}: the server loads half-uploaded models, and lists the bucket for ever",
                    fix="use none or explicit",
                )
            else:
                yield Violation(at, f"{says}: what the server loads is its default's choice", fix="use none or explicit")
        repository = flags.get("--model-repository") or flags.get("--model-store")
        source = None if repository is None else str(repository.value).partition("=")[2]
        if repository is not None and source is not None and source.startswith("s3://") and not _S3_RELEASE.match(source):
            yield Violation(
                repository.path,
                f"reads {source}: what is served changes with every upload",
                fix="name a release, s3://bucket/releases/<id>",
            )
        if repository is None:
            yield Violation(container["args"].path, "has no --model-repository: nothing is served")


def _signed(deployment: Resource, settings: Settings) -> Iterator[Finding]:
    if not settings["required"]:
        return
    for container in _tritons(deployment):
        spec = pod_spec(deployment)
        fetchers = [one for one in containers(spec) if {one["args"][0].value} & {"fetch", "follow"}]
        if not fetchers or str(_flag_value(container, "--model-repository")).startswith("s3://"):
            yield Violation(
                spec["initContainers"].path,
                "verify no signature: the server reads the bucket as it is",
                fix="use models.access: local, and list who signs releases in models.signers",
            )
        for fetcher in fetchers:
            # For a duplicate name, Kubernetes uses the last value.
            signers = [one["value"].value for one in fetcher["env"].elements if one["name"].value == "MODEL_SIGNERS"]
            if "-----BEGIN " not in str([None, *signers][-1]):
                yield Violation(fetcher["env"].path, "has no MODEL_SIGNERS: it brings releases that nobody signed")


def _spread(stack: Stack, settings: Settings) -> Iterator[Finding]:
    def check(deployment: Resource) -> Iterator[Finding]:
        if not list(_tritons(deployment)) or _most_replicas(stack, deployment) < 2:
            return
        namespace, labels = namespace_of(deployment), pod_labels(deployment)
        budgets = [
            budget
            for budget in stack.of(DISRUPTION_BUDGET)
            if namespace_of(budget) == namespace and selects(budget["spec.selector"], labels)
        ]
        if not budgets:
            yield Violation("", "has no PodDisruptionBudget: a drain may take all of its pods at once", deployment)
        spread = pod_spec(deployment)["topologySpreadConstraints"]
        if not spread.elements:
            yield Violation(
                spread.path,
                "is not set: all pods may be on one node of one zone",
                deployment,
                fix="spread over zones and nodes",
            )

    yield from each(stack.of(DEPLOYMENT), check)


def _most_replicas(stack: Stack, deployment: Resource) -> int:
    replicas = int(deployment["spec.replicas"].value or 0)
    return max([replicas, *(int(_bounds(scaler)[1].value or 0) for scaler in _scalers(stack, deployment))])


def _scalers(stack: Stack, deployment: Resource) -> Iterator[Resource]:
    for scaler in stack.of(SCALED_OBJECT, HPA):
        target = scaler["spec.scaleTargetRef"]
        kind = target["kind"].value or "Deployment"
        same = (kind, target["name"].value) == ("Deployment", object_name(deployment))
        if same and namespace_of(scaler) == namespace_of(deployment):
            yield scaler


def _bounds(scaler: Resource) -> tuple[Property, Property]:
    keda = scaler.type == SCALED_OBJECT
    spec = scaler["spec"]
    return spec["minReplicaCount" if keda else "minReplicas"], spec["maxReplicaCount" if keda else "maxReplicas"]


def _scaling(scaler: Resource, settings: Settings) -> Iterator[Finding]:
    fewest, most = _bounds(scaler)
    target = str(scaler["spec.scaleTargetRef.name"].value)
    cap = settings["maxReplicas"]
    if not most.given:
        yield Violation(most.path, "is not set: KEDA takes 100", fix="set it")
    elif int(most.value) > cap:
        yield Violation(
            most.path, f"is {most.value}, more than {cap}", fix="lower it, or raise `maxReplicas` of this policy"
        )
    if target in settings["alwaysOn"]:
        least = settings["minReplicas"]
        low = int(fewest.value or 0)
        if low < least:
            yield Violation(
                fewest.path,
                f"is {low}, less than {least}: one pod less and customers wait",
                fix=f"set it to {least} or more",
            )


def _fallback(scaler: Resource, settings: Settings) -> Iterator[Finding]:
    kinds = [one["type"].value for one in scaler["spec.triggers"].elements]
    if "prometheus" in kinds and not scaler["spec.fallback"].given:
        yield Violation(
            "spec.fallback", "is not set: when Prometheus is down, nothing is scaled and nobody notices", fix="set it"
        )
    for one in scaler["spec.triggers"].elements:
        if one["type"].value in ("cpu", "memory"):
            yield Violation(
                one["type"].path,
                f"is {one['type'].value}: a GPU server that is overloaded has an idle CPU",
                fix="scale by queue and busy instances",
            )


def _owner(stack: Stack, settings: Settings) -> Iterator[Finding]:
    def check(deployment: Resource) -> Iterator[Finding]:
        scalers = list(_scalers(stack, deployment))
        if scalers and _asks_for_replicas(deployment):
            yield Violation(
                "spec.replicas",
                f"is set, and {scalers[0].name} scales it: every `up` undoes the scaling",
                deployment,
                fix="leave it out",
            )
        if len(scalers) > 1:
            names = ", ".join(sorted(one.name for one in scalers))
            yield Violation("", f"is scaled by {names}: they undo each other's work", deployment, fix="keep one of them")

    yield from each(stack.of(DEPLOYMENT), check)


def _asks_for_replicas(deployment: Resource) -> bool:
    """Return whether the program sets the replicas. A live object always has a number, by default or from a scaler.

    After a scaler was added, the inputs still have the old number and the program ignores changes of it.
    """
    if "spec.replicas" in deployment.ignored:
        return False
    if deployment.inputs is not None:
        return deployment.inputs.at("spec.replicas").given
    live = deployment["metadata.uid"].given
    return deployment["spec.replicas"].given and not live


def _scraped(stack: Stack, settings: Settings) -> Iterator[Finding]:
    if not settings["required"]:
        return

    def check(deployment: Resource) -> Iterator[Finding]:
        if not list(_tritons(deployment)):
            return
        namespace, labels = namespace_of(deployment), pod_labels(deployment)
        for monitor in stack.of(*MONITORS):
            names = monitor["spec.namespaceSelector.matchNames"].value or [namespace_of(monitor)]
            if namespace in names and selects(monitor["spec.selector"], labels):
                return
        yield Violation("", "has no PodMonitor or ServiceMonitor: no alert will ever be about it", deployment)

    yield from each(stack.of(DEPLOYMENT), check)


def _service(service: Resource, settings: Settings) -> Iterator[Finding]:
    spec = service["spec"]
    kind = spec["type"]
    if kind.value == "NodePort":
        yield Violation(kind.path, "is NodePort: every node has the port open", fix="use ClusterIP")
    if kind.value == "LoadBalancer":
        scheme = service["metadata.annotations"]["service.beta.kubernetes.io/aws-load-balancer-scheme"]
        yield from require(
            scheme,
            lambda value: value == "internal",
            "is {value}: the load balancer is on the internet",
            fix="set it to internal",
        )
        ranges = spec["loadBalancerSourceRanges"]
        if not ranges.elements:
            yield Violation(
                ranges.path, "is not set: every network that reaches the load balancer may use it", fix="name those that may"
            )


POLICIES: tuple[Policy, ...] = (
    ResourcePolicy(
        id="triton-probes",
        says="Triton is asked whether it has started, is ready and lives, and shows its metrics.",
        severity="high",
        controls=(),
        fix="see charts/triton",
        types=(DEPLOYMENT,),
        judge=_probes,
    ),
    ResourcePolicy(
        id="triton-drain",
        says="Triton gets the time that its requests need to end.",
        severity="high",
        controls=(),
        fix="raise terminationGracePeriodSeconds",
        types=(DEPLOYMENT,),
        judge=_grace,
    ),
    ResourcePolicy(
        id="triton-release",
        says="Triton serves one immutable release, and loads nothing by itself.",
        severity="high",
        controls=(),
        fix="name a release of the model bucket",
        types=(DEPLOYMENT,),
        judge=_models,
    ),
    ResourcePolicy(
        id="release-signed",
        says="Triton gets a release that a signer of the stack has signed, or none.",
        severity="high",
        controls=(),
        fix="list who signs releases in models.signers, and sign with `modelctl release --sign`",
        settings={"required": switch("whether signatures are required", True, local=False, dev=False, staging=False)},
        types=(DEPLOYMENT,),
        judge=_signed,
    ),
    StackPolicy(
        id="triton-disruption",
        says="More than one Triton is never all in one place, nor all drained at once.",
        severity="high",
        controls=(),
        fix="make a PodDisruptionBudget that selects its pods",
        judge=_spread,
    ),
    StackPolicy(
        id="triton-scraped",
        says="Prometheus reads Triton's metrics where customers depend on it.",
        severity="medium",
        controls=(),
        fix="make a PodMonitor that selects its pods",
        settings={"required": switch("whether a monitor has to be there", True, local=False, dev=False)},
        judge=_scraped,
    ),
    ResourcePolicy(
        id="scaling-bounds",
        says="Autoscaling has bounds: a largest size that can be paid for, a smallest that can fail once.",
        severity="high",
        controls=(),
        fix="set the bounds",
        settings={
            "maxReplicas": number("replicas that an autoscaler may ask for", 20, local=4, dev=8, staging=8),
            "minReplicas": number("replicas that are always there of what customers wait for", 2, local=1, dev=1),
            "alwaysOn": strings("names of the workloads that customers wait for", ["triton", "triton-blue", "triton-green"]),
        },
        types=(SCALED_OBJECT, HPA),
        judge=_scaling,
    ),
    ResourcePolicy(
        id="scaling-signal",
        says="Scaling goes by queue and work, and knows what to do when nobody can measure them.",
        severity="medium",
        controls=(),
        fix="see docs/autoscaling.md",
        types=(SCALED_OBJECT,),
        judge=_fallback,
    ),
    StackPolicy(
        id="scaling-one-owner",
        says="The number of replicas of a workload has one owner.",
        severity="high",
        controls=(),
        fix="leave one",
        judge=_owner,
    ),
    ResourcePolicy(
        id="service-not-public",
        says="No Service is on the internet or on every node; load balancers name who may use them.",
        severity="high",
        controls=("CIS EKS 5.4.5",),
        fix="go through the gateway",
        types=("kubernetes:core/v1:Service",),
        judge=_service,
    ),
)
