"""Mistakes in a stack's wants for its models."""

from typing import Any

import pytest

from spec.settings.digest import serving_digest
from spec.settings.relations.tensorrt import Runtime, mistake
from tests.spec.stack_config import complaints, settings

CPU = {"device": "cpu", "sloP95Ms": 50, "expectedRate": 40, "peakRate": 120}
GPU = {**CPU, "device": "gpu", "gpuMemoryMiB": 900}
PATH = "models.serving.resnet50"
REPORT = "`modelctl tune` writes one like benchmarks/results/projection-2026-11-27-0302c850.json"
KEYS = (
    "device, sloP95Ms, sloP99Ms, expectedRate, peakRate, instances, gpuMemoryMiB, maxBatchSize, maxQueueDelayUs, "
    "queueTimeoutMs, warmup, priorities, sequence, decoupled, longestStreamSeconds, llm, responseCache, rateLimiter, "
    "latencyHistogram, tuned"
)

SHAPE: list[tuple[dict[str, Any], list[str]]] = [
    (
        {},
        [
            f"{PATH}.device: is missing; give cpu or gpu",
            f"{PATH}.sloP95Ms: is missing; give the time in ms that 95 % of the requests are answered in, like 50",
            f"{PATH}.expectedRate: is missing; give the usual requests per second of the whole fleet, like 40",
            f"{PATH}.peakRate: is missing; give the most requests per second of the whole fleet, like 120",
        ],
    ),
    ({**CPU, "instnces": 2}, [f"{PATH}.instnces: unknown key; did you mean 'instances'? the keys here are {KEYS}"]),
    ({**CPU, "device": "gpuu"}, [f"{PATH}.device: 'gpuu' is not a choice; did you mean 'gpu'? use cpu or gpu"]),
    ({**CPU, "sloP95Ms": "50"}, [f"{PATH}.sloP95Ms: '50' is text; give a whole number without quotes"]),
    ({**CPU, "sloP99Ms": "120"}, [f"{PATH}.sloP99Ms: '120' is text; give a whole number without quotes"]),
    ({**CPU, "sloP99Ms": 600_001}, [f"{PATH}.sloP99Ms: 600001 is out of range; use 2 to 600000 ms"]),
    ({**CPU, "sloP95Ms": 0}, [f"{PATH}.sloP95Ms: 0 is out of range; use 2 to 600000 ms"]),
    ({**CPU, "expectedRate": "0.5"}, [f"{PATH}.expectedRate: '0.5' is text; give a number without quotes"]),
    ({**CPU, "expectedRate": "lots"}, [f"{PATH}.expectedRate: 'lots' is text; give a number"]),
    ({**CPU, "peakRate": True}, [f"{PATH}.peakRate: true is a truth value; give a number"]),
    ({**CPU, "peakRate": 0}, [f"{PATH}.peakRate: 0 is out of range; use 0.001 to 1000000 requests per second"]),
    ({**CPU, "peakRate": float("nan")}, [f"{PATH}.peakRate: nan is out of range; use 0.001 to 1000000 requests per second"]),
    ({**CPU, "instances": 0}, [f"{PATH}.instances: 0 is out of range; use 1 to 64 instances"]),
    ({**CPU, "maxBatchSize": 0}, [f"{PATH}.maxBatchSize: 0 is out of range; use 1 to 4096 requests in a batch"]),
    ({**CPU, "warmup": 8}, [f"{PATH}.warmup: 8 is a number; give a list in square brackets"]),
    (
        {**CPU, "warmup": [1, 0, "8"]},
        [
            f"{PATH}.warmup[1]: 0 is out of range; use 1 to 4096 requests in a batch",
            f"{PATH}.warmup[2]: '8' is text; give a whole number without quotes",
        ],
    ),
    ({**CPU, "sequence": "direct"}, [f"{PATH}.sequence: 'direct' is text; give a mapping of keys to values"]),
    (
        {**CPU, "sequence": {"strategy": "oldst", "maxIdle": 1}},
        [
            f"{PATH}.sequence.strategy: 'oldst' is not a choice; did you mean 'oldest'? use direct or oldest",
            f"{PATH}.sequence.maxIdle: unknown key; did you mean 'maxIdleMs'? the keys here are strategy, maxIdleMs, "
            "maxCandidates",
        ],
    ),
    (
        {**CPU, "priorities": {"levels": 2}},
        [f"{PATH}.priorities.default: is missing; give the level of a request that names none"],
    ),
    (
        {**CPU, "rateLimiter": {}},
        [f"{PATH}.rateLimiter.resources: is missing; give what an execution holds, like {{slots: 1}}"],
    ),
    ({**CPU, "rateLimiter": {"resources": {}}}, [f"{PATH}.rateLimiter.resources: is empty; give at least one"]),
    (
        {**CPU, "rateLimiter": {"resources": {"a:b": 1}}},
        [
            f"{PATH}.rateLimiter.resources.a:b: 'a:b' is not the name of a resource; use letters, digits, hyphens and "
            "underscores, a letter first"
        ],
    ),
    ({**CPU, "tuned": 3}, [f"{PATH}.tuned: 3 is a number; {REPORT}, in quotes"]),
    ({**CPU, "tuned": "../../x"}, [f"{PATH}.tuned: '../../x' is not the path of a report; {REPORT}"]),
    ({**CPU, "tuned": "a/../x.json"}, [f"{PATH}.tuned: 'a/../x.json' is not the path of a report; {REPORT}"]),
    ("gpu", [f"{PATH}: 'gpu' is text; give a mapping of keys to values"]),
]

