"""Charts and clusters under construction: their registrations with the engine."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from pulumi.runtime.proto import provider_pb2

from tests.twin.plugins.recording_engine import RecordingEngine, plain, provider_stub, recording_engine, struct
from twin.eks.expansion import reference
from twin.host import claim
from twin.host.home import TwinHome
from twin.plugins import values
from twin.plugins.eks import FIRST_PREVIEW, EksProvider
from twin.plugins.kubernetes import KubernetesProvider
from twin.plugins.server import EngineLog
from twin.plugins.values import UNKNOWN, secret

CHART, CLUSTER = "kubernetes:helm.sh/v4:Chart", "eks:index:Cluster"
PROVIDER = "urn:pulumi:test::project::pulumi:providers:kubernetes::k8s::id"
KUBECONFIG = {
    "current-context": "twin",
    "contexts": [{"name": "twin", "context": {"cluster": "twin", "user": "admin"}}],
    "users": [{"name": "admin", "user": {"token": "t"}}],
}

TEMPLATE = """
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  annotations: {config.kubernetes.io/depends-on: "/namespaces/{{ .Release.Namespace }}/ServiceAccount/web"}
spec:
  template: {spec: {containers: [{name: web, image: "{{ .Values.image }}"}]}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: web, annotations: {helm.sh/resource-policy: keep}}
