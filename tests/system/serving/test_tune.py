"""`modelctl tune` on a real Triton in explicit mode, with model control restricted as in a pod.

The model sleeps instead of computing, so it is as fast on a busy machine.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import tritonclient.grpc as grpc
from ruamel.yaml import YAML
from tritonclient.utils import InferenceServerException

from modelctl.tune.evidence import Evidence
from tests import forwarding
from tests.modelctl.servers import loopback_address, process, wait_until
from tests.modelctl.stacks import wants, write_stack
from tests.modelctl.tune.played_gpu import PlayedGpu, serving
from tests.system.serving.models import Timing, write
from twin.host import processes
from twin.triton.tritonserver import tritonserver_command

KEY = "a-key"
POD_KEY = "5f" * 32
HEADERS = {"triton-grpc-protocol-admin-key": KEY}
TIMING = Timing(seconds=0.02, batch=8, queue=256)


def write_releasable(repository: Path, name: str, timing: Timing) -> None:
    """Write a model that sleeps, with a config that a release accepts: it names the version and limits the queue time."""
    write(repository, name, timing=timing)
    config = repository / name / "config.pbtxt"
    text = config.read_text().replace("version_policy { all { } }\n", "")
    config.write_text(text.replace("max_queue_size", "default_timeout_microseconds: 1000000 max_queue_size"))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a model that takes 20 ms a batch, one like it, and one that cannot be loaded."""
    repository = tmp_path_factory.mktemp("repository")
    for name in ("sleeper", "other", "broken"):
        write_releasable(repository, name, TIMING)
    broken = repository / "broken" / "1" / "model.py"
    broken.write_text(
        broken.read_text().replace("self.version =", 'raise RuntimeError("no weights")\n        self.version =')
    )
    return repository


def running(models: Path, directory: Path, *arguments: str) -> Iterator[str]:
    """Run a server with the models, and yield its gRPC address."""
    address, log = f"{loopback_address()}", directory / "tritonserver.log"
    command = tritonserver_command([f"--model-repository={models}", *arguments], address, directory / "cache", {})
    with process(command.argv, command.env, log) as server, grpc.InferenceServerClient(f"{address}:8001") as client:

        def live() -> bool:
            assert server.poll() is None, log.read_text(errors="replace")
            try:
                return bool(client.is_server_live())
            except InferenceServerException:
                return False

        wait_until(live, "the server to answer", 180, log)
        yield f"{address}:8001"


@pytest.fixture(scope="module")
def server(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return a restricted server in explicit mode, with no model loaded."""
    restricted = f"--grpc-restricted-protocol=model-repository,model-config:admin-key={KEY}"
    yield from running(models, tmp_path_factory.mktemp("server"), "--model-control-mode=explicit", restricted)


@pytest.fixture
def client(server: str) -> Iterator[grpc.InferenceServerClient]:
    with grpc.InferenceServerClient(server) as connected:
        yield connected


def ready(client: grpc.InferenceServerClient) -> set[str]:
    return {entry.name for entry in client.get_model_repository_index(HEADERS).models if entry.state == "READY"}


def command(model: str, server: str, models: Path, results: Path, *more: str) -> list[str]:
    words = [sys.executable, "-m", "modelctl", "tune", model, "--server", server, "--models", str(models)]
    return [*words, "--results", str(results), "--budget-seconds", "20", "--max-instances", "2", *more]


Tune = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def tune(server: str, models: Path, tmp_path: Path) -> Tune:
    """Run the command to its end, with the server's key."""

    def run(model: str, *more: str) -> subprocess.CompletedProcess[str]:
        words = command(model, server, models, tmp_path / "results", "--admin-key", KEY, *more)
        return subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)

    return run


def test_a_model_is_tuned_and_the_stack_gets_the_values_with_their_evidence(
    tune: Tune, client: grpc.InferenceServerClient, tmp_path: Path
) -> None:
    stack = write_stack(tmp_path / "stacks", {"sleeper": wants(sloP95Ms=400)})

    done = tune("sleeper", "--slo-p95-ms", "400", "--file", str(stack))

    assert done.returncode == 0, done.stderr
    (file,) = (tmp_path / "results").glob("sleeper-*.json")
    assert file.with_suffix(".svg").read_text().startswith("<?xml")
    evidence = Evidence.model_validate_json(file.read_text())
    assert (evidence.model, evidence.version, evidence.slo_p95_ms) == ("sleeper", 1, 400)
    assert evidence.versions.server == "2.51.0"
    assert [trial.values.maxBatchSize for trial in evidence.trials[:2]] == [1, 8]
    assert evidence.winner.rate > 0
    entry = YAML(typ="safe").load(stack)["config"]["triton-eks:models"]["serving"]["sleeper"]
    assert entry == {**wants(sloP95Ms=400), **evidence.winner.values.model_dump(), "tuned": file.as_posix()}
    assert re.search(rf"^evidence: {re.escape(str(file))} and {file.stem}\.svg$", done.stdout, re.MULTILINE)
    assert "trial 1 (prior): no batching, 1 instance: " in done.stderr
    busy = evidence.machine.load_before > 0.25 * evidence.machine.cpus
    assert ("\nthe machine was busy: its load average was " in done.stdout) == busy
    # The server has no GPU, so the output does not mention GPU memory.
    assert {trial.gpu_memory for trial in evidence.trials} == {None}
    assert "GPU" not in done.stdout
    assert "GPU" not in done.stderr
    assert ready(client) == set()


