"""The same calls to the twin's Kubernetes provider and to the official one, on one API server.

docs/twin.md#the-official-kubernetes-provider lists the differences.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc
from rich.console import Console

from tests.system.e2e.conftest import Twin
from tests.system.e2e.newcomer import servers_alone
from tests.twin.plugins.recording_engine import plain, provider_stub, recording_engine, struct
from twin.host import tools
from twin.plugins import official
from twin.plugins.kubernetes import KubernetesProvider
from twin.plugins.server import EngineLog

CONFIG_MAP, DEPLOYMENT = "kubernetes:core/v1:ConfigMap", "kubernetes:apps/v1:Deployment"
SECONDS = 20
Values = dict[str, Any]


@dataclass(frozen=True)
class Provider:
    """A provider, called as the engine calls it."""

    name: str
    stub: Any

    def check(self, type: str, inputs: Values) -> Values:
        request = provider_pb2.CheckRequest(urn=urn(type), news=struct(inputs), randomSeed=b"s" * 32)
        return plain(self.stub.Check(request).inputs)

    def create(self, type: str, inputs: Values) -> tuple[str, Values]:
        request = provider_pb2.CreateRequest(urn=urn(type), properties=struct(inputs), timeout=SECONDS)
        created = self.stub.Create(request)
        return created.id, plain(created.properties)

    def update(self, type: str, id: str, state: Values, old: Values, new: Values) -> Values:
        request = provider_pb2.UpdateRequest(
            urn=urn(type), id=id, olds=struct(state), old_inputs=struct(old), news=struct(new), timeout=SECONDS
        )
        return plain(self.stub.Update(request).properties)

    def diff(self, type: str, id: str, state: Values, old: Values, new: Values) -> tuple[dict[str, str], bool]:
        """Return the changed paths with the kind of each change, and whether the old object is deleted first."""
        request = provider_pb2.DiffRequest(
            urn=urn(type), id=id, olds=struct(state), old_inputs=struct(old), news=struct(new)
        )
        found = self.stub.Diff(request)
        kinds = {path: provider_pb2.PropertyDiff.Kind.Name(one.kind) for path, one in found.detailedDiff.items()}
        return kinds, found.deleteBeforeReplace


def urn(type: str) -> str:
    return f"urn:pulumi:test::project::{type}::name"


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twin]:
    """Return a twin whose servers run without any stack."""
    with servers_alone(tmp_path_factory.mktemp("providers")) as twin:
        yield twin


@pytest.fixture(scope="module")
def providers(twin: Twin) -> Iterator[tuple[Provider, Provider]]:
    """Return the twin's provider and the official one."""
    program = tools.ensure([official.FAMILY], Console(stderr=True))[official.PROGRAM]
    kubeconfig = (twin.home.path / "kubeconfig").read_text()
    variables = {"kubernetes:config:kubeconfig": kubeconfig}
    configuration = provider_pb2.ConfigureRequest(args=struct({"kubeconfig": kubeconfig}), variables=variables)
    with recording_engine() as engine:
        child, port = official.start(program, engine.address)
        try:
            with (
                provider_stub(KubernetesProvider(EngineLog(engine.address))) as own,
                grpc.insecure_channel(f"127.0.0.1:{port}") as channel,
            ):
                both = Provider("own", own), Provider("official", provider_pb2_grpc.ResourceProviderStub(channel))
                for one in both:
                    one.stub.Configure(configuration)
                yield both
        finally:
            child.terminate()
            child.wait(SECONDS)


def config_map(name: str, **data: str) -> Values:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data}


def deployment(name: str) -> Values:
    """Return a Deployment without pods, so no provider waits long for it."""
    labels = {"app": name}
    limits = {"memory": "1024Mi", "cpu": "1000m"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default", "annotations": {"pulumi.com/skipAwait": "true"}},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "a", "image": "example.com/a:1", "resources": {"limits": limits}}]},
            },
        },
    }


def failure(call: Callable[..., object], *arguments: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as caught:
        call(*arguments)
    error: Any = caught.value
    return error.code(), error.details()


def changed(inputs: Values, *path: str | int, to: Any) -> Values:
    copied = copy.deepcopy(inputs)
    node: Any = copied
    for step in path[:-1]:
        node = node[step]
    node[path[-1]] = to
    return copied


CONTAINERS = ("spec", "template", "spec", "containers")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "replicas"), 1),
        (("spec", "selector", "matchLabels", "app"), "other"),
        (("metadata", "name"), "other"),
        (("metadata", "labels"), {"a": "b"}),
        ((*CONTAINERS, 0, "image"), "example.com/a:2"),
        ((*CONTAINERS, 0, "env"), [{"name": "A", "value": "B"}]),
        ((*CONTAINERS, 0, "resources", "limits", "memory"), "2Gi"),
        (CONTAINERS, [{"name": "b", "image": "b"}, {"name": "a", "image": "example.com/a:1"}]),
    ],
    ids=lambda value: value[-1] if isinstance(value, tuple) else "",
)
def test_a_change_has_the_same_paths_and_replaces_the_same(
    providers: tuple[Provider, Provider], path: tuple[str | int, ...], value: Any
) -> None:
    found = []
    for one in providers:
        inputs = one.check(DEPLOYMENT, deployment("changed"))
        state = {**inputs, "__inputs": inputs, "__initialApiVersion": "apps/v1"}
        found.append(one.diff(DEPLOYMENT, "default/changed", state, inputs, changed(inputs, *path, to=value)))
    own, other = found
    assert own == other
    assert own[0]


