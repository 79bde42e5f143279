"""Termination of a pod on the real server: {idle, loading, under load, idle connections, full queue} x {HTTP, gRPC}.

Each pod terminates as under the kubelet: its endpoint is removed while the rendered preStop hook sleeps, then comes SIGTERM,
then SIGKILL after the rendered grace period. These tests give the table of docs/drain.md.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from examples.failures import CallFailed
from examples.grpc_client import BalancedClient
from examples.http_client import HttpClient
from examples.retries import RetryPolicy
from modelctl.loadgen import Account, RequestFailed, Schedule, run
from tests.system.serving import models
from tests.system.serving.client import OK, PROTOCOLS, Answer, Protocol, Send, burst, sender
from tests.system.serving.models import Timing
from tests.system.serving.pods import Exit, Kubelet, Pod

PRE_STOP = 2
QUEUE_FULL = "Exceeds maximum queue size"
RETRIED = {"refused", "reset", "503", "UNAVAILABLE"}
"""The failures after which a client retries on another pod."""
UNTIL_25_05 = {"NOT_FOUND", "CANCELLED"}
"""The answers of server 2.51, besides UNAVAILABLE, to gRPC calls after SIGTERM. Releases since 25.05 stop gRPC gracefully
(docs/facts/triton-configuration.md#releases), and the chart accepts no release before 26.04.
"""

MakePod = Callable[..., Pod]


@pytest.fixture
def make_pod(kubelet: Kubelet, repository: Path) -> MakePod:
    """Return a pod with the model `echo`, whose Deployment was rendered with these drain values."""

    def make(timing: Timing, *, pre_stop: int = PRE_STOP, longest_request: int = 30, longest_batch: int = 2) -> Pod:
        if not (repository / "echo").exists():
            models.write(repository, timing=timing)
        drain = {
            "preStopSeconds": pre_stop,
            "longestRequestSeconds": longest_request,
            "longestBatchSeconds": longest_batch,
        }
        return kubelet.pod({"echo": 1}, repository, {"drain": drain}).start()

    return make


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """Return a file that a model waits for. It keeps a test's request in execution for as long as the test needs."""
    return tmp_path / "open"


async def terminating(pod: Pod) -> asyncio.Future[Exit]:
    """Delete the pod, and return after the server has acted on its SIGTERM."""
    ending = asyncio.wrap_future(pod.delete())
    await asyncio.to_thread(pod.until_terminating)
    return ending


async def refusals_until(ending: asyncio.Future[Exit], send: Send) -> set[str]:
    """Return the codes that a client gets until the pod is gone, if it missed the removal of the endpoint."""
    seen = set()
    while not ending.done():
        seen.add((await send()).code)
        await asyncio.sleep(0.05)
    return seen


def codes(answers: Sequence[Answer]) -> Counter[str]:
    return Counter(answer.code for answer in answers)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_idle_pod_ends_by_itself_and_refuses_what_comes_late(make_pod: MakePod, protocol: Protocol) -> None:
    pod = make_pod(Timing()).until_ready()

    async def scenario() -> tuple[Exit, set[str]]:
        async with sender(protocol, pod) as send:
            ending = await terminating(pod)
            await asyncio.to_thread(pod.until_refusing)
            refused = await refusals_until(ending, send)
            return await ending, refused

    ended, refused = asyncio.run(scenario())

    assert ended.code == 0
    assert PRE_STOP <= ended.seconds < pod.grace_seconds
    assert OK not in refused
    assert refused - RETRIED <= (UNTIL_25_05 if protocol == "grpc" else set())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_pod_that_loads_ends_at_its_sigterm(make_pod: MakePod, protocol: Protocol) -> None:
    pod = make_pod(Timing(load_seconds=60))
    pod.until_logged("loading: echo:1")

    async def scenario() -> tuple[Answer, Exit]:
        async with sender(protocol, pod) as send:
            return await send(), await asyncio.wrap_future(pod.delete())

    answer, ended = asyncio.run(scenario())

    assert answer.code in {"refused", "UNAVAILABLE"}, "no port is open before the models are loaded"
    assert ended.code == 128 + 15, "the server has no handler for SIGTERM yet"
    assert ended.seconds < pod.grace_seconds
    assert not pod.started


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_under_load_no_request_is_lost(make_pod: MakePod, protocol: Protocol, gate: Path) -> None:
    pod = make_pod(Timing(instances=2, gate=gate), pre_stop=5).until_ready()
    until_the_endpoint_leaves = Schedule.constant(rate=10, seconds=1)

    async def scenario() -> tuple[list[Answer], Account, int, Exit]:
        async with sender(protocol, pod) as send:

            async def steady(number: int) -> None:
                answer = await send()
                if answer.code != OK:
                    raise RequestFailed(answer.code)

            first = await burst(pod, send, 24, instances=2)
            ending = asyncio.wrap_future(pod.delete())
            load = asyncio.create_task(run(until_the_endpoint_leaves, steady, drain_seconds=pod.grace_seconds))
            await asyncio.to_thread(pod.until_terminating)
            open_at_sigterm = sum(not task.done() for task in first)
            gate.touch()
            answers = await asyncio.gather(*first)
            steadily = (await load).account()
            return answers, steadily, open_at_sigterm, await ending

    answers, steadily, open_at_sigterm, ended = asyncio.run(scenario())

    assert open_at_sigterm == 24
    assert codes(answers) == {OK: 24}
    assert steadily == Account(sent=10, answered=10, failed=0, shed=0), "while the endpoint was leaving"
    assert ended.code == 0
    assert ended.seconds < pod.grace_seconds


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_full_queue_is_worked_off_and_only_the_excess_is_rejected(
    make_pod: MakePod, protocol: Protocol, gate: Path
) -> None:
    pod = make_pod(Timing(queue=12, gate=gate)).until_ready()

    async def scenario() -> tuple[list[Answer], int, Exit]:
        async with sender(protocol, pod) as send:
            # A burst may fill the queue before the server takes out its first request: then it rejects one more.
            first = asyncio.create_task(send())
            await asyncio.to_thread(pod.until, lambda: models.reached(gate), "a request to be in execution", 60)
            tasks = [first, *await burst(pod, send, 29, instances=0)]
            ending = await terminating(pod)
            open_at_sigterm = sum(not task.done() for task in tasks)
            gate.touch()
            return list(await asyncio.gather(*tasks)), open_at_sigterm, await ending

    answers, open_at_sigterm, ended = asyncio.run(scenario())

    assert open_at_sigterm == 1 + 12, "the one in execution and a full queue"
    rejected = [answer for answer in answers if answer.code != OK]
    assert all(QUEUE_FULL in answer.message for answer in rejected)
    assert {answer.code for answer in rejected} == {"503" if protocol == "http" else "UNAVAILABLE"}
    assert len(rejected) == 30 - open_at_sigterm
    assert ended.code == 0
    assert ended.seconds < pod.grace_seconds


def test_idle_grpc_connections_cost_nothing(make_pod: MakePod) -> None:
    pod = make_pod(Timing(seconds=0.4)).until_ready()

    async def scenario() -> tuple[list[Answer], Exit]:
        async with sender("grpc", pod) as idle, sender("grpc", pod) as another, sender("grpc", pod) as send:
            assert (await idle()).code == (await another()).code == OK
            tasks = await burst(pod, send, 8)
            ending = await terminating(pod)
            return list(await asyncio.gather(*tasks)), await ending

    answers, ended = asyncio.run(scenario())

    assert codes(answers) == {OK: 8}
    assert ended.code == 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_idle_http_connections_eat_the_exit_timeout_but_no_request(make_pod: MakePod, protocol: Protocol) -> None:
    pod = make_pod(Timing(seconds=0.4), longest_request=6).until_ready()

    async def scenario() -> tuple[list[Answer], Exit]:
        async with sender("http", pod, keep_alive=True) as idle, sender(protocol, pod) as send:
            assert (await idle()).code == OK
            tasks = await burst(pod, send, 12)
            ending = await terminating(pod)
            return list(await asyncio.gather(*tasks)), await ending

    answers, ended = asyncio.run(scenario())

    assert codes(answers) == {OK: 12}
    assert "Found 1 HTTP service connections" in pod.log_text()
    assert ended.code == 1, "the timeout was over with the connection still open"
    assert PRE_STOP + pod.exit_timeout_seconds <= ended.seconds < pod.grace_seconds


def test_http_connections_that_clients_close_within_the_pre_stop_hook_cost_nothing(make_pod: MakePod) -> None:
    pod = make_pod(Timing()).until_ready()

    async def scenario() -> Exit:
        async with sender("http", pod, keep_alive=True) as idle:
            assert (await idle()).code == OK
            ending = asyncio.wrap_future(pod.delete())
        return await ending

    assert asyncio.run(scenario()).code == 0
    assert "HTTP service connections" not in pod.log_text().partition("Signal (15) received")[2].replace("Found 0 HTTP", "")


def test_work_longer_than_the_exit_timeout_is_lost_over_http(make_pod: MakePod) -> None:
    """longestRequestSeconds has to cover a whole queue: here the queue is 20 s long and the value is 3."""
    pod = make_pod(Timing(seconds=0.5), longest_request=3).until_ready()

    async def scenario() -> tuple[list[Answer], Exit]:
        async with sender("http", pod) as send:
            tasks = await burst(pod, send, 40)
            ending = await terminating(pod)
            return list(await asyncio.gather(*tasks)), await ending

    answers, ended = asyncio.run(scenario())

    assert set(codes(answers)) == {OK, "reset"}
    assert ended.code not in (0, 128 + 9)


def test_a_batch_longer_than_the_grace_period_is_killed_at_its_end(make_pod: MakePod) -> None:
    pod = make_pod(Timing(seconds=60), longest_request=1, longest_batch=1).until_ready()

    async def scenario() -> tuple[list[Answer], Exit]:
        async with sender("grpc", pod) as send:
            tasks = await burst(pod, send, 2)
            ended = await asyncio.wrap_future(pod.delete())
            return list(await asyncio.gather(*tasks)), ended

    answers, ended = asyncio.run(scenario())

    assert codes(answers) == {"UNAVAILABLE": 2}
    assert ended.code == 128 + 9
    assert pod.grace_seconds <= ended.seconds


def test_a_grpc_client_that_comes_late_is_answered_by_another_pod(
    make_pod: MakePod, kubelet: Kubelet, tmp_path: Path, gate: Path
) -> None:
    models.write(tmp_path / "other")
    leaving = make_pod(Timing(gate=gate)).until_ready()
    staying = kubelet.pod({"echo": 1}, tmp_path / "other").start().until_ready()
    target = f"ipv4:{leaving.grpc},{staying.grpc}"

    async def scenario() -> tuple[list[Answer], list[int], Exit]:
        async with sender("grpc", leaving) as send, BalancedClient(target, policy=RetryPolicy(60, attempts=8)) as client:
            tasks = await burst(leaving, send, 20)
            ending = await terminating(leaving)
            await asyncio.to_thread(leaving.until_refusing)
            attempts: list[int] = []
            # While it processes its queue, 2.51 refuses as every release does; afterwards, as only releases before 25.05 do.
            async with asyncio.timeout(30):
                while len(attempts) < 4 or max(attempts) == 1:
                    attempts.append((await client.infer("echo", {"IN": np.ones((1, 1), np.float32)})).attempts)
            gate.touch()
            return list(await asyncio.gather(*tasks)), attempts, await ending

    accepted, attempts, ended = asyncio.run(scenario())

    assert codes(accepted) == {OK: 20}
    assert max(attempts) > 1, "each of them was answered, and some were refused by the pod that ends"
    assert ended.code == 0


def test_an_http_client_that_comes_late_knows_that_it_may_ask_another_pod(make_pod: MakePod) -> None:
    leaving, staying = make_pod(Timing()).until_ready(), make_pod(Timing()).until_ready()
    ones = {"IN": np.ones((1, 1), np.float32)}

    async def scenario() -> CallFailed:
        ending = await terminating(leaving)
        with pytest.raises(CallFailed) as failure:
            async with HttpClient(leaving.http, RetryPolicy(60, attempts=1)) as client:
                await client.infer("echo", ones)
        async with HttpClient(staying.http, RetryPolicy(60)) as client:
            assert (await client.infer("echo", ones)).outputs["OUT"].tolist() == [[2.0]]
        await ending
        return failure.value

    assert asyncio.run(scenario()).code == "UNAVAILABLE", "what its retry policy sends again"


def test_the_http_client_of_the_examples_leaves_no_connection_to_wait_for(make_pod: MakePod) -> None:
    pod = make_pod(Timing()).until_ready()

    async def scenario() -> Exit:
        async with HttpClient(pod.http, RetryPolicy(60)) as client:
            await client.infer("echo", {"IN": np.ones((1, 1), np.float32)})
            return await asyncio.wrap_future(pod.delete())

    assert asyncio.run(scenario()).code == 0
