"""The chart and its values have none of the published mistakes about Triton.

See docs/facts/triton-configuration.md#fields-that-articles-invent.
"""

import re
from pathlib import Path

import pytest

from tests.charts import rendering
from tests.charts.rendering import CHART, ENVIRONMENTS, VALUE_FILES

# Matches of each pattern, as published in articles and charts.
MISTAKES = {
    r"triton_infer(ence)?_": "triton_inference_queue_size",
    r"triton_(gpu_util|model_load)": "triton_gpu_utilization_percent",
    r"\bmodel_name\b": 'nv_inference_count{model_name="a"}',
    r"--model-warmup": '--model-warmup={"a": 1}',
    r"strict-model-config": "--strict-model-config=false",
    r"\bpoll\b|poll-secs": "--model-control-mode=poll",
    r"--model-store": "--model-store=s3://bucket",
    r"AWS_(SECRET_)?ACCESS_KEY": "AWS_ACCESS_KEY_ID: AKIA",
    r"nvidia\.com/gpu\S*\s*:\s*[\"']?\d*\.\d": "nvidia.com/gpu: 0.5",
    r"/v2/health/ready": "path: /v2/health/ready",
    r"--rate-limit=[0-9]": "--rate-limit=2000",
    r"--trace-level": "--trace-level=2",
    r"shm-default-byte-size": "--backend-config=python,shm-default-byte-size=1073741824",
    r"backend-config=trt\b": "--backend-config=trt,precision_mode=FP16",
    r"tensorflow": "--backend-config=tensorflow,version=2",
    r"DYNAMIC_BATCHING_QUEUE_DELAY": "TRITON_SERVER_DYNAMIC_BATCHING_QUEUE_DELAY_US",
    r"dynamicBatching": "dynamicBatching: {maxBatchSize: 8}",
    r"initialDelaySeconds": "initialDelaySeconds: 60",
    r"v2beta[12]": "apiVersion: autoscaling/v2beta2",
    r"LoadBalancer": "type: LoadBalancer",
    r"proxy-protocol": "aws-load-balancer-proxy-protocol: '*'",
    r"prometheus\.io/scrape": "prometheus.io/scrape: 'true'",
    r"syncInterval": "syncInterval: 30s",
    r"NVIDIA-A100-SXM4-80GB": "nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB",
    r"allow-client-shm=true": "--allow-client-shm=true",
    r"log-verbose=[1-9]": "--log-verbose=1",
    r":latest\b": "image: tritonserver:latest",
    r"cuda_memory_pool_size": "cuda_memory_pool_size 16777216",
    r"App ?Mesh": "App Mesh",
    r"-py3\b": "tritonserver:26.07-py3",
}


def found_in(text: str) -> list[str]:
    return [pattern for pattern in MISTAKES if re.search(pattern, text)]


def sources() -> list[Path]:
    return sorted(path for folder in (CHART, VALUE_FILES) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("path", sources(), ids=lambda path: path.name)
def test_no_mistake_is_in_a_source(path: Path) -> None:
    assert found_in(path.read_text()) == []


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_no_mistake_is_rendered(environment: str) -> None:
    assert found_in(repr(rendering.render(environment=environment))) == []


@pytest.mark.parametrize(("pattern", "mistake"), MISTAKES.items())
def test_each_mistake_would_be_found(pattern: str, mistake: str) -> None:
    assert pattern in found_in(mistake)
