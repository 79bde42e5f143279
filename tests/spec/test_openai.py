"""The OpenAI-compatible front end in a stack file: valid combinations, and every mistake."""

from __future__ import annotations

from typing import Any

import pytest

from spec.settings import chart_values, serving_digest
from tests.spec.stack_config import complaints, settings
from tests.spec.test_stack_mistakes_serving import GPU, LLM

TOKENIZER = "meta-llama/Meta-Llama-3.1-8B-Instruct"
CHAT = {**GPU, "gpuMemoryMiB": 20_000, "decoupled": True, "latencyHistogram": False, "llm": LLM}
OPENAI: dict[str, Any] = {
    "models.release": None,
    "models.serving": {"chat": CHAT},
    "triton.openai": {"tokenizer": TOKENIZER},
    "triton.version": "26.07",
}
RELEASE = {
    "id": "3f2a9c1b7d04" + 52 * "0",
    "bytes": 123456,
    "models": {"chat": 1},
    "serving": serving_digest(settings(OPENAI)),
}
GATEWAY = {
    "replicas": 2,
    "cpu": "1",
    "memoryMiB": 512,
    "certificateArn": "arn:aws:acm:us-west-2:123456789012:certificate/01234567-89ab-cdef-0123-456789abcdef",
}
OTHERWISE = "or remove triton.openai"


@pytest.mark.parametrize("tokenizer", [TOKENIZER, "gpt2", "/models/current/chat/1/weights"])
def test_a_tokenizer_is_a_name_on_a_hub_or_a_directory(tokenizer: str) -> None:
    openai = settings({**OPENAI, "triton.openai": {"tokenizer": tokenizer}}).triton.openai
    assert openai is not None
    assert openai.tokenizer == tokenizer
    assert settings().triton.openai is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"triton.openai": {}}, "triton.openai.tokenizer: is missing; give the tokenizer whose template makes a prompt"),
        (
            {"triton.openai": {"tokenizer": "weights/../x"}},
            "triton.openai.tokenizer: 'weights/../x' is neither a name on a hub",
        ),
        ({"triton.openai": {"tokenizer": "./weights"}}, "triton.openai.tokenizer: './weights' is neither a name on a hub"),
        ({"triton.openai": {"tokenizer": "team/é"}}, "triton.openai.tokenizer: 'team/é' is neither a name on a hub"),
        ({"triton.openai": {"tokenizer": "/x/.."}}, "triton.openai.tokenizer: '/x/..' is neither a name on a hub"),
        (
            {"triton.openai": {"tokenizer": TOKENIZER, "port": 1}},
            "triton.openai.port: unknown key; the keys here are tokenizer",
        ),
        ({"triton.openai": True}, "triton.openai: true is a truth value; give a mapping of keys to values"),
        (
            {"models.serving": {}},
            f"triton.openai: models.serving has no language model; give one with llm, {OTHERWISE}",
        ),
        (
            {"models.serving": {"chat": CHAT, "plain": {**CHAT, "gpuMemoryMiB": 900, "llm": None}}},
            "models.serving.plain.llm: is missing, and triton.openai serves language models alone; add it, " + OTHERWISE,
        ),
        (
            {"models.serving": {"chat": {**CHAT, "latencyHistogram": True}}},
            "models.serving.chat.latencyHistogram: the server of triton.openai exports no histograms; give false, "
            + OTHERWISE,
        ),
        (
            {"triton.rollout": "in-place"},
            f"triton.rollout: in-place does not go with triton.openai; use rolling, {OTHERWISE}",
        ),
        (
            {
                "models.serving": {"chat": {**CHAT, "decoupled": False, "responseCache": True}},
                "triton.responseCacheMiB": 64,
            },
            f"triton.responseCacheMiB: the server of triton.openai has no response cache; remove it, {OTHERWISE}",
        ),
        (
            {
                "models.serving": {"chat": {**CHAT, "rateLimiter": {"resources": {"slots": 1}}}},
                "triton.rateLimiterResources": {"slots": 2},
            },
            f"triton.rateLimiterResources: the server of triton.openai has no rate limiter; remove it, {OTHERWISE}",
        ),
    ],
)
def test_what_it_does_not_go_with_is_told(changes: dict[str, Any], said: str) -> None:
    assert [line.startswith(said) for line in complaints({**OPENAI, **changes})].count(True) == 1


def test_a_request_names_its_model_in_its_body_which_no_route_reads() -> None:
    gateway = {**GATEWAY, "clients": {"team-a": {"models": ["chat"]}, "team-b": {}}}
    told = complaints({**OPENAI, "gateway": gateway, "models.release": RELEASE})
    assert told == [
        "gateway.clients.team-a.models: a request to /v1 names its model in its body, so that team-a could ask each; remove "
        f"models, {OTHERWISE}"
    ]


def test_flags_of_the_helm_values_do_not_reach_its_server(monkeypatch: pytest.MonkeyPatch) -> None:
    values = chart_values.PodValues(extra_args=("--log-verbose=1",))
    monkeypatch.setattr(chart_values, "pod_values", lambda _: values)
    assert complaints(OPENAI) == [
        "triton.openai: its server takes no further flags, and helm-values/triton has --log-verbose=1 (server.extraArgs); "
        "remove them"
    ]
