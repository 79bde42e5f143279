from typing import Any

import pytest

from twin.pods.pod_status import ContainerStatus, pod_status, terminated, waiting

AT = "2026-01-01T00:00:00Z"
RUNNING: dict[str, Any] = {"running": {"startedAt": AT}}


def pod(restart: str = "Always", gates: tuple[str, ...] = (), **status: Any) -> dict[str, Any]:
    spec = {"restartPolicy": restart, "containers": [], "readinessGates": [{"conditionType": g} for g in gates]}
    return {"metadata": {"name": "p"}, "spec": spec, "status": status}


def container(state: dict[str, Any], ready: bool = False, **more: Any) -> ContainerStatus:
    return ContainerStatus("c", "image", state=state, ready=ready, **more)


def conditions(status: dict[str, Any]) -> dict[str, str]:
    return {c["type"]: c["status"] for c in status["conditions"]}


@pytest.mark.parametrize(
    ("restart", "states", "phase"),
    [
        ("Always", [waiting("ContainerCreating")], "Pending"),
        ("Always", [RUNNING], "Running"),
        ("Always", [terminated(1, "Error", AT)], "Running"),
        ("Never", [terminated(0, "Completed", AT)], "Succeeded"),
        ("Never", [terminated(0, "Completed", AT), terminated(3, "Error", AT)], "Failed"),
        ("OnFailure", [terminated(0, "Completed", AT), RUNNING], "Running"),
    ],
)
def test_the_phase_follows_the_containers_and_the_restart_policy(
    restart: str, states: list[dict[str, Any]], phase: str
) -> None:
    assert pod_status(pod(restart), [container(s) for s in states], "10.244.200.2", AT)["phase"] == phase


def test_a_deleted_pod_whose_containers_ended_is_over() -> None:
    deleted = pod()
    deleted["metadata"]["deletionTimestamp"] = AT
    assert pod_status(deleted, [container(terminated(0, "Completed", AT))], "10.244.200.2", AT)["phase"] == "Succeeded"


def test_a_pod_in_back_off_is_running_and_not_ready() -> None:
    status = pod_status(pod(), [container(waiting("CrashLoopBackOff"), last_state=terminated(1, "Error", AT))], "1", AT)
    assert status["phase"] == "Running"
    assert conditions(status)["Ready"] == "False"


def test_ready_means_every_container() -> None:
    one, two = container(RUNNING, ready=True), container(RUNNING, ready=False)
    assert conditions(pod_status(pod(), [one, two], "10.244.200.2", AT))["Ready"] == "False"
    two.ready = True
    status = pod_status(pod(), [one, two], "10.244.200.2", AT)
    assert conditions(status) == dict.fromkeys(
        ["PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"], "True"
    )
    assert (status["podIP"], status["podIPs"]) == ("10.244.200.2", [{"ip": "10.244.200.2"}])


def test_readiness_gates_hold_ready_back_until_their_owner_opens_them() -> None:
    gate = "target-health.elbv2.k8s.aws/x"
    closed = pod_status(pod(gates=(gate,)), [container(RUNNING, ready=True)], "10.244.200.2", AT)
    assert (conditions(closed)["ContainersReady"], conditions(closed)["Ready"]) == ("True", "False")
    gated = pod(gates=(gate,), conditions=[{"type": gate, "status": "True"}])
    opened = pod_status(gated, [container(RUNNING, ready=True)], "10.244.200.2", AT)
    assert conditions(opened)["Ready"] == "True"
    assert gate not in conditions(opened)


def test_the_time_of_a_condition_changes_with_its_status_only() -> None:
    before = [{"type": "Ready", "status": "True", "lastTransitionTime": AT}]
    same = pod_status(pod(conditions=before), [container(RUNNING, ready=True)], "10.244.200.2", "x")
    changed = pod_status(pod(conditions=before), [container(RUNNING, ready=False)], "10.244.200.2", "x")
    times = [{c["type"]: c["lastTransitionTime"] for c in s["conditions"]}["Ready"] for s in (same, changed)]
    assert times[0] == AT
    assert times[1] > AT


def test_a_new_agent_takes_up_what_the_api_knows() -> None:
    known = container(RUNNING, ready=True, started=True, restart_count=4, container_id="twin://1-2")
    resumed = ContainerStatus.resume({"name": "c", "image": "image"}, pod(containerStatuses=[known.to_api()]))
    assert resumed == known


def init(state: dict[str, Any]) -> ContainerStatus:
    return ContainerStatus("init", "image", state=state)


def test_a_pod_is_initialized_when_its_init_containers_succeeded() -> None:
    starting = pod()
    starting["spec"]["initContainers"] = [{"name": "init", "image": "image"}, {"name": "simulated", "image": "image"}]
    for state, initialized in ((RUNNING, "False"), (terminated(1, "Error", AT), "False"), (terminated(0, "", AT), "True")):
        status = pod_status(starting, [container(waiting("ContainerCreating"))], "10.244.200.2", AT, [init(state)])
        assert conditions(status)["Initialized"] == initialized
        assert [(s["name"], s["ready"]) for s in status["initContainerStatuses"]] == [
            ("init", initialized == "True"),
            ("simulated", True),
        ]


def test_a_sidecar_is_waited_for_and_keeps_the_pod_unready_while_it_does_not_run() -> None:
    one = pod()
    one["spec"]["initContainers"] = [{"name": "beside", "image": "image", "restartPolicy": "Always"}]
    beside = ContainerStatus("beside", "image")
    found = {}
    for moment in ("created", "running", "crashed"):
        if moment == "running":
            beside.state, beside.started, beside.ready = RUNNING, True, True
        if moment == "crashed":
            beside.last_state, beside.state = terminated(1, "Error", AT), waiting("CrashLoopBackOff")
            beside.started = beside.ready = False
        status = pod_status(one, [container(RUNNING, ready=True)], "10.244.200.2", AT, [beside])
        found[moment] = (conditions(status)["Initialized"], conditions(status)["Ready"])
        assert status["initContainerStatuses"] == [beside.to_api()]
    assert found == {"created": ("False", "False"), "running": ("True", "True"), "crashed": ("True", "False")}


def test_a_new_agent_knows_which_init_containers_succeeded() -> None:
    done = init(terminated(0, "Completed", AT))
    known = pod(initContainerStatuses=[done.to_api()])
    assert ContainerStatus.resume({"name": "init", "image": "image"}, known).succeeded
