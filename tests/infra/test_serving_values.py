"""Values that the program passes to the Triton chart."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.serving.triton import FleetArgs, model_prefixes, values
from infra.serving.triton_values import Drain, longest_answer, longest_stream, read_drain
from spec.settings import ModelServing, chart_values
from spec.settings.chart_values import pod_values
from spec.settings.models import Models
from spec.settings.release import Release
from tests.charts import rendering
from tests.infra.access import stack
from tests.paths import ROOT
from tests.spec.stack_config import settings

WANTED = {"device": "cpu", "sloP95Ms": 50, "expectedRate": 1, "peakRate": 1}


def made(changes: dict[str, Any] | None = None, **sections: Any) -> dict[str, Any]:
    """Return the values for a stack with changes to its file, and with other sections of its fleet's arguments."""
    read = settings(changes)
    assert isinstance(read.models.release, Release)
    args = FleetArgs(read.triton, read.triton_nodes, read.models, read.models.release)
    return values(stack(), replace(args, **sections))


def served() -> Models:
    """Return the section `models` of a stack that sets how a model is served."""
    return settings({"models.release": None, "models.serving": {"resnet50": WANTED}}).models


def test_without_wants_the_chart_gets_what_it_always_got() -> None:
    given = made()
    assert given["server"] == {"version": "26.07"}
    assert given["release"] == {"id": "3f2a9c1b7d04" + 52 * "0", "bytes": 123456, "models": {"resnet50": 1}}
    assert given["modelRepository"]["s3"]["prefix"] == "releases/3f2a9c1b7d04" + 52 * "0"
    assert "rollout" not in given


def test_the_models_of_a_stack_with_wants_are_served_with_its_configs() -> None:
    assert made(models=served())["release"]["configName"] == "staging"


def test_cache_and_rate_limiter_are_what_the_stack_says() -> None:
    server = settings().triton.model_copy(update={"response_cache_mib": 64, "rate_limiter_resources": {"slots": 4}})
    assert made(server=server)["server"] == {
        "version": "26.07",
        "responseCacheBytes": 64 * 1024**2,
        "rateLimiter": {"resources": {"slots": 4}},
    }


def test_a_pod_starts_as_long_as_its_engines_take_and_shares_threads_among_its_cpu_instances() -> None:
    wants = {
        "a": ModelServing.model_validate({**WANTED, "device": "gpu"}),
        "b": ModelServing.model_validate({**WANTED, "instances": 2}),
        "c": ModelServing.model_validate(WANTED),
    }
    release = Release.model_construct(models={"a": 1, "b": 1, "c": 1}, instances={"a": 2}, engines=("a",), ensembles={})
    models = served().model_copy(update={"serving": wants, "release": release})

    given = made(models=models, server=settings().triton.model_copy(update={"gpus": 4}))

    assert given["startup"] == {"engines": 8}  # two instances on each of four GPUs
    assert given["server"]["cpuInstances"] == 3


def test_in_place_the_pods_read_the_live_prefix_and_name_no_release() -> None:
    given = made({"triton.rollout": "in-place"}, models=served())
    assert given["modelRepository"]["s3"]["prefix"] == "live"
    assert given["release"] == {"bytes": 123456, "models": {"resnet50": 1}}
    assert given["rollout"] == {"mode": "in-place"}


def test_only_under_mps_the_shared_memory_is_not_the_pods_own() -> None:
    assert "shm" not in made({"gpu.pools[0].sharing": {"strategy": "time-slicing", "replicas": 2}})
    assert made({"gpu.pools[0].sharing": {"strategy": "mps", "replicas": 2}})["shm"] == {"enabled": False}


def test_the_reader_gets_the_live_prefix_only_where_rollouts_are_in_place() -> None:
    assert model_prefixes(settings().triton) == ("releases/",)
    assert model_prefixes(settings({"triton.rollout": "in-place"}).triton) == ("releases/", "live/")


@pytest.mark.parametrize("rollout", ["rolling", "in-place"])
def test_the_chart_takes_the_values_of_the_program(rollout: str) -> None:
    given = made({"triton.rollout": rollout}, models=served())
    rendered = rendering.render_values(given, environment="staging")
    container = rendering.only(rendered, "Deployment")["spec"]["template"]["spec"]["containers"][0]
    mode = {"rolling": "none", "in-place": "explicit"}[rollout]
    assert rendering.flag(container, "--model-control-mode") == mode


@pytest.fixture
def drains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """base.yaml waits 60 s for a request, dev.yaml waits 30 s, and prod has no file."""
    written = {"charts/triton/values.yaml": "drain: {preStopSeconds: 15, longestRequestSeconds: 50}"}
    written |= {
        f"helm-values/triton/{name}.yaml": f"drain: {{longestRequestSeconds: {n}}}"
        for name, n in (("base", 60), ("dev", 30))
    }
    for path, text in written.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    monkeypatch.setattr(chart_values, "_ROOT", tmp_path)
    pod_values.cache_clear()
    yield
    pod_values.cache_clear()


@pytest.mark.usefixtures("drains")
def test_gateway_and_traces_go_by_the_drain_that_the_chart_renders() -> None:
    """The environment's file comes first, then the base, then the chart's default."""
    assert (read_drain("dev", {}), read_drain("prod", {})) == (Drain(15, 30), Drain(15, 60))


STREAM = {**WANTED, "decoupled": True}


def streams(**seconds: int | None) -> dict[str, ModelServing]:
    """Return models whose requests queue for at most 0.15 s; their streams last this long after an SLO of 50 ms."""
    wants = {
        name: {
            **STREAM,
            "longestStreamSeconds": one,
        }
        for name, one in seconds.items()
    }
    return dict(settings({"models.release": None, "models.serving": wants}).models.serving)


@pytest.mark.usefixtures("drains")
def test_a_pod_that_stops_waits_for_the_longest_stream() -> None:
    assert read_drain("dev", streams(chat=300, short=2)) == Drain(15, 301)
    assert read_drain("dev", streams(short=2)) == Drain(15, 30)
    assert longest_stream(streams(unknown=None)) == 0


@pytest.mark.usefixtures("drains")
def test_traces_wait_for_the_longest_answer_and_for_no_stream() -> None:
    assert longest_answer("dev", streams(chat=3000)) == longest_answer("dev", {}) == 30
    slow = {"slow": streams(chat=3000)["chat"].model_copy(update={"slo_p95_ms": 20_000})}
    assert longest_answer("dev", slow) == 40


def test_a_stream_gives_pods_connections_and_rollouts_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    wants = {"resnet50": {**STREAM, "longestStreamSeconds": 300}}
    given = made(models=settings({"models.release": None, "models.serving": wants}).models)
    assert given["drain"] == {"longestRequestSeconds": 301}
    pod = rendering.only(rendering.render_values(given, environment="staging"), "Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert rendering.flag(container, "--exit-timeout-secs") == "306"
    assert rendering.flag(container, "--grpc-max-connection-age-grace") == "301000"
    assert pod["terminationGracePeriodSeconds"] == 30 + 306 + 15 + 10
