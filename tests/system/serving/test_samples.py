"""The samples of examples/models on a real server, each for the feature that it shows.

All tests share one server: each uses its own texts, sequences and models. It runs with the arguments of the rendered chart.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.grpc as grpc
from tritonclient.utils import InferenceServerException

from examples.failures import CallFailed
from examples.server import MODELS
from examples.stream_client import Prompt, Word, generate
from examples.tensors import to_inputs
from modelctl.release.progress import Silent
from modelctl.release.publish import prepare
from modelctl.store.bucket import PART_BYTES
from tests import waiting
from tests.system.serving.pods import Kubelet, Pod, running_kubelet

DEADLINE_SECONDS = 30
CACHE = {"server": {"responseCacheBytes": 1048576}}


def versions() -> dict[str, int]:
    """Return the samples' models, with the version that a release serves."""
    return prepare(MODELS, PART_BYTES, Silent()).manifest.versions


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, triton_cache: Path) -> Iterator[Kubelet]:
    with running_kubelet(tmp_path_factory.mktemp("node"), triton_cache) as kubelet:
        yield kubelet


@pytest.fixture(scope="module")
def pod(node: Kubelet) -> Pod:
    return node.pod(versions(), MODELS, CACHE).start().until_ready()


@pytest.fixture
def client(pod: Pod) -> Iterator[grpc.InferenceServerClient]:
    with grpc.InferenceServerClient(pod.grpc) as client:
        yield client


def ask(client: grpc.InferenceServerClient, model: str, **arrays: np.ndarray) -> dict[str, Any]:
    result = waiting.answer(client, model, to_inputs(arrays))
    return {output.name: result.as_numpy(output.name).tolist() for output in result.get_response().outputs}


def refusal(client: grpc.InferenceServerClient, model: str, **arrays: np.ndarray) -> tuple[str | None, str]:
    with pytest.raises(InferenceServerException) as refused:
        client.infer(model, to_inputs(arrays), client_timeout=DEADLINE_SECONDS)
    return refused.value.status(), refused.value.message()


def texts(*lines: str | bytes) -> np.ndarray:
    """Return a batch of texts."""
    return np.array([[line.encode() if isinstance(line, str) else line] for line in lines], dtype=np.object_)


def text(line: str) -> np.ndarray:
    """Return one text, for models without batching."""
    return np.array([line.encode()], dtype=np.object_)


# ---- all of them ----------------------------------------------------------------------------------------------------


def test_a_release_accepts_the_samples() -> None:
    assert set(versions()) == {path.name for path in MODELS.iterdir() if path.is_dir()}
    assert set(versions().values()) == {1}


@pytest.mark.parametrize("golden", sorted(MODELS.glob("*/*/golden.json")), ids=lambda path: path.parts[-3])
def test_a_golden_inference_gives_what_it_says(pod: Pod, golden: Path) -> None:
    expected = json.loads(golden.read_text())
    body = {"inputs": [{"name": name, **tensor} for name, tensor in expected["inputs"].items()]}

    url = f"{pod.http}/v2/models/{golden.parts[-3]}/versions/{golden.parts[-2]}/infer"
    answer = httpx.post(url, json=body, timeout=DEADLINE_SECONDS, trust_env=False)

    assert {output.pop("name"): output for output in answer.json()["outputs"]} == expected["outputs"]


# ---- response cache -------------------------------------------------------------------------------------------------


def cache_counters(pod: Pod) -> dict[str, int]:
    """Return hits, misses and executions of embed_cached in the server's metrics."""
    wanted = ("nv_cache_num_hits_per_model", "nv_cache_num_misses_per_model", "nv_inference_exec_count")
    url = f"http://{pod.address}:8002/metrics"
    lines = httpx.get(url, timeout=DEADLINE_SECONDS, trust_env=False).text.splitlines()
    return {
        name: sum(int(line.split()[-1]) for line in lines if line.startswith(f'{name}{{model="embed_cached"'))
        for name in wanted
    }


