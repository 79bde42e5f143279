"""The tested stacks: every stack file, and one whose models have SLOs."""

from functools import cache

from spec.prometheus.rule import Group, Rule
from spec.prometheus.rule_file import groups
from spec.settings import Settings, load_stack_file
from spec.settings.autoscaling import Autoscaling
from spec.settings.models import Candidate
from spec.settings.release import Release
from spec.settings.serving import ModelServing
from tests.paths import ROOT

LANGUAGE_MODEL = {"device": "gpu", "sloP95Ms": 500, "expectedRate": 2.0, "peakRate": 4.0, "decoupled": True}
SERVING, BEHIND = "staging with SLOs", "staging with SLOs behind its gateway"
"""Two replicas. `classify` has a histogram around its 50 ms, `embed.v2` has 200 ms and no histogram, `detect` has 50 ms for
p95 and 100 ms for p99. Two language models: `chat` of vLLM, whose streams last 90 s, and `reply` of TensorRT-LLM. SERVING
has no gateway, BEHIND has staging's.
"""
LLM = {"concurrentStreams": 32, "contextTokens": 4096, "weightsMiB": 8000, "kvBytesPerToken": 65536}

SAMPLES = Release.model_validate(
    {"id": "3f2a9c1b7d04" + 52 * "0", "bytes": 1, "models": {"classify": 1, "normalize": 1, "pipeline": 1}}
)

STACKS = [path.stem.removeprefix("Pulumi.") for path in sorted((ROOT / "stacks").glob("Pulumi.*.yaml"))]


@cache
def settings(stack: str) -> Settings:
    """Return the settings of a stack file, of SERVING or of BEHIND."""
    if stack not in (SERVING, BEHIND):
        return load_stack_file(ROOT / "stacks" / f"Pulumi.{stack}.yaml")
    staging = load_stack_file(ROOT / "stacks" / "Pulumi.staging.yaml")
    wants = {
        "classify": want(sloP95Ms=50, expectedRate=40.0, peakRate=120.0),
        "detect": want(sloP95Ms=50, sloP99Ms=100, expectedRate=40.0, peakRate=120.0),
        "embed.v2": want(sloP95Ms=200, expectedRate=5.0, peakRate=20.0, latencyHistogram=False),
        "chat": want(**LANGUAGE_MODEL, longestStreamSeconds=90, llm={**LLM, "tokenP95Ms": 50}),
        "reply": want(**LANGUAGE_MODEL, llm=LLM),
    }
    models = staging.models.model_copy(update={"serving": wants, "release": SAMPLES})
    return staging.model_copy(update={"models": models, **({} if stack == BEHIND else {"gateway": None})})


@cache
def with_local_disk() -> Settings:
    """Return staging with pods that fetch their release before Triton starts."""
    staging = settings("staging")
    return staging.model_copy(update={"models": staging.models.model_copy(update={"access": "local", "release": SAMPLES})})


@cache
def to_zero() -> Settings:
    """Return dev with a fleet that may have no pod."""
    dev = settings("dev")
    bounds = Autoscaling.model_validate({"minReplicas": 0, "maxReplicas": 2})
    return dev.model_copy(update={"autoscaling": bounds, "triton": dev.triton.model_copy(update={"replicas": None})})


@cache
def blue_green(percent: int) -> Settings:
    """Return staging with a release in `blue`, and in `green` a candidate with this share and `classify` version 2."""
    staging = settings("staging")
    candidate = Candidate.model_validate(
        {
            "release": {"id": "aaaaaaaaaaaa" + 52 * "0", "bytes": 1, "models": {**SAMPLES.models, "classify": 2}},
            "percent": percent,
        }
    )
    models = staging.models.model_copy(update={"release": SAMPLES, "candidate": candidate})
    triton = staging.triton.model_copy(update={"rollout": "blue-green"})
    return staging.model_copy(update={"models": models, "triton": triton})


def want(**keys: object) -> ModelServing:
    return ModelServing.model_validate({"device": "cpu", **keys})


def rules(stack: str) -> list[Rule]:
    return [rule for group in rule_groups(stack) for rule in group["rules"]]


@cache
def rule_groups(stack: str) -> list[Group]:
    return groups(settings(stack))
