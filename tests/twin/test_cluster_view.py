"""The cluster as kubectl shows it; kubectl itself is played by a script that prints what the real one printed."""

from pathlib import Path

import pytest

from twin.cluster_view import ClusterUnreadable, ClusterView


def view(tmp_path: Path, script: str) -> ClusterView:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(f"#!/bin/sh\n{script}\n")
    kubectl.chmod(0o755)
    return ClusterView(kubectl, tmp_path / "kubeconfig")


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
    assert str(error.value) == "`kubectl get pods --all-namespaces` failed: The connection was refused"


def test_a_pods_warnings_are_its_reasons_and_messages(tmp_path: Path) -> None:
    event = '{"reason":"Unhealthy","message":"Startup probe failed\\n"}'
    assert view(tmp_path, f"cat <<'E'\n{{\"items\":[{event}]}}\nE").warnings("triton", "triton-1") == [
        "Unhealthy: Startup probe failed"
    ]


def test_the_end_of_a_log_is_empty_for_a_pod_that_has_none(tmp_path: Path) -> None:
    assert view(tmp_path, "printf 'one\\ntwo\\n'").log_end("triton", "triton-1", 8) == ["one", "two"]
    assert view(tmp_path, "echo 'not found' >&2; exit 1").log_end("triton", "triton-1", 8) == []
