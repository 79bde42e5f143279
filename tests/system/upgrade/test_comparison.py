"""Changes that replace or keep resources, on small snapshots, and on the real program with defects."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pulumi
import pytest
import yaml
from pulumi.runtime.proto import resource_pb2

from infra import app
from spec.settings import load_stack_file
from spec.versions import PROJECT
from tests.paths import ROOT
from tests.system.component.engine import snapshot
from tests.system.component.engine.account import fresh_account, seed_roles
from tests.system.component.engine.monitor import RecordingMonitor
from tests.system.component.engine.program import run
from tests.system.component.engine.recording import Registration
from tests.system.component.engine.stack_run import TODAY
from tests.system.upgrade import release
from tests.system.upgrade.comparison import Finding, Snapshot, findings
from twin.aws.base.clients import Clients

VPC, SUBNET, GROUP = "aws:ec2/vpc:Vpc", "aws:ec2/subnet:Subnet", "aws:eks/nodeGroup:NodeGroup"
ROLE = "aws:iam/role:Role"
DEPLOYMENT, SERVICE, CONFIG_MAP = (
    f"kubernetes:{kind}" for kind in ("apps/v1:Deployment", "core/v1:Service", "core/v1:ConfigMap")
)
RELEASE, KUBERNETES = "kubernetes:helm.sh/v3:Release", "pulumi:providers:kubernetes"

Entries = Mapping[str, Mapping[str, Any]]


def made(*entries: Entries) -> Snapshot:
    return Snapshot({"resources": {label: entry for each in entries for label, entry in each.items()}})


def entry(name: str, type_: str, inputs: Mapping[str, Any], **options: Any) -> dict[str, Mapping[str, Any]]:
    return {f"{name} ({type_})": {"inputs": inputs, **options}}


def component(name: str, **options: Any) -> dict[str, Mapping[str, Any]]:
    return entry(name, "triton:network:Network", {}, **options)


def deployment(name: str, image: str, selector: str = "triton") -> dict[str, Mapping[str, Any]]:
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "triton"},
        "spec": {"selector": {"matchLabels": {"app": selector}}, "template": {"image": image}},
    }
    return entry("chart:triton", DEPLOYMENT, manifest)


def test_a_change_in_place_is_none_of_this_checks_business() -> None:
    assert findings(made(deployment("triton", "a")), made(deployment("triton", "b"))) == []


@pytest.mark.parametrize(
    ("after", "because"),
    [
        (deployment("triton", "a", selector="server"), "spec.selector.matchLabels.app"),
        (deployment("triton-gpu", "a"), "metadata.name"),
    ],
)
def test_a_selector_and_a_name_cannot_change_in_place(after: Entries, because: str) -> None:
    found = findings(made(deployment("triton", "a")), made(after))
    assert found == [Finding(f"chart:triton ({DEPLOYMENT})", "replace", (because,))]
    assert str(found[0]) == (
        f"replace chart:triton ({DEPLOYMENT}) because of {because}: "
        "terminates all its pods before new ones exist, unless the new one has another name"
    )


def test_what_aws_cannot_change_is_replaced_unless_the_program_ignores_it() -> None:
    had = {"clusterName": "c", "capacityType": "ON_DEMAND", "labels": {"pool": "g5"}}
    has = {**had, "capacityType": "SPOT", "labels": {}}
    before = made(entry("g5", GROUP, had))
    assert findings(before, made(entry("g5", GROUP, has))) == [Finding(f"g5 ({GROUP})", "replace", ("capacityType",))]
    assert findings(before, made(entry("g5", GROUP, has, ignoreChanges=["capacityType"]))) == []


def test_a_role_whose_path_is_ignored_keeps_its_arn_and_nothing_that_has_it_is_replaced() -> None:
    def world(role: dict[str, str], arn: str, **options: Any) -> Snapshot:
        group = {"clusterName": "c", "nodeRoleArn": f"arn:aws:iam::123456789012:{arn}"}
        return made(entry("nodes", ROLE, {"name": "nodes-1", **role}, **options), entry("g5", GROUP, group))

    before = world({}, "role/nodes-1")
    moved = {"path": "/triton-eks/dev/"}
    assert findings(before, world(moved, "role/triton-eks/dev/nodes-1", ignoreChanges=["path"])) == []
    assert findings(before, world(moved, "role/triton-eks/dev/nodes-1")) == [
        Finding(f"g5 ({GROUP})", "replace", ("nodeRoleArn",)),
        Finding(f"nodes ({ROLE})", "replace", ("path",)),
    ]


def test_a_release_lives_on_with_other_values_and_not_in_another_namespace() -> None:
    had = {"name": "keda", "namespace": "keda", "values": {"replicas": 1}}
    before = made(entry("keda", RELEASE, had))
    assert findings(before, made(entry("keda", RELEASE, {**had, "values": {}}))) == []
    moved = made(entry("keda", RELEASE, {**had, "namespace": "scaling"}))
    assert findings(before, moved) == [Finding(f"keda ({RELEASE})", "replace", ("namespace",))]


def test_a_resource_given_to_another_clusters_provider_is_made_anew() -> None:
    def world(provider: str, cluster: str) -> Snapshot:
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "triton", "namespace": "triton"}}
        return made(
            entry(provider, KUBERNETES, {"clusterIdentifier": cluster}),
            entry("service", SERVICE, service, provider=f"{provider} ({KUBERNETES})"),
        )

    blue = world("kubernetes", "blue")
    assert findings(blue, world("kubernetes", "green")) == [
        Finding(f"kubernetes ({KUBERNETES})", "replace", ("clusterIdentifier",))
    ]
    assert findings(blue, world("another", "green")) == [Finding(f"service ({SERVICE})", "replace", ("provider",))]
    assert findings(blue, world("another", "blue")) == []


def network(name: str, *aliases: str) -> Snapshot:
    """Return a VPC and a subnet with an autoname, below a component whose name may have changed."""
    old = {"aliases": [f"triton:network:Network::{alias}" for alias in aliases]} if aliases else {}
    children = {
        kind: {"aliases": [f"triton:network:Network${type_}::{alias}-{kind}" for alias in aliases]} if aliases else {}
        for kind, type_ in (("vpc", VPC), ("group", GROUP))
    }
    parent = f"{name} (triton:network:Network)"
    return made(
        component(name, **old),
        entry(f"{name}-vpc", VPC, {"cidrBlock": "10.0.0.0/16"}, parent=parent, **children["vpc"]),
        entry(
            f"{name}-group",
            GROUP,
            {"nodeGroupName": f"{name}-group-{len(name):07x}", "subnetIds": [f"<{name}-vpc.id>"]},
            parent=parent,
            **children["group"],
        ),
    )


def test_a_renamed_component_takes_everything_below_it_along() -> None:
    assert findings(network("network"), network("net")) == [
        Finding(f"network-group ({GROUP})", "delete"),
        Finding(f"network-vpc ({VPC})", "delete"),
    ]


def test_a_renamed_component_with_an_alias_keeps_it_with_its_names_and_ids() -> None:
    assert findings(network("network"), network("net", "network")) == []


def test_a_resource_under_another_parent_is_another_one() -> None:
    vpc = entry("vpc", VPC, {"cidrBlock": "10.0.0.0/16"}, parent="network (triton:network:Network)")
    assert findings(made(component("network"), vpc), made(entry("vpc", VPC, {"cidrBlock": "10.0.0.0/16"}))) == [
        Finding(f"vpc ({VPC})", "delete")
    ]


class OtherCapacity(RecordingMonitor):
    """The program with another capacity type of one node group, which EKS cannot change."""

    def _registration(self, request: resource_pb2.RegisterResourceRequest) -> Registration:
        made = super()._registration(request)
        if made.name == "nodes-pool-g5-group":
            return replace(made, inputs={**made.inputs, "capacityType": "SPOT"})
        return made


def test_the_program_with_one_component_renamed_one_with_an_alias_and_one_property_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster, models = app.Cluster, app.ModelBucket
    monkeypatch.setattr(app, "Cluster", lambda _name, *rest, **options: cluster("kubernetes", *rest, **options))

    def aliased(name: str, *rest: Any, opts: pulumi.ResourceOptions | None = None) -> Any:
        old_name = pulumi.ResourceOptions(aliases=[pulumi.Alias(name=name)])
        return models("storage", *rest, pulumi.ResourceOptions.merge(opts, old_name))

    monkeypatch.setattr(app, "ModelBucket", aliased)
    found = findings(release.present("local"), Snapshot(_registered("local", OtherCapacity)))
    assert {(one.action, one.resource.partition(" (")[0], one.because) for one in found} == {
        *(
            ("delete", f"cluster-{name}", ())
            for name in (
                "addon-vpc-cni",
                "control-plane-123456789012-platform-admin",
                "control-plane-123456789012-platform-admin-admin",
                "control-plane-123456789012-triton-rollouts",
                "control-plane-eksCluster",
                "control-plane-kube-proxy",
                "oidc-provider",
                "log-group",
                "role",
                "secrets-key",
                "vpc-cni-role",
            )
        ),
        ("replace", "nodes-pool-g5-group", ("capacityType",)),
    }


def _registered(stack: str, monitor_class: type[RecordingMonitor]) -> dict[str, Any]:
    path = ROOT / "stacks" / f"Pulumi.{stack}.yaml"
    settings = load_stack_file(path, today=TODAY)
    with fresh_account(), contextlib.chdir(ROOT):
        clients = Clients(settings.region)
        seed_roles(clients, settings.cluster)
        recording = run(
            lambda: app.deploy(settings),
            project=PROJECT,
            stack=stack,
            config=yaml.safe_load(path.read_text())["config"],
            root=ROOT,
            clients=clients,
            monitor_class=monitor_class,
        )
    return snapshot.content(recording)
