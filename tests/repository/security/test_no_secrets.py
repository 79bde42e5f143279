"""No secret is in stack outputs, in the program's registered resources with their rendered charts, or in tracked files."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests import snapshots
from tests.paths import ROOT
from tests.repository.security.secret_patterns import secret_values, secrets_in

STACKS = ("local", "dev", "staging", "prod")

OUTPUTS = {
    *("clusterName", "modelBucket", "region", "releaseId", "requestBucket", "requestQueueUrl", "tritonRoleArn"),
    *("apiReachedBy", "gatewayAddressCommand", "inferenceUrl", "inferenceUrls", "vpcId", "zones"),
}
"""Everyone who may read a stack's state may read all its outputs: check a new output here first."""

SAMPLES = {
    "AWS access key": "key: " + "AKIA" + "IOSFODNN7EXAMPLE",
    "private key": "-----BEGIN RSA " + "PRIVATE KEY-----",
    "private key in base64": "LS0tLS1CRUdJTiBSU0EgUFJJ" + "VkFURSBLRVktLS0tLQ==",
    "JSON Web Token": "eyJhbGciOiJSUzI1NiJ9" + ".eyJzdWIiOiJ0cml0b24ifQ." + "c2lnbmF0dXJl",
    "GitHub token": "ghp_" + "a" * 36,
    "Pulumi token": "pul-" + "0" * 40,
    "Slack webhook": "https://hooks.slack" + ".com/services/T000/B000/XXXX",
    "password in a URL": "postgres://admin:" + "hunter2@db:5432",
    "signed URL": "https://b.s3.amazonaws.com/k?X-Amz-Signature=" + "0" * 64,
}


@pytest.mark.parametrize("kind", SAMPLES)
def test_each_kind_of_secret_would_be_found(kind: str) -> None:
    assert [found.partition(":")[0] for found in secrets_in(f"x {SAMPLES[kind]} y")] == [kind]


def test_a_value_whose_name_says_that_it_is_secret_would_be_found() -> None:
    planted = {
        "adminPassword": "hunter2",
        "auth": {"API_TOKEN": "abc", "existingSecret": "grafana", "token": ""},
        "env": [{"name": "DB_PASSWORD", "value": "hunter2"}, {"name": "HOME", "value": "/"}],
        "certificateSigningToken": "<name.token>",
    }
    assert list(secret_values(planted)) == ["adminPassword", "auth.API_TOKEN", "env[0] (DB_PASSWORD)"]


@pytest.mark.parametrize("stack", STACKS)
def test_stack_outputs_are_names_and_ids(stack: str) -> None:
    exports = snapshots.read(stack)["exports"]
    assert set(exports) <= OUTPUTS
    assert secrets_in(json.dumps(exports)) == []


@pytest.mark.parametrize("stack", STACKS)
def test_nothing_that_a_stack_registers_has_a_secret_in_it(stack: str) -> None:
    registered = snapshots.read(stack)["resources"]
    assert secrets_in(json.dumps(registered)) == []
    assert list(secret_values(registered)) == []


@pytest.mark.parametrize("stack", STACKS)
def test_the_program_makes_no_kubernetes_secret(stack: str) -> None:
    """A Secret's values would be in the state. Charts in the cluster or the owner of the secret create Secrets instead."""
    made = [
        name for name in snapshots.read(stack)["resources"] if name.endswith(("core/v1:Secret)", "core/v1:SecretPatch)"))
    ]
    assert made == []


def test_no_tracked_file_has_a_secret_in_it() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    found = {}
    for name in listed.stdout.split("\0"):
        path = ROOT / name
        if not name or not path.is_file() or path.name.endswith(".sum"):
            continue
        try:
            secrets = secrets_in(path.read_text(encoding="utf-8"))
        except UnicodeDecodeError:
            continue
        if secrets:
            found[name] = secrets
    assert found == {}
