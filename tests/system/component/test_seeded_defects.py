"""The whole program with mistakes in it: each one is found while a stack comes up, and all of them at once."""

from __future__ import annotations

import contextlib
import json
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


def _wrong_issuer(inputs: Values) -> Values:
    document = json.loads(inputs["assumeRolePolicy"])
    condition = document["Statement"][0]["Condition"]["StringEquals"]
    document["Statement"][0]["Condition"] = {"StringEquals": {f"x{key}": value for key, value in condition.items()}}
    return {**inputs, "assumeRolePolicy": json.dumps(document)}


def _failures(defects: Mapping[str, Defect]) -> dict[str, str]:
    """Return what the stack `local` says when these resources' inputs are changed."""

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


def _no_days(inputs: Values) -> Values:
    rules = [{**rule, "noncurrentVersionExpiration": {"noncurrentDays": 0}} for rule in inputs["rules"]]
    return {**inputs, "rules": rules}


def _unknown_nat(inputs: Values) -> Values:
    return {**inputs, "natGatewayId": "nat-0"}


def test_mistakes_in_network_buckets_and_roles() -> None:
    failures = _failures(
        {
            "logs-alias": _with(name="triton-local-logs"),
            "network-flow-logs-policy": _with(policy="{}"),
            "network-endpoints-https": _with(toPort=70000),
            "network-endpoints-sts": _with(serviceName="com.amazonaws.eu-west-1.sts"),
            "network-private-default-us-west-2b": _unknown_nat,
            "models-versioning": _in("versioningConfiguration", status="On"),
            "models-ownership": _in("rule", objectOwnership="Mine"),
            "models-public-access": _with(blockPublicAcl=True),
            "model-reader-role": _wrong_issuer,
            "cluster-addon-vpc-cni": _with(addonVersion="latest"),
        }
    )
    assert {name: _without_ids(message) for name, message in failures.items()} == {
        "logs-alias": "name: 'triton-local-logs' does not begin with alias/, or with the reserved alias/aws/",
        "network-flow-logs-policy": "policy.Version: None; use 2012-10-17; policy.Statement: required",
        "network-endpoints-https": "fromPort: ports 443-70000 are not within 0-65535",
        "network-endpoints-sts": "VPC endpoint for com.amazonaws.eu-west-1.sts: no such endpoint service in us-west-2",
        "network-private-default-us-west-2b": "route 0.0.0.0/0 of rtb-: natgateway nat-0 does not exist in us-west-2",
        "models-versioning": "versioningConfiguration.status: 'On' is not one of Enabled, Suspended, Disabled",
        "models-ownership": "PutBucketOwnershipControls: OwnershipControls.Rules[0].ObjectOwnership: "
        "'Mine' is not one of BucketOwnerEnforced, BucketOwnerPreferred, ObjectWriter",
        "models-public-access": "blockPublicAcl: unknown property; known: blockPublicAcls, blockPublicPolicy, bucket, "
        "ignorePublicAcls, region, restrictPublicBuckets, skipDestroy",
        "model-reader-role": "trust policy: condition key xoidc.eks.us-west-2.amazonaws.com/id/:aud "
        "does not belong to the trusted issuer oidc.eks.us-west-2.amazonaws.com/id/",
        "cluster-addon-vpc-cni": "addonVersion: 'latest' is not like v1.2.3-eksbuild.4",
    }


def test_mistakes_in_what_comes_after_those() -> None:
    failures = _failures(
        {
            "models-policy": _wrong_bucket,
            "models-lifecycle": _no_days,
            "nodes-system-group": _with(amiType="AL2023_x86_64_NVIDIA"),
            "nodes-pool-g5-group": _with(amiType="AL2023_x86_64_STANDARD"),
        }
    )
    assert {name: message.rpartition(" of triton-local: ")[2] for name, message in failures.items()} == {
        "models-policy": "bucket policy of triton-models-local-123456789012-us-west-2: "
        "resource arn:aws:s3:::other-models-local-123456789012-us-west-2 is not in this bucket",
        "models-lifecycle": "rules[0].noncurrentVersionExpiration.noncurrentDays: 0 is not at least 1 day; "
        "rules[1].noncurrentVersionExpiration.noncurrentDays: 0 is not at least 1 day; "
        "rules[2].noncurrentVersionExpiration.noncurrentDays: 0 is not at least 1 day",
        "nodes-system-group": "AMI type AL2023_x86_64_NVIDIA on m7i.large, which has no NVIDIA GPU",
        "nodes-pool-g5-group": "g5.xlarge has an NVIDIA GPU, AMI type AL2023_x86_64_STANDARD has no driver for it",
    }


def test_a_component_that_connects_to_the_issuer_has_no_route_to_it() -> None:
    failures = _failures({"cluster-control-plane": _with(createOidcProvider=True)})
    (message,) = failures.values()
    assert message.startswith("createOidcProvider: Cannot retrieve the certificate fingerprint at the issuer URL: ")


def _without_ids(message: str) -> str:
    return re.sub(r"(?<=rtb-)[0-9a-f]{8,}|(?<=/id/)[A-Za-z0-9]+", "", message)
