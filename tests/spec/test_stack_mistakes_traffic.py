"""Mistakes in the sections `gateway` and `tracing`, and their messages."""

from __future__ import annotations

from typing import Any

import pytest

from spec.settings.chart_values import PodValues
from tests.spec.stack_config import complaints, settings

CERTIFICATE = "arn:aws:acm:us-west-2:123456789012:certificate/01234567-89ab-cdef-0123-456789abcdef"
ELSEWHERE = CERTIFICATE.replace("us-west-2", "eu-central-1")
GATEWAY: dict[str, Any] = {"replicas": 2, "cpu": "1", "memoryMiB": 512, "certificateArn": CERTIFICATE}
PLAIN = {key: value for key, value in GATEWAY.items() if key != "certificateArn"}
MODEL = {"device": "cpu", "sloP95Ms": 50, "expectedRate": 10, "peakRate": 20}


def test_a_stack_has_neither_unless_it_says_so() -> None:
    read = settings()
    assert (read.gateway, read.tracing) == (None, None)


def test_a_gateway_is_internal_and_a_trace_one_of_a_hundred_by_default() -> None:
    read = settings({"gateway": GATEWAY, "tracing": {"exporter": "xray"}})
    assert read.gateway is not None
    assert (read.gateway.exposure, read.gateway.allowed_cidrs) == ("internal", ())
    assert read.tracing is not None
    assert (read.tracing.keep_percent, read.tracing.endpoint) == (5, None)


@pytest.mark.parametrize(
    "changes",
    [
        {"gateway": {**PLAIN, "tlsSecret": "inference-tls"}},
        {"gateway": {**GATEWAY, "exposure": "public", "allowedCidrs": ["203.0.113.0/24"]}},
        {"gateway": {**GATEWAY, "allowedCidrs": ["10.0.0.0/8"]}},
        {"tracing": {"exporter": "otlp", "endpoint": "https://otlp.example.com:4318", "keepPercent": 0}},
    ],
    ids=str,
)
def test_these_are_accepted(changes: dict[str, Any]) -> None:
    settings(changes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"gateway": {**GATEWAY, "exposure": "public"}},
            "gateway.allowedCidrs: a public gateway without a list is open to the world, and Triton asks nobody who they "
            "are; list the ranges that may reach it",
        ),
        (
            {"gateway": {**GATEWAY, "exposure": "public", "allowedCidrs": ["203.0.113.0/24", "0.0.0.0/0"]}},
            "gateway.allowedCidrs[1]: 0.0.0.0/0 is the world, and Triton asks nobody who they are; list ranges of /8 or "
            "narrower",
        ),
        (
            {"gateway": {**GATEWAY, "imageRegistry": "https://registry.example.com/hub/"}},
            "gateway.imageRegistry: 'https://registry.example.com/hub/' is not a registry with lower-case names, without a "
            "scheme and without a slash at its end; give one like 123456789012.dkr.ecr.us-west-2.amazonaws.com/docker-hub",
        ),
        (
            {"gateway": {**GATEWAY, "tlsSecret": "inference-tls"}},
            "gateway.tlsSecret: TLS ends at the load balancer (certificateArn) or in Envoy (tlsSecret), not in both; "
            "remove one",
        ),
        (
            {"gateway": PLAIN},
            "gateway.certificateArn: is missing; give the ARN of a certificate of ACM, a domain that gets one, or the "
            "Secret that Envoy takes its own from (tlsSecret)",
        ),
        (
            {"gateway": {**GATEWAY, "certificateArn": ELSEWHERE}},
            "gateway.certificateArn: it is in eu-central-1 and the stack in us-west-2; give one of the same region",
        ),
        (
            {"gateway": {**GATEWAY, "certificateArn": "inference"}},
            "gateway.certificateArn: 'inference' is not the ARN of a certificate of ACM; give the ARN of a certificate, "
            "like arn:aws:acm:us-west-2:123456789012:certificate/<its id>",
        ),
        (
            {"gateway": {**PLAIN, "tlsSecret": "Inference"}},
            "gateway.tlsSecret: 'Inference' is not the name of an object in Kubernetes; use up to 63 lower-case letters, "
            "digits and hyphens, a letter first",
        ),
        (
            {"tracing": {"exporter": "otlp"}},
            "tracing.endpoint: is missing; exporter otlp needs one, like https://otlp.example.com:4318",
        ),
        (
            {"tracing": {"exporter": "xray", "endpoint": "https://otlp.example.com:4318"}},
            "tracing.endpoint: is of exporter otlp and exporter is xray; remove it, or use exporter: otlp",
        ),
        (
            {"tracing": {"exporter": "otlp", "endpoint": "http://otlp.example.com:4318"}},
            "tracing.endpoint: http://otlp.example.com:4318 is not encrypted; use https in staging",
        ),
        (
            {"tracing": {"exporter": "otlp", "endpoint": "https://otlp.example.com/?token=x"}},
            "tracing.endpoint: 'https://otlp.example.com/?token=x' is not an OTLP endpoint; give one like "
            "https://otlp.example.com:4318",
        ),
        (
            {"tracing": {"exporter": "jaeger"}},
            "tracing.exporter: 'jaeger' is not a choice; use xray or otlp",
        ),
    ],
)
def test_a_mistake_is_said_in_a_sentence(changes: dict[str, Any], said: str) -> None:
    assert complaints(changes) == [said]


