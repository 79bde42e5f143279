"""A release that an init container copies to the pod's disk before the server starts."""

import math
from typing import Any

import pytest

from spec.helm_values import merge
from spec.prometheus.timing import timing
from spec.settings.chart_values import pod_values
from spec.settings.relations.triton import pod_disk_gib
from tests.charts import pod_security, rendering
from tests.charts.rendering import GIB, RELEASE_ID
from tests.infra.test_fetcher import IMAGE, LOCAL
from tests.pod_requests import of_pod
from tests.spec.stack_config import settings
from twin.releases.helm import HelmError

FETCHED: dict[str, Any] = {"modelRepository": {"fetch": {"image": IMAGE}}}


def with_fetch(overrides: dict[str, Any] | None = None) -> dict[str, Any]:
    return merge(FETCHED, overrides or {})


def fetch(overrides: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    (container,) = rendering.pod(with_fetch(overrides), **options)["initContainers"]
    return container


def test_without_its_image_there_is_no_init_container() -> None:
    assert "initContainers" not in rendering.pod()


def test_the_release_is_fetched_to_where_the_server_reads_it_and_cannot_write_it() -> None:
    container, server = fetch(), rendering.container(FETCHED)
    assert container["image"] == IMAGE
    assert [*container["command"], *container["args"]] == [
        *("python", "-m", "modelctl", "fetch", RELEASE_ID, "--bucket=triton-prod-models", "--to=/models"),
        "--serve=$(POD_IP):8002",
    ]
    assert {mount["name"]: mount for mount in container["volumeMounts"]}["models"] == {
        "name": "models",
        "mountPath": "/models",
    }
    assert {mount["name"]: mount for mount in server["volumeMounts"]}["models"] == {
        "name": "models",
        "mountPath": "/models",
        "readOnly": True,
    }
    assert rendering.flag(server, "--model-repository") == "/models/current"
    assert [name for name in rendering.env(FETCHED) if name.startswith(("AWS_", "TRITON_AWS"))] == []


def test_another_store_is_reached_with_its_keys() -> None:
    keys = [{"name": "AWS_ACCESS_KEY_ID", "valueFrom": {"secretKeyRef": {"name": "minio", "key": "id"}}}]
    container = fetch({"modelRepository": {"s3": {"endpoint": "http://minio:9000"}}, "extraEnv": keys})
    assert "--endpoint-url=http://minio:9000" in container["args"]
    assert keys[0] in container["env"]
    ports = rendering.only(
        rendering.render(with_fetch({"modelRepository": {"s3": {"endpoint": "http://minio:9000"}}})), "NetworkPolicy"
    )["spec"]["egress"]
    assert [port["port"] for rule in ports for port in rule["ports"]] == [53, 53, 443, 9000]


def test_it_is_as_restricted_as_the_server() -> None:
    pod = rendering.pod(FETCHED)
    assert fetch()["securityContext"] == rendering.container()["securityContext"]
    assert pod_security.violations(pod) == []


def test_a_pod_asks_for_no_more_by_it() -> None:
    resources = fetch({"release": {"bytes": 5 * GIB}})["resources"]
    asked = {"cpu": "3", "memory": "512Mi", "ephemeral-storage": f"{6 * 1024 + 1024 + 256}Mi"}
    assert resources == {"requests": asked, "limits": asked}
    assert of_pod(rendering.pod(FETCHED)) == of_pod(rendering.pod())


def test_pods_of_a_node_share_downloads_and_serve_from_copies_of_their_own() -> None:
    cache = {"modelRepository": {"fetch": {"cache": {"claimName": "models-of-the-node", "gib": 250}}}}
    pod = rendering.pod(with_fetch(cache))
    (init,), (server,) = pod["initContainers"], pod["containers"]
    assert {"name": "cache", "persistentVolumeClaim": {"claimName": "models-of-the-node"}} in pod["volumes"]
    assert {"--cache=/cache", "--cache-gib=250"} <= set(init["args"])
    assert {"name": "cache", "mountPath": "/cache"} in init["volumeMounts"]
    assert "cache" not in [mount["name"] for mount in server["volumeMounts"]]
    assert pod_security.violations(pod) == []


def following(overrides: dict[str, Any] | None = None) -> dict[str, Any]:
    live = {**rendering.IN_PLACE, "release": {"id": ""}, "modelRepository": {"s3": {"prefix": "live"}}}
    return with_fetch(merge(live, overrides or {}))


def test_in_place_a_sidecar_fetches_what_rollouts_bring() -> None:
    pod = rendering.pod(following())
    before, beside = pod["initContainers"]
    assert before["args"] == ["follow", "--once", "--bucket=triton-prod-models", "--to=/models", "--serve=$(POD_IP):8002"]
    assert beside["args"] == ["follow", "--bucket=triton-prod-models", "--to=/models", "--serve=0.0.0.0:8003"]
    assert (before.get("restartPolicy"), beside["restartPolicy"]) == (None, "Always")
    assert beside["ports"] == [{"name": "models", "containerPort": 8003, "protocol": "TCP"}]
    for name in ("image", "command", "env", "volumeMounts", "securityContext"):
        assert beside[name] == before[name]
    assert beside["resources"] == {
        "requests": {"cpu": "250m", "memory": "256Mi"},
        "limits": {"cpu": "250m", "memory": "256Mi"},
    }
    assert rendering.flag(rendering.container(following()), "--model-repository") == "/models/current"
    assert pod_security.violations(pod) == []


def test_in_place_the_sidecar_is_reached_by_port_forwards_alone() -> None:
    ingress = rendering.only(rendering.render(following()), "NetworkPolicy")["spec"]["ingress"]
    assert [port["port"] for rule in ingress for port in rule["ports"]] == [8000, 8001, 8002]


def test_in_place_the_next_release_changes_no_pod() -> None:
    small, large = (following({"release": {"bytes": size}}) for size in (3 * GIB, 4 * GIB))
    assert rendering.pod(small) == rendering.pod(large)


@pytest.mark.parametrize("environment", ["dev", "staging", "prod"])
@pytest.mark.parametrize("release_bytes", [1, GIB // 2 + 1, 5 * GIB])
def test_in_place_the_disk_holds_two_releases(environment: str, release_bytes: int) -> None:
    pod = rendering.pod(following({"release": {"bytes": release_bytes}}), environment=environment)
    cache = 1024 + math.ceil(2 * (1 << (release_bytes - 1).bit_length()) / 1024**2)
    assert {"name": "models", "emptyDir": {"sizeLimit": f"{cache}Mi"}} in pod["volumes"]
    values = pod_values(environment)
    for container in (pod["initContainers"][0], *pod["containers"]):
        mebibytes = int(container["resources"]["requests"]["ephemeral-storage"].removesuffix("Mi"))
        assert pod_disk_gib(release_bytes, "in-place", access="local", values=values) == math.ceil(mebibytes / 1024)


def test_in_place_a_start_may_fetch_both_releases() -> None:
    release = {"bytes": 4 * GIB, "models": {"a": 1}}
    rendered = rendering.deployment(following({"release": release}), environment="staging")["spec"]
    (server,) = rendered["template"]["spec"]["containers"]
    probe, download = server["startupProbe"], math.ceil(4 * GIB / 104857600)
    assert probe["failureThreshold"] * probe["periodSeconds"] == 300
    read = settings({**LOCAL, "triton.rollout": "in-place", "models.release.bytes": 4 * GIB})
    assert timing(read).start == 2 * download + 300


@pytest.mark.parametrize("environment", ["dev", "staging", "prod"])
@pytest.mark.parametrize("release_bytes", [1, GIB // 2 + 1, 5 * GIB, 80 * GIB + 12_345])
def test_settings_reckon_with_its_disk_which_holds_one_copy(environment: str, release_bytes: int) -> None:
    pod = rendering.pod(with_fetch({"release": {"bytes": release_bytes}}), environment=environment)
    cache = 1024 + math.ceil(release_bytes / 1024**2)
    assert {"name": "models", "emptyDir": {"sizeLimit": f"{cache}Mi"}} in pod["volumes"]
    for container in (*pod["initContainers"], *pod["containers"]):
        mebibytes = int(container["resources"]["requests"]["ephemeral-storage"].removesuffix("Mi"))
        assert pod_disk_gib(release_bytes, access="local", values=pod_values(environment)) == math.ceil(mebibytes / 1024)


@pytest.mark.parametrize("size", [15_693, 123_456_789_012])
def test_the_server_has_its_own_time_to_start_after_the_download(size: int) -> None:
    release = {"bytes": size, "models": {"a": 1, "b": 1}}
    rendered = rendering.deployment(with_fetch({"release": release}), environment="staging")["spec"]
    (server,) = rendered["template"]["spec"]["containers"]
    probe, download = server["startupProbe"], math.ceil(size / 104857600)
    assert probe["failureThreshold"] * probe["periodSeconds"] == 300  # minimumSeconds, more than 60 s for each model
    assert timing(settings({**LOCAL, "models.release.bytes": size})).start == download + 300
    copied_by_the_server = rendering.deployment({"release": release}, environment="staging")["spec"]
    assert rendered["progressDeadlineSeconds"] >= copied_by_the_server["progressDeadlineSeconds"]


def test_the_image_that_fetches_is_named_by_its_digest() -> None:
    with pytest.raises(HelmError, match=r"modelRepository\.fetch\.image: 'mirror/modelctl:1' does not match pattern"):
        rendering.render(with_fetch({"modelRepository": {"fetch": {"image": "mirror/modelctl:1"}}}))
