"""A language model behind the gateway: tokens are streamed, and a client's disconnect stops its generation."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from examples.gateway import headers
from tests.modelctl.repository.test_engines import VLLM
from tests.system.e2e import gateway_twin, pinned
from tests.system.e2e.conftest import UP_SECONDS, taken_down
from tests.system.e2e.gateway_twin import Gateway, listens, until
from tests.system.e2e.monitored import Monitored
from twin.engine import stack_files
from twin.host.home import TwinHome

pytestmark = pytest.mark.timeout(3600)
TOKENS = 240
"""Tokens of an answer: with its prompt nearly the whole context. It takes the backend 2.6 s at least."""
MODEL = "chat"


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Return a twin whose two pods serve only a language model, behind two Envoys."""
    folder = tmp_path_factory.mktemp("chat")
    with taken_down(Monitored(TwinHome(folder / "home"))) as twin:
        up = twin.run("up", "--gateway", seconds=UP_SECONDS)
        assert up.returncode == 0, up.stdout[-4000:]
        gateway = gateway_twin.ready(twin)
        twin.pin("triton-eks:models.serving", {MODEL: pinned.CHAT})
        stack_files.write_merged(twin.home, "local")
        model = folder / "models" / MODEL
        (model / "1").mkdir(parents=True)
        (model / "config.pbtxt").write_text(VLLM)
        arguments = {"model": "facebook/opt-125m", "max_num_seqs": 2, "max_model_len": 256, "gpu_memory_utilization": 0.5}
        (model / "1" / "model.json").write_text(json.dumps(arguments))
        bucket = twin.servers().engine().outputs("local")["modelBucket"]
        stacks, pins = twin.home.path / "project" / "stacks", stack_files.pins_file(twin.home, "local")
        release = f"python -m modelctl release {model.parent} --bucket {bucket} --stacks {stacks} --pin {pins}"
        for command in (release, "pulumi up --yes --skip-preview --stack local --non-interactive"):
            done = twin.shell(command)
            assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        until(lambda: len(list(words(gateway, 3))) == 3, "the language model to be asked through the gateway", 120)
        yield gateway


def words(gateway: Gateway, tokens: int) -> Iterator[str]:
    """Yield the words of a stream over HTTP as they arrive. Closing the iterator closes the connection."""
    url = f"http://{gateway.http}/v2/models/{MODEL}/generate_stream"
    body = {"text_input": "to be", "stream": True, "parameters": {"max_tokens": tokens}}
    with httpx.stream("POST", url, json=body, timeout=30, trust_env=False) as answer:
        for line in answer.iter_lines():
            if line:
                found = json.loads(line.removeprefix("data: "))
                yield found.get("text_output") or f"{answer.status_code}: {line}"


def counted(gateway: Gateway, name: str) -> float:
    """Return the sum of one of the backend's metrics over the pods."""
    texts = [httpx.get(f"http://{listens(pod)}:8002/metrics", trust_env=False).text for pod in gateway.tritons()]
    return sum(float(value) for value in re.findall(rf"^vllm:{name}{{[^}}]*}} (\S+)$", "".join(texts), re.MULTILINE))


def generated(gateway: Gateway) -> float:
    return counted(gateway, "generation_tokens_total")


def rests(gateway: Gateway) -> float:
    """Return the number of generated tokens, after generation has stopped."""
    last = generated(gateway)

    def still() -> bool:
        nonlocal last
        before, last = last, generated(gateway)
        return before == last

    until(still, "the backend to rest")
    return last


def test_over_http_a_client_has_each_token_while_the_next_ones_are_made(chat: Gateway) -> None:
    before = rests(chat)
    stream = words(chat, TOKENS)
    made = []
    for number in range(TOKENS):
        assert next(stream) == (" to", " be")[number % 2]
        if number % 40 == 0:
            made.append(generated(chat) - before)
    assert list(stream) == []
    assert made[0] < TOKENS, "the first is not kept for the last"
    assert len({*made}) > 2 and all(a <= b for a, b in pairwise(made)), made
    assert rests(chat) - before == TOKENS


def test_over_http_a_client_that_leaves_ends_its_generation_and_makes_room(chat: Gateway) -> None:
    before, ended = rests(chat), counted(chat, "e2e_request_latency_seconds_count")
    for number in range(1, 5):  # more than both pods generate at a time
        stream = words(chat, TOKENS)
        assert next(stream) == " to"
        stream.close()  # type: ignore[attr-defined]
        assert number <= rests(chat) - before < number * TOKENS
    assert counted(chat, "e2e_request_latency_seconds_count") == ended, "an answer was made to its end for nobody"
    assert list(words(chat, 2)) == [" to", " be"]


def test_over_grpc_a_client_has_each_token_while_the_next_ones_are_made(chat: Gateway) -> None:
    before = rests(chat)
    made: list[float] = []
    said: list[str] = []

    def read(result: Any, error: InferenceServerException | None) -> None:
        if not said:
            made.append(generated(chat) - before)
        said.append(str(error) if error else result.as_numpy("text_output")[0].decode())

    with triton.InferenceServerClient(chat.grpc) as client:
        client.start_stream(read, headers=headers(MODEL))
        client.async_stream_infer(MODEL, _inputs(), parameters={"max_tokens": TOKENS})
        until(lambda: len(said) >= TOKENS, "the answers in the stream")
        client.stop_stream()
    assert said == [" to", " be"] * (TOKENS // 2)
    assert made[0] < TOKENS


def test_over_grpc_a_client_that_leaves_ends_its_generation(chat: Gateway) -> None:
    before, ended = rests(chat), counted(chat, "e2e_request_latency_seconds_count")
    said: list[Any] = []
    with triton.InferenceServerClient(chat.grpc) as client:
        client.start_stream(lambda result, error: said.append(error or result), headers=headers(MODEL))
        client.async_stream_infer(MODEL, _inputs(), parameters={"max_tokens": TOKENS})
        until(lambda: said, "the first token")
        client.stop_stream(cancel_requests=True)
    assert 1 <= rests(chat) - before < TOKENS
    assert counted(chat, "e2e_request_latency_seconds_count") == ended, "an answer was made to its end for nobody"
    assert list(words(chat, 2)) == [" to", " be"]


def _inputs() -> list[triton.InferInput]:
    text = triton.InferInput("text_input", [1], "BYTES")
    text.set_data_from_numpy(np.array([b"to be"], dtype=object))
    stream = triton.InferInput("stream", [1], "BOOL")
    stream.set_data_from_numpy(np.array([True]))
    return [text, stream]
