"""Flags, backend and metrics settings and config fields that `tritonserver` supports, with the first server version.

Sources: `tritonserver --help` of server 2.51 (NGC 24.10) for all that has no version here; `command_line_parser.cc` of the
server at 25.04 for how values are read; docs/facts/triton-configuration.md for newer, fatal or ignored options; the READMEs
of the backends for their settings. Versions are server versions: NGC 26.08 is 2.72.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from spec.wording import did_you_mean, one_of

Value = Callable[[str], str | None]
"""A check that returns the problem of a flag's value and the valid values, or None."""

OLDEST_SERVER = "2.51"
"""The oldest server whose flags this table lists completely. Older servers are treated the same."""


@dataclass(frozen=True)
class Flag:
    """One flag. `value` is None if it takes no value. `since` is the first server that has it.

    `repeatable` flags may be given several times. `instead` names the replacement of a deprecated flag. `needs` is the flag
    and value without which the server ignores this flag or does not start.
    """

    value: Value | None
    since: str = OLDEST_SERVER
    repeatable: bool = False
    instead: str | None = None
    needs: tuple[str, str] | None = None


def _text(value: str) -> str | None:
    return None if value else "is empty; give a value"


def _boolean(value: str) -> str | None:
    return (
        None
        if value.lower() in ("true", "false", "on", "off", "1", "0")
        else f"'{value}' is no truth value; give true or false"
    )


def _integer(value: str) -> str | None:
    # The server reads only leading digits: it reads both 3s and 3m as 3.
    return None if re.fullmatch(r"-?\d+", value) else f"'{value}' is not a whole number; give digits only"


def _number(value: str) -> str | None:
    return None if re.fullmatch(r"-?\d+(\.\d+)?", value) else f"'{value}' is not a number; give one like 7.5"


def _choice(*choices: str, hint: str = "") -> Value:
    def check(value: str) -> str | None:
        if value.lower() in (choice.lower() for choice in choices):
            return None
        return f"'{value}' is not a choice; {did_you_mean(value, choices)}use {one_of(choices)}{hint}"

    return check


def _form(pattern: str, valid: str) -> Value:
    def check(value: str) -> str | None:
        return None if re.fullmatch(pattern, value) else f"'{value}' has another form; give {valid}"

    return check


def _settings(flag_form: str, known: Mapping[str, Mapping[str, Value]], what: str) -> Value:
    """Return the check of `name,setting=value`. `known` has the settings of each name; the name "" is for
    `setting=value`."""

    def check(value: str) -> str | None:
        left, equals, given = value.partition("=")
        name, comma, setting = left.rpartition(",")
        if not equals or not setting or not given:
            return f"'{value}' has another form; give {flag_form}"
        if name not in known:
            names = [known_name for known_name in known if known_name]
            if not comma:
                return f"'{setting}' names no {what}; give {flag_form}, with {one_of(names)}"
            return f"there is no {what} '{name}'; {did_you_mean(name, names)}use {one_of(names)}"
        if setting not in known[name]:
            where = f"the {what} '{name}'" if name else "the server as a whole"
            near = did_you_mean(setting, known[name])
            valid = f"use {one_of(known[name])}" if known[name] else "it has none"
            return f"{where} has no setting '{setting}', the server would ignore it; {near}{valid}"
        wrong = known[name][setting](given)
        return f"{left}: {wrong}" if wrong else None

    return check


BACKEND_SETTINGS: Mapping[str, Mapping[str, Value]] = {
    # All other settings of the server as a whole (without a backend) have their own flags.
    "": {"default-max-batch-size": _integer},
    "python": {
        "shm-default-byte-size": _integer,
        "shm-growth-byte-size": _integer,
        "shm-region-prefix-name": _text,
        "shm_message_queue_size": _integer,
        "stub-timeout-seconds": _integer,
        "thread-pool-size": _integer,
    },
    "onnxruntime": {
        "default-max-batch-size": _integer,
        "enable-global-threadpool": _choice("0", "1"),
        "intra_op_thread_count": _integer,
        "inter_op_thread_count": _integer,
    },
    "tensorrt": {
        "coalesce-request-input": _boolean,
        "execution-policy": _choice("DEVICE_BLOCKING", "BLOCKING"),
        "plugins": _text,
        "version-compatible": _boolean,
    },
    "openvino": {"default-max-batch-size": _integer},
    "pytorch": {},
}
"""Backend -> its `--backend-config` settings. The server silently ignores all others.

See docs/facts/triton-configuration.md#ignored-in-silence.
"""

METRICS_SETTINGS: Mapping[str, str] = {
    "counter_latencies": OLDEST_SERVER,
    "summary_latencies": OLDEST_SERVER,
    "summary_quantiles": OLDEST_SERVER,
    "histogram_latencies": "2.52",
}
"""Setting of `--metrics-config` -> first server. The server silently ignores all others.

See docs/facts/triton-configuration.md#ignored-in-silence.
"""