# Contradictions in an entry, in a stack without a pinned release.
RELATIONS: list[tuple[dict[str, Any], list[str]]] = [
    (
        {**CPU, "sloP99Ms": 49, "latencyHistogram": False},
        [
            f"{PATH}.sloP99Ms: 49 ms for 99 % are less than the 50 ms for 95 % (sloP95Ms); give 50 or more",
            f"{PATH}.sloP99Ms: nothing measures it without latencyHistogram; remove it, or set latencyHistogram: true",
        ],
    ),
    ({**CPU, "peakRate": 39.5}, [f"{PATH}.peakRate: 39.5 is less than expectedRate 40; give 40 or more"]),
    (
        {**CPU, "maxQueueDelayUs": 50_000},
        [
            f"{PATH}.maxQueueDelayUs: a lone request would wait 50000 µs and the SLO is 50000 µs; give less, 0 to 1000 as a "
            "rule"
        ],
    ),
    (
        {
            **CPU,
            "device": "gpu",
            "llm": {"concurrentStreams": 1, "contextTokens": 1024, "weightsMiB": 8000, "kvBytesPerToken": 1024},
        },
        [f"{PATH}.gpuMemoryMiB: is missing; give 8001 or more for the weights and the cache of llm"],
    ),
    (
        {**CPU, "gpuMemoryMiB": 900},
        [f"{PATH}.gpuMemoryMiB: a model with device cpu takes no GPU memory; remove it, or use device: gpu"],
    ),
    (
        {**GPU, "maxBatchSize": 8, "warmup": [1, 1, 9]},
        [
            f"{PATH}.warmup[1]: 1 is listed twice; list each size once",
            f"{PATH}.warmup[2]: 9 is more than maxBatchSize 8; give 1 to 8",
        ],
    ),
    (
        {
            **GPU,
            "sequence": {"strategy": "oldest"},
            "maxQueueDelayUs": 0,
            "queueTimeoutMs": 100,
            "priorities": {"levels": 2, "default": 2},
        },
        [
            f"{PATH}.maxQueueDelayUs: is of dynamic batching, which sequence takes the place of; remove one",
            f"{PATH}.queueTimeoutMs: is of dynamic batching, which sequence takes the place of; remove one",
            f"{PATH}.priorities: is of dynamic batching, which sequence takes the place of; remove one",
        ],
    ),
    (
        {**CPU, "sequence": {"strategy": "direct", "maxCandidates": 32}},
        [f"{PATH}.sequence.maxCandidates: strategy 'direct' has no candidates; remove it, or use strategy: oldest"],
    ),
    (
        {**CPU, "priorities": {"levels": 1, "default": 1}},
        [f"{PATH}.priorities.levels: 1 level is no priority; give 2 or more, or remove priorities"],
    ),
    (
        {**CPU, "priorities": {"levels": 2, "default": 3}},
        [f"{PATH}.priorities.default: 3 is more than the 2 levels; give 1 to 2"],
    ),
    (
        {**CPU, "rateLimiter": {"resources": {"slots": 1}}},
        ["triton.rateLimiterResources: is missing; resnet50 has a rateLimiter, give what a pod has, like {slots: 4}"],
    ),
    (
        {**CPU, "responseCache": True},
        ["triton.responseCacheMiB: is missing; resnet50 has responseCache, give the cache of a pod in MiB, like 64"],
    ),
]

