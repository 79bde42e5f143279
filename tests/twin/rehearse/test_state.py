"""An exported state: refusals, and the engine's substitutes for values that only the real stack can read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spec.failure import NOT_TRIED, Failure
from twin.plugins.values import SECRET, SIGNATURE
from twin.rehearse import state
from twin.rehearse.state import UNKNOWN_SECRET, State

VPC, RELEASE, KUBERNETES = "aws:ec2/vpc:Vpc", "kubernetes:helm.sh/v3:Release", "pulumi:providers:kubernetes"
PROVIDERS = {"aws": "7.51.1", "kubernetes": "4.34.2"}
ENCRYPTED = {SIGNATURE: SECRET, "ciphertext": "v1:abcdef:0123456789"}
READABLE = {SIGNATURE: SECRET, "plaintext": '"hunter2"'}


def urn(type_: str, name: str, stack: str = "prod", project: str = "triton-eks") -> str:
    return f"urn:pulumi:{stack}::{project}::{type_}::{name}"


def resource(type_: str, name: str, inputs: dict[str, Any], **parts: Any) -> dict[str, Any]:
    arn = f"arn:aws:ec2:eu-west-1:210987654321:{name}"
    made = {"urn": urn(type_, name), "type": type_, "custom": True, "id": f"id-{name}"}
    return {**made, "inputs": inputs, "outputs": {"arn": arn}, **parts}


NETWORK = resource(
    VPC, "network", {"cidrBlock": "10.0.0.0/16", "tagsAll": {"a": "b"}, "region": "eu-west-1", "__defaults": []}
)


def written(tmp_path: Path, *resources: dict[str, Any], **parts: Any) -> Path:
    path = tmp_path / "state.json"
    path.write_text(json.dumps({"version": 3, "deployment": {"resources": [*resources], **parts}}))
    return path


def read(tmp_path: Path, *resources: dict[str, Any], **parts: Any) -> State:
    return state.read(written(tmp_path, *resources, **parts))


def imported(tmp_path: Path, *resources: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = state.importable(read(tmp_path, *resources), PROVIDERS, '{"own": 1}', "v1:salt")[
        "deployment"
    ]["resources"]
    return found


def test_a_state_says_which_stack_of_which_account_it_is(tmp_path: Path) -> None:
    kept = resource("aws:s3/bucket:Bucket", "models", {}, retainOnDelete=True)
    cut = {"type": "creating", "resource": {"urn": urn(f"triton:network:Network${VPC}", "network"), "type": VPC}}
    found = read(tmp_path, NETWORK, kept, pending_operations=[cut])
    assert (found.stack, found.account, found.region) == ("prod", "210987654321", "eu-west-1")
    assert found.interrupted == ("creating network (aws:ec2/vpc:Vpc)",)
    assert found.retained == {kept["urn"]}


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("[]", "is a list, where an object is expected"),
        ('{"version": 3', "not valid JSON: Expecting ',' delimiter"),
        (
            '{"resources": []}',
            "no deployment of version 3 or 4; write it with `pulumi stack export --stack STACK --file FILE`",
        ),
        ('{"version": 1, "deployment": {}}', "no deployment of version 3 or 4"),
        ('{"version": "3", "deployment": {}}', "the export.version is text, where a number is expected"),
        ('{"version": 3, "deployment": {}}', "the stack has no resources, so that nothing can be replaced"),
        ('{"version": 3, "deployment": {"resources": [{"urn": "u"}]}}', "resource 0 has no urn or no type"),
        ('{"version": 3, "deployment": {"resources": [{"urn": 1}]}}', "the export.deployment.resources[0].urn is a number"),
        (
            '{"version": 3, "deployment": {"resources": [{"urn": "u", "type": "t"}]}}',
            "resource 0: 'u' is no URN\nexport the state again",
        ),
    ],
)
def test_what_is_no_export_is_refused(tmp_path: Path, document: str, said: str) -> None:
    path = tmp_path / "state.json"
    path.write_text(document)
    with pytest.raises(Failure) as caught:
        state.read(path)
    assert str(caught.value).startswith(str(path))
    assert said in str(caught.value)
    assert caught.value.exit_code == NOT_TRIED


STACK = {"urn": urn("pulumi:pulumi:Stack", "all"), "type": "pulumi:pulumi:Stack", "custom": False}
PROVIDER = resource("pulumi:providers:aws", "default", {"version": "7.0.0"})
WHOLE = {"parent": STACK["urn"], "provider": f"{PROVIDER['urn']}::id-default", "dependencies": [PROVIDER["urn"]]}
ABSENT = urn(VPC, "absent")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"custom": None}, "resource 2 does not say whether it is custom"),
        ({"custom": "yes"}, "resources[2].custom is text, where true or false is expected"),
        ({"id": ""}, "resource 2 (network) has no id"),
        ({"custom": False}, "resource 2 (network) has an id, or is a provider, and is not custom"),
        (
            {"custom": False, "id": "", "type": PROVIDER["type"], "urn": urn(PROVIDER["type"], "other")},
            "resource 2 (other) has an id, or is a provider, and is not custom",
        ),
        (
            {"type": "aws:s3/bucket:Bucket"},
            "resource 2: its type is 'aws:s3/bucket:Bucket', and 'aws:ec2/vpc:Vpc' in its URN",
        ),
        ({"urn": urn(VPC, "network", stack="../../x")}, "is no URN"),
        ({"urn": urn(VPC, "net\nwork")}, "is no URN"),
        ({"urn": STACK["urn"], "type": STACK["type"]}, "resource 2 (all) is there twice"),
        ({"parent": 3}, "resources[2].parent is a number, where text is expected"),
        ({"parent": ABSENT}, f"resource 2 (network): parent is '{ABSENT}', and no resource before it is that"),
        ({"parent": urn(VPC, "network")}, "(network): parent is"),
        ({"deletedWith": ABSENT}, "(network): deletedWith is"),
        ({"dependencies": "all"}, "resources[2].dependencies is text, where a list is expected"),
        ({"dependencies": [ABSENT]}, f"a dependency is '{ABSENT}'"),
        ({"propertyDependencies": {"tags": [ABSENT]}}, f"a dependency of tags is '{ABSENT}'"),
        ({"propertyDependencies": {"tags": [[]]}}, "a dependency of tags is '[]'"),
        ({"propertyDependencies": {"tags": 3}}, "a dependency of tags is '3'"),
        ({"provider": PROVIDER["urn"]}, "no provider before it is"),
        ({"provider": f"{PROVIDER['urn']}::another"}, "no provider before it is"),
        ({"retainOnDelete": "false"}, "resources[2].retainOnDelete is text, where true or false is expected"),
        ({"protect": "no"}, "resources[2].protect is text, where true or false is expected"),
        ({"inputs": {"a": [{SIGNATURE: SECRET}]}}, "resource 2: inputs.a[0] is a secret with neither"),
        ({"outputs": {"a": {SIGNATURE: SECRET, "plaintext": "{"}}}, "resource 2: outputs.a is a secret with neither"),
    ],
)
def test_a_state_that_the_engine_could_not_have_written_is_refused(
    tmp_path: Path, changed: dict[str, Any], said: str
) -> None:
    assert read(tmp_path, STACK, PROVIDER, {**NETWORK, **WHOLE}).stack == "prod"
    with pytest.raises(Failure) as caught:
        read(tmp_path, STACK, PROVIDER, {**NETWORK, **WHOLE, **changed})
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "changed",
    [
        {"propertyDependencies": {"tags": None}},
        {"pendingReplacement": True, "provider": f"{PROVIDER['urn']}::id-of-the-one-before"},
        {"urn": urn(VPC, "a::b")},
    ],
    ids=["null for no dependencies", "a provider that was replaced", "a name with colons"],
)
def test_a_state_that_some_engine_writes_is_read(tmp_path: Path, changed: dict[str, Any]) -> None:
    assert len(read(tmp_path, STACK, PROVIDER, {**NETWORK, **WHOLE, **changed}).resources) == 3


def test_what_is_about_to_be_deleted_may_be_there_beside_its_replacement(tmp_path: Path) -> None:
    assert len(read(tmp_path, NETWORK, {**NETWORK, "delete": True}).resources) == 2


@pytest.mark.parametrize(
    "operation",
    [
        {"type": "creating"},
        {"type": "creating", "resource": None},
        {"type": "exploding", "resource": {"urn": urn(VPC, "a")}},
    ],
)
def test_operations_that_say_nothing_are_refused(tmp_path: Path, operation: dict[str, Any]) -> None:
    with pytest.raises(state.NotAState, match="pending operation 0 needs the urn of a resource, and a type of creating"):
        read(tmp_path, NETWORK, pending_operations=[operation])


def test_all_mistakes_are_told_at_once_up_to_ten(tmp_path: Path) -> None:
    with pytest.raises(state.NotAState, match=r"(?s)resource 0 \(n0\).*resource 9 \(n9\).*\n  and 2 more\nexport"):
        read(tmp_path, *(resource(VPC, f"n{number}", {}, id="") for number in range(12)))


def test_states_of_other_things_are_refused(tmp_path: Path) -> None:
    other = {**NETWORK, "urn": urn(VPC, "network", project="web")}
    with pytest.raises(state.NotAState, match="a state of the project web, where triton-eks is expected"):
        read(tmp_path, other)
    with pytest.raises(state.NotAState, match=r"resources of 2 stacks \(dev, prod\); give one's"):
        read(tmp_path, NETWORK, {**NETWORK, "urn": urn(VPC, "network", stack="dev")})
    with pytest.raises(state.NotAState, match="nothing in it has an ARN of an account and a region"):
        read(tmp_path, {**NETWORK, "outputs": {}})
    with pytest.raises(state.NotAState, match=r"a provider of random \(default\); the twin has those of aws, kubernetes"):
        imported(tmp_path, NETWORK, resource("pulumi:providers:random", "default", {}))


def test_what_is_encrypted_is_told_and_stays_a_secret(tmp_path: Path) -> None:
    inputs = {"values": {"auth": [{"password": ENCRYPTED, "user": READABLE}]}}
    release = resource(RELEASE, "keda", inputs)
    assert read(tmp_path, NETWORK, release).hidden == {release["urn"]: (("values", "auth", 0, "password"),)}
    made = imported(tmp_path, NETWORK, release)[1]["inputs"]["values"]["auth"][0]
    assert made == {"password": {SIGNATURE: SECRET, "plaintext": json.dumps(UNKNOWN_SECRET)}, "user": READABLE}


def test_inputs_of_the_official_providers_alone_are_left_out(tmp_path: Path) -> None:
    written_by_helm = {
        "name": "keda",
        "values": {"replicas": 0, "flag": False},
        "atomic": True,
        "devel": False,
        "description": "",
        "resourceNames": {},
        "repositoryOpts": {"repo": "https://charts.example", "caFile": "", "password": ""},
    }
    network, release = imported(tmp_path, NETWORK, resource(RELEASE, "keda", written_by_helm))
    assert network["inputs"] == {"cidrBlock": "10.0.0.0/16", "__defaults": []}
    assert release["inputs"] == {
        "name": "keda",
        "values": {"replicas": 0, "flag": False},
        "atomic": True,
        "repositoryOpts": {"repo": "https://charts.example"},
    }


def test_inputs_that_are_null_are_none(tmp_path: Path) -> None:
    assert imported(tmp_path, {**NETWORK, "inputs": None})[0]["inputs"] == {}


def test_where_a_plugin_comes_from_is_left_out_in_the_form_of_older_and_of_newer_engines(tmp_path: Path) -> None:
    of_the_plugin = {"pluginDownloadURL": "https://x", "pluginChecksums": {"linux-amd64": "00"}}
    for given in (of_the_plugin, {"__internal": of_the_plugin}):
        provider = resource("pulumi:providers:aws", "default_6_0_0", {"region": "eu-west-1", "version": "6.0.0", **given})
        made = imported(tmp_path, NETWORK, provider)[1]
        assert made["inputs"] == {"region": "eu-west-1", "version": "7.51.1"}


def test_what_engines_and_providers_write_beside_inputs_goes_to_the_twin_as_it_is(tmp_path: Path) -> None:
    """The form of the states in pulumi-eks's upgrade tests, with our own values."""
    meta = json.dumps({"e2bfb730-ecaa-11e6-8f88-34363bc7c4c0": {"create": 1200000000000}, "schema_version": "1"})
    beside = {
        "created": "2026-03-01T10:00:00.123456789Z",
        "modified": "2026-03-02T10:00:00.123456789Z",
        "sourcePosition": "project:///__main__.py#1,1",
        "aliases": [urn("aws:ec2/defaultVpc:DefaultVpc", "network")],
        "additionalSecretOutputs": ["kubeconfig"],
        "customTimeouts": {"create": 600, "update": 0, "delete": 0},
        "propertyDependencies": {"cidrBlock": [], "tags": None},
    }
    outputs = {"arn": "arn:aws:ec2:eu-west-1:210987654321:vpc/vpc-1", "__meta": meta, "kubeconfig": ENCRYPTED}
    (made,) = imported(tmp_path, {**NETWORK, **beside, "outputs": outputs})
    assert {key: made[key] for key in beside} == beside
    assert made["outputs"] == {**outputs, "kubeconfig": {SIGNATURE: SECRET, "plaintext": json.dumps(UNKNOWN_SECRET)}}


def test_providers_are_the_twins_and_reach_nothing_else(tmp_path: Path) -> None:
    real = {
        "kubeconfig": ENCRYPTED,
        "clusterIdentifier": "triton-prod",
        "version": "4.1.0",
        "pluginDownloadURL": "https://x",
    }
    provider = resource(KUBERNETES, "k8s", real, outputs={"kubeconfig": ENCRYPTED, "version": "4.1.0"})
    assert read(tmp_path, NETWORK, provider).hidden == {}
    made = imported(tmp_path, NETWORK, provider)[1]
    assert made["inputs"] == {"kubeconfig": '{"own": 1}', "clusterIdentifier": "triton-prod", "version": "4.34.2"}
    assert made["outputs"] == {"kubeconfig": '{"own": 1}', "version": "4.34.2"}
