"""Restrictions of the OpenAI-compatible front end (`triton.openai`).

The front end is another program. Of this platform's settings it passes only the model repository to the server:
https://github.com/triton-inference-server/server/blob/v2.71.0/python/openai/openai_frontend/main.py#L247-L270.
"""

from collections.abc import Iterator

from spec.problem import Problem
from spec.settings.chart_values import values_of
from spec.settings.relations.subject import Subject
from spec.settings.rule import rule
from spec.wording import one_of

_OTHERWISE = "or remove triton.openai"


@rule
def _it_serves_language_models(subject: Subject) -> Iterator[Problem]:
    """Require llm for every model. The front end derives a model's tensors from its backend, vllm or tensorrtllm."""
    if subject.document.triton.openai is None:
        return
    serving = subject.document.models.serving
    if not serving:
        yield Problem("triton.openai", f"models.serving has no language model; give one with llm, {_OTHERWISE}")
    for name, model in serving.items():
        path = f"models.serving.{name}"
        if model.llm is None:
            why = "is missing, and triton.openai serves language models alone"
            yield Problem(f"{path}.llm", f"{why}; add it, {_OTHERWISE}")
        if model.latency_histogram:
            yield Problem(
                f"{path}.latencyHistogram", f"the server of triton.openai exports no histograms; give false, {_OTHERWISE}"
            )


@rule
def _its_server_has_few_options(subject: Subject) -> Iterator[Problem]:
    """Refuse options of tritonserver that the front end has no flag for."""
    document = subject.document
    triton = document.triton
    if triton.openai is None:
        return
    if triton.rollout != "rolling":
        yield Problem("triton.rollout", f"{triton.rollout} does not go with triton.openai; use rolling, {_OTHERWISE}")
    if document.fleets is not None:
        yield Problem(
            "fleets", f"a request to /v1 names its model in its body, which leads to no fleet; remove fleets, {_OTHERWISE}"
        )
    if document.tracing is not None:
        yield Problem("tracing", f"the server of triton.openai sends no spans; remove the section, {_OTHERWISE}")
    if triton.response_cache_mib is not None:
        yield Problem(
            "triton.responseCacheMiB", f"the server of triton.openai has no response cache; remove it, {_OTHERWISE}"
        )
    if triton.rate_limiter_resources:
        yield Problem(
            "triton.rateLimiterResources", f"the server of triton.openai has no rate limiter; remove it, {_OTHERWISE}"
        )
    flags = values_of(document).extra_args
    if flags:
        yield Problem(
            "triton.openai",
            f"its server takes no further flags, and helm-values/triton has {one_of(flags)} (server.extraArgs); remove them",
        )


@rule
def _its_clients_may_ask_every_model(subject: Subject) -> Iterator[Problem]:
    """Refuse clients with a list of models. The model's name is in the request body, which Envoy does not read."""
    gateway = subject.document.gateway
    if subject.document.triton.openai is None or gateway is None:
        return
    for name, client in (gateway.clients or {}).items():
        if client.models is not None:
            yield Problem(
                f"gateway.clients.{name}.models",
                f"a request to /v1 names its model in its body, so that {name} could ask each; remove models, {_OTHERWISE}",
            )
