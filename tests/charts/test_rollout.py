"""Replicas, rollout, disruption and placement. `replicas` has one owner (docs/facts/scaling.md#one-owner-of-replicas)."""

from typing import Any

import pytest

from tests.charts import rendering
from tests.charts.rendering import GIB, IN_PLACE, RELEASE_ID
from twin.plugins.chart_order import DEPENDS_ON

EXTERNAL = {"autoscaling": {"owner": "external"}, "replicaCount": None}


def test_replicas_are_rendered_when_the_chart_owns_them() -> None:
    assert rendering.deployment({"replicaCount": 3})["spec"]["replicas"] == 3
    assert rendering.deployment({"replicaCount": 0})["spec"]["replicas"] == 0


def test_replicas_are_absent_when_an_autoscaler_owns_them() -> None:
    assert "replicas" not in rendering.deployment(EXTERNAL)["spec"]


@pytest.mark.parametrize(
    ("overrides", "rendered"),
    [({"replicaCount": 0}, False), ({"replicaCount": 1}, False), ({"replicaCount": 2}, True), (EXTERNAL, True)],
)
def test_a_disruption_budget_exists_where_a_pod_can_be_spared(overrides: dict[str, Any], rendered: bool) -> None:
    objects = rendering.render(overrides)
    assert ("PodDisruptionBudget" in rendering.kinds(objects)) is rendered
    if rendered:
        spec = rendering.only(objects, "PodDisruptionBudget")["spec"]
        assert spec["maxUnavailable"] == 1
        assert spec["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
        assert "minAvailable" not in spec


@pytest.mark.parametrize(("spare", "surge", "unavailable"), [(False, 0, 1), (True, 1, 0)])
def test_a_rollout_surges_only_onto_a_spare_gpu(spare: bool, surge: int, unavailable: int) -> None:
    assert rendering.deployment({"rollout": {"spareGpu": spare}})["spec"]["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable},
    }


@pytest.mark.parametrize(("spare", "drain"), [(False, 105), (True, 0)])
def test_the_progress_deadline_covers_placement_start_and_drain(spare: bool, drain: int) -> None:
    overrides = {
        "rollout": {"spareGpu": spare, "placementSeconds": 1000, "minReadySeconds": 7},
        "startup": {"minimumSeconds": 500, "secondsPerModel": 1},
        "drain": {"preStopSeconds": 20, "longestRequestSeconds": 50, "longestBatchSeconds": 20},
    }
    assert rendering.deployment(overrides)["spec"]["progressDeadlineSeconds"] == 1000 + 500 + 7 + drain


@pytest.mark.parametrize(("overrides", "factor"), [({"replicaCount": 3}, 3), ({"replicaCount": 0}, 1), (EXTERNAL, 1)])
def test_the_deadline_annotation_covers_all_pods_one_after_the_other(overrides: dict[str, Any], factor: int) -> None:
    deployment = rendering.deployment({"rollout": {"deadlineAnnotation": "pulumi.com/timeoutSeconds"}, **overrides})
    expected = deployment["spec"]["progressDeadlineSeconds"] * factor
    assert deployment["metadata"]["annotations"]["pulumi.com/timeoutSeconds"] == str(expected)


def test_the_environments_tell_pulumi_how_long_a_rollout_takes() -> None:
    for environment in rendering.ENVIRONMENTS:
        annotations = rendering.deployment(environment=environment)["metadata"]["annotations"]
        assert list(annotations) == [DEPENDS_ON, "pulumi.com/timeoutSeconds"]


def test_without_a_deadline_annotation_the_deployment_has_none() -> None:
    assert list(rendering.deployment()["metadata"]["annotations"]) == [DEPENDS_ON]


def test_a_new_release_changes_the_pod_template() -> None:
    other = "0123456789ab" + 52 * "0"
    overrides = {"release": {"id": other}, "modelRepository": {"s3": {"prefix": f"releases/{other}"}}}
    before, after = (rendering.deployment(o)["spec"]["template"] for o in ({}, overrides))
    assert before["metadata"]["annotations"]["triton-eks/release"] == RELEASE_ID
    assert after["metadata"]["annotations"]["triton-eks/release"] == other
    assert after["metadata"]["labels"]["triton-eks/release"] == "0123456789ab"
    assert before["spec"] != after["spec"]


def test_a_new_chart_version_alone_does_not_change_the_pod_template() -> None:
    assert "helm.sh/chart" not in rendering.deployment()["spec"]["template"]["metadata"]["labels"]


def test_the_pod_says_which_models_it_serves() -> None:
    annotations = rendering.deployment()["spec"]["template"]["metadata"]["annotations"]
    assert annotations["triton-eks/models"] == "pipeline=3,resnet50=1"


def test_in_place_a_pod_claims_no_release_and_no_versions() -> None:
    metadata = rendering.deployment(IN_PLACE)["spec"]["template"]["metadata"]
    assert list(metadata["labels"]) == ["app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/version"]
    assert list(metadata["annotations"]) == ["kubectl.kubernetes.io/default-container"]


def test_in_place_another_release_of_about_the_same_size_changes_nothing_of_the_pods() -> None:
    releases = [
        {"id": "0123456789ab" + 52 * "0", "bytes": 5 * GIB, "models": {"resnet50": 1, "pipeline": 3}},
        {"id": "ba9876543210" + 52 * "0", "bytes": 6 * GIB, "models": {"resnet50": 2, "pipeline": 4}},
        {"id": "", "bytes": 8 * GIB, "models": {"resnet50": 2, "pipeline": 4}},
    ]
    first, *others = [rendering.deployment({**IN_PLACE, "release": release}) for release in releases]
    assert all(other == first for other in others)
    assert rendering.deployment({**IN_PLACE, "release": {"bytes": 8 * GIB + 1}}) != first


def test_pods_spread_over_hosts_and_zones_within_one_revision() -> None:
    spread = {"zone": "DoNotSchedule", "host": "ScheduleAnyway"}
    constraints = rendering.pod({"spread": spread})["topologySpreadConstraints"]
    assert [
        (c["topologyKey"], c["whenUnsatisfiable"], c["maxSkew"], c["matchLabelKeys"], c["nodeTaintsPolicy"])
        for c in constraints
    ] == [
        ("kubernetes.io/hostname", "ScheduleAnyway", 1, ["pod-template-hash"], "Honor"),
        ("topology.kubernetes.io/zone", "DoNotSchedule", 1, ["pod-template-hash"], "Honor"),
    ]


def test_pods_share_hosts_where_they_are_not_to_be_spread_over_them() -> None:
    constraints = rendering.pod({"spread": {"host": ""}})["topologySpreadConstraints"]
    assert [(c["topologyKey"], c["whenUnsatisfiable"]) for c in constraints] == [
        ("topology.kubernetes.io/zone", "ScheduleAnyway")
    ]


def test_placement_is_passed_through() -> None:
    pod = rendering.pod({"priorityClassName": "inference"})
    assert pod["nodeSelector"] == {"triton-eks/pool": "g5"}
    assert pod["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert pod["priorityClassName"] == "inference"


def test_history_and_settling_time_follow_the_values() -> None:
    spec = rendering.deployment({"rollout": {"revisionHistoryLimit": 9, "minReadySeconds": 33}})["spec"]
    assert (spec["revisionHistoryLimit"], spec["minReadySeconds"]) == (9, 33)
