"""Send inference requests over gRPC with asyncio: balanced, with one deadline, safe retries and pinned versions.

A gRPC channel to a ClusterIP stays with one pod (docs/facts/triton-server.md#grpc-channels). This one resolves the headless
Service and spreads its requests over every ready pod (`round_robin`). gRPC queries DNS again when a connection ends, and so
finds new pods. For that reason the server ends each connection after the chart's `grpcMaxConnectionAgeSeconds`.

    python -m examples.grpc_client dns:///triton-headless.triton.svc.cluster.local:8001     # in the cluster
    python -m examples.grpc_client ipv4:127.0.0.2:8001,127.0.0.3:8001                       # here
    python -m examples.grpc_client dns:///inference.example.com:8443 --tls                  # through the gateway
"""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from typing import Annotated

import numpy as np
import typer
from tritonclient.grpc import InferResult
from tritonclient.grpc.aio import InferenceServerClient
from tritonclient.utils import InferenceServerException

from examples import gateway
from examples.failures import CallFailed, code_of, sentences, stop
from examples.retries import RetryPolicy
from examples.served_versions import ServedVersions
from examples.tensors import Answer, Arrays, to_answer, to_inputs

CHANNEL_OPTIONS = [
    ("grpc.service_config", json.dumps({"loadBalancingConfig": [{"round_robin": {}}]})),
    # Minimum time before the next DNS query, and between reconnects to a lost pod. The defaults, 30 s and up to 120 s,
    # are as long as a whole rollout.
    ("grpc.dns_min_time_between_resolutions_ms", 2_000),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    # Tensors exceed gRPC's default limit of 4 MB.
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
]


class BalancedClient:
    """Sends requests to models at `target`, a gRPC name: `dns:///name:port`, or `ipv4:a:1,b:2`. Close it, or use `async
    with`.

    `tls`: the target has a certificate that this machine trusts, like the gateway. `api_key`: if the gateway requires one.
    """

    def __init__(
        self,
        target: str,
        versions: ServedVersions | None = None,
        policy: RetryPolicy | None = None,
        *,
        tls: bool = False,
        api_key: str = "",
    ) -> None:
        self._api_key = api_key
        self._client = InferenceServerClient(target, ssl=tls, channel_args=CHANNEL_OPTIONS)
        self._versions = versions or ServedVersions()
        self._policy = policy or RetryPolicy()

    async def __aenter__(self) -> BalancedClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def infer(self, model: str, arrays: Arrays, key: str | None = None) -> Answer:
        """Return the model's answer; `key` decides whether it uses a canary (ServedVersions). Raises CallFailed.

        The version is chosen once: a retry must not return another version's answer.
        """
        inputs, version = to_inputs(arrays), self._versions.version_of(model, key)

        async def send(seconds: float) -> InferResult:
            try:
                return await self._client.infer(
                    model,
                    inputs,
                    model_version=version,
                    client_timeout=seconds,
                    headers=gateway.headers(model, api_key=self._api_key),
                )
            except InferenceServerException as error:
                raise CallFailed(code_of(error), error.message()) from None

        result, attempts = await self._policy.call(send)
        return to_answer(result, attempts)


def main(
    target: Annotated[str, typer.Argument(help="dns:///<headless Service>:8001, or ipv4:<host>:8001,<host>:8001")],
    model: Annotated[str, typer.Option(help="A model with the inputs of the sample `pipeline`.")] = "pipeline",
    features: Annotated[str, typer.Option(help="The measurements, separated by commas.")] = "5.25,3.5,1.75,0.25",
    requests: Annotated[int, typer.Option(min=1, max=100_000, help="How many, one after the other.")] = 1,
    deadline: Annotated[float, typer.Option(min=0.001, help="Seconds for each call, its retries included.")] = 5.0,
    follow_versions: Annotated[
        bool, typer.Option("--follow-versions", help="Ask for the versions that the cluster's ConfigMap names.")
    ] = False,
    tls: Annotated[bool, typer.Option("--tls", help="The target speaks TLS, as the gateway does.")] = False,
    api_key: gateway.ApiKey = "",
) -> None:
    """Classify four measurements and print scores, class and the version that answered."""
    try:
        values = np.array([[float(number) for number in features.split(",")]], dtype=np.float32)
    except ValueError:
        stop(f"--features: {features!r} is no list of numbers; for example 5.25,3.5,1.75,0.25")
    with sentences(target):
        asyncio.run(_classify(target, model, values, requests, RetryPolicy(deadline), follow_versions, tls, api_key))


async def _classify(
    target: str,
    model: str,
    values: np.ndarray,
    requests: int,
    policy: RetryPolicy,
    follow_versions: bool,
    tls: bool,
    api_key: str,
) -> None:
    async with AsyncExitStack() as stack:
        versions = await _follow(stack) if follow_versions else ServedVersions()
        balanced = await stack.enter_async_context(BalancedClient(target, versions, policy, tls=tls, api_key=api_key))
        for _ in range(requests):
            answer = await balanced.infer(model, {"FEATURES": values})
            scores, chosen = answer.outputs["SCORES"][0].tolist(), int(answer.outputs["CLASS"][0][0])
            typer.echo(f"class {chosen}, scores {scores}, version {answer.version}, attempts {answer.attempts}")


async def _follow(stack: AsyncExitStack) -> ServedVersions:
    # Importing the Kubernetes client takes seconds, so only followers import it.
    from examples.follow_versions import CannotFollow, followed_versions

    try:
        return await stack.enter_async_context(followed_versions())
    except CannotFollow as problem:
        stop(f"--follow-versions: {problem}")


if __name__ == "__main__":
    typer.run(main)
