"""Events about pods, with a fake API."""

import asyncio
from typing import Any, cast

import pytest

from twin.cluster.kube_api import KubeApi, Object
from twin.cluster.kube_errors import ApiError
from twin.pods.events import Events

POD = {"metadata": {"name": "triton-1", "namespace": "triton", "uid": "u"}}


class Api:
    """Events by name, as the API server keeps them; every request raises `refusal` if it is set."""

    def __init__(self, refusal: ApiError | None = None) -> None:
        self.events: dict[str, Object] = {}
        self.refusal = refusal

    async def create(self, path: str, body: Object) -> None:
        assert path == "/api/v1/namespaces/triton/events"
        if self.refusal:
            raise self.refusal
        name = body["metadata"]["name"]
        if name in self.events:
            raise ApiError(409, "AlreadyExists", f"{name} is there")
        self.events[name] = body

    async def patch(self, path: str, body: Object, kind: str) -> None:
        assert kind == "merge"
        self.events[path.rpartition("/")[2]] |= body


def record(api: Api, *written: tuple[Any, ...]) -> None:
    async def run() -> None:
        events = Events(cast(KubeApi, api))
        for one in written:
            await events.record(POD, *one)

    asyncio.run(run())


def test_a_repeated_event_raises_the_count_of_the_first() -> None:
    api = Api()
    record(api, ("Unhealthy", "503", "Warning"), ("Unhealthy", "503", "Warning"), ("Started", "process 7"))
    assert [(e["reason"], e["message"], e["type"], e["count"]) for e in api.events.values()] == [
        ("Unhealthy", "503", "Warning", 2),
        ("Started", "process 7", "Normal", 1),
    ]
    assert {e["involvedObject"]["uid"] for e in api.events.values()} == {"u"}


@pytest.mark.parametrize("status", [403, 404])
def test_a_namespace_that_is_going_takes_no_events_and_that_is_no_error(status: int) -> None:
    record(Api(ApiError(status, "", "namespace is terminating")), ("Killing", "now"))


def test_another_refusal_is_an_error() -> None:
    with pytest.raises(ApiError, match="busy"):
        record(Api(ApiError(500, "", "busy")), ("Killing", "now"))
