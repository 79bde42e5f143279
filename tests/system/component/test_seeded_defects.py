"""The whole program with mistakes: one run of a stack finds all of them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import yaml
from pulumi.runtime.proto import resource_pb2

from infra import app
from spec.settings import load_stack_file
from spec.versions import PROJECT
from tests.paths import ROOT
from tests.system.component.engine.account import fresh_account, seed_roles
from tests.system.component.engine.monitor import RecordingMonitor
from tests.system.component.engine.program import run
from tests.system.component.engine.recording import Registration, StackFailed, Values
from tests.system.component.engine.stack_run import TODAY
from twin.aws.base.clients import Clients

Defect = Callable[[Values], Values]


def _with(**changes: Any) -> Defect:
    return lambda inputs: {**inputs, **changes}


def _in(key: str, **changes: Any) -> Defect:
    return lambda inputs: {**inputs, key: {**inputs[key], **changes}}


def _wrong_bucket(inputs: Values) -> Values:
    return {**inputs, "policy": inputs["policy"].replace("triton-models", "other-models")}


def _failures(defects: Mapping[str, Defect]) -> dict[str, str]:
    """Return the errors of the stack `local` when the inputs of these resources are changed."""

    class SeededMonitor(RecordingMonitor):
        def _registration(self, request: resource_pb2.RegisterResourceRequest) -> Registration:
            registration = super()._registration(request)
            defect = defects.get(registration.name)
            return replace(registration, inputs=defect(registration.inputs)) if defect else registration

    path = ROOT / "stacks" / "Pulumi.local.yaml"
    settings = load_stack_file(path, today=TODAY)
    with fresh_account(), contextlib.chdir(ROOT):
        clients = Clients(settings.region)
        seed_roles(clients, settings.cluster)
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


def _unknown_nat(inputs: Values) -> Values:
    return {**inputs, "natGatewayId": "nat-0"}


def test_mistakes_in_keys_networks_buckets_and_roles() -> None:
    failures = _failures(
        {
            "logs-alias": _with(name="triton-local-logs"),
            "network-flow-logs-policy": _with(policy="{}"),
            "network-endpoints-sts": _with(serviceName="com.amazonaws.eu-west-1.sts"),
            "network-private-default-us-west-2b": _unknown_nat,
            "models-versioning": _in("versioningConfiguration", status="On"),
            "models-ownership": _in("rule", objectOwnership="Mine"),
            "models-public-access": _with(blockPublicAcl=True),
        }
    )
    assert {name: _without_ids(message) for name, message in failures.items()} == {
        "logs-alias": "CreateAlias: ValidationException: Invalid identifier",
        "network-flow-logs-policy": "PutRolePolicy: MalformedPolicyDocument: Syntax errors in policy.",
        "network-endpoints-sts": "VPC endpoint for com.amazonaws.eu-west-1.sts: no such endpoint service in us-west-2",
        "network-private-default-us-west-2b": "route 0.0.0.0/0 of rtb-: natgateway nat-0 does not exist in us-west-2",
        "models-versioning": "PutBucketVersioning: VersioningConfiguration.Status: 'On' is not one of Enabled, Suspended",
        "models-ownership": "PutBucketOwnershipControls: OwnershipControls.Rules[0].ObjectOwnership: "
        "'Mine' is not one of BucketOwnerEnforced, BucketOwnerPreferred, ObjectWriter",
        "models-public-access": "blockPublicAcl: unknown property; known: blockPublicAcls, blockPublicPolicy, bucket, "
        "ignorePublicAcls, region, restrictPublicBuckets, skipDestroy",
    }


def test_mistakes_in_what_comes_after_those() -> None:
    failures = _failures(
        {
            "models-policy": _wrong_bucket,
            "nodes-system-group": _with(amiType="AL2023_ARM_64_STANDARD"),
        }
    )
    assert {name: message.rpartition(" of triton-local: ")[2] for name, message in failures.items()} == {
        "models-policy": "bucket policy of triton-models-local-123456789012-us-west-2: "
        "Policy has invalid resource: arn:aws:s3:::other-models-local-123456789012-us-west-2",
        "nodes-system-group": "[m7i.large] is not a valid instance type for requested amiType AL2023_ARM_64_STANDARD",
    }


def test_a_component_that_connects_to_the_issuer_has_no_route_to_it() -> None:
    failures = _failures({"cluster-control-plane": _with(createOidcProvider=True)})
    (message,) = failures.values()
    assert message.startswith("createOidcProvider: Cannot retrieve the certificate fingerprint at the issuer URL: ")


def _without_ids(message: str) -> str:
    return re.sub(r"(?<=rtb-)[0-9a-f]{8,}|(?<=/id/)[A-Za-z0-9]+", "", message)
