"""The command line and the environment variables of the server."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from spec.triton_options import FLAGS, check_arguments, newer_than
from spec.versions import TRITON_RELEASES
from tests.charts import rendering
from tests.charts.rendering import ENVIRONMENTS, IN_PLACE, RELEASE_ID
from twin.triton.tritonserver import TritonServer

START = """\
set -eu
file=/run/triton/admin-key
if ! [ -s $file ]; then (umask 077; od -An -N32 -v -tx1 /dev/urandom | tr -d ' \\n' > $file); fi
key=$(cat $file)
[ ${#key} = 64 ] || { echo "$file has no key of 64 digits" >&2; exit 1; }
exec "$@" --http-restricted-api=model-repository,shared-memory,trace,logging:x-admin-key=$key \
--grpc-restricted-protocol=model-repository,shared-memory,trace,logging:admin-key=$key"""


def test_the_arguments_of_prod() -> None:
    container = rendering.container(environment="prod")
    assert container["command"] == ["sh", "-c", START, "start", "tritonserver"]
    assert container["args"] == [
        f"--model-repository=s3://triton-prod-models/releases/{RELEASE_ID}",
        "--model-control-mode=none",
        "--exit-on-error=true",
        "--exit-timeout-secs=65",
        "--disable-auto-complete-config",
        "--log-format=ISO8601",
        "--http-max-input-size=67108864",
        "--grpc-max-connection-age=300000",
        "--grpc-max-connection-age-grace=60000",
        "--metrics-interval-ms=5000",
        "--metrics-config=histogram_latencies=true",
        "--backend-config=onnxruntime,enable-global-threadpool=1",
        "--backend-config=onnxruntime,intra_op_thread_count=3",
        "--backend-config=onnxruntime,inter_op_thread_count=1",
    ]


@pytest.mark.parametrize("version", TRITON_RELEASES)
@pytest.mark.parametrize("environment", ENVIRONMENTS)
@pytest.mark.parametrize("more", [{}, {"release": {"configName": "prod"}}, IN_PLACE], ids=["plain", "config", "in-place"])
def test_every_accepted_release_understands_the_arguments(version: str, environment: str, more: dict[str, Any]) -> None:
    server = {
        "version": version,
        "metricsConfig": {"summary_latencies": True},
        "responseCacheBytes": 64 * 1024**2,
        "rateLimiter": {"resources": {"slots": 4, "decoder": 1}},
    }
    args = rendering.container({"server": server, **more}, environment=environment)["args"]
    assert check_arguments(args, TRITON_RELEASES[version].server) == []


def test_the_response_cache_is_given_in_bytes() -> None:
    container = rendering.container({"server": {"responseCacheBytes": 64 * 1024**2}})
    assert rendering.flag(container, "--cache-config") == "local,size=67108864"


def test_the_rate_limiter_is_on_with_the_resources_of_a_pod() -> None:
    args = rendering.container({"server": {"rateLimiter": {"resources": {"slots": 4, "decoder": 1}}}})["args"]
    limits = [arg for arg in args if arg.startswith("--rate-limit")]
    assert limits == ["--rate-limit=execution_count", "--rate-limit-resource=decoder:1", "--rate-limit-resource=slots:4"]


def test_neither_is_there_by_default() -> None:
    args = rendering.container()["args"]
    assert [arg for arg in args if arg.startswith(("--cache", "--rate-limit", "--model-config-name"))] == []


def test_the_models_are_served_with_the_named_configs() -> None:
    container = rendering.container({"release": {"configName": "prod"}})
    assert rendering.flag(container, "--model-config-name") == "prod"


def test_in_place_the_models_of_the_live_prefix_are_loaded_at_the_start() -> None:
    container = rendering.container(IN_PLACE, environment="prod")
    assert container["args"][:3] == [
        "--model-repository=s3://triton-prod-models/live",
        "--model-control-mode=explicit",
        "--load-model=*",
    ]
    assert [arg for arg in container["args"] if "config-name" in arg] == []


def test_in_place_a_fleet_loads_its_own_models_whatever_their_versions() -> None:
    models = {"resnet50": 2, "pipeline": 4}
    container = rendering.container({**IN_PLACE, "release": {"part": True, "models": models}}, environment="prod")
    assert container["args"][1:4] == ["--model-control-mode=explicit", "--load-model=pipeline", "--load-model=resnet50"]


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_the_real_server_knows_every_flag(environment: str, real_server: TritonServer) -> None:
    both = {"server": {"metricsConfig": {"summary_latencies": True}}}
    rendered = {arg.partition("=")[0] for arg in rendering.container(both, environment=environment)["args"]}
    unknown = rendered - set(real_server.flags)
    assert unknown == {"--http-max-input-size"}
    assert all(newer_than(FLAGS[flag].since, "2.51.0") for flag in unknown)


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        ("", "s3://"),
        ("http://127.0.0.1:5000", "s3://http://127.0.0.1:5000/"),
        ("https://minio.example:9443", "s3://https://minio.example:9443/"),
        ("http://minio.minio", "s3://http://minio.minio:80/"),
        ("https://minio.example", "s3://https://minio.example:443/"),
    ],
)
def test_the_endpoint_goes_into_the_repository_url_with_its_port(endpoint: str, expected: str) -> None:
    container = rendering.container({"modelRepository": {"s3": {"endpoint": endpoint}}})
    repository = rendering.flag(container, "--model-repository")
    assert repository == f"{expected}triton-prod-models/releases/{RELEASE_ID}"


def test_metrics_settings_follow_the_values() -> None:
    settings = {"histogram_latencies": False, "summary_latencies": True}
    container = rendering.container({"server": {"metricsConfig": settings}})
    assert rendering.flag(container, "--metrics-config") == "summary_latencies=true"


def test_auto_completion_can_be_left_on() -> None:
    container = rendering.container({"server": {"disableAutoCompleteConfig": False}})
    assert "--disable-auto-complete-config" not in container["args"]


def test_further_flags_come_last_and_unchanged() -> None:
    extra = ["--cuda-memory-pool-byte-size=0:268435456", "--grpc-infer-allocation-pool-size=16"]
    assert rendering.container({"server": {"extraArgs": extra}})["args"][-2:] == extra


def test_the_image_is_given_by_digest() -> None:
    digest = "sha256:" + "0123456789abcdef" * 4
    assert rendering.container()["image"] == f"nvcr.io/nvidia/tritonserver@{digest}"


def test_the_environment_of_the_server() -> None:
    assert rendering.env() == {
        "POD_IP": {"valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        "AWS_REGION": {"value": "us-west-2"},
        "AWS_DEFAULT_REGION": {"value": "us-west-2"},
        "AWS_EC2_METADATA_DISABLED": {"value": "true"},
        "TRITON_AWS_MOUNT_DIRECTORY": {"value": "/models"},
        "HOME": {"value": "/tmp"},
        "OMP_NUM_THREADS": {"value": "3"},
        "OPENBLAS_NUM_THREADS": {"value": "3"},
        "MKL_NUM_THREADS": {"value": "3"},
    }


def _started(folder: Path) -> list[str]:
    """Run the container's command with a server that prints its arguments, and with `folder` as /run/triton."""
    words = rendering.container()["command"][:-1]
    words[2] = words[2].replace("/run/triton", str(folder))
    done = subprocess.run([*words, "printf", "%s\n", "--a=b c"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_each_pod_makes_a_random_key_of_256_bits_and_keeps_it_in_memory(tmp_path: Path) -> None:
    restricted = "model-repository,shared-memory,trace,logging"
    keys = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        first, http, grpc = _started(tmp_path / name)
        key = (tmp_path / name / "admin-key").read_text()
        assert re.fullmatch("[0-9a-f]{64}", key)
        assert (first, http) == ("--a=b c", f"--http-restricted-api={restricted}:x-admin-key={key}")
        assert grpc == f"--grpc-restricted-protocol={restricted}:admin-key={key}"
        assert (tmp_path / name / "admin-key").stat().st_mode & 0o777 == 0o600
        assert _started(tmp_path / name) == [first, http, grpc], "a container that restarts has the pod's key"
        keys.append(key)
    assert keys[0] != keys[1]
    volumes = {volume["name"]: volume for volume in rendering.pod()["volumes"]}
    assert volumes["admin"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "1Mi"}


def test_a_server_without_a_key_is_not_started(tmp_path: Path) -> None:
    (tmp_path / "admin-key").write_text("short")
    words = rendering.container()["command"]
    done = subprocess.run([*words[:2], words[2].replace("/run/triton", str(tmp_path)), "start", "echo"], capture_output=True)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == f"{tmp_path}/admin-key has no key of 64 digits\n".encode()


def test_no_argument_or_variable_has_the_key_or_the_name_of_one() -> None:
    container = rendering.container()
    assert "$(" not in "".join(container["args"])
    assert [name for name in rendering.env() if "KEY" in name] == []


@pytest.mark.parametrize(
    ("cpu", "instances", "pool", "each"),
    [
        ("3", 1, 3, 3),
        ("3", 2, 3, 2),
        ("3", 5, 3, 1),
        ("500m", 1, 1, 1),
        ("1.5", 1, 2, 2),
        ("2500m", 2, 3, 2),
        ("96", 7, 96, 14),
    ],
)
def test_thread_pools_are_as_large_as_the_cpus_of_the_pod(cpu: str, instances: int, pool: int, each: int) -> None:
    values = {"resources": {"cpu": cpu}, "server": {"cpuInstances": instances}}

    assert f"--backend-config=onnxruntime,intra_op_thread_count={pool}" in rendering.container(values)["args"]
    variables = rendering.env(values)
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    assert [variables[name] for name in names] == [{"value": str(each)}] * 3


def test_thread_pools_of_the_values_stay() -> None:
    own = "--backend-config=onnxruntime,intra_op_thread_count=9"
    values = {"server": {"extraArgs": [own]}, "extraEnv": [{"name": "OMP_NUM_THREADS", "value": "7"}]}

    assert [arg for arg in rendering.container(values)["args"] if "onnxruntime" in arg] == [own]
    written = [one for one in rendering.container(values)["env"] if one["name"] == "OMP_NUM_THREADS"]
    assert written == [{"name": "OMP_NUM_THREADS", "value": "7"}]


def test_the_server_has_a_cpu_limit_only_where_one_is_given() -> None:
    resources = rendering.container({"resources": {"cpu": "3"}})["resources"]
    assert (resources["requests"]["cpu"], resources["limits"].get("cpu")) == ("3", None)
    assert resources["limits"]["memory"] == resources["requests"]["memory"]

    limited = rendering.container({"resources": {"cpu": "3", "cpuLimit": "3500m"}})["resources"]
    assert (limited["requests"]["cpu"], limited["limits"]["cpu"]) == ("3", "3500m")
    assert "cpuLimit" not in {**limited["requests"], **limited["limits"]}


def test_further_variables_come_after_the_charts_own() -> None:
    secret: dict[str, Any] = {"secretKeyRef": {"name": "minio", "key": "id"}}
    overrides = {
        "modelRepository": {"s3": {"endpoint": "http://minio.minio:9000"}},
        "extraEnv": [{"name": "AWS_ACCESS_KEY_ID", "valueFrom": secret}, {"name": "OMP_NUM_THREADS", "value": "1"}],
    }
    found = rendering.env(overrides)
    assert list(found)[-2:] == ["AWS_ACCESS_KEY_ID", "OMP_NUM_THREADS"]
    assert found["AWS_ACCESS_KEY_ID"] == {"valueFrom": secret}


def test_directories_in_the_environment_are_mounted_volumes() -> None:
    container = rendering.container()
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    directories = {e["value"] for e in container["env"] if e.get("value", "").startswith("/")}
    assert directories == {"/models", "/tmp"}
    assert directories <= mounts