# Whole stacks: the changes, and the messages.
STACKS: list[tuple[dict[str, Any], list[str]]] = [
    ({"models.serving": ["resnet50"]}, ["models.serving: it is a list; give a mapping of keys to values"]),
    (
        {"models.serving": {"my model": CPU}},
        ["models.serving.my model: 'my model' is not a model name; use letters, digits, dots, hyphens and underscores"],
    ),
    (
        {"models.release": None, "triton.responseCacheMiB": 64},
        ["triton.responseCacheMiB: no model of models.serving has responseCache; remove it, or set responseCache: true"],
    ),
    (
        {
            "models.release": None,
            "models.serving": {"resnet50": {**CPU, "responseCache": True}},
            "triton.responseCacheMiB": 12 * 1024,
        },
        [
            "triton.memoryGiB: 12 GiB do not hold 2048 MiB of /dev/shm, 4096 MiB for the server, 12288 MiB of response "
            "cache; give 18 or more",
        ],
    ),
    (
        {
            "models.release": None,
            "models.serving": {
                "a": {**CPU, "responseCache": True, "decoupled": True},
                "b": {**CPU, "responseCache": True, "sequence": {"strategy": "direct"}},
            },
            "triton.responseCacheMiB": 64,
        },
        [
            "models.serving.a.responseCache: Triton does not cache a model with decoupled; remove one",
            "models.serving.b.responseCache: Triton does not cache a model with sequence; remove one",
        ],
    ),
    (
        {
            "models.release": None,
            "models.serving": {"resnet50": {**CPU, "rateLimiter": {"resources": {"slot": 1, "decoder": 3}}}},
            "triton.rateLimiterResources": {"slots": 4, "decoder": 2},
        },
        [
            f"{PATH}.rateLimiter.resources.slot: triton.rateLimiterResources has no 'slot'; did you mean 'slots'? use slots "
            "or decoder",
            f"{PATH}.rateLimiter.resources.decoder: 3 are more than a pod has, so the model would never run; give 1 to 2",
            "triton.rateLimiterResources.slots: no model's rateLimiter takes any; did you mean 'slot'? remove it",
        ],
    ),
    (
        {"triton.rollout": "inplace"},
        ["triton.rollout: 'inplace' is not a choice; did you mean 'in-place'? use rolling, in-place or blue-green"],
    ),
    (
        {"models.serving": {"resnet51": CPU}, "models.release.models": {"resnet50": 1, "pipeline": 1}},
        [
            "models.serving.resnet51: release 3f2a9c1b7d04 has no such model; did you mean 'resnet50'? it has resnet50 or "
            "pipeline",
            "models.release.serving: is missing; release 3f2a9c1b7d04 was made without models.serving; "
            "run `python -m modelctl release … --pin stacks/Pulumi.staging.yaml`",
        ],
    ),
    (
        {"models.serving": {"resnet50": CPU}, "models.release.serving": "0123456789ab"},
        [
            "models.release.serving: models.serving, or the kind of GPU of Triton's pool, changed since release "
            "3f2a9c1b7d04 was made; "
            "run `python -m modelctl release … --pin stacks/Pulumi.staging.yaml`"
        ],
    ),
    (
        {"models.release.serving": "0123456789ab"},
        [
            "models.release.serving: there is no models.serving since release 3f2a9c1b7d04 was made; "
            "run `python -m modelctl release … --pin stacks/Pulumi.staging.yaml`"
        ],
    ),
    (
        {"models.release.serving": "latest"},
        [
            "models.release.serving: 'latest' is not the digest of models.serving; `python -m modelctl pin` writes 12 "
            "lower-case hex digits here"
        ],
    ),
    (
        {"models.release.serving": 123456789012},
        [
            "models.release.serving: 123456789012 without quotes is a number; `python -m modelctl pin` writes 12 lower-case "
            "hex digits here, in quotes"
        ],
    ),
    (  # two instances of one model, one of another: 22 GiB of an A10G
        {
            "models.release": None,
            "models.serving": {
                "a": {**GPU, "instances": 2, "gpuMemoryMiB": 10_000},
                "b": {**GPU, "gpuMemoryMiB": 22 * 1024 - 20_000 - 700 - 64 + 1},
                "c": CPU,
            },
        },
        [
            "models.serving: a pod needs 22529 MiB on each GPU (a 2 x 10000 + b 1 x 1765 + CUDA context 700 + CUDA pool 64) "
            "and a g5.xlarge of pool 'g5' has 22528 MiB (A10G); use fewer instances, fewer models, or a pool with larger "
            "GPUs"
        ],
    ),
    (
        {
            "models.release": None,
            "models.serving": {"a": {**GPU, "gpuMemoryMiB": 4869}},
            "gpu.pools[0].sharing": {"strategy": "mps", "replicas": 4},
        },
        [
            "models.serving: a pod needs 5633 MiB on each GPU (a 1 x 4869 + CUDA context 700 + CUDA pool 64) and a "
            "g5.xlarge of pool 'g5' has 5632 MiB (A10G, of which 4 pods share one by mps); use fewer instances, fewer "
            "models, or a pool with larger GPUs"
        ],
    ),
    (
        {
            "models.release": None,
            "models.serving": {"a": {**GPU, "gpuMemoryMiB": 1000}, "b": {**GPU, "instances": 2, "gpuMemoryMiB": 6000}},
            "triton.rollout": "in-place",
        },
        [
            "models.serving: a pod needs 26764 MiB on each GPU (a 1 x 1000 + b 2 x 6000 + CUDA context 700 + CUDA pool 64 + "
            "all models once more during an in-place rollout 13000) and a g5.xlarge of pool 'g5' has 22528 MiB (A10G); "
            "use fewer instances, fewer models, or a pool with larger GPUs"
        ],
    ),
    (  # one model, which fits once and not twice
        {
            "models.release": None,
            "models.serving": {"a": {**GPU, "gpuMemoryMiB": 11_000}},
            "triton.rollout": "in-place",
        },
        [
            "models.serving: a pod needs 22764 MiB on each GPU (a 1 x 11000 + CUDA context 700 + CUDA pool 64 + a once more "
            "during an in-place rollout 11000) and a g5.xlarge of pool 'g5' has 22528 MiB (A10G); "
            "use fewer instances, fewer models, or a pool with larger GPUs"
        ],
    ),
    (
        {"models.release.bytes": 23 * 1024**3, "triton.rollout": "in-place"},
        [
            "models.release.bytes: 24696061952 bytes make a pod ask for 258 GiB of disk (its cache holds 8 copies) and a "
            "g5.xlarge of pool 'g5' has 177 GiB left beside the kubelet and the images; "
            "use instance types with larger disks, or release fewer models"
        ],
    ),
]


