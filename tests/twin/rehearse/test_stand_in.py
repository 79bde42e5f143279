"""A real stack's objects adapted to a twin: only some values are replaced."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.twin.rehearse.test_part import TRITON, Objects, pod, prod
from twin.charts.triton import TRITON as PROGRAM
from twin.rehearse import stand_in
from twin.rehearse.stand_in import Models

__all__ = ["prod"]
ACCOUNT = "kubernetes:core/v1:ServiceAccount::triton-blue-chart:triton/triton-blue"
MODELS = Models("s3://http://127.0.0.1:9/models/releases/abc", ("classify/versions/1", "pipeline/versions/2"))


def fitted(objects: Objects, pods: int | None = 2, mark: str = "before") -> dict[str, Any]:
    return stand_in.fitted(TRITON, objects[TRITON], MODELS, pods, mark)


def test_of_triton_only_models_keys_and_the_number_of_pods_are_others(prod: Objects) -> None:
    there, before = prod[TRITON], copy.deepcopy(prod[TRITON])
    here = fitted(prod)
    assert there == before
    template = here["spec"]["template"]
    assert here["spec"].pop("replicas") == 2
    assert template["metadata"]["annotations"].pop(stand_in.MARK) == "before"
    (own,), (real,) = template["spec"]["containers"], pod(prod)["containers"]
    words = own.pop("args")
    assert words[:2] == [f"--model-repository={MODELS.repository}", "--model-control-mode=none"]
    gone = [word for word in real.pop("args") if word not in words]
    assert [word.partition("=")[0] for word in gone] == ["--model-repository", *["--trace-config"] * 5]
    assert own["env"][-2:] == [{"name": f"AWS_{name}", "value": "test"} for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY")]
    del own["env"][-2:]
    assert template["spec"].pop("initContainers") == []
    assert [one["name"] for one in pod(prod).pop("initContainers")] == ["fetch"], "the server reads the bucket by itself"
    shell = own["readinessProbe"]["exec"]["command"]
    assert "/v2/models/{classify/versions/1,pipeline/versions/2}/ready" in shell[2] and "filetype" not in shell[2]
    shell[2] = real["readinessProbe"]["exec"]["command"][2]
    assert here == there


def test_a_part_of_a_release_is_served_whole_here(prod: Objects) -> None:
    pod(prod)["containers"][0]["args"] += ["--model-control-mode=explicit", "--load-model=filetype"]
    words = fitted(prod)["spec"]["template"]["spec"]["containers"][0]["args"]
    assert [word for word in words if word.startswith(("--model-control", "--load"))] == ["--model-control-mode=none"]


def test_a_template_that_only_differs_in_what_is_replaced_makes_other_pods_all_the_same(prod: Objects) -> None:
    before = fitted(prod)
    pod(prod)["containers"][0]["args"][0] = "--model-repository=s3://another/releases/1"
    after = fitted(prod, mark="after")
    assert before["spec"]["template"] != after["spec"]["template"]
    assert fitted(prod) == before


def test_another_image_is_run_by_the_server_of_this_machine_too(prod: Objects) -> None:
    assert fitted(prod)["spec"]["template"]["spec"]["containers"][0]["image"] == pod(prod)["containers"][0]["image"]
    pod(prod)["containers"][0]["image"] = "registry.example.com/serving@sha256:1"
    assert PROGRAM.runs(fitted(prod)["spec"]["template"]["spec"]["containers"][0])


def test_a_service_account_has_no_role_and_the_rest_is_as_it_was(prod: Objects) -> None:
    here = stand_in.fitted(ACCOUNT, prod[ACCOUNT], MODELS, None, "before")
    assert here["metadata"].pop("annotations") == {}
    assert prod[ACCOUNT]["metadata"].pop("annotations")
    assert here == prod[ACCOUNT]
    service = ACCOUNT.replace("ServiceAccount", "Service")
    assert stand_in.fitted(service, prod[service], MODELS, None, "before") == prod[service]


@pytest.mark.parametrize(("surge", "count"), [(0, 3), ("0%", 3), (1, 6), ("25%", 6)])
def test_there_is_a_machine_for_each_pod_and_more_for_a_rollout_that_begins_with_another(
    prod: Objects, surge: int | str, count: int
) -> None:
    prod[TRITON]["spec"]["strategy"]["rollingUpdate"]["maxSurge"] = surge
    found = list(stand_in.nodes(prod[TRITON], 3))
    assert len({node["metadata"]["name"] for node in found}) == count
    for node in found:
        assert node["metadata"]["labels"]["triton-eks/pool"] == "g5"
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == "1"
    zones = {node["metadata"]["labels"]["topology.kubernetes.io/zone"] for node in found}
    assert zones == {"us-west-2a", "us-west-2b", "us-west-2c"}


def test_pods_of_another_pool_get_machines_of_their_own(prod: Objects) -> None:
    before = list(stand_in.nodes(prod[TRITON], 1))
    pod(prod)["nodeSelector"] = {"triton-eks/pool": "p4d"}
    after = list(stand_in.nodes(prod[TRITON], 1))
    assert {node["metadata"]["name"] for node in before}.isdisjoint(node["metadata"]["name"] for node in after)