@contextmanager
def as_pod(server: str, directory: Path) -> Iterator[tuple[forwarding.Network, dict[str, str]]]:
    """Yield the network before an API server with the server as pod `triton-0`, and the environment for both."""
    with forwarding.api_server({"triton-0": server.rpartition(":")[0]}) as api:
        api.keys["triton-0"] = POD_KEY
        host, port = api.url.removeprefix("http://").split(":")
        with forwarding.network(host, int(port)) as network:
            kubeconfig = {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": network.url}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
            }
            (directory / "kubeconfig").write_text(json.dumps(kubeconfig))
            yield network, {**os.environ, "KUBECONFIG": str(directory / "kubeconfig")}


def tune_pod(models: Path, results: Path) -> list[str]:
    words = command("sleeper", "", models, results, "--slo-p95-ms", "400", "--pod", "triton-0")
    at = words.index("--server")
    return words[:at] + words[at + 2 :]


@pytest.fixture(scope="module")
def pods_server(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return a server in explicit mode, restricted by the key of the pod `triton-0`."""
    restricted = f"--grpc-restricted-protocol=model-repository,model-config:admin-key={POD_KEY}"
    yield from running(models, tmp_path_factory.mktemp("pod"), "--model-control-mode=explicit", restricted)


def test_a_pod_is_tuned_through_the_api_server_with_the_key_that_it_holds(
    pods_server: str, models: Path, tmp_path: Path
) -> None:
    with as_pod(pods_server, tmp_path) as (_, environment):
        words = tune_pod(models, tmp_path / "results")
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    (file,) = (tmp_path / "results").glob("sleeper-*.json")
    evidence = Evidence.model_validate_json(file.read_text())
    assert (evidence.model, evidence.versions.server) == ("sleeper", "2.51.0")
    assert evidence.winner.rate > 0


def test_a_forward_that_is_lost_while_a_pod_is_tuned_is_told_and_nothing_is_written(
    pods_server: str, models: Path, tmp_path: Path
) -> None:
    with as_pod(pods_server, tmp_path) as (network, environment):
        words = tune_pod(models, tmp_path / "results")
        with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tuned:
            assert tuned.stderr is not None
            assert any(line.startswith("trial 1 ") for line in tuned.stderr)
            processes.wait_until(lambda: network.lose() > 0, "the second trial to have a connection", 600)
            _, said = tuned.communicate(timeout=600)
    assert tuned.returncode == 1
    error = said.splitlines()[-1]
    assert error.startswith("error: pod triton-0: port 8001: the API server's port forward was lost: ")
    assert error.endswith("; the measurements are not usable, and no file was written; run the command again")
    assert list((tmp_path / "results").glob("*")) == []


def test_where_the_metrics_are_those_of_a_gpu_its_memory_is_in_the_table(server: str, models: Path, tmp_path: Path) -> None:
    gpu = PlayedGpu(591, 1211)
    environment = {**os.environ, "TRITON_ADMIN_KEY": KEY}
    with serving(gpu) as metrics:
        words = command("sleeper", server, models, tmp_path, "--slo-p95-ms", "5000", "--metrics", metrics)
        words += ["--budget-seconds", "200"]  # a single request may be slow on a busy machine
        with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
            assert running.stderr is not None
            assert running.stderr.readline().startswith("trial 1 ")
            running.send_signal(signal.SIGINT)
            out, err = running.communicate(timeout=180)

    assert running.returncode == 130, err
    head, *trials = out.splitlines()
    column = slice(head.index("GPU MiB"), head.index("GPU MiB") + len("GPU MiB"))
    assert {trial[column].strip() for trial in trials} == {"620"}


def test_metrics_that_do_not_answer_are_said_and_all_else_is_as_without_them(tune: Tune) -> None:
    with serving(PlayedGpu(591)) as metrics:
        pass

    said = tune("sleeper", "--slo-p95-ms", "2", "--metrics", metrics).stderr.splitlines()

    assert len(said) == 2
    assert said[0].startswith(f"no metrics at {metrics} (")
    assert said[1].startswith("error: p95 <= 2 ms cannot be held")


def test_an_interrupted_run_says_the_best_so_far_and_writes_nothing(
    server: str, models: Path, client: grpc.InferenceServerClient, tmp_path: Path
) -> None:
    stack = write_stack(tmp_path / "stacks", {"sleeper": wants(sloP95Ms=400)})
    before, results = stack.read_bytes(), tmp_path / "results"
    words = command("sleeper", server, models, results, "--slo-p95-ms", "400", "--file", str(stack))
    environment = {**os.environ, "TRITON_ADMIN_KEY": KEY}
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        assert running.stderr.readline().startswith("trial 1 ")
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=180)

    assert running.returncode == 130, err
    assert err.splitlines()[-1].startswith("error: interrupted; nothing was written; best so far: no batching, 1 instance: ")
    assert out.splitlines()[0].split()[:2] == ["#", "batch"]
    assert not results.exists()
    assert stack.read_bytes() == before
    assert ready(client) == set()


def test_what_a_killed_run_left_behind_is_taken_over(tune: Tune, client: grpc.InferenceServerClient) -> None:
    marked = (
        '{"name": "sleeper", "backend": "python", "max_batch_size": 8,'
        ' "input": [{"name": "IN", "data_type": "TYPE_FP32", "dims": [1]}],'
        ' "output": [{"name": "OUT", "data_type": "TYPE_FP32", "dims": [1]}],'
        ' "parameters": {"seconds": {"string_value": "0.02"}, "load_seconds": {"string_value": "0"},'
        ' "modelctl_tune": {"string_value": "true"}}}'
    )
    client.load_model("sleeper", HEADERS, config=marked)

    assert tune("sleeper", "--slo-p95-ms", "2").stderr.startswith("error: p95 <= 2 ms cannot be held")


def test_an_slo_below_a_lone_request_says_what_that_takes(tune: Tune, tmp_path: Path) -> None:
    done = tune("sleeper", "--slo-p95-ms", "2")

    assert done.returncode == 1
    lone = re.fullmatch(
        r"error: p95 <= 2 ms cannot be held even by one request at a time: without batching a lone request has p95 "
        r"([\d.]+) ms\n",
        done.stderr,
    )
    assert lone is not None, done.stderr
    assert float(lone[1]) >= 20
    assert not (tmp_path / "results").exists()


def test_a_server_that_serves_others_is_left_alone(tune: Tune, server: str, client: grpc.InferenceServerClient) -> None:
    client.load_model("other", HEADERS)
    try:
        done = tune("sleeper", "--slo-p95-ms", "400")
        served = ready(client)
    finally:
        client.unload_model("other", HEADERS)

    assert (done.returncode, served) == (1, {"other"})
    assert done.stderr == (
        f"error: {server} serves other already; tune reloads models under full load, so it needs a Triton of its own, in "
        "explicit mode and without --load-model\n"
    )


def test_a_model_that_does_not_load_says_why(tune: Tune, server: str) -> None:
    done = tune("broken", "--slo-p95-ms", "400")

    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {server}: broken does not load: load failed for model 'broken': ")
    assert "RuntimeError: no weights" in done.stderr


def test_a_model_that_its_stack_has_on_a_gpu_is_not_tuned_on_a_server_without_one(
    tune: Tune, server: str, tmp_path: Path
) -> None:
    stack = write_stack(tmp_path, {"sleeper": wants(device="gpu", gpuMemoryMiB=100, sloP95Ms=400, latencyHistogram=False)})
    before = stack.read_bytes()

    done = tune("sleeper", "--slo-p95-ms", "400", "--file", str(stack))

    assert done.returncode == 1
    assert done.stderr.startswith(
        f"error: {server} has no GPU, and sleeper is to be served on one; tune it on a server that "
    )
    assert stack.read_bytes() == before


def test_a_restricted_server_asks_for_its_key(server: str, models: Path, tmp_path: Path) -> None:
    words = command("sleeper", server, models, tmp_path, "--slo-p95-ms", "400")

    done = subprocess.run(words, capture_output=True, text=True, timeout=180, check=False)

    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {server} restricts its model control; give its key with --admin-key (")


def test_a_server_in_another_mode_or_over_other_models_is_refused(models: Path, tmp_path: Path) -> None:
    served = tmp_path / "served"
    write(served, "echo")
    for mode, sentence in {
        "none": "is not in explicit mode, so no config can be loaded; start a Triton of its own with "
        "--model-control-mode=explicit",
        "explicit": "has no sleeper; it has echo",
    }.items():
        directory = tmp_path / mode
        directory.mkdir()
        for server in running(served, directory, f"--model-control-mode={mode}"):
            words = command("sleeper", server, models, tmp_path, "--slo-p95-ms", "400")
            done = subprocess.run(words, capture_output=True, text=True, timeout=180, check=False)
            assert (done.returncode, done.stderr.count("\n")) == (1, 1)
            assert done.stderr.endswith(f"{server} {sentence}\n")