@pytest.mark.parametrize(("entry", "expected"), SHAPE, ids=[str(entry) for entry, _ in SHAPE])
def test_a_mistake_of_an_entry_is_said_where_it_is(entry: dict[str, Any], expected: list[str]) -> None:
    assert complaints({"models.release": None, "models.serving": {"resnet50": entry, "good": CPU}}) == expected


@pytest.mark.parametrize(("entry", "expected"), RELATIONS, ids=[str(entry) for entry, _ in RELATIONS])
def test_what_does_not_go_together_is_said(entry: dict[str, Any], expected: list[str]) -> None:
    assert complaints({"models.release": None, "models.serving": {"resnet50": entry, "good": CPU}}) == expected


@pytest.mark.parametrize(("changes", "expected"), STACKS, ids=[str(changes) for changes, _ in STACKS])
def test_a_mistake_of_a_stack_is_said_where_it_is_and_with_what_is_valid(
    changes: dict[str, Any], expected: list[str]
) -> None:
    assert complaints(changes) == expected


def test_mistakes_of_one_entry_do_not_hide_those_of_another() -> None:
    serving = {"a": {**CPU, "peakRate": "x"}, "b": {**CPU, "peakRate": 1}, "c": 3}
    assert complaints({"models.release": None, "models.serving": serving}) == [
        "models.serving.a.peakRate: 'x' is text; give a number",
        "models.serving.c: 3 is a number; give a mapping of keys to values",
        "models.serving.b.peakRate: 1 is less than expectedRate 40; give 40 or more",
    ]


