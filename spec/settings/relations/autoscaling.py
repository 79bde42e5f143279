"""The owner of the number of Triton pods, and its requirements of other sections."""

from collections.abc import Iterator

from spec.problem import Problem
from spec.settings.fields import cpu_millis
from spec.settings.relations.subject import Subject, of_each_fleet, pool_of
from spec.settings.relations.triton import instances_per_pod
from spec.settings.rule import rule, warning
from spec.wording import did_you_mean, one_of

MOST_REQUESTS_PER_VCPU = 20_000
"""The assumed maximum of requests per second on a vCPU: 50 µs each for protocol, queue and metrics."""
_OWNERS = {"keda": "KEDA", "hpa": "the HorizontalPodAutoscaler"}


@rule
@of_each_fleet
def _one_owner(subject: Subject) -> Iterator[Problem]:
    """Require triton.replicas if Triton's pods are not scaled, and the section autoscaling if they are."""
    triton, autoscaling = subject.document.triton, subject.document.autoscaling
    autoscaler = subject.document.pod_autoscaler
    if autoscaler == "none":
        if triton.replicas is None:
            yield Problem(
                "triton.replicas",
                "is missing; nobody else sets the number of pods while autoscaler is none; "
                "give it, or the section autoscaling, within whose bounds KEDA sets it",
            )
        if autoscaling is not None:
            yield Problem(
                "autoscaling", "nothing reads it while triton.autoscaler is none; remove it, or use autoscaler: keda or hpa"
            )
        return
    owner = _OWNERS[autoscaler]
    if triton.replicas is not None:
        yield Problem(
            "triton.replicas",
            f"{owner} owns the number of pods, and every `pulumi up` would reset it; "
            "remove it, and give autoscaling.minReplicas and maxReplicas",
        )
    if autoscaling is None:
        yield Problem("autoscaling", f"is missing; {owner} needs it: give minReplicas and maxReplicas")


@rule
@of_each_fleet
def _hpa_has_no_extras(subject: Subject) -> Iterator[Problem]:
    """Refuse cronFloor and sparePods with a HorizontalPodAutoscaler, which supports neither."""
    bounds = subject.document.autoscaling
    if bounds is None or subject.document.pod_autoscaler != "hpa":
        return
    if bounds.cron_floor is not None:
        yield Problem("autoscaling.cronFloor", "a HorizontalPodAutoscaler knows no time of day; remove it, or use KEDA")
    if bounds.spare_pods:
        yield Problem(
            "autoscaling.sparePods",
            "a HorizontalPodAutoscaler adds nothing to what its pods have on average; remove it, or use KEDA",
        )


@rule
@of_each_fleet
def _something_starts_the_first_pod(subject: Subject) -> Iterator[Problem]:
    """Refuse minReplicas 0 without KEDA or without requests that KEDA can see. Only KEDA starts a first pod."""
    document = subject.document
    if document.autoscaling is None or document.autoscaling.min_replicas > 0:
        return
    if document.pod_autoscaler == "hpa":
        yield Problem(
            "autoscaling.minReplicas", "a HorizontalPodAutoscaler never starts a first pod; give 1 or more, or use KEDA"
        )
    if document.worker is None and not document.woken_at_gateway:
        yield Problem(
            "autoscaling.minReplicas",
            "nothing would start the first pod of 0: a message in the request queue does, and a request at a gateway whose "
            "Envoys Prometheus watches; give 1 or more, or add the section worker, or the sections gateway and monitoring",
        )


@warning
@of_each_fleet
def _the_gateway_finds_no_pod(subject: Subject) -> Iterator[Problem]:
    """Warn of a gateway whose requests find no pod and start none."""
    document, bounds = subject.document, subject.document.autoscaling
    if bounds is not None and bounds.min_replicas == 0 and document.gateway is not None and not document.woken_at_gateway:
        yield Problem(
            "autoscaling.minReplicas",
            "is 0: while there is no pod the gateway answers 503, and without the section monitoring its requests start "
            "none, which messages in the request queue alone do; add that section, or give 1 or more where clients ask "
            "through the gateway",
        )


@warning
def _one_request_wakes_all(subject: Subject) -> Iterator[Problem]:
    """Warn of several fleets without pods, because Envoy counts their unserved requests for all routes together."""
    woken = [fleet for fleet in subject.document.each_fleet if fleet.stack.woken_at_gateway]
    if len(woken) > 1:
        yield Problem(
            "fleets",
            f"{', '.join(str(fleet.name) for fleet in woken)} may have no pod, and a request at the gateway that finds none "
            "starts the first pod of each of them: Envoy does not count them by fleet; give autoscaling.minReplicas 1 to "
            "a fleet that must not start for the others' requests",
        )


