"""The whole program with mistakes in it: each one is found while a stack comes up, and all of them at once."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from pulumi.runtime.proto import resource_pb2

from infra import app
from infra.settings import load_stack_file
from infra.versions import PROJECT
from tests.component.engine.account import fresh_account
from tests.component.engine.monitor import RecordingMonitor
from tests.component.engine.program import run
from tests.component.engine.recording import Registration, StackFailed, Values
from tests.component.engine.stack_run import TODAY
from twin.aws import account
from twin.aws.clients import Clients

ROOT = Path(__file__).parents[2]

Defect = Callable[[Values], Values]


def _with(**changes: Any) -> Defect:
    return lambda inputs: {**inputs, **changes}


def _in(key: str, **changes: Any) -> Defect:
    return lambda inputs: {**inputs, key: {**inputs[key], **changes}}


def _wrong_bucket(inputs: Values) -> Values:
    return {**inputs, "policy": inputs["policy"].replace("triton-models", "other-models")}


def _wrong_issuer(inputs: Values) -> Values:
    document = json.loads(inputs["assumeRolePolicy"])
    condition = document["Statement"][0]["Condition"]["StringEquals"]
    document["Statement"][0]["Condition"] = {"StringEquals": {f"x{key}": value for key, value in condition.items()}}
    return {**inputs, "assumeRolePolicy": json.dumps(document)}


def _failures(defects: Mapping[str, Defect]) -> dict[str, str]:
    """What the stack `local` says when these resources' inputs are changed."""

    class SeededMonitor(RecordingMonitor):
        def _registration(self, request: resource_pb2.RegisterResourceRequest) -> Registration:
            registration = super()._registration(request)
            defect = defects.get(registration.name)
            return replace(registration, inputs=defect(registration.inputs)) if defect else registration

    path = ROOT / "stacks" / "Pulumi.local.yaml"
    settings = load_stack_file(path, today=TODAY)
    with fresh_account(), contextlib.chdir(ROOT):
        clients = Clients(settings.region)
        account.seed_roles(clients, settings.cluster.admin_role_arns)
        with pytest.raises(StackFailed) as caught:
            run(
                lambda: app.deploy(settings),
                project=PROJECT,
                stack="local",
                config=yaml.safe_load(path.read_text())["config"],
                root=ROOT,
                clients=clients,
                monitor_class=SeededMonitor,
            )
    return {resource.split()[1]: message for resource, message in caught.value.failures}


def test_mistakes_in_network_buckets_and_roles() -> None:
    failures = _failures(
        {
            "logs-alias": _with(name="triton-local-logs"),
            "network-flow-log": _with(trafficType="EVERYTHING"),
            "models-versioning": _in("versioningConfiguration", status="On"),
            "models-policy": _wrong_bucket,
            "models-ownership": _in("rule", objectOwnership="Mine"),
            "models-public-access": _with(blockPublicAcl=True),
            "model-reader-role": _wrong_issuer,
            "cluster-addon-vpc-cni": _with(addonVersion="latest"),
        }
    )
    assert failures == {}


def test_mistakes_in_node_groups() -> None:
    failures = _failures(
        {
            "nodes-system-group": _with(amiType="AL2023_x86_64_NVIDIA"),
            "nodes-pool-g5-group": _with(amiType="AL2023_x86_64_STANDARD"),
        }
    )
    assert failures == {}
