"""Rollouts on two Deployments (`triton.rollout: blue-green`): their requirements and the candidate."""

from collections.abc import Iterator

from spec.problem import Problem
from spec.settings.blue_green import is_blue_green
from spec.settings.chart_values import values_of
from spec.settings.digest import compute_capabilities, digest_of
from spec.settings.relations.fleets import nodes_for_pods
from spec.settings.relations.subject import Subject
from spec.settings.rule import rule

_OTHERWISE = "or use rollout: rolling"


@rule
def _only_blue_green_has_two_deployments(subject: Subject) -> Iterator[Problem]:
    """Refuse a candidate, or a slot other than blue, with another kind of rollout."""
    if is_blue_green(subject.document):
        return
    models, rollout = subject.document.models, subject.document.triton.rollout
    if models.candidate is not None:
        yield Problem(
            "models.candidate",
            f"rollout: {rollout} has one Deployment, where there is no place for it; remove it, or use rollout: blue-green",
        )
    if models.slot != "blue":
        yield Problem(
            "models.slot", f"rollout: {rollout} has one Deployment without a slot; remove it, or use rollout: blue-green"
        )


@rule
def _shares_are_given_by_the_gateway(subject: Subject) -> Iterator[Problem]:
    """Require the gateway with blue-green, because it splits the requests between the two releases."""
    if is_blue_green(subject.document) and subject.document.gateway is None:
        yield Problem(
            "triton.rollout",
            f"blue-green shares the requests of a model by the gateway, and there is none; add it, {_OTHERWISE}",
        )


@rule
def _blue_green_is_of_one_fleet(subject: Subject) -> Iterator[Problem]:
    """Refuse blue-green together with several fleets."""
    if is_blue_green(subject.document) and subject.document.fleets is not None:
        yield Problem("triton.rollout", f"blue-green has two Deployments of all models; remove fleets, {_OTHERWISE}")


@rule
def _a_candidate_has_pods(subject: Subject) -> Iterator[Problem]:
    """Refuse minReplicas 0 with blue-green, because a release without pods cannot be tested."""
    bounds = subject.document.autoscaling
    if is_blue_green(subject.document) and bounds is not None and bounds.min_replicas == 0:
        yield Problem(
            "autoscaling.minReplicas", f"a candidate of blue-green proves itself on its pods; give 1 or more, {_OTHERWISE}"
        )


@rule
def _what_compares_answers_is_of_blue_green(subject: Subject) -> Iterator[Problem]:
    """Refuse comparerImage without blue-green, and mirrorTolerances without comparerImage or for models that stream."""
    document = subject.document
    if document.triton.comparer_image is not None and not is_blue_green(document):
        yield Problem(
            "triton.comparerImage",
            f"rollout: {document.triton.rollout} has no copies of requests whose answers could be compared; remove it, or "
            "use rollout: blue-green",
        )
    candidate = document.models.candidate
    if candidate is None or not candidate.mirror_tolerances:
        return
    if document.triton.comparer_image is None:
        yield Problem(
            "models.candidate.mirrorTolerances",
            "nothing compares answers without triton.comparerImage; give that, or remove this",
        )
    for model in candidate.mirror_tolerances:
        if document.models.is_decoupled(model):
            yield Problem(
                f"models.candidate.mirrorTolerances.{model}",
                "a request of it has any number of answers, and those of streams are not compared; remove the line",
            )


@rule
def _objects_have_one_owner(subject: Subject) -> Iterator[Problem]:
    """Refuse the chart's extraObjects with blue-green, because the charts of both Deployments would own them."""
    objects = values_of(subject.document).extra_objects if is_blue_green(subject.document) else ()
    if objects:
        yield Problem(
            "triton.rollout",
            f"extraObjects of helm-values/triton ({', '.join(objects)}) would be owned by both Deployments of blue-green, "
            f"and go with the first; make them elsewhere in the namespace, {_OTHERWISE}",
        )


@rule
def _two_releases_fit_the_pool(subject: Subject) -> Iterator[Problem]:
    """Require nodes for twice the pods with blue-green. Both releases have all their pods during a trial."""
    if not is_blue_green(subject.document) or not subject.document.triton.gpus:
        return
    pool, nodes = nodes_for_pods(subject)
    grows = subject.document.node_autoscaler != "none"
    room = pool.max if grows else pool.desired
    if nodes <= room < 2 * nodes:  # if a single release does not fit, another rule reports it
        index = subject.document.gpu.pools.index(pool)
        yield Problem(
            f"gpu.pools[{index}].{'max' if grows else 'desired'}",
            f"{room} nodes hold the pods of one release, which fill {nodes}, and rollout: blue-green runs two at a "
            f"time; give {2 * nodes}, {_OTHERWISE}",
        )


@rule
def _candidate_is_made_of_the_same(subject: Subject) -> Iterator[Problem]:
    """Require a candidate and a release that were made from the same models.serving and kind of GPU."""
    models = subject.document.models
    if models.candidate is None or models.release is None or models.candidate.release.serving == models.release.serving:
        return
    # Each release may have derived different instances from the same models.serving.
    of_candidate = models.with_release(models.candidate.release)
    if models.candidate.release.serving != digest_of(of_candidate, compute_capabilities(subject.document)):
        yield Problem(
            "models.candidate.release.serving",
            f"release {models.candidate.release.label} was made from another models.serving, or for other GPUs, than "
            f"{models.release.label}, and the stack has one for both; roll the change of models.serving out by itself "
            "first: "
            f"`python -m modelctl release … --pin stacks/Pulumi.{subject.stack}.yaml`, then `pulumi up`",
        )


@rule
def _pods_are_counted_where_something_scales_them(subject: Subject) -> Iterator[Problem]:
    """Refuse candidate.pods without an autoscaler, or above its maxReplicas."""
    candidate, bounds = subject.document.models.candidate, subject.document.autoscaling
    if candidate is None or candidate.pods is None:
        return
    if bounds is None:
        yield Problem("models.candidate.pods", "triton.replicas says how many pods each release has; remove it")
    elif candidate.pods > bounds.max_replicas:
        yield Problem(
            "models.candidate.pods",
            f"{candidate.pods} are more than autoscaling.maxReplicas, {bounds.max_replicas}; give fewer",
        )
