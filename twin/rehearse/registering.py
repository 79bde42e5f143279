"""Register Kubernetes objects unchanged: the Pulumi program that creates and changes the servers of a state."""

from __future__ import annotations

import json
from pathlib import Path

import pulumi
import pulumi_kubernetes as kubernetes

from twin.rehearse.part import type_of
from twin.rehearse.serving import DEPLOYMENT

FILE = "objects.json"


def main(file: Path) -> None:
    """Register the `objects` of a file, each by its `TYPE::NAME`, with a provider for its `kubeconfig`.

    Deployments come last, because their pods need the other objects.
    """
    document = json.loads(file.read_text())
    provider = kubernetes.Provider("cluster", kubeconfig=document["kubeconfig"], enable_server_side_apply=True)
    before: list[pulumi.Resource] = []
    for key, manifest in sorted(document["objects"].items(), key=lambda one: (_order(one[1]["kind"]), one[0])):
        type_ = type_of(key)
        own = pulumi.ResourceOptions(provider=provider, depends_on=list(before))
        made = pulumi.CustomResource(type_, key.partition("::")[2], manifest, own)
        if type_ != DEPLOYMENT:
            before.append(made)


def _order(kind: str) -> int:
    return {"Namespace": 0, "PriorityClass": 0, "Deployment": 2}.get(kind, 1)
