"""The server's flags and settings by version, and messages for those that it would refuse or ignore."""

import subprocess
from pathlib import Path

import pytest

from spec.triton_options import FLAGS, check_arguments, newer_than
from spec.versions import TRITON_RELEASES
from twin.triton.tritonserver import TritonServer, locate

NEWEST = TRITON_RELEASES["26.07"].server
OF_THE_WHEEL = "2.51.0"

REFUSED: list[tuple[str, str]] = [
    (
        "--rate-limit=2000",
        "--rate-limit: '2000' is not a choice; use execution_count or off; it limits executions at a time, requests per "
        "second are for the gateway",
    ),
    ("--trace-config=level=2", "--trace-config: level: '2' is not a choice; use OFF, TIMESTAMPS or TENSORS"),
    (
        "--trace-config=jaeger,url=http://x",
        "--trace-config: there is no trace mode 'jaeger'; use triton or opentelemetry",
    ),
    ("--backend-config=trt", "--backend-config: 'trt' has another form; give <backend>,<setting>=<value>"),
    ("--model-control-mode=auto", "--model-control-mode: 'auto' is not a choice; use none, poll or explicit"),
    ("--log-format=json", "--log-format: 'json' is not a choice; use default or ISO8601"),
    ("--allow-http=yes", "--allow-http: 'yes' is no truth value; give true or false"),
    ("--metrics-interval-ms=soon", "--metrics-interval-ms: 'soon' is not a whole number; give digits only"),
    (
        "--metrics-config=histogram_latencies",
        "--metrics-config: 'histogram_latencies' has another form; give <setting>=<value>",
    ),
    ("--cache-config=local", "--cache-config: 'local' has another form; give <cache>,<setting>=<value>"),
    (
        "--cuda-memory-pool-byte-size=67108864",
        "--cuda-memory-pool-byte-size: '67108864' has another form; give <GPU>:<bytes>",
    ),
    (
        "--grpc-infer-response-compression-level=max",
        "--grpc-infer-response-compression-level: 'max' is not a choice; use none, low, medium or high",
    ),
    (
        "--http-restricted-api=everything:key=value",
        "--http-restricted-api: 'everything:key=value' has another form; give <apis>:<key>=<value>, the apis out of health, "
        "metadata, inference, shared-memory, model-config, model-repository, statistics, trace, logging",
    ),
    (
        "--host-policy=gpu_0,cores=1",
        "--host-policy: 'gpu_0,cores=1' has another form; give <policy>,numa-node=<node> or <policy>,cpu-cores=<cores>",
    ),
    (
        "--model-load-gpu-limit=0:2",
        "--model-load-gpu-limit: '0:2' has another form; give <GPU>:<fraction of 0 to 1>",
    ),
    (
        "--load-model=resnet50",
        "--load-model: has no effect without --model-control-mode=explicit; add it, or leave this one out",
    ),
    (
        "--model-warmup={}",
        "--model-warmup: tritonserver has no such flag; warm-up is model_warmup in config.pbtxt, warmup in models.serving",
    ),
    (
        "--rate-limt=off",
        "--rate-limt: tritonserver has no such flag and would not start; did you mean '--rate-limit'?",
    ),
    ("--frobnicate=1", "--frobnicate: tritonserver has no such flag and would not start; see tritonserver --help"),
    ("http", "http: is not a flag; arguments are --flag=value"),
    ("--log-verbose", "--log-verbose: needs a value; write --log-verbose=<value>"),
]
"""Arguments that prevent the server's start, one at a time, and their messages."""

