"""Startup, readiness and liveness: docs/facts/triton-server.md#health."""

import subprocess
from pathlib import Path

import pytest

from tests import http_server
from tests.charts import rendering
from tests.charts.rendering import ENVIRONMENTS, GIB, IN_PLACE


def startup_seconds(**overrides: object) -> int:
    probe = rendering.container(overrides)["startupProbe"]
    return probe["failureThreshold"] * probe["periodSeconds"]


def test_the_startup_probe_waits_for_the_port_only() -> None:
    probe = rendering.container()["startupProbe"]
    assert probe["httpGet"] == {"path": "/v2/health/live", "port": "http"}


def test_the_startup_probe_lasts_for_the_download_and_every_model() -> None:
    release = {"bytes": 100 * 1000 * 1000 * 1000, "models": {"a": 1, "b": 1, "c": 1}}
    startup = {"bytesPerSecond": 100_000_000, "secondsPerModel": 60, "minimumSeconds": 300, "periodSeconds": 5}
    assert startup_seconds(release=release, startup=startup) == 1000 + 3 * 60


def test_the_startup_probe_lasts_for_the_engines_that_are_built() -> None:
    release = {"bytes": 1, "models": {"a": 1, "b": 1}}
    startup = {"secondsPerModel": 60, "engines": 3, "secondsPerEngine": 200, "minimumSeconds": 300, "periodSeconds": 5}
    assert startup_seconds(release=release, startup=startup) == 725  # a second, 2 x 60 and 3 x 200, in steps of 5 s


def test_the_startup_probe_rounds_up() -> None:
    release = {"bytes": 2 * GIB + 1, "models": {"a": 1}}
    startup = {"bytesPerSecond": GIB, "secondsPerModel": 1, "minimumSeconds": 1, "periodSeconds": 3}
    assert startup_seconds(release=release, startup=startup) == 6  # 2 s and a byte, plus 1 s, in steps of 3 s


def test_a_small_release_still_gets_the_shortest_start() -> None:
    release = {"bytes": 1, "models": {"a": 1}}
    startup = {"secondsPerModel": 1, "minimumSeconds": 300, "periodSeconds": 5}
    assert startup_seconds(release=release, startup=startup) == 300


def test_the_size_of_a_release_is_never_written_as_a_float() -> None:
    release = {"bytes": 17_592_186_044_416, "models": {"a": 1}}
    startup = {"bytesPerSecond": 1_048_576, "secondsPerModel": 1, "periodSeconds": 1}
    assert startup_seconds(release=release, startup=startup) == 16_777_216 + 1


def test_readiness_of_one_model_is_its_own_endpoint() -> None:
    probe = rendering.container({"release": {"models": {"resnet50": 3}}})["readinessProbe"]
    assert probe == {
        "httpGet": {"path": "/v2/models/resnet50/versions/3/ready", "port": "http"},
        "periodSeconds": 5,
        "timeoutSeconds": 5,
        "failureThreshold": 2,
    }


def test_readiness_of_several_models_asks_for_every_one_through_the_pods_address() -> None:
    probe = rendering.container({"release": {"models": {"b": 2, "a": 1}}})["readinessProbe"]
    shell, option, script = probe["exec"]["command"]
    assert (shell, option) == ("sh", "-c")
    assert script == (
        "exec curl --fail --fail-early --silent --noproxy '*' --max-time 5 \\\n"
        "  --write-out '%{onerror}%{url} is not ready (HTTP status %{http_code})\\n' \\\n"
        '  "http://${POD_IP}:8000/v2/models/{a/versions/1,b/versions/2}/ready"\n'
    )


def test_readiness_asks_for_every_version_that_is_served() -> None:
    template = rendering.deployment({"release": {"models": {"a": 3, "b": 1}, "others": {"a": [1, 2]}}})["spec"]["template"]
    script = template["spec"]["containers"][0]["readinessProbe"]["exec"]["command"][2]
    assert "/v2/models/{a/versions/3,a/versions/1,a/versions/2,b/versions/1}/ready" in script
    assert template["metadata"]["annotations"]["triton-eks/models"] == "a=3,a=1,a=2,b=1"


@pytest.mark.parametrize("environment", ENVIRONMENTS)
@pytest.mark.parametrize("models", [{"a": 1}, {"a": 1, "b": 2}])
def test_liveness_outlasts_a_busy_server(environment: str, models: dict[str, int]) -> None:
    container = rendering.container({"release": {"models": models}}, environment=environment)
    liveness = container["livenessProbe"]
    assert liveness["httpGet"] == {"path": "/v2/health/live", "port": "http"}
    assert liveness["periodSeconds"] * liveness["failureThreshold"] >= 60


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_probes_depend_on_no_guessed_delay_and_no_server_wide_readiness(environment: str) -> None:
    container = rendering.container(environment=environment)
    probes = [container[name] for name in ("startupProbe", "readinessProbe", "livenessProbe")]
    assert not [probe for probe in probes if "initialDelaySeconds" in probe]
    assert "/v2/health/ready" not in str(probes)


@pytest.mark.parametrize(
    ("ready", "code", "unready"),
    [
        ({"/v2/models/a/versions/1/ready", "/v2/models/b/versions/2/ready"}, 0, ""),
        ({"/v2/models/a/versions/1/ready"}, 22, "b/versions/2"),
        ({"/v2/models/b/versions/2/ready"}, 22, "a/versions/1"),
        (set(), 22, "a/versions/1"),
    ],
)
def test_the_readiness_command_fails_while_any_model_is_not_ready(
    ready: set[str], code: int, unready: str, tmp_path: Path
) -> None:
    class Answers(http_server.Handler):
        def do_GET(self) -> None:
            self.answer(200 if self.path in ready else 400)

    with http_server.listening(Answers) as server:
        probe = rendering.container({"release": {"models": {"a": 1, "b": 2}}})["readinessProbe"]
        script = probe["exec"]["command"][2].replace(":8000/", f":{server.server_port}/")
        ended = subprocess.run(
            ["sh", "-c", script],
            env={"POD_IP": "127.0.0.1", "PATH": "/usr/bin:/bin", "http_proxy": "http://127.0.0.1:9"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        complaint = f"http://127.0.0.1:{server.server_port}/v2/models/{unready}/ready is not ready (HTTP status 400)\n"
    assert ended.returncode == code
    assert ended.stdout == (complaint if unready else "")


def test_in_place_readiness_asks_for_no_version() -> None:
    one = rendering.container({**IN_PLACE, "release": {"models": {"resnet50": 3}}})["readinessProbe"]
    assert one["httpGet"] == {"path": "/v2/models/resnet50/ready", "port": "http"}
    several = rendering.container({**IN_PLACE, "release": {"models": {"resnet50": 3, "pipeline": 1}}})["readinessProbe"]
    assert "/v2/models/{pipeline,resnet50}/ready" in several["exec"]["command"][2]