def change_of_counters(pod: Pod, before: dict[str, int], expected: list[int]) -> list[int]:
    """Wait for the expected growth of hits, misses and executions, and return it: a server first answers, then counts."""

    def change() -> list[int]:
        return [now - then for now, then in zip(cache_counters(pod).values(), before.values(), strict=True)]

    with contextlib.suppress(AssertionError):
        pod.until(lambda: change() == expected, f"the counters to change by {expected}", DEADLINE_SECONDS)
    return change()


def test_a_cached_answer_takes_no_execution(pod: Pod, client: grpc.InferenceServerClient) -> None:
    before = cache_counters(pod)
    first = ask(client, "embed_cached", TEXT=texts("asked twice"))
    assert change_of_counters(pod, before, [0, 1, 1]) == [0, 1, 1]
    assert ask(client, "embed_cached", TEXT=texts("asked twice")) == first
    assert change_of_counters(pod, before, [1, 1, 1]) == [1, 1, 1]


def test_the_cache_knows_whole_requests_not_parts_of_a_batch(pod: Pod, client: grpc.InferenceServerClient) -> None:
    before = cache_counters(pod)
    alone = ask(client, "embed_cached", TEXT=texts("part of a batch"))
    assert change_of_counters(pod, before, [0, 1, 1]) == [0, 1, 1]

    both = ask(client, "embed_cached", TEXT=texts("part of a batch", "part of a batch"))

    assert both["VECTOR"] == alone["VECTOR"] * 2
    assert change_of_counters(pod, before, [0, 2, 2]) == [0, 2, 2]


# ---- ensemble -------------------------------------------------------------------------------------------------------


def test_the_ensemble_finds_other_spellings_in_the_cache(pod: Pod, client: grpc.InferenceServerClient) -> None:
    before = cache_counters(pod)
    first = ask(client, "embed_clean", TEXT=texts("One   spelling"))
    assert change_of_counters(pod, before, [0, 1, 1]) == [0, 1, 1]

    assert ask(client, "embed_clean", TEXT=texts(" one SPELLING ")) == first

    assert change_of_counters(pod, before, [1, 1, 1]) == [1, 1, 1]


def test_a_failed_step_fails_the_ensemble_and_the_next_step_does_not_run(
    pod: Pod, client: grpc.InferenceServerClient
) -> None:
    before = cache_counters(pod)
    assert refusal(client, "embed_clean", TEXT=texts(b"\xff")) == (
        "StatusCode.INVALID_ARGUMENT",
        "in ensemble 'embed_clean', TEXT is not UTF-8: byte 0 is 0xff",
    )
    assert cache_counters(pod) == before


# ---- business logic scripting ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "model"),
    [("a" * 64, b"embed_cached"), ("a" * 65, b"embed_long"), ("a\nb", b"embed_long"), ("a" * 4096, b"embed_long")],
    ids=["short", "long", "two lines", "longest"],
)
def test_pick_model_asks_the_model_that_fits(client: grpc.InferenceServerClient, document: str, model: bytes) -> None:
    answer = ask(client, "pick_model", TEXT=text(document))
    assert answer["MODEL"] == [model]
    assert sum(answer["VECTOR"]) == len(document.replace("\n", "")) / len(document.splitlines())


def test_pick_model_refuses_the_callers_mistake_before_it_calls(client: grpc.InferenceServerClient) -> None:
    before = client.get_inference_statistics("embed_long").model_stats[0].inference_stats.fail.count
    assert refusal(client, "pick_model", TEXT=text("a" * 4097)) == (
        "StatusCode.INVALID_ARGUMENT",
        "TEXT has 4097 bytes; at most 4096",
    )
    assert client.get_inference_statistics("embed_long").model_stats[0].inference_stats.fail.count == before


