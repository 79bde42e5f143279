"""Generate the complete config of one model for one stack."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tritonclient.grpc.model_config_pb2 import ModelConfig, ModelInstanceGroup

from modelctl.repository.backends import DEFAULT_MODEL_FILES, ENGINES, backend_of, is_ensemble
from modelctl.repository.configure import accelerator, derive, scheduling, warmup
from modelctl.repository.configure.capability_files import files_by_capability, set_files
from modelctl.repository.configure.newer_fields import newer_fields
from modelctl.repository.golden import Request
from spec.settings import ModelServing

_REPORT = "REPORT_CUSTOM_METRICS"
_HISTOGRAM = "nv_inference_first_response_histogram_ms"
# Backends whose models may send more or fewer than one response (docs/facts/triton-configuration.md#decoupled).
_DECOUPLED_BACKENDS = frozenset({"python", "tensorrtllm", "vllm", "dali"})


class ConfigureError(ValueError):
    """A model does not meet a stack's settings. `problems`: a sentence each, beginning with the key of the stack."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


@dataclass(frozen=True)
class Facts:
    """The facts that a config depends on besides the model and the stack's settings.

    `compute_capabilities`: of the pool's GPUs (`8.6`). `server`: the version of the server (`2.71.0`). `versions`: the
    released versions of the model. `files`: the names that exist in the directory of every released version. `golden`: a
    request for the version that answers requests without a version.
    """

    compute_capabilities: tuple[str, ...]
    server: str
    versions: tuple[int, ...]
    files: frozenset[str]
    golden: Request | None = None


@dataclass(frozen=True)
class _Draft:
    """`config` is generated from the author's `base`."""

    config: ModelConfig
    base: ModelConfig
    wants: ModelServing
    facts: Facts


def configure(base: ModelConfig, wants: ModelServing, facts: Facts) -> ModelConfig:
    """Return the config that serves `base` by the stack's settings, without changing `base`. Raises ConfigureError with all
    problems.

    `wants` come from checked settings, so they do not contradict each other. The author's tensors, backend, parameters,
    control inputs and all other fields without a setting are kept. The stack sets scheduling, instances, warm-up, response
    cache and version policy.
    """
    config = ModelConfig()
    config.CopyFrom(base)
    draft = _Draft(config, base, wants, facts)
    parts = _ENSEMBLE_PARTS if is_ensemble(base) else _MODEL_PARTS
    problems = [problem for part in parts for problem in part(draft)]
    if problems:
        raise ConfigureError(problems)
    return config


def _batch_size(draft: _Draft) -> Iterator[str]:
    wanted = draft.wants.max_batch_size
    if wanted is None or backend_of(draft.base) in ENGINES:
        return
    if draft.base.max_batch_size == 0:
        yield (
            f"maxBatchSize: {wanted}, but config.pbtxt says max_batch_size: 0: the dims of its tensors hold everything and "
            "there is no batch to grow; leave it out"
        )
        return
    draft.config.max_batch_size = wanted


def _scheduling(draft: _Draft) -> Iterator[str]:
    if (backend := backend_of(draft.base)) in ENGINES:
        yield from _scheduled_by_the_engine(str(backend), draft.wants)
    else:
        yield from scheduling.fill(draft.config, draft.wants)


def _scheduled_by_the_engine(backend: str, wants: ModelServing) -> Iterator[str]:
    """Yield settings for Triton's scheduler, which requests to such an engine bypass."""
    given = {
        "instances": derive.instances(wants) != 1,
        "maxBatchSize": wants.max_batch_size is not None,
        "maxQueueDelayUs": wants.max_queue_delay_us is not None,
        "priorities": wants.priorities is not None,
        "sequence": wants.sequence is not None,
        "rateLimiter": wants.rate_limiter is not None,
    }
    for key in (key for key, is_given in given.items() if is_given):
        yield f"{key}: the {backend} backend batches, queues and places its model by itself; leave it out"


def _instances(draft: _Draft) -> Iterator[str]:
    if draft.wants.device == "cpu" and backend_of(draft.base) in ("tensorrt", "tensorrtllm"):
        yield f"device: cpu, but the {backend_of(draft.base)} backend runs on GPUs only; write gpu"
    if backend_of(draft.base) in ENGINES:
        return  # KIND_CPU is right for TensorRT-LLM, whose process chooses the GPUs by itself
    written = draft.base.instance_group
    if len(written) > 1:
        yield (
            f"device: config.pbtxt has {len(written)} instance groups, and one follows from device and instances; "
            "leave one there"
        )
        return
    wants = draft.wants
    group = draft.config.instance_group[0] if written else draft.config.instance_group.add()
    # KIND_MODEL: the model chooses its device by itself (vllm, tensorrtllm, a python model with its own placement).
    if group.kind != ModelInstanceGroup.KIND_MODEL:
        group.kind = ModelInstanceGroup.KIND_GPU if wants.device == "gpu" else ModelInstanceGroup.KIND_CPU
    group.count = derive.instances(wants)
    # The device plugin decides which GPUs a pod sees, and count is per GPU: docs/facts/triton-configuration.md#instances.
    del group.gpus[:]
    group.ClearField("rate_limiter")
    if wants.rate_limiter is not None:
        for name, count in sorted(wants.rate_limiter.resources.items()):
            # Resources are per pod, not per GPU, because `triton.rateLimiterResources` counts per pod.
            group.rate_limiter.resources.add(name=name, count=count, **{"global": True})
        group.rate_limiter.priority = wants.rate_limiter.priority


def _optimization(draft: _Draft) -> Iterator[str]:
    """Give engines that ONNX Runtime builds with TensorRT the shapes that are served."""
    if accelerator.builds_engines(draft.config):
        accelerator.set_profile(draft.config)
    yield from ()