@rule
@of_each_fleet
def _models_give_a_signal(subject: Subject) -> Iterator[Problem]:
    """Require models.serving if pods are scaled, because only models with an entry have a scaling target.

    An ensemble has no target; its steps are counted instead.
    """
    models = subject.document.models
    if subject.document.pod_autoscaler == "none":
        return
    if not models.serving:
        yield Problem(
            "models.serving",
            "is empty, so that nothing says what a pod can carry; add the models that Triton is scaled on",
        )
    elif all(name in models.ensembles for name in models.serving):
        steps = dict.fromkeys(step for name in models.serving for step in models.ensembles[name])
        yield Problem(
            "models.serving",
            f"has ensembles alone ({', '.join(sorted(models.serving))}), and it is their steps that pods are scaled on; "
            f"add one at least of {', '.join(steps)}",
        )


@rule
@of_each_fleet
def _somebody_measures(subject: Subject) -> Iterator[Problem]:
    """Require the section monitoring or autoscaling.prometheusUrl if pods are scaled."""
    bounds = subject.document.autoscaling
    if bounds is not None and bounds.prometheus_url is None and subject.document.monitoring is None:
        yield Problem(
            "autoscaling.prometheusUrl",
            "is missing; without the section monitoring there is no Prometheus to ask: add it, or give the URL of your own",
        )


@rule
def _targets_are_of_models(subject: Subject) -> Iterator[Problem]:
    """Require targets only for models of models.serving."""
    bounds, models = subject.document.autoscaling, sorted(subject.document.models.serving)
    for name in bounds.targets if bounds is not None else ():
        if models and name not in models:
            yield Problem(
                f"autoscaling.targets.{name}",
                f"models.serving has no '{name}'; {did_you_mean(name, models)}use {one_of(models)}",
            )
        elif name in subject.document.models.ensembles:
            steps = ", ".join(subject.document.models.ensembles[name])
            yield Problem(
                f"autoscaling.targets.{name}",
                f"is an ensemble, and pods are scaled on its steps; give targets of those ({steps}), or remove it",
            )


@rule
@of_each_fleet
def _targets_can_be_reached(subject: Subject) -> Iterator[Problem]:
    """Require targets that a pod can reach: at most as many busy instances as it has, and no rate for a language model."""
    bounds, serving = subject.document.autoscaling, subject.document.models.serving
    for name, target in bounds.targets.items() if bounds is not None else ():
        if name not in serving:
            continue
        if target.rate is not None and serving[name].llm is not None:
            yield Problem(
                f"autoscaling.targets.{name}.rate",
                "requests of a language model take as long as their answers are; remove it, or give busy, its streams",
            )
        if target.busy is None:
            continue
        model = serving[name]
        instances = instances_per_pod(subject.document, name, model)
        if model.llm is not None:
            instances = model.llm.concurrent_streams
        if target.busy > instances:
            yield Problem(
                f"autoscaling.targets.{name}.busy",
                f"{target.busy:g} instances are never busy in a pod that has {instances}; give up to {instances}, "
                f"like {0.7 * instances:g}",
            )


@rule
def _rates_can_be_reached(subject: Subject) -> Iterator[Problem]:
    """Require peak rates that all pods together can process, by the server's own work per request."""
    fleets = subject.document.each_fleet
    for name, model in subject.document.models.serving.items():
        asked = [fleet.stack for fleet in fleets if fleet.serves(name) and fleet.weight(name)]
        found = [one.autoscaling.max_replicas if one.autoscaling is not None else one.triton.replicas for one in asked]
        pods = [count for count in found if count is not None]
        if not pods or len(pods) < len(found):
            continue
        millis = sum(count * cpu_millis(one.triton.cpu) for count, one in zip(pods, asked, strict=True))
        most = millis * MOST_REQUESTS_PER_VCPU // 1000
        if model.peak_rate > most:
            cpus = one_of(dict.fromkeys(one.triton.cpu for one in asked))
            yield Problem(
                f"models.serving.{name}.peakRate",
                f"{model.peak_rate:g} requests a second are more than {sum(pods)} pod{'s' if sum(pods) > 1 else ''} of "
                f"{cpus} vCPUs answer, whatever the model ({MOST_REQUESTS_PER_VCPU} for a vCPU); "
                f"give up to {most}, or more or larger pods",
            )


@rule
@of_each_fleet
def _warm_pods_hold_nodes(subject: Subject) -> Iterator[Problem]:
    """Refuse warmPods without a node autoscaler."""
    bounds = subject.document.autoscaling
    if bounds is not None and bounds.warm_pods and subject.document.node_autoscaler == "none":
        yield Problem(
            "autoscaling.warmPods",
            "nothing starts nodes for them while nodes.autoscaler is none; use 0, or karpenter or cluster-autoscaler",
        )


@warning
@of_each_fleet
def _sharing_adds_no_capacity(subject: Subject) -> Iterator[Problem]:
    """Warn of autoscaling on shared GPUs, because a second pod adds no capacity there."""
    if subject.document.pod_autoscaler == "none":
        return
    pool, _ = pool_of(subject)
    if pool.sharing.strategy in ("time-slicing", "mps"):
        yield Problem(
            "triton.autoscaler",
            f"{pool.sharing.replicas} pods share a GPU of pool '{pool.name}' by {pool.sharing.strategy}: a second pod on "
            "the same GPU adds no capacity, and the autoscaler counts it as one; use a pool with sharing: exclusive",
        )
