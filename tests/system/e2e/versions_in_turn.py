"""Requests to pods without a gateway, for the version of a model published to clients: each pod in turn."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence

import httpx

from spec.names import SERVED_VERSIONS, TRITON_HTTP_PORT, TRITON_NAMESPACE
from tests.system.e2e.gateway_load import ANSWERED, Ask
from twin.cluster.kube_api import KubeClient, object_path

BODY = {"inputs": [{"name": "IN", "datatype": "FP32", "shape": [1, 1], "data": [1.0]}]}
"""For the models of `tests/system/serving/rollout_releases.py`, which add their version to the input."""


def infer_url(address: str, model: str, version: object) -> str:
    """Return the URL of a version of a model at a pod."""
    return f"http://{address}:{TRITON_HTTP_PORT}/v2/models/{model}/versions/{version}/infer"


def asking(kube: KubeClient, model: str, addresses: Sequence[str]) -> Ask:
    """Return a function that sends such a request to the next of these pods, and checks the answer."""
    path, turns = object_path("v1", "configmaps", TRITON_NAMESPACE, SERVED_VERSIONS), itertools.cycle(addresses)

    def ask() -> str:
        address = next(turns)
        version = json.loads(kube.get(path)["data"][model])["stable"]
        try:
            answer = httpx.post(infer_url(address, model, version), json=BODY, timeout=10, trust_env=False)
        except httpx.HTTPError as error:
            return f"{type(error).__name__}: {error}"
        right = answer.status_code == 200 and answer.json()["outputs"][0]["data"] == [1.0 + version]
        return ANSWERED if right else f"HTTP {answer.status_code}: {answer.text[:200]}"

    return ask
