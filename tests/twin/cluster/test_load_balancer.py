"""The twin's network load balancer: its target pods, their timing, and the traffic it carries."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from twin.cluster.load_balancer import HealthCheck, LoadBalancers, Target, targets
from twin.host import ports

CHECK = HealthCheck(port=19003, path="/ready", interval=5, timeout=3, healthy=2, unhealthy=3)
PREFIX = "service.beta.kubernetes.io/aws-load-balancer-"


@pytest.mark.parametrize(
    ("answers", "healthy"),
    [
        ([True], False),
        ([True, True], True),
        ([True, False, True], False),
        ([True, True, False, False], True),
        ([True, True, False, False, False], False),
        ([True, True, False, False, True, False], True),
    ],
)
def test_so_many_answers_in_a_row_decide(answers: list[bool], healthy: bool) -> None:
    target = Target("127.244.130.5")
    for answer in answers:
        target.record(answer, CHECK)
    assert target.healthy is healthy


def test_the_health_check_is_what_the_annotations_say_with_the_controllers_defaults() -> None:
    annotations = {f"{PREFIX}healthcheck-{key}": value for key, value in {"port": "19003", "path": "/ready"}.items()}
    assert HealthCheck.of(annotations) == HealthCheck(19003, "/ready", interval=10, timeout=10, healthy=3, unhealthy=3)
    few = {**annotations, f"{PREFIX}healthcheck-interval": "5", f"{PREFIX}healthcheck-unhealthy-threshold": "2"}
    assert HealthCheck.of(few) == HealthCheck(19003, "/ready", interval=5, timeout=10, healthy=3, unhealthy=2)


def endpoint(last: int, **conditions: bool) -> dict[str, Any]:
    return {"addresses": [f"10.244.130.{last}"], "conditions": conditions}


def test_a_pod_is_a_target_from_its_address_to_the_beginning_of_its_end() -> None:
    slices: list[dict[str, Any]] = [
        {"endpoints": [endpoint(2, ready=True), endpoint(3, ready=False)]},
        {"endpoints": [endpoint(4, ready=False, serving=True, terminating=True)]},
        {"endpoints": None},
    ]
    assert targets(slices) == {"127.244.130.2", "127.244.130.3"}


class Api:
    """An API server with one fixed Service and its EndpointSlice."""

    def __init__(self, service: dict[str, Any], last: int) -> None:
        self._service, self._last = service, last
        self.patched: list[tuple[str, Any]] = []

    async def watch(self, path: str, **_: str) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        found = [self._service] if path == "/api/v1/services" else [{"metadata": {"name": "s"}, **self._slice()}]
        yield "SYNC", {"items": found}
        await asyncio.Event().wait()

    async def patch(self, path: str, body: Any, kind: str) -> None:
        self.patched.append((path, body))

    def _slice(self) -> dict[str, Any]:
        return {"endpoints": [{"addresses": [f"10.244.255.{self._last}"], "conditions": {"ready": True}}]}


def test_bytes_are_carried_both_ways_and_the_service_says_where() -> None:
    asyncio.run(_carries_both_ways())


async def _carries_both_ways() -> None:
    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read()).upper())
        writer.close()

    pod = "127.244.255.77"
    behind = await asyncio.start_server(shout, pod, 0)
    port = next(p for p in range(21000, 30000) if ports.is_free("127.0.0.1", p))
    service = {
        "metadata": {
            "namespace": "gateways",
            "name": "envoy",
            "annotations": {f"{PREFIX}healthcheck-port": "1", f"{PREFIX}healthcheck-timeout": "1"},
        },
        "spec": {
            "type": "LoadBalancer",
            "loadBalancerClass": "service.k8s.aws/nlb",
            "ports": [{"port": port, "targetPort": behind.sockets[0].getsockname()[1]}],
        },
    }
    api = Api(service, 77)
    running = asyncio.create_task(LoadBalancers(api, "127.0.0.1").run())  # type: ignore[arg-type]
    async with asyncio.timeout(10):
        while not api.patched:
            await asyncio.sleep(0.01)
        # The only target fails its check, because nothing listens there, but still gets requests.
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"hello")
        writer.write_eof()
        assert await reader.read() == b"HELLO"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert api.patched == [
        (
            "/api/v1/namespaces/gateways/services/envoy/status",
            {"status": {"loadBalancer": {"ingress": [{"ip": "127.0.0.1", "ipMode": "VIP"}]}}},
        )
    ]
    assert ports.is_free("127.0.0.1", port), "nothing listens once it has ended"