CONFIG_FIELDS: Mapping[str, str] = {
    # triton-inference-server/core#405 is of November 2024: 25.01 is the first release that certainly contains it.
    "model_metrics": "2.54",
    # triton-inference-server/server#8458 was merged late in 2025; 26.01 is the first release that certainly contains it.
    "max_inflight_requests": "2.65",
}
"""Field of config.pbtxt that server 2.51 lacks -> first server. A server refuses a config with an unknown field."""

_CACHES: Mapping[str, Mapping[str, Value]] = {
    "local": {"size": _integer},
    "redis": dict.fromkeys(("host", "port", "user", "password", "db", "tls_enabled", "cacert", "cert", "key"), _text),
}
_TRACE_MODES: Mapping[str, Mapping[str, Value]] = {
    "": {
        "mode": _choice("triton", "opentelemetry"),
        "level": _choice("OFF", "TIMESTAMPS", "TENSORS"),
        "rate": _integer,
        "count": _integer,
    },
    "triton": {"file": _text, "log-frequency": _integer},
    "opentelemetry": {
        "url": _text,
        "resource": _text,
        "bsp_max_queue_size": _integer,
        "bsp_schedule_delay": _integer,
        "bsp_max_export_batch_size": _integer,
    },
}
_APIS = "health|metadata|inference|shared-memory|model-config|model-repository|statistics|trace|logging"
_RESTRICTED = _form(rf"({_APIS})(,({_APIS}))*:[^=]+=.+", f"<apis>:<key>=<value>, the apis out of {_APIS.replace('|', ', ')}")
_GPU_BYTES = _form(r"\d+:\d+", "<GPU>:<bytes>")
_EXECUTION_COUNT_HINT = "; it limits executions at a time, requests per second are for the gateway"


def _metrics_setting(value: str) -> str | None:
    setting, equals, given = value.partition("=")
    if not equals or not given:
        return f"'{value}' has another form; give <setting>=<value>"
    if setting not in METRICS_SETTINGS:
        near = did_you_mean(setting, METRICS_SETTINGS)
        return f"there is no setting '{setting}', the server would ignore it; {near}use {one_of(METRICS_SETTINGS)}"
    # The server compares with "true" and "false" exactly: `1` or `True` would have no effect.
    return None if setting == "summary_quantiles" else _exactly_true_or_false(setting, given)


def _exactly_true_or_false(setting: str, value: str) -> str | None:
    return None if value in ("true", "false") else f"{setting}: '{value}' would be ignored; write true or false"


_EXPLICIT = ("--model-control-mode", "explicit")