IGNORED: list[tuple[str, str]] = [
    (
        "--backend-config=trt,precision_mode=FP16",
        "--backend-config: there is no backend 'trt'; use python, onnxruntime, tensorrt, openvino or pytorch",
    ),
    (
        "--backend-config=tensorflow,version=2",
        "--backend-config: there is no backend 'tensorflow'; did you mean 'tensorrt'? use python, onnxruntime, tensorrt, "
        "openvino or pytorch",
    ),
    (
        "--backend-config=onnxruntime,execution_mode=ORT_SEQUENTIAL",
        "--backend-config: the backend 'onnxruntime' has no setting 'execution_mode', the server would ignore it; use "
        "default-max-batch-size, enable-global-threadpool, intra_op_thread_count or inter_op_thread_count",
    ),
    (
        "--backend-config=tensorrt,force_compute_precision=1",
        "--backend-config: the backend 'tensorrt' has no setting 'force_compute_precision', the server would ignore it; use "
        "coalesce-request-input, execution-policy, plugins or version-compatible",
    ),
    (
        "--backend-config=python,shm-default-bytes=1",
        "--backend-config: the backend 'python' has no setting 'shm-default-bytes', the server would ignore it; did you "
        "mean 'shm-default-byte-size'? use shm-default-byte-size, shm-growth-byte-size, shm-region-prefix-name, "
        "shm_message_queue_size, stub-timeout-seconds or thread-pool-size",
    ),
    (
        "--backend-config=pytorch,inter_op=1",
        "--backend-config: the backend 'pytorch' has no setting 'inter_op', the server would ignore it; it has none",
    ),
    (
        "--backend-config=max-batch-size=8",
        "--backend-config: the server as a whole has no setting 'max-batch-size', the server would ignore it; did you mean "
        "'default-max-batch-size'? use default-max-batch-size",
    ),
    (
        "--metrics-config=histogram_latency=true",
        "--metrics-config: there is no setting 'histogram_latency', the server would ignore it; did you mean "
        "'histogram_latencies'? use counter_latencies, summary_latencies, summary_quantiles or histogram_latencies",
    ),
    (
        "--metrics-config=summary_latencies=True",
        "--metrics-config: summary_latencies: 'True' would be ignored; write true or false",
    ),
    ("--exit-timeout-secs=3m", "--exit-timeout-secs: '3m' is not a whole number; give digits only"),
    (
        "--rate-limit-resource=slots:4",
        "--rate-limit-resource: has no effect without --rate-limit=execution_count; add it, or leave this one out",
    ),
    (
        "--repository-poll-secs=5",
        "--repository-poll-secs: has no effect without --model-control-mode=poll; add it, or leave this one out",
    ),
    ("--strict-model-config=false", "--strict-model-config: is deprecated; use --disable-auto-complete-config"),
]
"""Arguments that the server accepts but ignores or interprets differently, and their messages."""

VALID = [
    "--id=a",
    "--log-verbose=0",
    "--log-format=ISO8601",
    "--disable-auto-complete-config",
    "--allow-metrics=false",
    "--strict-readiness=1",
    "--metrics-config=summary_latencies=true",
    "--metrics-config=summary_quantiles=0.5:0.05,0.9:0.01",
    "--trace-config=mode=opentelemetry",
    "--trace-config=opentelemetry,url=http://collector:4318/v1/traces",
    "--trace-config=opentelemetry,resource=service.name=triton",
    "--backend-config=python,shm-default-byte-size=1048576",
    "--backend-config=tensorrt,version-compatible=true",
    "--backend-config=default-max-batch-size=8",
    "--rate-limit=Execution_Count",
    "--cuda-memory-pool-byte-size=0:268435456",
    "--model-load-gpu-limit=0:0.9",
    "--host-policy=gpu_0,numa-node=0",
    "--http-restricted-api=model-config,trace:x-admin-key=$(ADMIN_KEY)",
    "--grpc-keepalive-permit-without-calls=true",
]


@pytest.fixture(scope="module")
def real_server(tmp_path_factory: pytest.TempPathFactory) -> TritonServer:
    cache: Path = tmp_path_factory.mktemp("triton-backends")
    return locate(cache)


def refuses(server: TritonServer, argument: str) -> bool:
    """Return whether the real server stops at this argument, and not only at the missing repository."""
    argv = [str(server.binary), "--model-repository=/nonexistent", "--http-address=127.0.0.1", argument]
    argv += ["--allow-grpc=false", "--allow-metrics=false"]
    result = subprocess.run(argv, capture_output=True, text=True, timeout=60, env=server.environment({}), check=False)
    assert result.returncode == 1
    return "failed to stat file /nonexistent" not in result.stdout + result.stderr


@pytest.mark.parametrize(("argument", "sentence"), [*REFUSED, *IGNORED], ids=lambda value: value[:50])
def test_what_the_server_would_refuse_or_ignore_is_said(argument: str, sentence: str) -> None:
    assert check_arguments([argument], NEWEST) == [sentence]


def test_the_real_server_refuses_what_is_said_to_be_refused(real_server: TritonServer) -> None:
    assert [argument for argument, _ in REFUSED if not refuses(real_server, argument)] == []


def test_the_real_server_takes_in_silence_what_is_said_to_be_ignored(real_server: TritonServer) -> None:
    some = [argument for argument, _ in IGNORED[:3]]
    assert [argument for argument in some if refuses(real_server, argument)] == []