@pytest.fixture
def broken(node: Kubelet, tmp_path: Path) -> Any:
    """Return a pod with pick_model and its callees; the named callees fail."""

    def serve(*names: str) -> Pod:
        callees = ("embed_cached", "embed_long", "pick_model")
        for name in callees:
            shutil.copytree(MODELS / name, tmp_path / name)
        for name in names:
            path = tmp_path / name / "1" / "model.py"
            path.write_text(path.read_text().replace("return [", "raise RuntimeError('out of memory')\n        return ["))
        return node.pod({name: 1 for name in callees}, tmp_path, CACHE).start().until_ready()

    return serve


def test_when_the_callee_fails_another_stands_in_and_the_answer_says_so(broken: Any) -> None:
    with grpc.InferenceServerClient(broken("embed_long").grpc) as client:
        answer = ask(client, "pick_model", TEXT=text("abc\nabd"))
        only_first_line = ask(client, "embed_cached", TEXT=texts("abc"))
    assert answer == {"VECTOR": only_first_line["VECTOR"][0], "MODEL": [b"embed_cached"]}


def test_when_nobody_can_stand_in_the_error_names_the_callee(broken: Any) -> None:
    with grpc.InferenceServerClient(broken("embed_long", "embed_cached").grpc) as client:
        status, message = refusal(client, "pick_model", TEXT=text("abc\nabd"))
    assert status == "StatusCode.INTERNAL"
    assert message.startswith("embed_cached: ")
    assert "out of memory" in message


# ---- decoupled ------------------------------------------------------------------------------------------------------


async def words(pod: Pod, prompts: dict[str, Prompt]) -> list[Word]:
    return [word async for word in generate(pod.grpc, prompts, deadline_seconds=DEADLINE_SECONDS)]


def test_a_request_gets_as_many_responses_as_it_asks_for_and_the_last_is_final(pod: Pod) -> None:
    assert asyncio.run(words(pod, {"r": Prompt("to be or", 5)})) == [
        Word("r", "to", False),
        Word("r", "be", False),
        Word("r", "or", False),
        Word("r", "to", False),
        Word("r", "be", True),
    ]


def test_one_stream_carries_several_requests_each_with_its_final_response(pod: Pod) -> None:
    got = asyncio.run(words(pod, {"a": Prompt("x y", 3), "b": Prompt("z", 1), "c": Prompt("u v", 2)}))
    by_request = {name: [(w.text, w.final) for w in got if w.request == name] for name in "abc"}
    assert by_request == {
        "a": [("x", False), ("y", False), ("x", True)],
        "b": [("z", True)],
        "c": [("u", False), ("v", True)],
    }


@pytest.mark.parametrize(
    ("prompt", "said"), [(Prompt("  ", 3), "PROMPT has no word"), (Prompt("a", 0), "WORDS is 0; at least 1")]
)
def test_a_request_that_cannot_be_answered_is_refused_on_the_stream(pod: Pod, prompt: Prompt, said: str) -> None:
    with pytest.raises(CallFailed) as failed:
        asyncio.run(words(pod, {"r": prompt}))
    assert (failed.value.code, failed.value.message) == ("INVALID_ARGUMENT", said)


def test_a_reader_that_leaves_stops_the_generator(pod: Pod, client: grpc.InferenceServerClient) -> None:
    async def leave_after_three() -> list[str]:
        seen = []
        stream = generate(pod.grpc, {"endless": Prompt("on and", 2**31 - 1)}, deadline_seconds=DEADLINE_SECONDS)
        async for word in stream:
            seen.append(word.text)
            if len(seen) == 3:
                await stream.aclose()  # type: ignore[attr-defined]
                break
        return seen

    assert asyncio.run(leave_after_three()) == ["on", "and", "on"]
    # Its only instance would be busy for hours: an answer to the next request proves that it stopped.
    assert [word.text for word in asyncio.run(words(pod, {"next": Prompt("free", 1)}))] == ["free"]


def test_a_decoupled_model_refuses_a_plain_call(client: grpc.InferenceServerClient) -> None:
    status, message = refusal(client, "generate", PROMPT=text("a"), WORDS=np.array([1], dtype=np.int32))
    assert (status, message) == (
        "StatusCode.UNIMPLEMENTED",
        "ModelInfer RPC doesn't support models with decoupled transaction policy",
    )


