"""A second release (`triton.rollout: blue-green`) on real servers under load: the release that answers each request.

The stack file is real, and so are the program's routes for it. A function replaces Pulumi: it starts and stops servers
as the file says. Clients replace Envoy: they choose a Service by the weights of the route.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from tritonclient.grpc import InferInput
from tritonclient.grpc.aio import InferenceServerClient
from tritonclient.utils import InferenceServerException

from benchmarks.rollout_servers import LocalFleet, Servers, local_servers
from infra.serving import routed_model, routes
from modelctl.loadgen import Account, RequestFailed
from modelctl.release.pin import pin
from modelctl.rollout.blue_green import BlueGreen, Platform
from modelctl.rollout.controller import Outcome, Result, Wanted
from modelctl.rollout.fleet import Pod, ServedVersion
from modelctl.rollout.limits import Limits, Terms
from modelctl.store.bucket import Store, open_store
from modelctl.store.manifest import Manifest
from spec.settings import load_stack_file
from tests.modelctl.blue_green_stack import write_blue_green
from tests.system.serving.conftest import BUCKET
from tests.system.serving.deployment import under_load
from tests.system.serving.rollout_releases import MODEL, code, failing_code, publish

PODS = 2
RATE = 20.0
PROPAGATION_SECONDS = 0.5
TERMS = Terms(requests=20, seconds=0, failing=0.02)
# An idle machine needs neither wait. On a busy one times vary, so the gate needs more requests to find a slower version.
LIMITS = Limits(restart=60, canary=150, watch=3, poll=0.1, terms=TERMS)


def right(version: int) -> str:
    """Return model.py that is slow enough to hide the differences between two servers on a busy machine."""
    return code(version, seconds=0.03)


@dataclass
class Site:
    """A stack whose file declares the servers, and clients of its gateway."""

    file: Path
    store: Store
    endpoint: str
    directory: Path
    cache: Path
    stack: contextlib.ExitStack
    weights: dict[str, int] = field(default_factory=dict)
    shares: list[int] = field(default_factory=list)
    _servers: dict[str, tuple[str, Servers]] = field(default_factory=dict)
    _channels: dict[str, InferenceServerClient] = field(default_factory=dict)
    _chance: random.Random = field(default_factory=lambda: random.Random(1))  # noqa: S311 (repeatable, nothing secret)
    _turns: Iterator[int] = field(default_factory=itertools.count)

    def release(self, version: int, files: dict[str, str] | None = None) -> Manifest:
        """Publish a version that takes as long as any other, except for these files."""
        written = {"model.py": right(version), **(files or {})}
        return publish(self.store, self.directory / f"models-{version}", version, written)

    def up(self) -> None:
        """Do as Pulumi does: new pods, then the routes, and last the deletion of everything that left the file."""
        settings = load_stack_file(self.file)
        for fleet in settings.each_fleet:
            release = fleet.stack.models.release
            assert release is not None
            if fleet.release not in self._servers:
                self._start(fleet.release, release.id, fleet.stack.fewest_pods)
            assert self._servers[fleet.release][0] == release.id, "a Deployment keeps its release"
        assert settings.gateway is not None
        (model,) = routed_model.routed(settings.models, settings.gateway, settings.each_fleet)
        backends = routes.grpc_route_spec(model)["rules"][0]["backendRefs"]
        self.weights = {one["name"]: one.get("weight", 1) for one in backends}
        tried = settings.models.candidate
        self.shares.append(tried.percent if tried is not None else -1)
        time.sleep(PROPAGATION_SECONDS)
        for name in self._servers.keys() - {fleet.release for fleet in settings.each_fleet}:
            self._servers.pop(name)[1].stop()

    def fleet(self, name: str) -> SlotFleet:
        return SlotFleet(name, lambda: self._servers.get(name))

    def _start(self, name: str, id_: str, pods: int) -> None:
        place = self.directory / f"{name}-{len(self.shares)}"
        repository = f"s3://{self.endpoint}/{BUCKET}/releases/{id_}"
        servers = self.stack.enter_context(local_servers(place, self.cache, repository, ()))
        servers.start(pods)
        servers.until_ready(MODEL)
        self._servers[name] = (id_, servers)

    async def send(self, number: int) -> str:
        """Send one request by the route's weights, without retry. The tag is the answering version and its added number."""
        (name,) = self._chance.choices([*self.weights], [*self.weights.values()])
        urls = self._servers[name][1].grpc_addresses()
        url = urls[next(self._turns) % len(urls)]
        if url not in self._channels:
            self._channels[url] = InferenceServerClient(url, channel_args=[("grpc.enable_retries", 0)])
        tensor = InferInput("IN", [1, 1], "FP32")
        tensor.set_data_from_numpy(np.ones((1, 1), np.float32))
        try:
            answer = await self._channels[url].infer(MODEL, [tensor], client_timeout=60)
        except InferenceServerException as error:
            raise RequestFailed(f"{error.status()}: {error.message()}") from None
        return f"{answer.get_response().model_version}:{answer.as_numpy('OUT')[0, 0] - 1:.0f}"

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()


