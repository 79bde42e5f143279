"""The kinds of a chart that the twin does not install: a real API server serves them and takes our objects."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from rich.console import Console

from infra.platform import monitors
from tests.spec.prometheus.stacks import settings
from tests.twin.plugins.recording_engine import recording_engine
from twin.cluster import control_plane
from twin.cluster.kube_api import KubeClient
from twin.host import processes, tools
from twin.host.home import TwinHome
from twin.plugins import kubeconfig
from twin.plugins.errors import PluginError
from twin.plugins.kube_objects import KubeObjects
from twin.plugins.provider import Resource
from twin.plugins.releases import Releases
from twin.plugins.server import EngineLog

CHART = "kube-prometheus-stack"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeClient]:
    """Of a real control plane of its own, without pods."""
    home = TwinHome(tmp_path_factory.mktemp("cluster") / "home")
    console = Console(stderr=True)
    try:
        control_plane.ensure(home, tools.ensure(["control-plane"], console), console.print)
        yield kubeconfig.connect(yaml.safe_load(home.kubeconfig.read_text()))
    finally:
        processes.stop_all(home, seconds=20)


def _resource(kind: str, name: str) -> Resource:
    type_ = "kubernetes:helm.sh/v3:Release" if kind == "Release" else f"kubernetes:{monitors.API_VERSION}:{kind}"
    return Resource(urn=f"urn:pulumi:prod::triton-eks::{type_}::{name}", type=type_, name=name, id="")


def test_monitors_and_rules_can_be_made_once_the_chart_is_released(client: KubeClient) -> None:
    namespace: dict[str, Any] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "monitoring"}}
    client.create("/api/v1/namespaces", namespace)
    manifests = monitors.manifests(settings("prod"), "https://wiki.example.com/triton")
    with recording_engine() as engine:
        log = EngineLog(engine.address)
        objects = KubeObjects(client, log, threading.Event(), namespace="default")
        first = manifests[0]
        with pytest.raises(PluginError, match=r"does not know PodMonitor in monitoring\.coreos\.com/v1"):
            objects.create(_resource("PodMonitor", "early"), first, 60)
        release = {"chart": CHART, "version": "88.5.3", "name": CHART, "namespace": "monitoring", "values": {}}
        Releases(client, log, threading.Event(), namespace="default").create(_resource("Release", CHART), release, 60)
        for manifest in manifests:
            metadata = manifest["metadata"]
            id, outputs = objects.create(_resource(manifest["kind"], metadata["name"]), manifest, 60)
            assert id == f"monitoring/{metadata['name']}"
            assert outputs["spec"]