def test_an_invalid_want_is_not_called_a_changed_one() -> None:
    serving = {"resnet50": {**CPU, "sequence": {"strategy": "x"}}}
    assert complaints({"models.release.serving": "0123456789ab", "models.serving": serving}) == [
        f"{PATH}.sequence.strategy: 'x' is not a choice; use direct or oldest"
    ]


def test_more_instances_on_the_cpu_than_vcpus_are_a_warning() -> None:
    serving = {"a": {**CPU, "instances": 2}, "b": {**CPU, "instances": 2}, "c": GPU}
    read = settings({"models.release": None, "models.serving": serving})
    assert [str(warning) for warning in read.warnings if warning.path == "triton.cpu"] == [
        "triton.cpu: 4 instances on the CPU (a 2, b 2) share 3 vCPUs, so that a batch takes longer when all are busy; "
        "raise cpu, or use fewer instances"
    ]
    fewer = settings({"models.release": None, "models.serving": {**serving, "b": CPU}})
    assert [warning.path for warning in fewer.warnings] == ["models.release"]


@pytest.mark.parametrize(
    ("slo", "late"), [(2, "3 ms counts as one within 2 ms, 50 % late"), (9, "10 ms counts as one within 9 ms, 11 % late")]
)
def test_an_slo_that_the_histogram_blurs_is_a_warning(slo: int, late: str) -> None:
    def told(**model: Any) -> list[str]:
        serving = {"resnet50": {**CPU, "sloP95Ms": slo, **model}}
        read = settings({"models.release": None, "models.serving": serving})
        return [str(warning) for warning in read.warnings if warning.path == f"{PATH}.sloP95Ms"]

    assert told() == [
        f"{PATH}.sloP95Ms: Triton's histogram cuts every latency to whole ms: a response of up to {late}, in alerts and on "
        "the dashboard; watch the latency that clients measure"
    ]
    assert told(latencyHistogram=False) == told(sloP95Ms=10) == []


