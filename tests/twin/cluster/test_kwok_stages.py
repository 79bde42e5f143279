import yaml

from twin.cluster.kwok_stages import EXCLUSION, FILE, is_process, is_prometheus, is_reloader, is_worker, runs_as_process

STAGES = [stage for stage in yaml.safe_load_all(FILE.read_text()) if stage]


def pod(*images: str) -> dict[str, object]:
    return {"spec": {"containers": [{"name": "c", "image": image} for image in images]}}


def test_every_pod_stage_leaves_out_the_pods_that_run_as_processes() -> None:
    for stage in STAGES:
        if stage["spec"]["resourceRef"]["kind"] == "Pod":
            assert EXCLUSION in stage["spec"]["selector"]["matchExpressions"], stage["metadata"]["name"]


def test_there_is_a_stage_for_each_step_of_nodes_and_pods() -> None:
    assert [stage["metadata"]["name"] for stage in STAGES] == [
        "node-ready",
        "node-heartbeat",
        "pod-ready",
        "pod-complete",
        "pod-delete",
    ]


def test_triton_is_known_by_its_image_whatever_the_registry() -> None:
    assert runs_as_process(pod("nvcr.io/nvidia/tritonserver@sha256:00"))
    assert runs_as_process(pod("1.dkr.ecr.us-west-2.amazonaws.com/nvidia/tritonserver:26.07-py3"))
    assert runs_as_process(pod("sidecar:1", "nvcr.io/nvidia/tritonserver:26.07-py3"))


def test_the_worker_of_this_repository_is_known_by_its_image_too() -> None:
    assert runs_as_process(pod("1.dkr.ecr.us-west-2.amazonaws.com/triton-worker@sha256:00"))
    assert is_worker({"image": "1.dkr.ecr.us-west-2.amazonaws.com/triton-worker@sha256:00"})
    assert not is_worker({"image": "1.dkr.ecr.us-west-2.amazonaws.com/nvidia/tritonserver@sha256:00"})


RELOADER = "quay.io/prometheus-operator/prometheus-config-reloader:v0.93.1"


def test_prometheus_runs_with_what_hands_it_its_configuration() -> None:
    prometheus = "quay.io/prometheus/prometheus:v3.14.0-distroless"
    assert runs_as_process(pod(prometheus, RELOADER))
    assert is_prometheus({"image": prometheus}) and not is_reloader({"image": prometheus})
    assert is_reloader({"image": RELOADER}) and is_process({"image": RELOADER})


def test_a_reloader_beside_something_else_is_simulated_with_it() -> None:
    assert not runs_as_process(pod("quay.io/prometheus/alertmanager:v0.33.1", RELOADER))


def test_other_pods_are_simulated() -> None:
    assert not runs_as_process(pod("nvcr.io/nvidia/k8s-device-plugin:v0.17.0", "tritonserver:1"))
