"""An `up` whose wait for pods failed: the next one waits again (docs/facts/pulumi.md#waiting-for-pods)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from twin.cluster.kube_api import KubeClient
from twin.engine.engine import Engine, EngineError
from twin.host.home import TwinHome
from twin.plugins import kubeconfig
from twin.services import scratch

STACK = "waited"
UP = ["up", "--yes", "--skip-preview", "--non-interactive"]
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
PROGRAM = """\
import os
from pathlib import Path

import pulumi
import pulumi_kubernetes as kubernetes

config = pulumi.Config()
provider = kubernetes.Provider("cluster", kubeconfig=Path(os.environ["KUBECONFIG"]).read_text())
labels = {"app": "waited"}
deployment = kubernetes.apps.v1.Deployment(
    "waited",
    metadata={"name": "waited", "namespace": "default", "annotations": {"pulumi.com/timeoutSeconds": "3"}},
    spec={
        "replicas": config.require_int("replicas"),
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "a", "image": config.require("image")}]},
        },
    },
    opts=pulumi.ResourceOptions(provider=provider),
)
kubernetes.core.v1.ConfigMap(
    "after",
    metadata={"name": "after", "namespace": "default"},
    opts=pulumi.ResourceOptions(provider=provider, depends_on=[deployment]),
)
"""


@dataclass(frozen=True)
class Stack:
    """A separate program on a twin without nodes, so no pod becomes ready."""

    engine: Engine
    cluster: KubeClient

    def up(self, *, replicas: int, image: str = "example.com/a:1") -> dict[str, int]:
        """Write the stack file, run `up`, and return its changes by operation. Raises EngineError."""
        config = {"aws:region": "us-west-2", "triton-eks:replicas": replicas, "triton-eks:image": image}
        (self.engine.program / f"stacks/Pulumi.{STACK}.yaml").write_text(yaml.safe_dump({"config": config}))
        self.engine.read(STACK, UP)
        return dict(self.engine.last_update(STACK).changes)

    def waited(self) -> tuple[dict[str, Any], list[str]]:
        """Return the Deployment in the state, and the types of all resources."""
        resources = self.engine.resources(STACK)
        return next(one for one in resources if one["type"] == DEPLOYMENT), [one["type"] for one in resources]


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    program = tmp_path / "program"
    (program / "stacks").mkdir(parents=True)
    (program / "Pulumi.yaml").write_text("name: triton-eks\nstackConfigDir: stacks\nruntime: python\n")
    (program / "__main__.py").write_text(PROGRAM)
    with scratch.twin(TwinHome(tmp_path / "twin"), Console(stderr=True)) as servers:
        cluster = kubeconfig.connect(yaml.safe_load(servers.kubeconfig.read_text()))
        yield Stack(replace(servers.engine(), program=program), cluster)


def test_what_was_not_ready_is_waited_for_again_until_it_is_mended(stack: Stack) -> None:
    with pytest.raises(EngineError, match="'waited' timed out waiting to be Ready"):
        stack.up(replicas=1)
    made, types = stack.waited()
    assert made["initErrors"][0].endswith("'waited' timed out waiting to be Ready")  # the official provider names it before
    assert made["id"] == "default/waited"
    assert "kubernetes:core/v1:ConfigMap" not in types, "nothing that depends on it is made"
    uid = stack.cluster.find("/apis/apps/v1/namespaces/default/deployments/waited")["metadata"]["uid"]  # type: ignore[index]

    with pytest.raises(EngineError, match="'waited' timed out waiting to be Ready"):
        stack.up(replicas=1)  # the file is unchanged
    assert stack.waited()[0]["initErrors"]

    assert stack.up(replicas=0, image="example.com/a:2") == {"create": 1, "same": 2, "update": 1}
    mended, types = stack.waited()
    assert not mended.get("initErrors")
    assert mended["inputs"]["spec"]["template"]["spec"]["containers"][0]["image"] == "example.com/a:2"
    assert "kubernetes:core/v1:ConfigMap" in types
    live = stack.cluster.find("/apis/apps/v1/namespaces/default/deployments/waited")
    assert live is not None
    assert live["metadata"]["uid"] == uid, "it is changed, and not made anew"

    assert stack.up(replicas=0, image="example.com/a:2") == {"same": 4}


def test_what_became_ready_meanwhile_is_found_so_by_the_next_up(stack: Stack) -> None:
    """Another user repaired it: the file is unchanged, but the engine calls the provider."""
    with pytest.raises(EngineError, match="'waited' timed out waiting to be Ready"):
        stack.up(replicas=1)
    (pod,) = stack.cluster.get("/api/v1/namespaces/default/pods")["items"]
    status = {
        "phase": "Running",
        "conditions": [{"type": kind, "status": "True"} for kind in ("Ready", "ContainersReady", "Initialized")],
    }
    stack.cluster.patch(f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}/status", {"status": status})

    assert stack.up(replicas=1)["update"] == 1
    assert not stack.waited()[0].get("initErrors")