FLAGS: Mapping[str, Flag] = {
    "--help": Flag(None),
    "--id": Flag(_text),
    "--exit-timeout-secs": Flag(_integer),
    # Logging
    "--log-verbose": Flag(_integer),
    "--log-info": Flag(_boolean),
    "--log-warning": Flag(_boolean),
    "--log-error": Flag(_boolean),
    "--log-format": Flag(_choice("default", "ISO8601")),
    "--log-file": Flag(_text),
    # Model repository
    "--model-store": Flag(_text, repeatable=True),
    "--model-repository": Flag(_text, repeatable=True),
    "--exit-on-error": Flag(_boolean),
    "--disable-auto-complete-config": Flag(None),
    "--strict-readiness": Flag(_boolean),
    "--model-control-mode": Flag(_choice("none", "poll", "explicit")),
    "--repository-poll-secs": Flag(_integer, needs=("--model-control-mode", "poll")),
    "--load-model": Flag(_text, repeatable=True, needs=_EXPLICIT),
    "--model-config-name": Flag(_form(r"\S+", "a name without spaces")),
    "--model-load-thread-count": Flag(_integer),
    "--model-load-retry-count": Flag(_integer),
    "--model-namespacing": Flag(_boolean),
    "--enable-peer-access": Flag(_boolean),
    # HTTP
    "--allow-http": Flag(_boolean),
    "--http-address": Flag(_text),
    "--http-port": Flag(_integer),
    "--reuse-http-port": Flag(_boolean),
    "--http-header-forward-pattern": Flag(_text),
    "--http-thread-count": Flag(_integer),
    "--http-restricted-api": Flag(_RESTRICTED, repeatable=True),
    "--http-max-input-size": Flag(_integer, since="2.59"),
    # gRPC
    "--allow-grpc": Flag(_boolean),
    "--grpc-address": Flag(_text),
    "--grpc-port": Flag(_integer),
    "--reuse-grpc-port": Flag(_boolean),
    "--grpc-header-forward-pattern": Flag(_text),
    "--grpc-infer-thread-count": Flag(_integer, since="2.57"),
    "--grpc-infer-allocation-pool-size": Flag(_integer),
    # Newer than 2.51 and, by the server's source at 25.04, available in 2.57.
    "--grpc-max-response-pool-size": Flag(_integer, since="2.57"),
    "--grpc-use-ssl": Flag(_boolean),
    "--grpc-use-ssl-mutual": Flag(_boolean),
    "--grpc-server-cert": Flag(_text, needs=("--grpc-use-ssl", "true")),
    "--grpc-server-key": Flag(_text, needs=("--grpc-use-ssl", "true")),
    "--grpc-root-cert": Flag(_text),
    "--grpc-infer-response-compression-level": Flag(_choice("none", "low", "medium", "high")),
    "--grpc-keepalive-time": Flag(_integer),
    "--grpc-keepalive-timeout": Flag(_integer),
    "--grpc-keepalive-permit-without-calls": Flag(_boolean),
    "--grpc-http2-max-pings-without-data": Flag(_integer),
    "--grpc-http2-min-recv-ping-interval-without-data": Flag(_integer),
    "--grpc-http2-max-ping-strikes": Flag(_integer),
    "--grpc-max-connection-age": Flag(_integer),
    "--grpc-max-connection-age-grace": Flag(_integer),
    "--grpc-restricted-protocol": Flag(_RESTRICTED, repeatable=True),
    # Shared memory of clients
    "--allow-client-shm": Flag(_boolean, since="2.69"),
    # SageMaker and Vertex AI
    "--allow-sagemaker": Flag(_boolean),
    "--sagemaker-port": Flag(_integer),
    "--sagemaker-safe-port-range": Flag(_form(r"\d+-\d+", "<port>-<port>")),
    "--sagemaker-thread-count": Flag(_integer),
    "--allow-vertex-ai": Flag(_boolean),
    "--vertex-ai-port": Flag(_integer),
    "--vertex-ai-thread-count": Flag(_integer),
    "--vertex-ai-default-model": Flag(_text),
    # Metrics
    "--allow-metrics": Flag(_boolean),
    "--allow-gpu-metrics": Flag(_boolean),
    "--allow-cpu-metrics": Flag(_boolean),
    "--metrics-address": Flag(_text),
    "--metrics-port": Flag(_integer),
    "--metrics-interval-ms": Flag(_integer),
    "--metrics-config": Flag(_metrics_setting, repeatable=True),
    # Tracing
    "--trace-config": Flag(_settings("[<mode>,]<setting>=<value>", _TRACE_MODES, "trace mode"), repeatable=True),
    # Backends, agents, caches
    "--backend-directory": Flag(_text),
    "--backend-config": Flag(_settings("<backend>,<setting>=<value>", BACKEND_SETTINGS, "backend"), repeatable=True),
    "--repoagent-directory": Flag(_text),
    "--cache-config": Flag(_settings("<cache>,<setting>=<value>", _CACHES, "cache"), repeatable=True),
    "--cache-directory": Flag(_text),
    # Rate limiter
    "--rate-limit": Flag(_choice("execution_count", "off", hint=_EXECUTION_COUNT_HINT)),
    "--rate-limit-resource": Flag(
        _form(r"[^:]+:\d+(:\d+)?", "<resource>:<count> or <resource>:<count>:<device>"),
        repeatable=True,
        needs=("--rate-limit", "execution_count"),
    ),
    # Memory and devices
    "--pinned-memory-pool-byte-size": Flag(_integer),
    "--cuda-memory-pool-byte-size": Flag(_GPU_BYTES, repeatable=True),
    "--cuda-virtual-address-size": Flag(_GPU_BYTES, repeatable=True),
    "--min-supported-compute-capability": Flag(_number),
    "--buffer-manager-thread-count": Flag(_integer),
    "--host-policy": Flag(
        _form(r"[^,=]+,(numa-node|cpu-cores)=.+", "<policy>,numa-node=<node> or <policy>,cpu-cores=<cores>"), repeatable=True
    ),
    "--model-load-gpu-limit": Flag(_form(r"\d+:(0(\.\d+)?|1(\.0+)?)", "<GPU>:<fraction of 0 to 1>"), repeatable=True),
    # Deprecated: the server still accepts them, with a warning
    "--strict-model-config": Flag(_boolean, instead="use --disable-auto-complete-config"),
    "--response-cache-byte-size": Flag(_integer, instead="use --cache-config=local,size=<bytes>"),
    "--trace-file": Flag(_text, instead="use --trace-config=triton,file=<path>"),
    "--trace-level": Flag(_text, repeatable=True, instead="use --trace-config=level=TIMESTAMPS"),
    "--trace-rate": Flag(_integer, instead="use --trace-config=rate=<rate>"),
    "--trace-count": Flag(_integer, instead="use --trace-config=count=<count>"),
    "--trace-log-frequency": Flag(_integer, instead="use --trace-config=triton,log-frequency=<value>"),
}
"""All flags of 2.72 (NGC 26.08). Newer releases have not been checked."""

NO_FLAGS: Mapping[str, str] = {
    "--model-warmup": "warm-up is model_warmup in config.pbtxt, warmup in models.serving",
    "--max-batch-size": "it is max_batch_size in config.pbtxt, maxBatchSize in models.serving",
    "--max-queue-delay-microseconds": "it is a part of dynamic_batching in config.pbtxt, maxQueueDelayUs in models.serving",
    "--instance-group": "instances are instance_group in config.pbtxt, instances in models.serving",
}
"""Flags in articles that no server release ever had -> the correct place of the setting."""
