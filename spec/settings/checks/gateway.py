"""The gateway: private unless somebody says for whom it is not, encrypted, and canaries that can be had."""

from collections.abc import Iterator

from spec.names import TRITON_SERVICE
from spec.settings.checks.subject import Check, Subject
from spec.settings.gateway import Canary
from spec.settings.problem import Problem

_UNENCRYPTED_STACKS = ("local", "dev")
_WIDEST_PREFIX = 8


def _public_is_for_somebody(subject: Subject) -> Iterator[Problem]:
    gateway = subject.document.gateway
    if gateway is None:
        return
    if gateway.exposure == "public" and not gateway.allowed_cidrs:
        yield Problem(
            "gateway.allowedCidrs",
            "a public gateway without a list is open to the world, and Triton asks nobody who they are; "
            "list the ranges that may reach it",
        )
    for index, cidr in enumerate(gateway.allowed_cidrs):
        if cidr.prefixlen < _WIDEST_PREFIX:
            yield Problem(
                f"gateway.allowedCidrs[{index}]",
                f"{cidr} is the world, and Triton asks nobody who they are; list ranges of /{_WIDEST_PREFIX} or narrower",
            )


def _tls_ends_in_one_place(subject: Subject) -> Iterator[Problem]:
    gateway = subject.document.gateway
    if gateway is None:
        return
    if gateway.certificate_arn is not None and gateway.tls_secret is not None:
        yield Problem(
            "gateway.tlsSecret",
            "TLS ends at the load balancer (certificateArn) or in Envoy (tlsSecret), not in both; remove one",
        )
    none = gateway.certificate_arn is None and gateway.tls_secret is None
    if none and (subject.stack not in _UNENCRYPTED_STACKS or gateway.exposure == "public"):
        yield Problem(
            "gateway.certificateArn",
            "is missing; give the ARN of a certificate of ACM, or the Secret that Envoy takes its own from (tlsSecret)",
        )


def _certificate_is_of_the_region(subject: Subject) -> Iterator[Problem]:
    gateway = subject.document.gateway
    if gateway is None or gateway.certificate_arn is None:
        return
    region = gateway.certificate_arn.split(":")[3]
    if region != subject.document.region:
        yield Problem(
            "gateway.certificateArn",
            f"it is in {region} and the stack in {subject.document.region}; give one of the same region",
        )


def _canaries_can_be_had(subject: Subject) -> Iterator[Problem]:
    gateway = subject.document.gateway
    for model, canary in (gateway.canaries if gateway is not None else {}).items():
        for key, why in _wrong_with(subject, model, canary):
            yield Problem(f"gateway.canaries.{model}{key}", why)


def _wrong_with(subject: Subject, model: str, canary: Canary) -> Iterator[tuple[str, str]]:
    """Key and sentence of everything that is wrong with one canary."""
    if (canary.version is None) == (canary.service is None):
        yield "", "give either a version of the model or a service, one of them"
    if canary.service == TRITON_SERVICE:
        yield ".service", f"{TRITON_SERVICE} is where all requests go; name another one"
    release, serving = subject.document.models.release, subject.document.models.serving
    served = release.others.get(model, ()) if release is not None else ()
    if canary.version is not None and canary.version not in served and subject.document.triton.rollout != "in-place":
        yield (
            ".version",
            f"the pods do not serve version {canary.version} beside the one that requests go to (models.release.others); "
            "use rollout: in-place, or give a service",
        )
    if release is not None and model not in release.models:
        yield "", f"the release has no model {model}; it has {', '.join(sorted(release.models))}"
    elif release is not None and canary.version == release.models[model]:
        yield ".version", f"{canary.version} is the version that all requests go to; give another one"
    if model in serving and serving[model].sequence is not None:
        yield "", "the requests of a sequence belong to one server, and a canary would tear them apart; remove it"


def _survives_a_pod(subject: Subject) -> Iterator[Problem]:
    gateway = subject.document.gateway
    if subject.stack == "prod" and gateway is not None and gateway.replicas < 2:
        yield Problem(
            "gateway.replicas",
            "prod invariant 'two gateways': 1 pod is an outage at every restart; use 2 or more",
        )


def _every_route_has_a_rate(subject: Subject) -> Iterator[Problem]:
    """A model without an entry takes the least rate of the others, for it may be an ensemble of them."""
    document = subject.document
    if document.gateway is None or document.models.release is None or document.models.serving:
        return
    yield Problem(
        "models.serving",
        "without an entry for any model, and so without a peakRate, the gateway lets every request through, with the "
        "longest timeout; give each model that computes one",
    )


CHECKS: tuple[Check, ...] = (
    _public_is_for_somebody,
    _tls_ends_in_one_place,
    _certificate_is_of_the_region,
    _canaries_can_be_had,
    _survives_a_pod,
)
WARNINGS: tuple[Check, ...] = (_every_route_has_a_rate,)