def _model_files(draft: _Draft) -> Iterator[str]:
    """Set the model file of each compute capability in the pool. Yield capabilities without a file."""
    capabilities = draft.facts.compute_capabilities
    if draft.wants.device != "gpu":
        return
    files = dict(draft.base.cc_model_filenames) or files_by_capability(draft.base, draft.facts.files)
    if not files:
        if backend_of(draft.base) == "tensorrt" and len(capabilities) > 1:
            yield (
                f"device: the pool's GPUs have compute capabilities {', '.join(capabilities)}, and a TensorRT plan runs on "
                f"one; build a plan on each and name them {', '.join(_plan_name(c) for c in capabilities)}"
            )
        return
    for capability in capabilities:
        if capability not in files:
            known = ", ".join(files[key] for key in sorted(files))
            yield (
                f"device: no model file for compute capability {capability} of the pool's GPUs in version "
                f"{' and '.join(map(str, draft.facts.versions))}, which has {known}; "
                f"build one there and name it like {_plan_name(capability)}"
            )
    set_files(draft.config, {key: files[key] for key in capabilities if key in files})


def _plan_name(capability: str) -> str:
    return f"model_cc{capability.replace('.', '')}.plan"


def _warmup(draft: _Draft) -> Iterator[str]:
    yield from warmup.fill(draft.config, draft.wants.warmup, draft.facts.golden)


def _responses(draft: _Draft) -> Iterator[str]:
    wants, backend = draft.wants, backend_of(draft.base)
    declared = draft.base.model_transaction_policy.decoupled
    if declared and not wants.decoupled:
        yield (
            "decoupled: false, but config.pbtxt says decoupled: true, so its clients must expect any number of responses; "
            "write decoupled: true"
        )
    elif wants.decoupled and backend in DEFAULT_MODEL_FILES and backend not in _DECOUPLED_BACKENDS:
        yield f"decoupled: a model of the {backend} backend answers each request once; leave it out"
    if wants.decoupled:
        draft.config.model_transaction_policy.decoupled = True
    yield from _cache(draft)


def _engine(draft: _Draft) -> Iterator[str]:
    """Export vLLM's own metrics, because the stack scales on and monitors them. The backend exports them only on request."""
    backend, wants = backend_of(draft.base), draft.wants
    if wants.llm is None:
        return
    if backend not in ENGINES:
        yield f"llm: the {backend} backend is none of language models ({', '.join(sorted(ENGINES))} are); leave it out"
    elif backend == "vllm":
        given = draft.base.parameters[_REPORT].string_value if _REPORT in draft.base.parameters else "true"
        if given.lower() != "true":
            yield (
                f"llm: the stack scales on and watches what vLLM exports, and config.pbtxt says {_REPORT}: {given}; write "
                "true there, or leave it out"
            )
        draft.config.parameters[_REPORT].string_value = "true"


def _cache(draft: _Draft) -> Iterator[str]:
    draft.config.ClearField("response_cache")
    if draft.wants.response_cache:
        draft.config.response_cache.enable = True
    yield from ()


def _metrics(draft: _Draft) -> Iterator[str]:
    controls = draft.config.model_metrics.metric_control
    for index in reversed(range(len(controls))):
        if controls[index].metric_identifier.family == _HISTOGRAM:
            del controls[index]
    if draft.wants.latency_histogram:
        control = controls.add()
        control.metric_identifier.family = _HISTOGRAM
        control.histogram_options.buckets.extend(derive.histogram_buckets_ms(draft.wants.slo_p95_ms, draft.wants.slo_p99_ms))
    if not controls:
        draft.config.ClearField("model_metrics")
    yield from ()


def _version(draft: _Draft) -> Iterator[str]:
    """Set the versions to serve. By the server's default policy a new version would get all traffic at once."""
    draft.config.ClearField("version_policy")
    draft.config.version_policy.specific.versions.extend(draft.facts.versions)
    yield from ()


def _fields(draft: _Draft) -> Iterator[str]:
    server = draft.facts.server
    for name, since in newer_fields(draft.config, server).items():
        made_here = name == "model_metrics" and draft.wants.latency_histogram
        what = "latencyHistogram: it needs the field model_metrics, which" if made_here else f"config.pbtxt: {name}"
        right = "write latencyHistogram: false" if made_here else "leave it out"
        yield f"{what} came with server {since}, and this stack's is {server}; {right}"


def _no_instances_of_its_own(draft: _Draft) -> Iterator[str]:
    wants = draft.wants
    given = {
        "device": wants.device != "cpu",
        "instances": derive.instances(wants) != 1,
        "maxQueueDelayUs": wants.max_queue_delay_us is not None,
        "warmup": bool(wants.warmup),
        "priorities": wants.priorities is not None,
        "sequence": wants.sequence is not None,
        "decoupled": wants.decoupled,
        "rateLimiter": wants.rate_limiter is not None,
        "llm": wants.llm is not None,
    }
    for key in (key for key, is_given in given.items() if is_given):
        right = "write cpu" if key == "device" else "say it of the models of its steps and leave it out here"
        yield f"{key}: an ensemble has neither queue nor instances, only its steps have; {right}"


_MODEL_PARTS: tuple[Callable[[_Draft], Iterator[str]], ...] = (
    _batch_size,
    _scheduling,
    _instances,
    _optimization,
    _model_files,
    _responses,
    _engine,
    _warmup,
    _metrics,
    _version,
    _fields,
)
_ENSEMBLE_PARTS: tuple[Callable[[_Draft], Iterator[str]], ...] = (
    _batch_size,
    _no_instances_of_its_own,
    _cache,
    _metrics,
    _version,
    _fields,
)
