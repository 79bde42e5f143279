"""`modelctl tune` of pipelines, streams and sequences, on a real Triton."""

import asyncio
import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import tritonclient.grpc as grpc
from ruamel.yaml import YAML

from modelctl.loadgen import stream_sender
from modelctl.loadgen.requests import request_of
from modelctl.repository.load import load
from modelctl.tune.evidence import Evidence
from tests.modelctl.stacks import wants, write_stack
from tests.paths import ROOT
from tests.system.serving.models import Timing
from tests.system.serving.test_tune import command, running, write_releasable

Tune = Callable[..., tuple[str, dict[str, Evidence]]]
SLO_MS = 300
"""Far above the latency of these models: the tests prove that each kind of load reaches its model, not its speed."""

BUSY = "tune on a machine that does nothing else"
"""A part of the message if other work, like other tests, disturbed the loads."""


PIPELINE = """\
platform: "ensemble"
max_batch_size: 2
input [ { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] } ]
ensemble_scheduling {
  step [
    {
      model_name: "first" model_version: -1
      input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "BETWEEN" }
    },
    {
      model_name: "second" model_version: -1
      input_map { key: "IN" value: "BETWEEN" } output_map { key: "OUT" value: "OUT" }
    }
  ]
}
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a pipeline of two models, a model that streams its answers, and a model that keeps a state.

    All models sleep instead of computing (in the pipeline 4 ms a batch), so they are as fast on a busy machine.
    """
    ignored = shutil.ignore_patterns("__pycache__", "release.yaml", "2")
    repository = tmp_path_factory.mktemp("repository") / "models"
    for name in ("generate", "running_sum"):
        shutil.copytree(ROOT / "examples" / "models" / name, repository / name, ignore=ignored)
    for name in ("first", "second"):
        write_releasable(repository, name, Timing(seconds=0.004, batch=2, queue=256))
    (repository / "pipeline" / "1").mkdir(parents=True)
    (repository / "pipeline" / "1" / ".keep").touch()
    (repository / "pipeline" / "config.pbtxt").write_text(PIPELINE)
    return repository


@pytest.fixture(scope="module")
def server(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield from running(models, tmp_path_factory.mktemp("server"), "--model-control-mode=explicit")


@pytest.fixture
def tune(server: str, models: Path, tmp_path: Path) -> Tune:
    """Run the command to its end, and return its output and the evidence by model."""

    def run(model: str, *more: str) -> tuple[str, dict[str, Evidence]]:
        results = tmp_path / "results"
        words = command(model, server, models, results, "--slo-p95-ms", str(SLO_MS), *more)
        refusals: list[str] = []
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline:
            done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
            if done.returncode == 0:
                found = [Evidence.model_validate_json(file.read_text()) for file in results.glob("*.json")]
                return done.stdout, {evidence.model: evidence for evidence in found}
            assert BUSY in done.stderr, done.stderr
            refusals.append(done.stderr)
        pytest.fail(f"waited 600 s for a time in which {model} can be tuned:\n" + "\n".join(refusals))

    return run


def _ready(server: str) -> set[str]:
    with grpc.InferenceServerClient(server) as client:
        return {entry.name for entry in client.get_model_repository_index().models if entry.state == "READY"}


@pytest.mark.timeout(900)  # two searches, or four, on a machine that may be busy
def test_the_parts_of_a_pipeline_get_values_for_the_slo_of_the_whole(tune: Tune, server: str, tmp_path: Path) -> None:
    entries = {name: wants(sloP95Ms=SLO_MS, maxBatchSize=2) for name in ("pipeline", "first", "second")}
    stack = write_stack(tmp_path / "stacks", entries)

    said, evidence = tune("pipeline", "--file", str(stack), "--max-instances", "1")

    assert sorted(evidence) == ["first", "second"]
    for name, other in (("first", "second"), ("second", "first")):
        assert (evidence[name].asked, evidence[name].load) == ("pipeline", "requests by themselves")
        assert [*evidence[name].beside] == [other]
        assert evidence[name].winner.rate > 0
        assert re.search(rf"^{name}: .* requests/s hold p95 <= {SLO_MS} ms", said, re.MULTILINE)
    serving = YAML(typ="safe").load(stack)["config"]["triton-eks:models"]["serving"]
    batches = {name: entry["maxBatchSize"] for name, entry in serving.items()}
    assert batches == {
        **{name: found.winner.values.maxBatchSize for name, found in evidence.items()},
        "pipeline": min(found.winner.values.maxBatchSize for found in evidence.values()),
    }
    assert _ready(server) == set()


WORDS = 10


@pytest.fixture
def request_file(tmp_path: Path) -> Path:
    """Return a prompt that is answered by ten words, each of which takes 10 ms."""
    inputs = {
        "PROMPT": {"datatype": "BYTES", "shape": [1], "data": ["a b"]},
        "WORDS": {"datatype": "INT32", "shape": [1], "data": [WORDS]},
    }
    file = tmp_path / "request.json"
    file.write_text(json.dumps({"inputs": inputs}))
    return file


def test_a_stream_keeps_its_instance_busy_to_its_end(tune: Tune, server: str, request_file: Path) -> None:
    _, evidence = tune("generate", "--request", str(request_file))

    found = evidence["generate"]
    assert found.load == "streams, of which the first response is judged"
    # At most two instances, each for a whole stream; by chance a load has a few more arrivals than its duration allows.
    assert 0 < found.winner.rate < 2 / (WORDS * 0.01) * 1.5
    assert not [load.errors for trial in found.trials for load in trial.loads if load.held and load.errors]
    assert _ready(server) == set()


def test_a_request_of_a_stream_is_answered_by_the_first_response(server: str, models: Path, request_file: Path) -> None:
    (model,) = (model for model in load(models) if model.name == "generate")

    async def times() -> tuple[float, float]:
        start = time.monotonic()
        async with stream_sender(server, "generate", request_of(model, 1, request_file), deadline_seconds=60) as sender:
            await sender.send(0)
            first = time.monotonic() - start
            await sender.end()
            return first, time.monotonic() - start

    with grpc.InferenceServerClient(server) as client:
        client.load_model("generate")
        first, whole = asyncio.run(times())
        client.unload_model("generate")

    # Nine of ten words come after it.
    assert whole - first >= 0.9 * 0.01 * (WORDS - 1)


def test_sequences_come_at_their_pace_and_need_a_place_each(tune: Tune, server: str) -> None:
    said, evidence = tune("running_sum", "--sequence-requests", "20", "--sequence-gap-ms", "50", "--max-instances", "1")

    found = evidence["running_sum"]
    assert found.load == "sequences of 20 requests, one each 50 ms"
    rates = {trial.values.maxBatchSize: trial.rate for trial in found.trials if trial.origin == "prior"}
    # One place is one voice, 20 requests/s; more places serve more voices.
    assert rates[4] > rates[1] > 0
    assert not [load.errors for trial in found.trials for load in trial.loads if load.held and load.errors]
    assert f"requests/s hold p95 <= {SLO_MS} ms" in said
    assert _ready(server) == set()
