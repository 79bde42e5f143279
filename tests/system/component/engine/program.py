"""Runs the unmodified program against the active moto account."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import pulumi
from google.protobuf import empty_pb2
from pulumi.runtime import resource
from pulumi.runtime.mocks import MockEngine, MockSettings
from pulumi.runtime.proto import source_pb2
from pulumi.runtime.settings import SETTINGS, configure
from pulumi.runtime.stack import run_in_stack

from tests.system.component.engine.monitor import RecordingMonitor
from tests.system.component.engine.providers import Aws
from tests.system.component.engine.recording import Recording, StackFailed
from twin.aws.base.clients import Clients
from twin.engine import account


def run(
    program: Callable[[], None],
    *,
    project: str,
    stack: str,
    config: Mapping[str, Any],
    root: Path,
    clients: Clients,
    preview: bool = False,
    monitor_class: type[RecordingMonitor] = RecordingMonitor,
) -> Recording:
    """Run ``program`` as the engine would, and return its registrations.

    ``config`` is the ``config`` mapping of the stack file. Every run has its own thread, because the SDK keeps its state
    in context variables and shares the rest (docs/facts/pulumi.md#state-of-the-sdk). Raises StackFailed with all refused
    resources; exceptions of the program itself pass through unchanged.
    """
    default_tags = (config.get("aws:defaultTags") or {}).get("tags", {})
    account.create_boundary(
        clients("iam"), clients.account_id, clients.region, stack, {"triton-eks:environment": stack, **config}
    )
    aws = Aws(clients, default_tags)
    monitor = monitor_class(aws, project=project, stack=stack, root=root, preview=preview)

    def work() -> None:
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        # No task awaits the futures of refused or skipped resources.
        loop.set_exception_handler(lambda *_: None)
        try:
            pulumi.runtime.set_all_config({key: _text(value) for key, value in config.items()})
            _configure(monitor, project=project, stack=stack, root=root, preview=preview)
            loop.run_until_complete(run_in_stack(program))
        finally:
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.close()

    # Without this the SDK sends the call stack of each registration: a tenth of the program's time, and no test needs it.
    with mock.patch.object(resource, "_get_stack_trace", source_pb2.StackTrace), ThreadPoolExecutor(1) as executor:
        error = executor.submit(work).exception()
    if monitor.failures:
        after = [("the program, after that", repr(error))] if error is not None else []
        raise StackFailed([*monitor.failures, *after]) from error
    if error is not None:
        raise error
    return monitor.recording


def _configure(monitor: RecordingMonitor, *, project: str, stack: str, root: Path, preview: bool) -> None:
    features = monitor.GetDeploymentInfo(empty_pb2.Empty()).supportedFeatures
    settings = MockSettings(
        monitor=monitor,
        engine=MockEngine(None),
        project=project,
        stack=stack,
        dry_run=preview,
        monitor_features=set(features),
        organization="organization",
        callbacks=None,
    )
    settings.root_directory = str(root)
    configure(settings)
    # MockSettings leaves these two shared between all runs of the process.
    SETTINGS.outputs, SETTINGS.lock = set(), threading.Lock()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
