"""The aws provider, called like by the engine, on a moto server."""

import re
from collections.abc import Iterator
from typing import Any

import boto3
import grpc
import pytest
from google.protobuf import empty_pb2
from moto.server import ThreadedMotoServer
from pulumi.runtime.proto import provider_pb2

from tests.twin.plugins.recording_engine import RecordingEngine, plain, provider_stub, recording_engine, struct, urn
from twin.plugins.aws import AwsProvider, _with_old_defaults
from twin.plugins.server import EngineLog
from twin.plugins.values import UNKNOWN

VPC, SUBNET, BUCKET = "aws:ec2/vpc:Vpc", "aws:ec2/subnet:Subnet", "aws:s3/bucket:Bucket"
CONFIG = {"region": "us-west-2", "defaultTags": '{"tags": {"owner": "ml-platform", "tier": "default"}}'}


@pytest.fixture(scope="module")
def moto_url() -> Iterator[str]:
    server = ThreadedMotoServer("127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def engine() -> Iterator[RecordingEngine]:
    with recording_engine() as engine:
        yield engine


@pytest.fixture
def provider(engine: RecordingEngine, moto_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto_url)
    with provider_stub(AwsProvider(EngineLog(engine.address))) as stub:
        stub.Configure(provider_pb2.ConfigureRequest(args=struct(CONFIG)))
        yield stub


@pytest.fixture
def ec2(moto_url: str) -> Any:
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    return boto3.client("ec2", region_name="us-west-2", endpoint_url=moto_url, **keys)


def _check(provider: Any, type: str, name: str, news: dict[str, Any], olds: dict[str, Any] | None = None) -> Any:
    request = provider_pb2.CheckRequest(
        urn=urn(type, name), news=struct(news), olds=struct(olds or {}), randomSeed=b"seed" * 8
    )
    return provider.Check(request)


def _checked(
    provider: Any, type: str, name: str, news: dict[str, Any], olds: dict[str, Any] | None = None
) -> dict[str, Any]:
    response = _check(provider, type, name, news, olds)
    assert list(response.failures) == []
    return plain(response.inputs)


def _diff(provider: Any, type: str, old: dict[str, Any], new: dict[str, Any]) -> Any:
    return provider.Diff(provider_pb2.DiffRequest(urn=urn(type, "x"), id="x", old_inputs=struct(old), news=struct(new)))


def test_the_version_is_the_sdks_and_says_that_it_is_the_twins(provider: Any) -> None:
    assert re.fullmatch(r"7\.\d+\.\d+\+twin", provider.GetPluginInfo(empty_pb2.Empty()).version)


def test_a_resource_lives_from_create_to_delete(provider: Any, ec2: Any) -> None:
    inputs = _checked(provider, VPC, "net", {"cidrBlock": "10.9.0.0/16", "tags": {"tier": "own"}})
    assert inputs["tags"] == {"owner": "ml-platform", "tier": "own"}

    created = provider.Create(provider_pb2.CreateRequest(urn=urn(VPC, "net"), properties=struct(inputs)))
    [vpc] = ec2.describe_vpcs(VpcIds=[created.id])["Vpcs"]
    assert vpc["CidrBlock"] == "10.9.0.0/16"
    state = plain(created.properties)

    new = _checked(provider, VPC, "net", {"cidrBlock": "10.9.0.0/16", "tags": {"tier": "new"}}, inputs)
    difference = _diff(provider, VPC, inputs, new)
    assert list(difference.detailedDiff) == ["tags.tier"]
    assert list(difference.replaces) == []
    request = provider_pb2.UpdateRequest(
        urn=urn(VPC, "net"), id=created.id, olds=struct(state), old_inputs=struct(inputs), news=struct(new)
    )
    updated = plain(provider.Update(request).properties)
    assert updated["tags"] == {"owner": "ml-platform", "tier": "new"}

    read = provider_pb2.ReadRequest(urn=urn(VPC, "net"), id=created.id, properties=struct(updated), inputs=struct(new))
    assert plain(provider.Read(read).inputs) == new
    delete = provider_pb2.DeleteRequest(
        urn=urn(VPC, "net"), id=created.id, properties=struct(updated), old_inputs=struct(new)
    )
    provider.Delete(delete)
    assert provider.Read(read).id == ""
    provider.Delete(delete)


def test_a_tag_changed_behind_our_back_is_seen_by_refresh(provider: Any, ec2: Any) -> None:
    inputs = _checked(provider, VPC, "drift", {"cidrBlock": "10.8.0.0/16"})
    created = provider.Create(provider_pb2.CreateRequest(urn=urn(VPC, "drift"), properties=struct(inputs)))
    ec2.create_tags(Resources=[created.id], Tags=[{"Key": "owner", "Value": "somebody"}])
    read = provider.Read(
        provider_pb2.ReadRequest(urn=urn(VPC, "drift"), id=created.id, properties=created.properties, inputs=struct(inputs))
    )
    assert plain(read.inputs)["tags"]["owner"] == "somebody"


def test_a_preview_creates_nothing_and_leaves_computed_outputs_unknown(provider: Any, ec2: Any) -> None:
    before = len(ec2.describe_vpcs()["Vpcs"])
    inputs = _checked(provider, VPC, "net", {"cidrBlock": "10.7.0.0/16"})
    response = provider.Create(provider_pb2.CreateRequest(urn=urn(VPC, "net"), properties=struct(inputs), preview=True))
    outputs = plain(response.properties)
    assert (response.id, outputs["arn"], outputs["cidrBlock"]) == ("", UNKNOWN, "10.7.0.0/16")
    assert len(ec2.describe_vpcs()["Vpcs"]) == before


def test_a_change_that_replaces_says_which_property_did(provider: Any) -> None:
    difference = _diff(provider, VPC, {"cidrBlock": "10.0.0.0/16"}, {"cidrBlock": "10.1.0.0/16"})
    assert list(difference.replaces) == ["cidrBlock"]
    assert difference.detailedDiff["cidrBlock"].kind == provider_pb2.PropertyDiff.UPDATE_REPLACE
    assert not difference.deleteBeforeReplace


def test_no_change_is_no_difference(provider: Any) -> None:
    inputs = {"cidrBlock": "10.0.0.0/16", "__defaults": []}
    assert _diff(provider, VPC, inputs, {"cidrBlock": "10.0.0.0/16"}).changes == provider_pb2.DiffResponse.DIFF_NONE


def test_defaults_of_the_official_provider_in_the_state_are_no_difference(provider: Any) -> None:
    rule = {"type": "ingress", "__defaults": ["protocol"], "protocol": "tcp"}
    old = {
        "cidrBlock": "10.0.0.0/16",
        "instanceTenancy": "default",
        "tags": {"a": "b", "__defaults": []},
        "rules": [rule],
        "__defaults": ["instanceTenancy"],
    }
    new = _with_old_defaults(old, {"cidrBlock": "10.0.0.0/16", "tags": {"a": "b"}, "rules": [{"type": "ingress"}]})
    assert new == old
    given = _with_old_defaults(old, {"instanceTenancy": "dedicated", "rules": [{"protocol": "udp"}]})
    assert (given["instanceTenancy"], given["rules"][0]["protocol"]) == ("dedicated", "udp")
    checked = _checked(provider, VPC, "net", {"cidrBlock": "10.0.0.0/16"}, {**old, "cidrBlock": "10.1.0.0/16"})
    assert (checked["instanceTenancy"], checked["__defaults"]) == ("default", ["instanceTenancy"])


def test_notes_of_defaults_are_not_among_the_outputs_of_an_update(provider: Any) -> None:
    state = {"cidrBlock": "10.0.0.0/16", "tags": {"a": "b"}, "arn": "a"}
    news = {"cidrBlock": "10.0.0.0/16", "tags": {"a": "c", "__defaults": []}, "__defaults": []}
    request = provider_pb2.UpdateRequest(urn=urn(VPC, "net"), id="x", olds=struct(state), news=struct(news), preview=True)
    assert plain(provider.Update(request).properties)["tags"] == {"a": "c"}


def test_an_object_added_as_a_whole_replaces_as_a_whole(provider: Any) -> None:
    cluster = "aws:eks/cluster:Cluster"
    difference = _diff(provider, cluster, {}, {"kubernetesNetworkConfig": {"serviceIpv4Cidr": "10.100.0.0/16"}})
    assert difference.detailedDiff["kubernetesNetworkConfig"].kind == provider_pb2.PropertyDiff.ADD_REPLACE
    assert list(difference.replaces) == ["kubernetesNetworkConfig"]


def test_an_autoname_is_made_from_the_seed_and_kept(provider: Any) -> None:
    first = _checked(provider, BUCKET, "models", {})
    assert re.fullmatch(r"models-[0-9a-f]{7}", first["bucket"])
    assert _checked(provider, BUCKET, "models", {}) == first
    kept = provider.Check(
        provider_pb2.CheckRequest(urn=urn(BUCKET, "models"), news=struct({}), olds=struct(first), randomSeed=b"other")
    )
    assert plain(kept.inputs)["bucket"] == first["bucket"]


def test_a_name_that_was_chosen_and_is_removed_becomes_an_autoname(provider: Any) -> None:
    chosen = _checked(provider, BUCKET, "models", {"bucket": "chosen-name"})
    assert _checked(provider, BUCKET, "models", {}, chosen)["bucket"] != "chosen-name"


def test_all_problems_of_a_resource_are_check_failures_with_their_properties(provider: Any) -> None:
    response = _check(provider, SUBNET, "a", {"cidrBlock": 5, "availabilityZoen": "us-west-2a"})
    assert {failure.property for failure in response.failures} >= {"cidrBlock", "availabilityZoen", "vpcId"}


def test_a_refused_create_says_what_aws_said_and_is_recoverable(provider: Any) -> None:
    inputs = {"vpcId": "vpc-00000000000000000", "cidrBlock": "10.0.0.0/24"}
    with pytest.raises(grpc.RpcError) as error:
        provider.Create(provider_pb2.CreateRequest(urn=urn(SUBNET, "a"), properties=struct(inputs)))
    assert error.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert "vpc-00000000000000000" in error.value.details()


def test_an_unknown_type_names_the_file_to_extend(provider: Any) -> None:
    with pytest.raises(grpc.RpcError) as error:
        _check(provider, "aws:glue/job:Job", "x", {})
    assert error.value.code() == grpc.StatusCode.UNIMPLEMENTED
    assert "aws:glue/job:Job" in error.value.details()
    assert "twin/aws/rows.py" in error.value.details()


def test_an_unknown_function_names_the_file_to_extend(provider: Any) -> None:
    with pytest.raises(grpc.RpcError) as error:
        provider.Invoke(provider_pb2.InvokeRequest(tok="aws:glue/getJob:getJob"))
    assert error.value.code() == grpc.StatusCode.UNIMPLEMENTED
    assert "twin/aws/" in error.value.details()


def _configure(engine: RecordingEngine, config: dict[str, Any]) -> grpc.RpcError:
    with provider_stub(AwsProvider(EngineLog(engine.address))) as stub, pytest.raises(grpc.RpcError) as error:
        stub.Configure(provider_pb2.ConfigureRequest(args=struct(config)))
    return error.value


@pytest.mark.parametrize("url", ["", "https://ec2.us-west-2.amazonaws.com", "http://192.168.1.5:5000"])
def test_an_endpoint_that_is_not_this_machine_is_refused(
    url: str, engine: RecordingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", url)
    error = _configure(engine, CONFIG)
    assert error.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert f"AWS_ENDPOINT_URL is {url!r}" in error.details()
    assert "make up" in error.details()


def test_without_a_region_the_configuration_says_where_to_set_it(
    engine: RecordingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    with provider_stub(AwsProvider(EngineLog(engine.address))) as stub:
        response = stub.CheckConfig(provider_pb2.CheckRequest(urn=urn("pulumi:providers:aws", "default"), news=struct({})))
    assert [failure.property for failure in response.failures] == ["region"]


def test_a_moto_that_does_not_answer_is_named_with_the_way_out(
    engine: RecordingEngine, monkeypatch: pytest.MonkeyPatch, unused_url: str
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", unused_url)
    with provider_stub(AwsProvider(EngineLog(engine.address))) as stub:
        stub.Configure(provider_pb2.ConfigureRequest(args=struct(CONFIG)))
        with pytest.raises(grpc.RpcError) as error:
            stub.Create(provider_pb2.CreateRequest(urn=urn(VPC, "a"), properties=struct({"cidrBlock": "10.0.0.0/16"})))
    assert f"does not answer at {unused_url}" in error.value.details()


@pytest.fixture
def unused_url() -> Iterator[str]:
    import socket

    # Bound without listening: connections are refused, and no other process can take the port.
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


def test_an_account_that_the_stack_does_not_allow_is_refused(
    engine: RecordingEngine, moto_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto_url)
    with provider_stub(AwsProvider(EngineLog(engine.address))) as stub:
        allowed = {**CONFIG, "allowedAccountIds": '["123456789012"]'}
        stub.Configure(provider_pb2.ConfigureRequest(args=struct(allowed)))
    with provider_stub(AwsProvider(EngineLog(engine.address))) as stub, pytest.raises(grpc.RpcError) as refused:
        stub.Configure(provider_pb2.ConfigureRequest(args=struct({**CONFIG, "allowedAccountIds": '["999999999999"]'})))
    assert "AWS account ID not allowed: 123456789012; aws:allowedAccountIds has 999999999999" in refused.value.details()
