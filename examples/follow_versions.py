"""Watch the ConfigMap `triton-served-versions`: a change reaches a client within milliseconds.

The client's service account needs `get`, `list` and `watch` on only that ConfigMap; README.md has the Role.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NoReturn

import aiohttp
from kubernetes.aio import client, config, watch
from kubernetes.aio.client.exceptions import ApiException

from examples.served_versions import CONFIG_MAP, ServedVersions

NAMESPACE = "triton"
RECONNECT_SECONDS = 1.0
WATCH_SECONDS, ANSWER_SECONDS = 300, 10
"""The length of a watch, and the grace period for its answer: a dead connection gives no error."""
_log = logging.getLogger(__name__)


class CannotFollow(RuntimeError):
    """No cluster is configured, or it does not answer; the text says which."""


@asynccontextmanager
async def followed_versions(wait_seconds: float = 10.0) -> AsyncIterator[ServedVersions]:
    """Yield versions that follow the cluster while the context lasts, with the pod's service account or a kubeconfig.

    Raises CannotFollow if the first answer takes longer than `wait_seconds`: to start without it would be a guess.
    """
    await _load_configuration()
    versions, known = ServedVersions(), asyncio.Event()
    async with client.ApiClient() as api:
        task = asyncio.create_task(follow(versions, client.CoreV1Api(api), known))
        try:
            async with asyncio.timeout(wait_seconds):
                await known.wait()
            yield versions
        except TimeoutError:
            if known.is_set():
                raise
            raise CannotFollow(
                f"no answer of the API server within {wait_seconds:g} s, or you may not list ConfigMaps in {NAMESPACE}"
            ) from None
        finally:
            task.cancel()
            await asyncio.wait({task})


async def follow(served: ServedVersions, api: client.CoreV1Api, first: asyncio.Event | None = None) -> NoReturn:
    """Update `served` from the ConfigMap until cancelled; set `first` after the first update.

    It lists, then watches from there. While the API server is down, and when the ConfigMap is deleted, the last known
    versions stay: an outage of the control plane must not move traffic.
    """
    while True:
        try:
            await _list_and_watch(served, api, first)
        except (ApiException, aiohttp.ClientError, TimeoutError, OSError) as error:
            # 410 Gone is the normal end of an old watch; log everything else.
            if not (isinstance(error, ApiException) and error.status == 410):
                _log.warning("%s: lost the watch, keeping the last known versions: %s", CONFIG_MAP, error)
            await asyncio.sleep(RECONNECT_SECONDS)


async def _list_and_watch(served: ServedVersions, api: client.CoreV1Api, first: asyncio.Event | None) -> None:
    only = f"metadata.name={CONFIG_MAP}"
    listed = await api.list_namespaced_config_map(NAMESPACE, field_selector=only, _request_timeout=ANSWER_SECONDS)
    for item in listed.items:
        served.update(item.data or {})
    if first is not None:
        first.set()
    changes = watch.Watch().stream(
        api.list_namespaced_config_map,
        NAMESPACE,
        field_selector=only,
        resource_version=listed.metadata.resource_version if listed.metadata else None,
        timeout_seconds=WATCH_SECONDS,
        _request_timeout=WATCH_SECONDS + ANSWER_SECONDS,
    )
    async for change in changes:
        if change["type"] in ("ADDED", "MODIFIED"):
            served.update(change["object"].data or {})


async def _load_configuration() -> None:
    try:
        config.load_incluster_config()
    except config.ConfigException:
        # The library's own warning would duplicate the sentence.
        logging.getLogger("kubernetes").setLevel(logging.ERROR)
        try:
            await config.load_kube_config()
        except config.ConfigException as error:
            raise CannotFollow(f"neither in a cluster nor a kubeconfig: {error}") from None
