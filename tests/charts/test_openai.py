"""The OpenAI-compatible front end, run instead of tritonserver."""

from __future__ import annotations

import pytest

from tests.charts import pod_security, rendering
from tests.charts.rendering import RELEASE_ID, Object
from tests.charts.test_exposure import GRPC, HTTP, METRICS
from twin.releases.helm import HelmError

TOKENIZER = {"server": {"openai": {"tokenizer": "meta-llama/Meta-Llama-3.1-8B-Instruct"}}}
OPENAI = {"name": "openai", "port": 9000, "targetPort": "metrics", "protocol": "TCP", "appProtocol": "http"}
FLAGS = {
    "--model-repository",
    "--model-control-mode",
    "--tokenizer",
    "--openai-port",
    "--http-max-input-size",
    "--enable-kserve-frontends",
}
"""Flags of the real program that the chart sets:
https://github.com/triton-inference-server/server/blob/v2.71.0/python/openai/openai_frontend/main.py#L92-L226.
"""


@pytest.fixture(scope="module")
def objects() -> list[Object]:
    return rendering.render(TOKENIZER, environment="prod")


def test_it_is_the_program_of_the_image_with_the_server_inside(objects: list[Object]) -> None:
    pod = rendering.only(objects, "Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"] == ["python3", "/opt/tritonserver/python/openai/openai_frontend/main.py"]
    assert container["args"] == [
        f"--model-repository=s3://triton-prod-models/releases/{RELEASE_ID}",
        "--model-control-mode=none",
        "--tokenizer=meta-llama/Meta-Llama-3.1-8B-Instruct",
        "--openai-port=8002",
        "--http-max-input-size=67108864",
        "--enable-kserve-frontends",
    ]
    assert {argument.partition("=")[0] for argument in container["args"]} == FLAGS
    assert [(port["name"], port["containerPort"]) for port in container["ports"]] == [
        ("http", 8000),
        ("grpc", 8001),
        ("metrics", 8002),
    ]
    plain = rendering.container(environment="prod")
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe] == plain[probe]
    assert pod_security.violations(pod) == []


def test_clients_reach_it_and_its_metrics_are_where_those_of_tritonserver_are(objects: list[Object]) -> None:
    ports = {name: rendering.only(objects, "Service", name)["spec"]["ports"] for name in ("triton", "triton-headless")}
    assert ports == {"triton": [HTTP, GRPC, OPENAI], "triton-headless": [HTTP, GRPC, OPENAI]}
    assert rendering.only(objects, "Service", "triton-metrics")["spec"]["ports"] == [METRICS]
    clients, monitoring = rendering.only(objects, "NetworkPolicy")["spec"]["ingress"]
    assert [port["port"] for port in clients["ports"]] == [8000, 8001, 8002]
    assert [port["port"] for port in monitoring["ports"]] == [8002]


def test_a_tokenizer_is_a_name_or_a_directory() -> None:
    with pytest.raises(HelmError, match=r"server\.openai\.tokenizer: './x' does not match pattern"):
        rendering.render({"server": {"openai": {"tokenizer": "./x"}}})


@pytest.mark.parametrize(("longest", "pre_stop"), [(60, 45), (600, 585), (20, 15)])
def test_the_server_is_told_to_end_when_30_seconds_are_enough_for_what_is_open(longest: int, pre_stop: int) -> None:
    """The front end has no flag for its exit timeout. The grace period is the same as for tritonserver, which has one."""
    drain = {"preStopSeconds": 15, "longestRequestSeconds": longest, "longestBatchSeconds": 10}
    pod, plain = (rendering.pod({**more, "drain": drain}, environment="prod") for more in (TOKENIZER, {}))
    assert pod["containers"][0]["lifecycle"] == {"preStop": {"sleep": {"seconds": pre_stop}}}
    assert plain["containers"][0]["lifecycle"] == {"preStop": {"sleep": {"seconds": 15}}}
    assert pod["terminationGracePeriodSeconds"] == plain["terminationGracePeriodSeconds"] == 15 + longest + 5 + 10 + 10