class SlotFleet(LocalFleet):
    """The servers of one Deployment, while it exists; they serve one release during their life."""

    def __init__(self, name: str, there: Callable[[], tuple[str, Servers] | None]) -> None:
        self._name = name
        self._there = there

    def pods(self) -> list[Pod]:
        found = self._there()
        pods = found[1].fleet.pods() if found is not None else []
        return [replace(pod, name=f"{self._name}-{pod.name}", uid=f"{self._name}-{pod.uid}") for pod in pods]

    def release(self, pod: Pod) -> str | None:
        found = self._there()
        return found[0] if found is not None else None

    def served(self) -> dict[str, ServedVersion]:
        return {}


@pytest.fixture
def site(moto: str, tmp_path: Path, triton_cache: Path) -> Iterator[Site]:
    """Return two servers with version 1, as the stack file says."""
    with contextlib.ExitStack() as stack:
        file = write_blue_green(tmp_path / "stacks", pods=PODS)
        site = Site(file, open_store(BUCKET, moto), moto, tmp_path, triton_cache, stack)
        pin(file, site.release(1))
        site.up()
        yield site


def rolled(site: Site, release: Manifest, *canary: int) -> tuple[Result, dict[str, int], Account]:
    """Return the result of a rollout under load, the answers by their tags, and the outcomes of all requests."""

    async def run() -> tuple[Result, dict[str, int], Account]:
        found: list[Result] = []
        rollout = BlueGreen(
            site.file,
            site.store,
            Platform(site.fleet, site.up, lambda: None),
            Wanted("dev", canary, {MODEL: 1000.0}),
            LIMITS,
        )
        load = await under_load(
            site.send, RATE, lambda: asyncio.to_thread(lambda: found.append(rollout.rollout(release.id)))
        )
        await site.close()
        return found[0], dict(load.tags), load.account()

    return asyncio.run(run())


def test_a_right_release_gets_more_and_more_and_no_request_fails(site: Site) -> None:
    release = site.release(2)
    result, answers, account = rolled(site, release, 50)
    assert (result.outcome, result.release) == (Outcome.DONE, release.id), result.reason
    assert site.shares == [-1, 0, 50, 100, -1]
    assert site.weights == {"triton-green": 1}
    sent = account.sent
    assert account == Account(sent, answered=sent, failed=0, shed=0)
    assert set(answers) == {"1:1", "2:2"}, "every answer is right, of the version that gave it"
    models = load_stack_file(site.file).models
    assert models.release is not None
    assert (models.slot, models.release.id, models.candidate) == ("green", release.id, None)


@pytest.mark.parametrize(
    ("files", "shares", "why"),
    [
        ({"model.py": failing_code(2, every=5)}, [-1, 0, 50, -1], "requests failed, 2% may (release "),
        ({"model.py": code(2, seconds=0.1)}, [-1, 0, 50, -1], "ms in the model, release "),
        ({"model.py": code(2, seconds=0.03, plus=7)}, [-1, 0, -1], "adder version 2 answers wrongly: OUT[0] is 48.0, "),
    ],
    ids=["it fails", "it is slower", "it answers wrongly"],
)
def test_a_bad_release_is_taken_back_by_itself(site: Site, files: dict[str, str], shares: list[int], why: str) -> None:
    before = site.file.read_text()
    result, answers, account = rolled(site, site.release(2, files), 50)
    assert result.outcome is Outcome.UNDONE
    assert result.reason is not None
    assert why in result.reason
    assert site.shares == shares
    assert site.weights == {"triton-blue": 1}
    assert site.file.read_text() == before
    # Only requests that the bad release got are lost, and a wrong release gets none.
    assert account.sent == account.answered + account.failed
    assert account.failed == 0 or "failed" in why
    assert account.failed < 0.2 * account.sent
    assert ("2:2" in answers) == (50 in shares)
    assert "2:7" not in answers