RELEASE = {"id": "3f2a9c1b7d04" + 52 * "0", "bytes": 123456, "models": {"resnet50": 3}}


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ({"resnet5": [1]}, ["resnet5: release 3f2a9c1b7d04 has no such model; did you mean 'resnet50'? it has resnet50"]),
        (
            {"resnet50": [1, 3]},
            [
                "resnet50: 3 is not lower than 3, which answers requests that name no version; "
                "run `python -m modelctl release … --pin stacks/Pulumi.staging.yaml`, which writes both"
            ],
        ),
        ({"resnet50": []}, ["resnet50: is empty; give at least one"]),
        ({"resnet50": [0]}, ["resnet50[0]: 0 is out of range; use 1 to 999999999 for a version"]),
    ],
)
def test_versions_beside_the_default_are_lower_ones_of_a_model_of_the_release(
    others: dict[str, list[int]], expected: list[str]
) -> None:
    said = complaints({"models.release": {**RELEASE, "others": others}})
    assert said == [f"models.release.others.{line}" for line in expected]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            {"ensembles": {"resnet5": ["resnet50"]}},
            ["ensembles.resnet5: release 3f2a9c1b7d04 has no model 'resnet5'; did you mean 'resnet50'? it has resnet50"],
        ),
        (
            {"ensembles": {"resnet50": ["bert", "bert"]}},
            [
                "ensembles.resnet50[0]: release 3f2a9c1b7d04 has no model 'bert'; it has resnet50",
                "ensembles.resnet50[1]: release 3f2a9c1b7d04 has no model 'bert'; it has resnet50",
                "ensembles.resnet50[1]: bert is listed twice; list each model once",
            ],
        ),
        ({"ensembles": {"resnet50": []}}, ["ensembles.resnet50: is empty; give at least one"]),
        (
            {"ensembles": {"resnet50": ["resnet50"]}},
            ["ensembles.resnet50: is a step of itself; name the models of its steps"],
        ),
        (
            {"models": {"a": 1, "b": 1, "c": 1}, "ensembles": {"a": ["b"], "b": ["c"], "c": ["a"]}},
            ["ensembles.a: is a step of itself by way of b and c; leave one of them out"],
        ),
        (
            {"asks": {"resnet50": [None, 7]}},
            ["asks.resnet50[0]: it is empty; give text", "asks.resnet50[1]: 7 is a number; give text"],
        ),
        (
            {"asks": {"resnet50": ["bert"]}},
            ["asks.resnet50[0]: release 3f2a9c1b7d04 has no model 'bert'; it has resnet50"],
        ),
        ({"asks": {"resnet50": ["resnet50"]}}, ["asks.resnet50: is the model itself; name the others that it asks"]),
        ({"decoupled": ["bert"]}, ["decoupled[0]: release 3f2a9c1b7d04 has no model 'bert'; it has resnet50"]),
        ({"selfPlaced": ["resnet50", "resnet50"]}, ["selfPlaced[1]: resnet50 is listed twice; list each model once"]),
        ({"batches": {"bert": 0}}, ["batches.bert: release 3f2a9c1b7d04 has no model 'bert'; it has resnet50"]),
        (
            {"batches": {"resnet50": -1}},
            ["batches.resnet50: -1 is out of range; use 0 to 2147483647 requests in a batch, 0 for none"],
        ),
    ],
)
def test_what_is_said_of_models_is_of_models_of_the_release(said: dict[str, Any], expected: list[str]) -> None:
    assert complaints({"models.release": {**RELEASE, **said}}) == [f"models.release.{line}" for line in expected]


def test_a_model_may_be_a_step_of_two_ensembles_of_which_one_is_a_step_of_the_other() -> None:
    release = settings(
        {"models.release": {**RELEASE, "models": {"a": 1, "b": 1, "c": 1}, "ensembles": {"a": ["b", "c"], "b": ["c"]}}}
    ).models.release
    assert release is not None
    assert release.ensembles == {"a": ("b", "c"), "b": ("c",)}


def test_a_stream_is_of_a_model_that_streams() -> None:
    assert complaints({"models.release": None, "models.serving": {"resnet50": {**CPU, "longestStreamSeconds": 30}}}) == [
        f"{PATH}.longestStreamSeconds: is of models that are decoupled or keep sequences, and this one answers a request "
        "once; remove it, or write decoupled: true"
    ]
    wants = {**CPU, "decoupled": True, "longestStreamSeconds": 3001}
    assert complaints({"models.release": None, "models.serving": {"resnet50": wants}}) == [
        f"{PATH}.longestStreamSeconds: 3001 is out of range; use 1 to 3000 seconds"
    ]


LLM = {"concurrentStreams": 32, "contextTokens": 4096, "weightsMiB": 8000, "kvBytesPerToken": 65_536}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, None),
        (
            {"llm": {**LLM, "kvBytesPerToken": 131_072}},
            ".gpuMemoryMiB: 20000 MiB of 1 GPU each do not hold weights of 8000 MiB and a cache of 16384 MiB (32 streams x "
            "4096 tokens x 131072 bytes); give 24384 or more, or fewer streams, fewer tokens or more GPUs",
        ),
        (
            {"llm": {**LLM, "gpus": 2}},
            ".llm.gpus: 2 GPUs are more than the 1 of a pod; give triton.gpus: 2, or split the model over fewer",
        ),
        ({"llm": {**LLM, "concurrentStreams": 0}}, ".llm.concurrentStreams: 0 is out of range; use 1 to 4096 requests"),
        ({"llm": {**LLM, "contextTokens": "4k"}}, ".llm.contextTokens: '4k' is text; give a whole number"),
        (
            {"llm": {key: value for key, value in LLM.items() if key != "weightsMiB"}},
            ".llm.weightsMiB: is missing; give memory of the weights in MiB, on all GPUs of the model together, like 15300",
        ),
        (
            {"llm": {**LLM, "tokens": 1}},
            ".llm.tokens: unknown key; did you mean 'tokenP95Ms'? the keys here are concurrentStreams, contextTokens, "
            "weightsMiB, kvBytesPerToken, gpus, tokenP95Ms",
        ),
        ({"device": "cpu", "gpuMemoryMiB": None}, ".llm: a language model runs on GPUs; write device: gpu, or remove it"),
    ],
)
def test_a_language_model_fits_its_gpus(more: dict[str, Any], said: str | None) -> None:
    wants = {**GPU, "gpuMemoryMiB": 20_000, "decoupled": True, "llm": LLM, **more}
    changes = {"models.release": None, "models.serving": {"resnet50": wants}}
    if said is None:
        assert settings(changes).models.serving["resnet50"].llm is not None
    else:
        assert complaints(changes) == [f"{PATH}{said}"]


