"""The CRDs of a chart that the twin does not install: a real API server serves them and accepts our objects."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from infra.platform import monitors
from tests.spec.prometheus.stacks import settings
from tests.twin.plugins.recording_engine import recording_engine
from twin.cluster.kube_api import KubeClient
from twin.plugins.errors import PluginError
from twin.plugins.kube_objects import KubeObjects
from twin.plugins.provider import Resource
from twin.plugins.releases import Releases
from twin.plugins.server import EngineLog

CHART = "kube-prometheus-stack"


def _resource(kind: str, name: str) -> Resource:
    type_ = "kubernetes:helm.sh/v3:Release" if kind == "Release" else f"kubernetes:{monitors.API_VERSION}:{kind}"
    return Resource(urn=f"urn:pulumi:prod::triton-eks::{type_}::{name}", type=type_, name=name, id="")


def test_monitors_and_rules_can_be_made_once_the_chart_is_released(api_server: KubeClient) -> None:
    namespace: dict[str, Any] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "monitoring"}}
    api_server.create("/api/v1/namespaces", namespace)
    manifests = monitors.manifests(settings("prod"), "https://wiki.example.com/triton")
    with recording_engine() as engine:
        log = EngineLog(engine.address)
        objects = KubeObjects(api_server, log, threading.Event(), namespace="default")
        first = manifests[0]
        with pytest.raises(PluginError, match=r"does not know PodMonitor in monitoring\.coreos\.com/v1"):
            objects.create(_resource("PodMonitor", "early"), first, 60)
        release = {"chart": CHART, "version": "88.5.3", "name": CHART, "namespace": "monitoring", "values": {}}
        Releases(api_server, log, threading.Event(), namespace="default").create(_resource("Release", CHART), release, 60)
        for manifest in manifests:
            metadata = manifest["metadata"]
            id, outputs = objects.create(_resource(manifest["kind"], metadata["name"]), manifest, 60)
            assert id == f"monitoring/{metadata['name']}"
            assert outputs["spec"]
