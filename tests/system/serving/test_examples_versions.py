"""The version that a client requests, and the watch on the ConfigMap of a real API server."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes import client, config
from kubernetes.aio import client as aio_client
from kubernetes.aio import config as aio_config
from rich.console import Console

from examples.follow_versions import NAMESPACE, follow
from examples.served_versions import CONFIG_MAP, Served, ServedVersions
from twin.cluster import control_plane
from twin.host import processes, tools
from twin.host.home import TwinHome

WAIT_SECONDS = 60.0
CANARY = '{"stable": 1, "canary": 2, "percent": 25}'


# ---- the choice -----------------------------------------------------------------------------------------------------


def test_without_an_entry_the_server_chooses() -> None:
    assert ServedVersions({"other": Served(stable=3)}).version_of("echo") == ""


def test_without_a_canary_everybody_gets_the_stable_version() -> None:
    assert {ServedVersions({"echo": Served(stable=3)}).version_of("echo", key) for key in (None, "a", "b")} == {"3"}


def test_a_seed_makes_the_draw_repeatable_and_the_share_is_the_percentage() -> None:
    def draw(seed: int) -> list[str]:
        versions = ServedVersions(seed=seed)
        versions.update({"echo": CANARY})
        return [versions.version_of("echo") for _ in range(4000)]

    assert draw(1) == draw(1) != draw(2)
    assert Counter(draw(1)) == {"1": 2986, "2": 1014}


def test_keys_are_shared_out_by_the_percentage() -> None:
    versions = ServedVersions({"echo": Served(stable=1, canary=2, percent=25)})
    assert Counter(versions.version_of("echo", f"user {number}") for number in range(4000)) == {"1": 3005, "2": 995}


@given(st.text(), st.integers(1, 98))
def test_a_key_that_is_in_the_canary_stays_in_it_when_the_canary_grows(key: str, percent: int) -> None:
    def chosen(share: int) -> str:
        return ServedVersions({"echo": Served(stable=1, canary=2, percent=share)}).version_of("echo", key)

    assert chosen(percent) == chosen(percent)
    assert chosen(percent + 1) == "2" or chosen(percent) == "1"


@pytest.mark.parametrize(
    "text",
    ["", "1", "{}", '{"stable": 0}', '{"stable": 2, "canary": 3}', '{"stable": 2, "percent": 5}', '{"stable": 2, "x": 1}'],
)
def test_an_entry_that_cannot_be_read_leaves_the_model_as_it_was(text: str, caplog: pytest.LogCaptureFixture) -> None:
    versions = ServedVersions({"echo": Served(stable=1)})

    versions.update({"echo": text, "other": '{"stable": 7}', "new": text})

    assert [versions.version_of(model) for model in ("echo", "other", "new")] == ["1", "7", ""]
    assert [record.message.split(": ")[:2] for record in caplog.records] == [[CONFIG_MAP, "echo"], [CONFIG_MAP, "new"]]


# ---- the watch ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the kubeconfig of a real control plane. The first build on a machine takes minutes, as for `make up`."""
    home = TwinHome(tmp_path_factory.mktemp("control-plane"))
    programs = tools.ensure(("control-plane",), Console(quiet=True))
    try:
        control_plane.ensure(home, programs, lambda _: None)
        config.load_kube_config(str(home.kubeconfig))
        client.CoreV1Api().create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=NAMESPACE)))
        yield home.kubeconfig
    finally:
        processes.stop_all(home, seconds=10)


@pytest.fixture
def core(kubeconfig: Path) -> Iterator[client.CoreV1Api]:
    """Return the API client; the ConfigMap is absent before and after."""
    api = client.CoreV1Api()
    yield api
    with suppress(client.ApiException):
        api.delete_namespaced_config_map(CONFIG_MAP, NAMESPACE)


def publish(core: client.CoreV1Api, data: dict[str, str]) -> None:
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name=CONFIG_MAP), data=data)
    try:
        core.replace_namespaced_config_map(CONFIG_MAP, NAMESPACE, body)
    except client.ApiException as error:
        assert error.status == 404
        core.create_namespaced_config_map(NAMESPACE, body)


class Recorded(ServedVersions):
    """Records its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.updates: list[dict[str, str]] = []

    def update(self, data: Mapping[str, str]) -> None:
        self.updates.append(dict(data))
        super().update(data)


@asynccontextmanager
async def following(kubeconfig: Path) -> AsyncIterator[Recorded]:
    await aio_config.load_kube_config(str(kubeconfig))
    versions, known = Recorded(), asyncio.Event()
    async with aio_client.ApiClient() as api:
        task = asyncio.create_task(follow(versions, aio_client.CoreV1Api(api), known))
        try:
            await asyncio.wait_for(known.wait(), WAIT_SECONDS)
            yield versions
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def until_version(versions: ServedVersions, version: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while versions.version_of("echo") != version:
        assert time.monotonic() < deadline, f"waited {WAIT_SECONDS} s for the watch to deliver version {version}"
        await asyncio.sleep(0.005)


def test_the_watch_delivers_what_is_there_and_every_flip(kubeconfig: Path, core: client.CoreV1Api) -> None:
    publish(core, {"echo": '{"stable": 1}'})

    async def run() -> None:
        async with following(kubeconfig) as versions:
            assert versions.version_of("echo") == "1"
            for flip in (2, 3):
                await asyncio.to_thread(publish, core, {"echo": f'{{"stable": {flip}}}'})
                await until_version(versions, str(flip))

    asyncio.run(run())


def test_a_config_map_that_appears_later_is_found_and_its_removal_changes_nothing(
    kubeconfig: Path, core: client.CoreV1Api
) -> None:
    async def run() -> list[dict[str, str]]:
        async with following(kubeconfig) as versions:
            assert versions.version_of("echo") == ""
            await asyncio.to_thread(publish, core, {"echo": '{"stable": 4}'})
            await until_version(versions, "4")
            await asyncio.to_thread(core.delete_namespaced_config_map, CONFIG_MAP, NAMESPACE)
            await asyncio.to_thread(publish, core, {"echo": '{"stable": 5}'})
            await until_version(versions, "5")
            return versions.updates

    assert asyncio.run(run()) == [{"echo": '{"stable": 4}'}, {"echo": '{"stable": 5}'}]


def test_without_an_api_server_the_last_known_versions_stay(kubeconfig: Path, core: client.CoreV1Api) -> None:
    versions = ServedVersions({"echo": Served(stable=1)})

    async def run() -> None:
        nobody = aio_client.Configuration(host="https://127.255.255.254:1")
        async with aio_client.ApiClient(nobody) as api:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(follow(versions, aio_client.CoreV1Api(api)), 0.5)

    asyncio.run(run())
    assert versions.version_of("echo") == "1"