@pytest.mark.parametrize(
    ("built", "image", "said"),
    [
        ("10.16.0.72", {}, "10.16.0.72 and the server has 11"),
        ("11.0.0.1", {"triton.tensorrt": "11.1.0"}, "11.0.0.1 and the server has 11.1.0"),
    ],
)
def test_plans_of_another_tensorrt_than_the_servers_are_refused(built: str, image: dict[str, str], said: str) -> None:
    assert complaints({"models.release": {**RELEASE, "tensorrt": {"resnet50": [built]}}, **image}) == [
        f"models.release.tensorrt.resnet50: a plan was built by TensorRT {said}, which loads plans of its own version "
        "alone; build it in the image of triton.version 26.07 and release it"
        + ("" if image else ", or say triton.tensorrt where the image has another")
    ]


@pytest.mark.parametrize(
    ("built", "image"),
    [
        ("11.1.0.26", {}),
        ("10.16.0.72", {"triton.tensorrt": "10.16.0"}),
        ("11.1.0.26", {"triton.tensorrt": "11.1.0"}),
    ],
)
def test_plans_of_the_servers_tensorrt_are_taken(built: str, image: dict[str, str]) -> None:
    release = settings({"models.release": {**RELEASE, "tensorrt": {"resnet50": [built]}}, **image}).models.release
    assert release is not None
    assert release.tensorrt == {"resnet50": (built,)}


def test_a_server_that_takes_older_plans_takes_no_newer_ones() -> None:
    runs = Runtime("11.0.0", compatible=True)
    assert (mistake("10.16.0.72", runs), mistake("11.0.0.114", runs)) == (None, None)
    assert mistake("11.1.0.26", runs) is not None


def test_the_length_of_a_stream_makes_no_other_release() -> None:
    wants = {**CPU, "decoupled": True}
    streams, plain = (
        settings({"models.release": None, "models.serving": {"resnet50": one}})
        for one in ({**wants, "longestStreamSeconds": 30}, wants)
    )
    assert serving_digest(streams) == serving_digest(plain)


def test_several_versions_of_a_model_do_not_go_with_rollouts_in_place() -> None:
    changes = {"models.release": {**RELEASE, "others": {"resnet50": [1]}}, "triton.rollout": "in-place"}
    assert complaints(changes) == [
        "models.release.others: resnet50 is served in several versions, and a rollout in place replaces one version by one "
        "other; name one version of each model in release.yaml, or use triton.rollout: rolling"
    ]


def test_each_served_version_has_its_own_instances_in_the_memory_of_a_gpu() -> None:
    release = {**RELEASE, "serving": "0" * 12, "others": {"resnet50": [1, 2]}}
    wants = {"resnet50": {**GPU, "instances": 2, "gpuMemoryMiB": 4000}}
    assert complaints({"models.release": release, "models.serving": wants})[0] == (
        "models.serving: a pod needs 24764 MiB on each GPU (resnet50 3 versions x 2 x 4000 + CUDA context 700 + CUDA pool "
        "64) and a g5.xlarge of pool 'g5' has 22528 MiB (A10G); use fewer instances, fewer models, or a pool with larger "
        "GPUs"
    )