def test_a_gateway_without_any_rate_is_warned_of() -> None:
    released = {"models.release.models": {"resnet50": 1}}
    found = settings({"gateway": GATEWAY, **released}).warnings
    assert [str(problem) for problem in found if problem.path == "models.serving"] == [
        "models.serving: without an entry for any model, and so without a peakRate, the gateway lets every request through, "
        "with the longest timeout; give each model that computes one"
    ]
    assert [problem for problem in settings(released).warnings if problem.path == "models.serving"] == []


def test_traces_of_failures_need_the_gateway() -> None:
    tracing = {"exporter": "xray", "keepPercent": 5}
    assert [str(problem) for problem in settings({"tracing": tracing}).warnings] == [
        "tracing: without the gateway no span says that a model failed, so that only 5 % of such traces are kept; add the "
        "section gateway, or keepPercent: 100"
    ]
    for enough in ({"tracing": tracing, "gateway": GATEWAY}, {"tracing": {**tracing, "keepPercent": 100}}):
        assert [problem for problem in settings(enough).warnings if problem.path == "tracing"] == []


def test_no_request_is_longer_than_a_load_balancer_waits_for_a_target() -> None:
    """Queue, SLO and stream, and the minute for new connections: 600 + 600 + 2340 + 60 s are 3600."""
    slow = {**MODEL, "sloP95Ms": 600_000, "decoupled": True}

    def told(seconds: int, **changes: Any) -> list[str]:
        wants = {"resnet50": {**slow, "longestStreamSeconds": seconds}}
        found = complaints({"gateway": GATEWAY, "models.serving": wants, **changes})
        return [line for line in found if "longestStreamSeconds" in line]

    assert told(2340) == []
    assert told(2341) == [
        "models.serving.resnet50.longestStreamSeconds: with queue and SLO a request takes 3541 s: an Envoy that ends waits "
        "for it and 60 s more, and a load balancer for a target at most 3600 s; give 2340 or less"
    ]
    assert told(2341, gateway=None) == []


def test_nor_does_a_pod_wait_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    where = "spec.settings.relations.gateway.values_of"
    monkeypatch.setattr(where, lambda _: PodValues(longest_request=3540))
    settings({"gateway": GATEWAY})
    monkeypatch.setattr(where, lambda _: PodValues(longest_request=3541))
    settings()
    assert complaints({"gateway": GATEWAY}) == [
        "gateway: drain.longestRequestSeconds of helm-values/triton is 3541 s: an Envoy that ends waits for it and 60 s "
        "more, and a load balancer for a target at most 3600 s; give 3540 or less there"
    ]


def test_prod_has_two_gateways() -> None:
    found = complaints({"gateway": {**GATEWAY, "replicas": 1}}, "prod")
    assert [line for line in found if line.startswith("gateway")] == [
        "gateway.replicas: prod invariant 'two gateways': 1 pod is an outage at every restart; use 2 or more"
    ]
