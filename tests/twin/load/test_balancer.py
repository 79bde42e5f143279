"""Requests to changing pods, against real gRPC servers with Triton's protocol."""

import asyncio

import grpc
import numpy as np
import pytest
from tritonclient.grpc import InferInput, service_pb2, service_pb2_grpc

from modelctl.loadgen import RequestFailed
from tests.modelctl.servers import serving
from twin.load.balancer import Balancer

VALUES = InferInput("VALUES", [1, 1], "FP32")
VALUES.set_data_from_numpy(np.ones((1, 1), dtype=np.float32))


class Pod(service_pb2_grpc.GRPCInferenceServiceServicer):
    """Answers at once, or on command; counts its requests."""

    def __init__(self, answers: bool = True, refuses: bool = False) -> None:
        self.asked = 0
        self._refuses = refuses
        self.may_answer = asyncio.Event()
        if answers:
            self.may_answer.set()

    async def ModelInfer(self, request: object, context: grpc.aio.ServicerContext) -> service_pb2.ModelInferResponse:
        self.asked += 1
        if self._refuses:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "Request timeout expired")
        await self.may_answer.wait()
        return service_pb2.ModelInferResponse()


def test_each_request_goes_to_the_next_ready_pod_and_says_which() -> None:
    async def check() -> None:
        first, second = Pod(), Pod()
        async with serving(first) as a, serving(second) as b:
            balancer = Balancer("m", [VALUES])
            balancer.follow([a, b])
            assert sorted([await balancer.send(number) for number in range(6)]) == sorted([a, b] * 3)
            await balancer.close()
        assert (first.asked, second.asked) == (3, 3)

    asyncio.run(check())


def test_a_pod_that_comes_is_asked_and_one_that_went_is_not() -> None:
    async def check() -> None:
        old, new = Pod(), Pod()
        async with serving(old) as a, serving(new) as b:
            balancer = Balancer("m", [VALUES])
            balancer.follow([a])
            await balancer.send(0)
            balancer.follow([b])
            assert {await balancer.send(number) for number in range(4)} == {b}
            await balancer.close()
        assert (old.asked, new.asked) == (1, 4)

    asyncio.run(check())


def test_a_request_under_way_at_a_pod_that_went_gets_its_answer() -> None:
    async def check() -> None:
        leaving, staying = Pod(answers=False), Pod()
        async with serving(leaving) as a, serving(staying) as b:
            balancer = Balancer("m", [VALUES])
            balancer.follow([a])
            under_way = asyncio.create_task(balancer.send(0))
            async with asyncio.timeout(10):
                while leaving.asked == 0:
                    await asyncio.sleep(0.01)
            balancer.follow([b])
            leaving.may_answer.set()
            assert await under_way == a
            await balancer.close()

    asyncio.run(check())


def test_without_a_ready_pod_a_request_fails() -> None:
    async def check() -> None:
        balancer = Balancer("m", [VALUES])
        with pytest.raises(RequestFailed) as failure:
            await balancer.send(0)
        assert failure.value.code == "UNAVAILABLE: no pod is ready"
        await balancer.close()

    asyncio.run(check())


def test_a_request_that_a_pod_refuses_is_not_tried_again_and_has_its_reason() -> None:
    async def check() -> None:
        pod = Pod(refuses=True)
        async with serving(pod) as address:
            balancer = Balancer("m", [VALUES])
            balancer.follow([address])
            with pytest.raises(RequestFailed) as failure:
                await balancer.send(0)
            assert (failure.value.code, pod.asked) == ("UNAVAILABLE: Request timeout expired", 1)
            await balancer.close()

    asyncio.run(check())
