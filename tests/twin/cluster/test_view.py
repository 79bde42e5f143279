"""The cluster as kubectl shows it; kubectl itself is played by a script that prints what the real one printed."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from twin.cluster.view import ClusterUnreadable, ClusterView


def view(tmp_path: Path, script: str) -> ClusterView:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(f"#!/bin/sh\n{script}\n")
    kubectl.chmod(0o755)
    return ClusterView(kubectl, {"PATH": os.defpath, "KUBECACHEDIR": str(tmp_path / "cache")})


def deployment(generation: int, observed: int, updated: int, available: int) -> str:
    status = f'"observedGeneration":{observed},"replicas":2,"updatedReplicas":{updated},"availableReplicas":{available}'
    item = f'{{"metadata":{{"name":"triton","generation":{generation}}},"spec":{{"replicas":2}},"status":{{{status}}}}}'
    return f"echo '{{\"items\":[{item}]}}'"


@pytest.mark.parametrize(
    ("generation", "observed", "updated", "available", "done"),
    [(3, 3, 2, 2, True), (3, 2, 2, 2, False), (3, 3, 1, 2, False), (3, 3, 2, 1, False)],
)
def test_a_deployment_is_rolled_out_when_all_replicas_are_of_the_newest_revision_and_available(
    tmp_path: Path, generation: int, observed: int, updated: int, available: int, done: bool
) -> None:
    assert view(tmp_path, deployment(generation, observed, updated, available)).rolled_out("triton", "triton") is done


def test_a_deployment_that_does_not_exist_is_not_rolled_out(tmp_path: Path) -> None:
    assert view(tmp_path, "echo '{\"items\":[]}'").rolled_out("triton", "triton") is False


def test_only_ready_addresses_count_sorted_and_once(tmp_path: Path) -> None:
    endpoints = (
        '{"addresses":["10.244.1.2"],"conditions":{"ready":true}},'
        '{"addresses":["10.244.1.1"],"conditions":{"ready":true}},'
        '{"addresses":["10.244.1.1"],"conditions":{"ready":true}},'
        '{"addresses":["10.244.1.3"],"conditions":{"ready":false}}'
    )
    found = view(tmp_path, f'echo \'{{"items":[{{"endpoints":[{endpoints}]}},{{"endpoints":null}}]}}\'')
    assert found.ready_addresses("triton", "triton") == ["10.244.1.1", "10.244.1.2"]


def test_what_kubectl_says_when_it_fails_is_passed_on(tmp_path: Path) -> None:
    with pytest.raises(ClusterUnreadable) as error:
        view(tmp_path, "echo 'The connection was refused' >&2; exit 1").pods()
    assert str(error.value) == "`kubectl get pods --all-namespaces --output=json` failed: The connection was refused"


def test_a_pods_warnings_are_its_reasons_and_messages(tmp_path: Path) -> None:
    event = '{"reason":"Unhealthy","message":"Startup probe failed: 400\\nnot ready\\n"}'
    assert view(tmp_path, f"cat <<'E'\n{{\"items\":[{event}]}}\nE").warnings("triton", "triton-1") == [
        "Unhealthy: Startup probe failed: 400 not ready"
    ]


def test_unready_pods_are_deleted_and_no_others(tmp_path: Path) -> None:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    items = [
        {"metadata": {"namespace": space, "name": name, "uid": name, **extra}, "spec": {"containers": []}, "status": status}
        for space, name, status, extra in [
            ("triton", "serves", ready, {}),
            ("triton", "loads", {}, {}),
            ("triton", "ends", {}, {"deletionTimestamp": "2026-11-21T19:00:00Z"}),
            ("other", "waits", {}, {}),
        ]
    ]
    asked = tmp_path / "asked"
    cluster = view(tmp_path, f"[ $1 = get ] || echo \"$@\" >> {asked}\ncat <<'E'\n{json.dumps({'items': items})}\nE")
    cluster.delete_unready_pods("triton")
    assert asked.read_text() == "delete pods --namespace triton --ignore-not-found --wait=false loads\n"


def test_without_unready_pods_none_is_deleted(tmp_path: Path) -> None:
    view(tmp_path, "[ $1 = get ] && echo '{\"items\":[]}'").delete_unready_pods("triton")


def test_the_nodes_are_those_of_node_groups(tmp_path: Path) -> None:
    items = '{"metadata":{"name":"b"}},{"metadata":{"name":"a"}}'
    script = f'[ "$3" = --selector=eks.amazonaws.com/nodegroup ] && echo \'{{"items":[{items}]}}\''
    assert view(tmp_path, script).nodes() == ["a", "b"]


def pod(image: str, status: dict[str, Any], **metadata: str) -> str:
    names = {"namespace": "triton", "name": "triton-1", "uid": "u", **metadata}
    item = {"metadata": names, "spec": {"nodeName": "n", "containers": [{"image": image}]}, "status": status}
    return f"cat <<'E'\n{json.dumps({'items': [item]})}\nE"


def container(state: dict[str, Any], restarts: int = 0) -> dict[str, Any]:
    return {"name": "c", "state": state, "restartCount": restarts}


def test_a_pod_that_runs_here_says_where_it_listens_and_others_do_not(tmp_path: Path) -> None:
    status = {"phase": "Running", "podIP": "10.244.128.2", "conditions": [{"type": "Ready", "status": "True"}]}
    (found,) = view(tmp_path, pod("x/tritonserver@sha256:1", status)).pods()
    assert (found.address, found.listens, found.status, found.ready) == ("10.244.128.2", "127.244.128.2", "Running", True)
    (found,) = view(tmp_path, pod("x/other", status)).pods()
    assert (found.address, found.listens) == ("10.244.128.2", "")


@pytest.mark.parametrize(
    ("state", "metadata", "shown"),
    [
        ({"waiting": {"reason": "CrashLoopBackOff"}}, {}, "CrashLoopBackOff"),
        ({"running": {}}, {}, "Running"),
        ({"waiting": {"reason": "CrashLoopBackOff"}}, {"deletionTimestamp": "2026-11-21T19:00:00Z"}, "Terminating"),
    ],
)
def test_the_status_is_the_one_that_kubectl_shows(
    tmp_path: Path, state: dict[str, Any], metadata: dict[str, str], shown: str
) -> None:
    status = {"phase": "Running", "containerStatuses": [container(state, 3)]}
    (found,) = view(tmp_path, pod("x/tritonserver", status, **metadata)).pods()
    assert (found.status, found.restarts, found.ready) == (shown, 3, False)


def test_kubectl_gets_the_twins_environment_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/home/person/.kube/config")
    view(tmp_path, f"env > {tmp_path}/env; echo '{{\"items\":[]}}'").pods()
    said = (tmp_path / "env").read_text()
    assert f"KUBECACHEDIR={tmp_path}/cache" in said
    assert "KUBECONFIG" not in said
