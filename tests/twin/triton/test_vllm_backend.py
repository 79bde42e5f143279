"""A language model on the real tritonserver with the substitute vllm backend: streams, refusals and metrics."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from infra.platform.dashboards.language_models import language_models_row
from modelctl.release.stack_configs import stack_configs
from modelctl.release.stacks import read_stack
from modelctl.repository.load import load
from spec.prometheus.language_models import language_model_groups
from spec.settings import load_stack_file
from tests.modelctl.repository.test_engines import VLLM
from tests.modelctl.stacks import wants, write_stack
from tests.twin.triton.running import ready_server

LLM = {
    "concurrentStreams": 2,
    "contextTokens": 64,
    "weightsMiB": 500,
    "kvBytesPerToken": 1024,
    "tokenP95Ms": 50,
}
ARGUMENTS = {"model": "facebook/opt-125m", "max_num_seqs": 2, "max_model_len": 64, "gpu_memory_utilization": 0.5}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    serving = wants(device="gpu", gpuMemoryMiB=900, decoupled=True, longestStreamSeconds=60, latencyHistogram=False, llm=LLM)
    return write_stack(tmp_path_factory.mktemp("stacks"), {"chat": serving})


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory, stack: Path) -> Iterator[str]:
    """Yield the URL of a server whose model has a release's config for the stack."""
    folder = tmp_path_factory.mktemp("vllm")
    model = folder / "models" / "chat"
    (model / "1").mkdir(parents=True)
    (model / "config.pbtxt").write_text(VLLM)
    (model / "1" / "model.json").write_text(json.dumps(ARGUMENTS))
    read, problems = read_stack(stack)
    assert read is not None
    assert problems == []
    made = stack_configs(load(folder / "models"), [read])
    assert made.problems == []
    (config,) = made.texts.values()
    (model / "config.pbtxt").write_text(config)
    with ready_server(folder) as (address, log):
        assert "chat: this is the twin's stand-in for the vllm backend" in log.read_text()
        yield f"http://{address}"


def ask(url: str, prompt: str, **more: Any) -> dict[str, Any]:
    body = {"text_input": prompt, **more}
    answer = httpx.post(f"{url}:8000/v2/models/chat/generate", json=body, timeout=30, trust_env=False)
    found: dict[str, Any] = answer.json()
    return found


def stream(url: str, prompt: str, tokens: int) -> Iterator[dict[str, Any]]:
    body = {"text_input": prompt, "stream": True, "parameters": {"max_tokens": tokens}, "return_finish_reason": True}
    place = f"{url}:8000/v2/models/chat/generate_stream"
    with httpx.stream("POST", place, json=body, timeout=30, trust_env=False) as answer:
        for line in answer.iter_lines():
            if line:
                yield json.loads(line.removeprefix("data: "))


def scrape(url: str) -> dict[str, float]:
    text = httpx.get(f"{url}:8002/metrics", timeout=30, trust_env=False).text
    lines = [line.rpartition(" ") for line in text.splitlines() if line.startswith("vllm:")]
    return {series: float(value) for series, _, value in lines}


def test_a_token_comes_at_a_time(url: str) -> None:
    events = list(stream(url, "to be or", 4))
    assert [(event["text_output"], event["finish_reason"]) for event in events] == [
        (" to", "None"),
        (" be", "None"),
        (" or", "None"),
        (" to", "length"),
    ]


def test_without_a_stream_the_answer_is_one_and_has_the_prompt_before_it(url: str) -> None:
    assert ask(url, "to be", parameters={"max_tokens": 3})["text_output"] == "to be to be to"
    apart = ask(url, "to be", exclude_input_in_output=True, return_num_input_tokens=True, return_num_output_tokens=True)
    assert apart["text_output"].split() == ["to", "be"] * 8
    assert (apart["num_input_tokens"], apart["num_output_tokens"]) == (2, 16)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            {"stream": True, "exclude_input_in_output": False},
            "When streaming, `exclude_input_in_output` = False is not allowed.",
        ),
        ({"parameters": {"max_token": 3}}, "Unexpected keyword argument 'max_token'"),
        ({"parameters": {"max_tokens": 0}}, "max_tokens must be at least 1, got 0."),
        ({"text_input": "a " * 64}, "The decoder prompt (length 64) is longer than the maximum model length of 64."),
        ({"return_logprobs": True}, "the twin's stand-in for the vllm backend has no probabilities of tokens"),
    ],
)
def test_what_cannot_be_answered_is_told(url: str, body: dict[str, Any], said: str) -> None:
    assert f"Error generating stream: {said}" in ask(url, **{"prompt": "a", **body})["error"]


def test_who_waits_for_a_place_waits_for_the_first_token(url: str) -> None:
    """Two sequences run at a time: of three, the last begins when one has ended."""
    firsts: list[str] = []
    lock = threading.Lock()

    def read(name: str) -> None:
        for event in stream(url, name, 40):
            with lock:
                firsts.append(event["text_output"].strip())

    threads = [threading.Thread(target=read, args=(name,)) for name in ("a", "b", "c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    last = min(("a", "b", "c"), key=lambda name: -firsts.index(name))
    others = [name for name in firsts[: firsts.index(last)] if name != last]
    assert len(firsts) == 120
    assert len(others) >= 40


def test_a_reader_that_leaves_makes_room(url: str) -> None:
    for _ in range(2):
        events = stream(url, "on", 60)
        next(events)
        events.close()  # type: ignore[attr-defined]
    assert ask(url, "next", parameters={"max_tokens": 1})["text_output"] == "next next"


def test_the_scrape_has_what_rules_and_dashboard_read(url: str, stack: Path) -> None:
    ask(url, "one two three", parameters={"max_tokens": 2})
    found = scrape(url)
    settings = load_stack_file(stack)
    read = str(language_model_groups(settings)) + str(language_models_row())
    names = set(re.findall(r"vllm:\w+", read))
    assert names == {
        "vllm:e2e_request_latency_seconds_sum",
        "vllm:generation_tokens_total",
        "vllm:prompt_tokens_total",
        "vllm:time_per_output_token_seconds_bucket",
        "vllm:time_to_first_token_seconds_bucket",
        "vllm:time_to_first_token_seconds_sum",
    }
    labels = '{model="chat",version="1"'
    assert [name for name in names if not any(series.startswith(f"{name}{labels}") for series in found)] == []


def test_each_request_and_token_is_counted(url: str) -> None:
    before = scrape(url)
    ask(url, "one two three", parameters={"max_tokens": 5})
    after = scrape(url)

    def more(name: str) -> float:
        series = f'vllm:{name}{{model="chat",version="1"}}'
        return after[series] - before.get(series, 0)

    counted = {name: more(name) for name in ("prompt_tokens_total", "generation_tokens_total")}
    counted |= {name: more(f"{name}_count") for name in ("time_to_first_token_seconds", "time_per_output_token_seconds")}
    counted |= {
        name: more(f"{name}_sum") for name in ("request_prompt_tokens", "request_generation_tokens", "request_params_n")
    }
    assert counted == {
        "prompt_tokens_total": 3,
        "generation_tokens_total": 5,
        "time_to_first_token_seconds": 1,
        "time_per_output_token_seconds": 4,
        "request_prompt_tokens": 3,
        "request_generation_tokens": 5,
        "request_params_n": 1,
    }
    assert 0.05 < more("e2e_request_latency_seconds_sum") < 30
