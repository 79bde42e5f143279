"""Every chart has its record, and every pod that runs as processes has its program."""

import re
import subprocess
import sys
from typing import Any

import pytest

from spec import charts
from twin.charts.registry import CHARTS, POD_PROGRAMS
from twin.host import tools
from twin.host.home import REPOSITORY
from twin.releases.chart import Chart


def pod(*images: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", "image": image} for image in images]}}


def test_every_pinned_chart_and_no_other_may_be_installed() -> None:
    assert {name: chart.pin for name, chart in CHARTS.items()} == charts.CHARTS


def test_a_chart_without_a_record_has_nothing_that_runs() -> None:
    assert CHARTS["opencost"] == Chart(charts.OPENCOST, "nothing of it runs here")


def test_what_stands_for_a_chart_is_the_rest_of_a_sentence() -> None:
    for chart in CHARTS.values():
        assert re.fullmatch(r"[a-z].*[^.]", chart.stand_in), chart.name


def test_the_programs_of_charts_can_be_built() -> None:
    assert {family for chart in CHARTS.values() for family in chart.families} <= tools.FAMILIES.keys()


@pytest.mark.parametrize(
    ("image", "program"),
    [
        ("nvcr.io/nvidia/tritonserver@sha256:00", "triton"),
        ("1.dkr.ecr.us-west-2.amazonaws.com/nvidia/tritonserver:26.07-py3", "triton"),
        ("1.dkr.ecr.us-west-2.amazonaws.com/triton-worker@sha256:00", "worker"),
        ("quay.io/prometheus/prometheus:v3.14.0-distroless", "prometheus"),
    ],
)
def test_pods_of_these_images_run_as_processes(image: str, program: str) -> None:
    found = POD_PROGRAMS.of({"image": image})
    assert found is not None and found.name == program
    assert POD_PROGRAMS.claim(pod("sidecar:1", image))


def test_other_pods_are_simulated() -> None:
    assert not POD_PROGRAMS.claim(pod("nvcr.io/nvidia/k8s-device-plugin:v0.17.0", "tritonserver:1"))


RELOADER = "quay.io/prometheus-operator/prometheus-config-reloader:v0.93.1"


def test_a_reloader_runs_beside_prometheus_and_is_simulated_beside_something_else() -> None:
    assert POD_PROGRAMS.claim(pod("quay.io/prometheus/prometheus:v3.14.0-distroless", RELOADER))
    assert POD_PROGRAMS.of({"image": RELOADER}) is not None
    assert not POD_PROGRAMS.claim(pod("quay.io/prometheus/alertmanager:v0.33.1", RELOADER))


def test_a_plugin_that_reads_the_records_loads_no_cloud_and_no_cryptography() -> None:
    """Every preview starts one, so modules for the agent are imported only when needed."""
    script = "import sys, twin.charts.registry; print(*sorted({'boto3', 'cryptography', 'aiohttp'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == ""