def test_what_is_valid_is_accepted() -> None:
    assert check_arguments(VALID, OF_THE_WHEEL) == []


def test_the_table_has_every_flag_of_the_real_server_and_takes_values_where_it_does(real_server: TritonServer) -> None:
    assert {name: FLAGS[name].value is not None for name in real_server.flags} == dict(real_server.flags)


def test_the_flags_that_the_real_server_lacks_are_those_that_came_later(real_server: TritonServer) -> None:
    later = {name for name, flag in FLAGS.items() if newer_than(flag.since, OF_THE_WHEEL)}
    assert set(FLAGS) - set(real_server.flags) == later
    assert later == {
        "--allow-client-shm",
        "--grpc-infer-thread-count",
        "--grpc-max-response-pool-size",
        "--http-max-input-size",
    }


@pytest.mark.parametrize(
    ("server", "said"),
    [
        ("2.68.0", ["--allow-client-shm: came with server 2.69, 2.68.0 would not start; leave it out"]),
        *((release.server, []) for release in TRITON_RELEASES.values()),
    ],
)
def test_a_flag_newer_than_the_server_is_said_with_the_version_that_brought_it(server: str, said: list[str]) -> None:
    assert check_arguments(["--allow-client-shm=false", "--http-max-input-size=1048576"], server) == said


def test_a_metrics_setting_newer_than_the_server_is_said() -> None:
    assert check_arguments(["--metrics-config=histogram_latencies=true"], OF_THE_WHEEL) == [
        "--metrics-config: histogram_latencies came with server 2.52, 2.51.0 would ignore it; leave it out"
    ]


def test_versions_are_ordered_as_numbers() -> None:
    assert newer_than("2.100", "2.99.0")
    assert not newer_than("2.51", "2.51.0")


def test_a_flag_and_its_value_may_be_two_words() -> None:
    assert check_arguments(["--log-verbose", "1", "--id", "a", "--disable-auto-complete-config"], NEWEST) == []
    assert check_arguments(["--log-verbose", "much", "--frob", "x", "--id"], NEWEST) == [
        "--frob: tritonserver has no such flag and would not start; see tritonserver --help",
        "--id: needs a value; write --id=<value>",
        "--log-verbose: 'much' is not a whole number; give digits only",
    ]


def test_a_switch_takes_no_value() -> None:
    assert check_arguments(["--disable-auto-complete-config=true"], NEWEST) == [
        "--disable-auto-complete-config: takes no value; write --disable-auto-complete-config alone"
    ]


def test_what_is_there_twice_is_said_once() -> None:
    shm = "--backend-config=python,shm-default-byte-size"
    arguments = ["--log-verbose=1", "--log-verbose=0", f"{shm}=1", f"{shm}=2", f"{shm}=3"]
    different = ["--backend-config=python,shm-growth-byte-size=1", "--load-model=a", "--load-model=b"]
    assert check_arguments([*arguments, *different, "--model-control-mode=explicit"], NEWEST) == [
        "--log-verbose: is there twice, one of them would be ignored; give it once",
        f"{shm}: is there twice, one of them would be ignored; give it once",
    ]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            ["--model-control-mode=explicit", "--load-model=*", "--load-model=a"],
            "--load-model: * is for all models and does not go with the name of one; give either",
        ),
        (["--http-port=8001"], "--grpc-port: 8001 is the port of --http-port; give each its own"),
        (["--metrics-port=9000", "--http-port=9000"], "--metrics-port: 9000 is the port of --http-port; give each its own"),
        (
            ["--model-control-mode=poll", "--load-model=a"],
            "--load-model: has no effect without --model-control-mode=explicit; add it, or leave this one out",
        ),
    ],
)
def test_flags_that_do_not_go_together_are_said(arguments: list[str], problem: str) -> None:
    assert check_arguments(arguments, NEWEST) == [problem]


def test_flags_that_need_each_other_are_accepted_together() -> None:
    together = ["--rate-limit=execution_count", "--rate-limit-resource=slots:4", "--rate-limit-resource=gpu:1:0"]
    tls = ["--grpc-use-ssl=true", "--grpc-server-cert=/tls/tls.crt", "--grpc-server-key=/tls/tls.key"]
    assert check_arguments([*together, *tls], NEWEST) == []


def test_everything_wrong_is_said_at_once() -> None:
    assert len(check_arguments(["--rate-limit=2000", "--model-warmup=a", "--trace-level=2"], NEWEST)) == 3