---
apiVersion: v1
kind: Secret
metadata: {name: key, namespace: elsewhere}
data: {key: a2V5}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: web}
"""


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    folder = tmp_path / "chart"
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: web\nversion: 0.1.0\n")
    (folder / "values.yaml").write_text("image: from-chart\nport: 1\n")
    (folder / "values.schema.json").write_text(
        json.dumps(
            {"type": "object", "additionalProperties": False, "properties": {"image": {"type": "string"}, "port": {}}}
        )
    )
    (folder / "templates" / "all.yaml").write_text(TEMPLATE)
    return folder


@pytest.fixture
def engine() -> Iterator[RecordingEngine]:
    with recording_engine() as engine:
        yield engine


@pytest.fixture
def provider(engine: RecordingEngine) -> Iterator[Any]:
    """Yield a kubernetes provider whose API server is down: charts render for the default version."""
    with socket.socket() as taken, provider_stub(KubernetesProvider(EngineLog(engine.address))) as stub:
        taken.bind(("127.0.0.1", 0))
        server = f"http://127.0.0.1:{taken.getsockname()[1]}"
        config = {**KUBECONFIG, "clusters": [{"name": "twin", "cluster": {"server": server}}]}
        stub.Configure(provider_pb2.ConfigureRequest(args=struct({"kubeconfig": json.dumps(config)})))
        yield stub


def _construct(stub: Any, engine: RecordingEngine, type: str, inputs: dict[str, Any], **request: Any) -> Any:
    return stub.Construct(
        provider_pb2.ConstructRequest(
            type=type,
            name="web-chart",
            parent="urn:parent",
            monitorEndpoint=engine.address,
            inputs=struct(inputs),
            **{"providers": {"kubernetes": PROVIDER}, **request},
        )
    )


def _file(path: Path) -> dict[str, Any]:
    return {values.SIGNATURE: values.ASSET, "path": str(path), "hash": "x"}


def test_each_object_of_a_chart_is_a_child_named_as_by_the_official_provider(
    provider: Any, engine: RecordingEngine, chart: Path
) -> None:
    _construct(provider, engine, CHART, {"chart": str(chart), "namespace": "apps"})
    component, *children = engine.registrations
    assert (component.type, component.name, component.parent, component.custom) == (CHART, "web-chart", "urn:parent", False)
    assert sorted((child.type, child.name) for child in children) == [
        ("kubernetes:apps/v1:Deployment", "web-chart:apps/web"),
        ("kubernetes:core/v1:Secret", "web-chart:elsewhere/key"),
        ("kubernetes:core/v1:ServiceAccount", "web-chart:apps/web"),
        ("kubernetes:rbac.authorization.k8s.io/v1:ClusterRole", "web-chart:web"),
    ]
    assert {child.parent for child in children} == {f"urn:pulumi:test::project::{CHART}::web-chart"}
    assert {child.provider for child in children} == {PROVIDER}
    assert all(child.custom for child in children)


def test_values_go_over_value_files_over_the_charts_own(
    provider: Any, engine: RecordingEngine, chart: Path, tmp_path: Path
) -> None:
    def image(**inputs: Any) -> str:
        engine.registrations.clear()
        _construct(provider, engine, CHART, {"chart": str(chart), **inputs})
        [deployment] = [child for child in engine.registrations if child.type.endswith(":Deployment")]
        return str(plain(deployment.object)["spec"]["template"]["spec"]["containers"][0]["image"])

    (tmp_path / "base.yaml").write_text("image: from-file\n")
    text = {values.SIGNATURE: values.ASSET, "text": "image: from-text", "hash": "y"}
    assert image() == "from-chart"
    assert image(valueYamlFiles=[_file(tmp_path / "base.yaml")]) == "from-file"
    assert image(valueYamlFiles=[_file(tmp_path / "base.yaml"), text]) == "from-text"
    assert image(valueYamlFiles=[text], values={"image": "from-values"}) == "from-values"


def _child(engine: RecordingEngine, kind: str) -> Any:
    [child] = [child for child in engine.registrations[1:] if child.type.endswith(f":{kind}")]
    return child


def test_an_object_depends_on_what_it_says_and_all_on_what_the_chart_depends_on(
    provider: Any, engine: RecordingEngine, chart: Path
) -> None:
    _construct(
        provider,
        engine,
        CHART,
        {"chart": str(chart)},
        dependencies=["urn:namespace"],
        inputDependencies={"values": provider_pb2.ConstructRequest.PropertyDependencies(urns=["urn:bucket"])},
    )
    account = "urn:pulumi:test::project::kubernetes:core/v1:ServiceAccount::web-chart:default/web"
    deployment = _child(engine, "Deployment")
    assert set(_child(engine, "ServiceAccount").dependencies) == {"urn:namespace", "urn:bucket"}
    assert set(deployment.dependencies) == {"urn:namespace", "urn:bucket", account}
    # An explicit map, even without URNs: otherwise the engine lets every property depend on all dependencies.
    assert set(deployment.propertyDependencies) == {"apiVersion", "kind", "metadata", "spec"}


def test_outputs_are_references_that_depend_on_every_child(provider: Any, engine: RecordingEngine, chart: Path) -> None:
    response = _construct(provider, engine, CHART, {"chart": str(chart)})
    children = sorted(f"urn:pulumi:test::project::{child.type}::{child.name}" for child in engine.registrations[1:])
    resources = plain(response.state)["resources"]
    assert sorted(reference["urn"] for reference in resources) == children
    assert {reference["id"] for reference in resources} == {
        *("id-web-chart:default/web", "id-web-chart:elsewhere/key", "id-web-chart:web")
    }
    assert list(response.stateDependencies["resources"].urns) == children
    assert engine.outputs[response.urn]["resources"] == resources


def test_the_keep_policy_retains_and_secret_content_is_secret(provider: Any, engine: RecordingEngine, chart: Path) -> None:
    _construct(provider, engine, CHART, {"chart": str(chart)})
    account, key = _child(engine, "ServiceAccount"), _child(engine, "Secret")
    assert (account.retainOnDelete, key.retainOnDelete) == (True, False)
    assert plain(key.object)["data"] == secret({"key": "a2V5"})
    assert list(key.additionalSecretOutputs) == ["data", "stringData"]


def test_a_secret_value_makes_the_content_of_the_objects_secret(provider: Any, engine: RecordingEngine, chart: Path) -> None:
    _construct(provider, engine, CHART, {"chart": str(chart), "values": {"image": secret("hidden")}})
    deployment = plain(_child(engine, "Deployment").object)
    assert deployment["spec"]["value"]["template"]["spec"]["containers"][0]["image"] == "hidden"
    assert (deployment["metadata"]["name"], deployment["metadata"]["namespace"]) == ("web", "default")


def test_a_chart_with_unknown_values_lists_no_objects_and_says_so(
    provider: Any, engine: RecordingEngine, chart: Path
) -> None:
    response = _construct(provider, engine, CHART, {"chart": str(chart), "values": {"image": UNKNOWN}}, dryRun=True)
    assert plain(response.state) == {"resources": UNKNOWN}
    assert [registered.type for registered in engine.registrations] == [CHART]
    assert "this preview does not list its objects" in engine.messages("WARNING")[0]


def _error(provider: Any, engine: RecordingEngine, inputs: dict[str, Any]) -> str:
    with pytest.raises(grpc.RpcError) as error:
        _construct(provider, engine, CHART, inputs)
    details: str = error.value.details()
    return details


def test_a_value_against_the_schema_is_named_by_its_path(provider: Any, engine: RecordingEngine, chart: Path) -> None:
    assert "image: got number, want string" in _error(provider, engine, {"chart": str(chart), "values": {"image": 5}})


def test_a_folder_that_is_no_chart_is_named(provider: Any, engine: RecordingEngine, tmp_path: Path) -> None:
    assert _error(provider, engine, {"chart": str(tmp_path)}) == f"chart: there is no Chart.yaml in {tmp_path}"


def test_what_only_a_repositorys_chart_needs_is_refused(provider: Any, engine: RecordingEngine, chart: Path) -> None:
    message = _error(provider, engine, {"chart": str(chart), "repositoryOpts": {"repo": "https://charts.example"}})
    assert "repositoryOpts" in message and "twin/plugins/chart.py" in message


def test_a_crds_folder_is_not_silently_left_out(provider: Any, engine: RecordingEngine, chart: Path) -> None:
    (chart / "crds").mkdir()
    assert "crds folder" in _error(provider, engine, {"chart": str(chart)})
    _construct(provider, engine, CHART, {"chart": str(chart), "skipCrds": True})


def test_a_child_that_the_engine_refuses_fails_the_component(provider: Any, engine: RecordingEngine, chart: Path) -> None:
    engine.refuse["web-chart:elsewhere/key"] = (grpc.StatusCode.INVALID_ARGUMENT, "bad urn")
    assert "web-chart:elsewhere/key: bad urn" in _error(provider, engine, {"chart": str(chart)})


def test_an_engine_that_stops_gets_no_second_error(provider: Any, engine: RecordingEngine, chart: Path) -> None:
    engine.refuse["web-chart:elsewhere/key"] = (grpc.StatusCode.UNAVAILABLE, "resource monitor shut down")
    response = _construct(provider, engine, CHART, {"chart": str(chart)})
    assert plain(response.state) == {}


@pytest.fixture
def eks(engine: RecordingEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("TWIN_HOME", str(tmp_path / "home"))
    with provider_stub(EksProvider(EngineLog(engine.address))) as stub:
        stub.Configure(provider_pb2.ConfigureRequest())
        yield stub


API_SERVER = "https://127.0.0.1:20443"


def _give_kubeconfig(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(KUBECONFIG))
    claim.claim(tmp_path / "home")
    TwinHome(tmp_path / "home").save_endpoints(kubeconfig=str(file), api_server_url=API_SERVER)


def _preview_clusters(engine: RecordingEngine) -> None:
    engine.preview = True
    engine.computed["aws:eks/cluster:Cluster"] = dict.fromkeys(
        ("certificateAuthority", "endpoint", "vpcConfig", "identities"), UNKNOWN
    )


CLUSTER_INPUTS = {
    "name": "triton-dev",
    "version": "1.35",
    "subnetIds": ["subnet-1", "subnet-2"],
    "authenticationMode": "API",
    "kubeProxyAddonOptions": {"version": "v1.35.3-eksbuild.21"},
    "serviceRole": reference("urn:role", "role"),
    "skipDefaultNodeGroup": True,
    "skipDefaultSecurityGroups": True,
    "useDefaultVpcCni": True,
}


def test_a_clusters_children_use_the_given_aws_provider_and_the_programs_sdk_versions(
    eks: Any, engine: RecordingEngine, tmp_path: Path
) -> None:
    _give_kubeconfig(tmp_path)
    _preview_clusters(engine)
    _construct(eks, engine, CLUSTER, CLUSTER_INPUTS, providers={"aws": "urn:aws::id"}, dryRun=True)
    by_type = {registered.type: registered for registered in engine.registrations}
    cluster, kubernetes = by_type["aws:eks/cluster:Cluster"], by_type["pulumi:providers:kubernetes"]
    assert cluster.provider == "urn:aws::id"
    assert cluster.version.startswith("7.") and kubernetes.version.startswith("4.")
    assert kubernetes.provider == ""
    assert cluster.parent == f"urn:pulumi:test::project::{CLUSTER}::web-chart"


def test_a_preview_hands_out_the_twins_kubeconfig(eks: Any, engine: RecordingEngine, tmp_path: Path) -> None:
    _give_kubeconfig(tmp_path)
    _preview_clusters(engine)
    response = _construct(eks, engine, CLUSTER, CLUSTER_INPUTS, dryRun=True)
    outputs = plain(response.state)
    assert json.loads(outputs["kubeconfigJson"]) == KUBECONFIG
    assert outputs["eksCluster"]["id"] == UNKNOWN


def _in_a_first_preview(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in FIRST_PREVIEW.items():
        monkeypatch.setenv(name, value)


def test_a_first_preview_knows_no_kubeconfig_of_a_cluster_that_does_not_exist(
    eks: Any, engine: RecordingEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _give_kubeconfig(tmp_path)
    _preview_clusters(engine)
    _in_a_first_preview(monkeypatch)
    outputs = plain(_construct(eks, engine, CLUSTER, CLUSTER_INPUTS, dryRun=True).state)
    assert (outputs["kubeconfig"], outputs["kubeconfigJson"]) == (UNKNOWN, UNKNOWN)
    [provider] = [one for one in engine.registrations if one.type == "pulumi:providers:kubernetes"]
    assert plain(provider.object) == {"kubeconfig": UNKNOWN}


def test_the_kubeconfig_of_a_cluster_that_exists_is_known_in_every_preview(
    eks: Any, engine: RecordingEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _give_kubeconfig(tmp_path)
    engine.computed["aws:eks/cluster:Cluster"] = {
        "certificateAuthority": {"data": "Y2E="},
        "endpoint": "https://c",
        "identities": [{"oidcs": [{"issuer": "https://oidc/id/1"}]}],
        "vpcConfig": {"clusterSecurityGroupId": "sg-1", "vpcId": "vpc-1"},
    }
    _in_a_first_preview(monkeypatch)
    outputs = plain(_construct(eks, engine, CLUSTER, CLUSTER_INPUTS, dryRun=True).state)
    assert json.loads(outputs["kubeconfigJson"]) == KUBECONFIG


def _cluster_at(engine: RecordingEngine, endpoint: str) -> None:
    engine.computed["aws:eks/cluster:Cluster"] = {
        "arn": "arn:aws:eks:eu-west-1:123456789012:cluster/triton-dev",
        "endpoint": endpoint,
        "certificateAuthority": {"data": "Q0E="},
        "vpcConfig": {"vpcId": "vpc-1", "clusterSecurityGroupId": "sg-1"},
        "identities": [{"oidcs": [{"issuer": "https://oidc.example"}]}],
    }


def test_a_cluster_that_exists_has_the_kubeconfig_that_pulumi_eks_writes(
    eks: Any, engine: RecordingEngine, tmp_path: Path
) -> None:
    """Byte for byte the output of `generateKubeconfig` of pulumi-eks 4.3.0 for such a cluster."""
    _give_kubeconfig(tmp_path)
    _cluster_at(engine, API_SERVER)
    outputs = plain(_construct(eks, engine, CLUSTER, CLUSTER_INPUTS).state)
    assert json.loads(outputs["kubeconfigJson"]) == {
        "apiVersion": "v1",
        "clusters": [
            {"cluster": {"server": API_SERVER, "certificate-authority-data": "Q0E="}, "name": "kubernetes"},
        ],
        "contexts": [{"context": {"cluster": "kubernetes", "user": "aws"}, "name": "aws"}],
        "current-context": "aws",
        "kind": "Config",
        "users": [
            {
                "name": "aws",
                "user": {
                    "exec": {
                        "apiVersion": "client.authentication.k8s.io/v1beta1",
                        "command": "aws",
                        "args": [
                            "--region",
                            "eu-west-1",
                            "eks",
                            "get-token",
                            "--cluster-name",
                            "triton-dev",
                            "--output",
                            "json",
                        ],
                        "env": [
                            {
                                "name": "KUBERNETES_EXEC_INFO",
                                "value": '{"apiVersion": "client.authentication.k8s.io/v1beta1"}',
                            }
                        ],
                    }
                },
            }
        ],
    }


def test_a_cluster_elsewhere_has_the_twins_kubeconfig(eks: Any, engine: RecordingEngine, tmp_path: Path) -> None:
    """As in the state of a real stack, which a rehearsal previews."""
    _give_kubeconfig(tmp_path)
    _cluster_at(engine, "https://ABCDEF.gr7.eu-west-1.eks.amazonaws.com")
    outputs = plain(_construct(eks, engine, CLUSTER, CLUSTER_INPUTS).state)
    assert json.loads(outputs["kubeconfigJson"]) == KUBECONFIG


def test_without_a_control_plane_the_way_out_is_named(eks: Any, engine: RecordingEngine) -> None:
    _preview_clusters(engine)
    with pytest.raises(grpc.RpcError) as error:
        _construct(eks, engine, CLUSTER, CLUSTER_INPUTS)
    assert error.value.details() == "the twin has no Kubernetes control plane yet: start it with `make up`"


def test_an_argument_that_the_component_refuses_is_a_sentence(eks: Any, engine: RecordingEngine, tmp_path: Path) -> None:
    _give_kubeconfig(tmp_path)
    with pytest.raises(grpc.RpcError) as error:
        _construct(eks, engine, CLUSTER, {**CLUSTER_INPUTS, "fargate": True})
    assert error.value.details().startswith("fargate: the twin's eks.Cluster does not have it")


def test_another_component_of_eks_names_the_files_to_extend(eks: Any, engine: RecordingEngine) -> None:
    with pytest.raises(grpc.RpcError) as error:
        _construct(eks, engine, "eks:index:ManagedNodeGroup", {})
    assert error.value.code() == grpc.StatusCode.UNIMPLEMENTED
    assert "twin/eks/" in error.value.details()
