"""The gateway and the models that it routes."""

from collections.abc import Iterator

from spec.problem import Problem
from spec.settings.chart_values import values_of
from spec.settings.gateway import LONGEST_DEREGISTRATION_SECONDS, TARGET_LEAVES_SECONDS
from spec.settings.relations.subject import Subject
from spec.settings.rule import rule, warning


@rule
def _clients_ask_models_of_the_release(subject: Subject) -> Iterator[Problem]:
    """Require that each model of a client is in the release."""
    gateway, release = subject.document.gateway, subject.document.models.release
    if gateway is None or release is None:
        return
    for name, client in (gateway.clients or {}).items():
        for index, model in enumerate(client.models or ()):
            if model not in release.models:
                yield Problem(
                    f"gateway.clients.{name}.models[{index}]",
                    f"the release has no model {model}; it has {', '.join(sorted(release.models))}",
                )


@rule
def _public_in_prod_is_for_clients(subject: Subject) -> Iterator[Problem]:
    """Require clients for a public gateway in prod, because an IP address does not identify a client."""
    gateway = subject.document.gateway
    if subject.environment == "prod" and gateway is not None and gateway.exposure == "public" and gateway.clients is None:
        yield Problem(
            "gateway.clients",
            "prod invariant 'clients are known': whoever sends from an address of allowedCidrs may ask every model; "
            "say who may ask (docs/access.md), or use exposure: internal",
        )


@rule
def _envoys_can_wait_for_requests(subject: Subject) -> Iterator[Problem]:
    """Refuse requests through a gateway that are longer than a load balancer's wait for a draining target
    (docs/traffic.md#when-a-pod-ends)."""
    document = subject.document
    if document.gateway is None:
        return
    most = LONGEST_DEREGISTRATION_SECONDS - TARGET_LEAVES_SECONDS
    why = (
        f"an Envoy that ends waits for it and {TARGET_LEAVES_SECONDS} s more, and a load balancer for a target at most "
        f"{LONGEST_DEREGISTRATION_SECONDS} s"
    )
    given = values_of(document).longest_request
    if given > most:
        yield Problem(
            "gateway",
            f"drain.longestRequestSeconds of helm-values/triton is {given} s: {why}; give {most} or less there",
        )
    for name, model in document.models.serving.items():
        stream, longest = model.longest_stream_seconds, model.longest_request_seconds
        if stream is not None and longest > most:
            yield Problem(
                f"models.serving.{name}.longestStreamSeconds",
                f"with queue and SLO a request takes {longest} s: {why}; give {most - (longest - stream)} or less",
            )


@warning
def _public_is_for_clients(subject: Subject) -> Iterator[Problem]:
    """Warn of a public gateway without clients outside prod."""
    gateway = subject.document.gateway
    if subject.environment != "prod" and gateway is not None and gateway.exposure == "public" and gateway.clients is None:
        yield Problem(
            "gateway.clients",
            "is not given, so that whoever sends from an address of allowedCidrs may ask every model; say who may ask "
            "(docs/access.md)",
        )


@warning
def _every_route_has_a_rate(subject: Subject) -> Iterator[Problem]:
    """Warn that without models.serving the gateway limits no rate.

    A model without an entry gets the lowest rate of the others, because it may be an ensemble of them.
    """
    document = subject.document
    if document.gateway is None or document.models.release is None or document.models.serving:
        return
    yield Problem(
        "models.serving",
        "without an entry for any model, and so without a peakRate, the gateway lets every request through, with the "
        "longest timeout; give each model that computes one",
    )
