"""One stack from its tracked file: preview, up, refresh and destroy in one moto account."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from infra import app
from spec.settings import Settings, load, load_stack_file
from spec.settings.model import Document
from spec.versions import PROJECT
from tests.paths import ROOT
from tests.system.component.engine.account import Account, fresh_account, living, observe, seed_roles, seed_topics
from tests.system.component.engine.lifecycle import Refresh, destroy, refresh
from tests.system.component.engine.monitor import RecordingMonitor
from tests.system.component.engine.program import run
from tests.system.component.engine.recording import Recording
from twin.aws import table
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError

STACKS = ("local", "dev", "staging", "prod")
TODAY = date(2026, 11, 21)
"""The date for checks of Kubernetes support windows."""


@dataclass(frozen=True)
class StackRun:
    """A run of a stack: its registrations, the created resources, and the remaining ones."""

    stack: str
    settings: Settings
    preview: Recording
    up: Recording
    account: Account
    refreshed: Refresh
    """Differences that a refresh right after the update finds."""
    refused_delete: str
    """The error of the cluster's deletion protection; "" if there was none."""
    leftovers: dict[str, list[str]]
    """The ids of resources that remain after a destroy, by kind."""


def required_config(root: Path, stack: str) -> dict[str, Any]:
    """Read a stack's config without optional sections, except its GPUs. Triton has one pod."""
    config: dict[str, Any] = yaml.safe_load((root / "stacks" / f"Pulumi.{stack}.yaml").read_text())["config"]
    for name, field in Document.model_fields.items():
        if not field.is_required() and name != "gpu":
            config.pop(f"{PROJECT}:{name}", None)
    config[f"{PROJECT}:triton"].pop("autoscaler", None)
    config[f"{PROJECT}:triton"]["replicas"] = 1
    return config


def deployed(
    settings: Settings,
    config: dict[str, Any],
    clients: Clients,
    *,
    preview: bool,
    root: Path = ROOT,
    monitor_class: type[RecordingMonitor] = RecordingMonitor,
) -> Recording:
    """Return the program's registrations for the stack with these settings, parsed from `config`. Raises StackFailed."""
    with contextlib.chdir(root):
        return run(
            lambda: app.deploy(settings),
            project=PROJECT,
            stack=settings.stack,
            config=config,
            root=root,
            clients=clients,
            preview=preview,
            monitor_class=monitor_class,
        )


def previewed(
    root: Path, stack: str, config: dict[str, Any], monitor_class: type[RecordingMonitor] = RecordingMonitor
) -> Recording:
    """Return the registrations of a preview in a separate, unchanged moto account."""
    settings = load(config, stack, today=TODAY)
    with fresh_account():
        clients = Clients(settings.region)
        seed_roles(clients, settings.cluster)
        return deployed(settings, config, clients, preview=True, root=root, monitor_class=monitor_class)


def bring_up(root: Path, stack: str) -> StackRun:
    """Run a stack's whole life cycle. Raises StackFailed if a resource is refused."""
    path = root / "stacks" / f"Pulumi.{stack}.yaml"
    config: dict[str, Any] = yaml.safe_load(path.read_text())["config"]
    settings = load_stack_file(path, today=TODAY)
    with fresh_account(), contextlib.chdir(root):
        clients = Clients(settings.region)
        seed_roles(clients, settings.cluster)
        seed_topics(clients, config)
        before = living(clients)
        preview = deployed(settings, config, clients, preview=True, root=root)
        if living(clients) != before:
            raise AssertionError(f"the preview of {stack} made {living(clients)}")
        up = deployed(settings, config, clients, preview=False, root=root)
        account_now, refreshed = observe(clients), refresh(clients, up)
        refusal = _lift_deletion_protection(clients, up)
        destroy(clients, up)
        left = {kind: sorted(set(ids) - set(before.get(kind, ()))) for kind, ids in living(clients).items()}
    return StackRun(
        stack=stack,
        settings=settings,
        preview=preview,
        up=up,
        account=account_now,
        refreshed=refreshed,
        refused_delete=refusal,
        leftovers={kind: ids for kind, ids in left.items() if ids},
    )


def _lift_deletion_protection(clients: Clients, recording: Recording) -> str:
    """Try to delete a protected cluster, record AWS's error, then disable its protection as a person does."""
    cluster = recording.one("aws:eks/cluster:Cluster")
    if not cluster.checked.get("deletionProtection"):
        return ""
    handler = table.handler(cluster.type)
    try:
        handler.delete(clients, cluster.id, dict(cluster.outputs))
    except HandlerError as error:
        handler.update(clients, cluster.id, dict(cluster.outputs), {**cluster.checked, "deletionProtection": False})
        return str(error)
    raise AssertionError("a cluster with deletion protection was deleted")