def test_over_http_the_words_come_as_server_sent_events(pod: Pod) -> None:
    url = f"{pod.http}/v2/models/generate/generate_stream"
    with httpx.stream("POST", url, json={"PROMPT": "x y", "WORDS": 3}, timeout=DEADLINE_SECONDS) as answer:
        events = [json.loads(line.removeprefix("data: ")) for line in answer.iter_lines() if line]
    assert [event["WORD"] for event in events] == ["x", "y", "x"]


# ---- sequences ------------------------------------------------------------------------------------------------------


def add(client: grpc.InferenceServerClient, sequence: int, value: int, *, start: bool = False, end: bool = False) -> int:
    inputs = to_inputs({"VALUE": np.array([[value]], dtype=np.int64)})
    result = client.infer(
        "running_sum",
        inputs,
        sequence_id=sequence,
        sequence_start=start,
        sequence_end=end,
        client_timeout=DEADLINE_SECONDS,
    )
    return int(result.as_numpy("SUM").item())


def not_begun(client: grpc.InferenceServerClient, sequence: int) -> bool:
    with pytest.raises(InferenceServerException) as refused:
        add(client, sequence, 1)
    assert refused.value.message() == (
        f"inference request for sequence {sequence} to model 'running_sum' must specify the START flag on the first "
        "request of the sequence"
    )
    return True


def test_interleaved_sequences_have_sums_of_their_own(client: grpc.InferenceServerClient) -> None:
    sums = {number: [add(client, 100 + number, 10**number, start=True)] for number in range(4)}  # as many as there are slots
    for _ in range(2):
        for number in sums:
            sums[number].append(add(client, 100 + number, 10**number))
    for number in sums:
        sums[number].append(add(client, 100 + number, 0, end=True))
    assert sums == {number: [10**number, 2 * 10**number, 3 * 10**number, 3 * 10**number] for number in range(4)}


def test_sequences_sent_at_the_same_time_share_batches_and_stay_apart(pod: Pod) -> None:
    async def run(number: int) -> list[int]:
        async with grpc.aio.InferenceServerClient(pod.grpc) as client:
            sums = []
            for step in range(20):
                result = await client.infer(
                    "running_sum",
                    to_inputs({"VALUE": np.array([[number]], dtype=np.int64)}),
                    sequence_id=200 + number,
                    sequence_start=step == 0,
                    sequence_end=step == 19,
                    client_timeout=DEADLINE_SECONDS,
                )
                sums.append(int(result.as_numpy("SUM").item()))
            return sums

    async def run_all() -> list[list[int]]:
        return await asyncio.gather(*(run(number) for number in range(1, 5)))

    assert asyncio.run(run_all()) == [[number * step for step in range(1, 21)] for number in range(1, 5)]


def test_an_ended_sequence_is_forgotten(client: grpc.InferenceServerClient) -> None:
    assert add(client, 300, 7, start=True, end=True) == 7
    assert not_begun(client, 300)
    assert add(client, 300, 5, start=True, end=True) == 5


def test_a_sequence_that_begins_again_begins_at_nothing(client: grpc.InferenceServerClient) -> None:
    assert [add(client, 310, 7, start=True), add(client, 310, 5, start=True), add(client, 310, 1, end=True)] == [7, 5, 6]


def test_idle_sequences_lose_their_slots_to_those_that_wait(client: grpc.InferenceServerClient) -> None:
    for number in range(4):
        add(client, 400 + number, 1, start=True)  # all slots, and no sequence ends

    assert add(client, 410, 9, start=True, end=True) == 9  # waits for max_sequence_idle_microseconds of the others

    assert not_begun(client, 400)


def test_a_request_without_a_sequence_is_refused(client: grpc.InferenceServerClient) -> None:
    assert refusal(client, "running_sum", VALUE=np.array([[1]], dtype=np.int64)) == (
        "StatusCode.INVALID_ARGUMENT",
        "inference request to model 'running_sum' must specify a non-zero or non-empty correlation ID",
    )