def test_a_config_map_is_replaced_when_its_data_changes(providers: tuple[Provider, Provider]) -> None:
    old, new = config_map("settings", a="1"), config_map("settings", a="2")
    for one in providers:
        state = {**old, "__inputs": old, "__initialApiVersion": "v1"}
        assert one.diff(CONFIG_MAP, "default/settings", state, old, new) == ({"data.a": "UPDATE_REPLACE"}, True)
        assert one.diff(CONFIG_MAP, "default/settings", state, old, old) == ({}, False)


def test_an_object_of_somebody_else_is_refused_by_the_twin_and_taken_over_by_the_official_provider(
    twin: Twin, providers: tuple[Provider, Provider]
) -> None:
    own, other = providers
    assert twin.shell("kubectl create configmap theirs --from-literal=a=1").returncode == 0
    ours = config_map("theirs", b="2")
    code, said = failure(own.create, CONFIG_MAP, ours)
    assert code == grpc.StatusCode.FAILED_PRECONDITION
    assert said.startswith("ConfigMap default/theirs exists already and was not made by this stack")
    id, state = other.create(CONFIG_MAP, ours)
    assert (id, state["data"]) == ("default/theirs", {"a": "1", "b": "2"})


def test_a_refused_creation_has_another_code_with_the_official_provider(
    providers: tuple[Provider, Provider],
) -> None:
    found = [failure(one.create, CONFIG_MAP, config_map("Not_A_Name")) for one in providers]
    assert [code for code, _ in found] == [grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.UNKNOWN]
    assert all('metadata.name: Invalid value: "Not_A_Name"' in said for _, said in found)
    (_, own), (_, other) = found
    assert own.startswith("the API server refused ConfigMap Not_A_Name: ")
    assert other.startswith(f'resource "{urn(CONFIG_MAP)}" was not successfully created by the Kubernetes API server: ')


def test_a_field_that_the_kind_lacks_reaches_the_api_server_from_the_twin_alone(
    providers: tuple[Provider, Provider],
) -> None:
    own, other = providers
    mistaken = {**config_map("mistaken"), "datum": {"a": "b"}}
    assert "datum" in own.check(CONFIG_MAP, mistaken)
    assert "datum" not in other.check(CONFIG_MAP, mistaken)
    assert ".datum: field not declared in schema" in failure(own.create, CONFIG_MAP, mistaken)[1]


def test_what_kubectl_has_changed_is_a_conflict_for_the_twin_and_set_back_by_the_official_provider(
    twin: Twin, providers: tuple[Provider, Provider]
) -> None:
    for one in providers:
        name = f"by-{one.name}"
        inputs = one.check(DEPLOYMENT, deployment(name))
        id, state = one.create(DEPLOYMENT, inputs)
        assert twin.shell(f"kubectl rollout restart deployment/{name}").returncode == 0
        new = changed(inputs, "metadata", "labels", to={"a": "b"})
        restarted = one.update(DEPLOYMENT, id, state, inputs, new)["spec"]["template"]["metadata"]
        # Without the restart annotation, pods restart again.
        assert ("annotations" in restarted) == (one.name == "own")
        assert twin.shell(f"kubectl set image deployment/{name} a=example.com/a:9").returncode == 0
        if one.name == "own":
            assert 'conflict with "kubectl-set"' in failure(one.update, DEPLOYMENT, id, state, inputs, new)[1]
            continue
        template = one.update(DEPLOYMENT, id, state, inputs, new)["spec"]["template"]
        assert template["spec"]["containers"][0]["image"] == "example.com/a:1"


def test_a_number_of_pods_by_kubectl_scale_is_a_conflict_for_both(twin: Twin, providers: tuple[Provider, Provider]) -> None:
    for one in providers:
        name = f"scaled-{one.name}"
        inputs = one.check(DEPLOYMENT, deployment(name))
        id, state = one.create(DEPLOYMENT, inputs)
        assert twin.shell(f"kubectl scale deployment/{name} --replicas=1").returncode == 0
        new = changed(inputs, "metadata", "labels", to={"a": "b"})
        _, said = failure(one.update, DEPLOYMENT, id, state, inputs, new)
        assert ".spec.replicas" in said and '"kubectl" with subresource "scale"' in said
