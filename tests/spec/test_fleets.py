"""Several Triton fleets in a stack file: each fleet's settings, and every mistake."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from spec.capacity import nodes_for_workers
from spec.pod_sets import Request
from spec.scaling.signal import signals
from spec.settings import Settings, chart_values
from spec.settings.chart_values import pod_values
from spec.settings.digest import digest_of
from spec.settings.fleets import Fleet
from spec.settings.scheduling.pods import fleets_without_gpus
from tests.paths import ROOT
from tests.spec.stack_config import DIGEST, ECR, REMOVED, complaints, settings
from tests.spec.test_stack_mistakes_access import gateway

CPU_MODEL = {"device": "cpu", "sloP95Ms": 50, "expectedRate": 10, "peakRate": 40}
GPU_MODEL = {**CPU_MODEL, "device": "gpu", "gpuMemoryMiB": 6000}
LARGE_MODEL = {**GPU_MODEL, "gpuMemoryMiB": 36_000}
POOLS = {"gpu.pools[0].min": 0, "gpu.pools[0].desired": 0}
FLEETS: list[dict[str, Any]] = [
    {"name": "cpu", "models": ["tokenize"], "pool": "cpu", "gpus": 0, "replicas": 2, "cpu": "2", "memoryGiB": 8},
    {"name": "g5", "models": ["embed", "pipeline", "tokenize"], "autoscaling": {"minReplicas": 2, "maxReplicas": 4}},
    {"name": "p4d", "models": ["rank"], "pool": "p4d", "gpus": 4, "replicas": 2, "cpu": "40", "memoryGiB": 400},
]
THREE: dict[str, Any] = {
    **POOLS,
    "models.serving": {"tokenize": CPU_MODEL, "embed": GPU_MODEL, "rank": LARGE_MODEL},
    "models.release": REMOVED,
    "nodes.autoscaler": "karpenter",
    "nodes.cpu": {"instanceTypes": ["m7i.xlarge"], "max": 4, "diskGiB": 100},
    "triton.replicas": REMOVED,
    "monitoring": {"runbooks": "https://wiki.example.com/triton", "replicas": 1, "retentionDays": 15, "storageGiB": 50},
    "nodes.system.instanceTypes": ["m7i.2xlarge"],
    "fleets": FLEETS,
}


def fleets(changes: dict[str, Any] | None = None) -> dict[str | None, Fleet[Settings]]:
    return {fleet.name: fleet for fleet in settings({**THREE, **(changes or {})}).each_fleet}


def released(changes: dict[str, Any] | None = None) -> Settings:
    """Return the stack of three fleets with a release that has one more model, an ensemble."""
    models = settings({**THREE, **(changes or {})}).models
    release = {
        "id": "3f2a9c1b7d04" + 52 * "0",
        "bytes": 123456,
        "models": {"embed": 1, "pipeline": 2, "rank": 1, "tokenize": 1},
    }
    # The compute capabilities of A10G and A100, on which two of the fleets run.
    digest = digest_of(models, (8.0, 8.6))
    return settings({**THREE, "models.release": {**release, "serving": digest}, **(changes or {})})


def test_several_fleets_that_a_request_at_the_gateway_starts_are_started_together_which_is_warned_of() -> None:
    def woken(*names: str) -> list[str]:
        bounds = {name: {"minReplicas": 0 if name in names else 1, "maxReplicas": 4} for name in ("g5", "p4d")}
        rest = [{key: value for key, value in one.items() if key != "replicas"} for one in FLEETS[1:]]
        scaled = [FLEETS[0], *({**one, "autoscaling": bounds[str(one["name"])]} for one in rest)]
        changes = {**THREE, **gateway(), "gpu.pools[1].max": 4, "fleets": scaled}
        return [found.message for found in settings(changes).warnings if found.path == "fleets"]

    assert woken("g5") == woken() == []
    (said,) = woken("g5", "p4d")
    assert said.startswith(
        "g5, p4d may have no pod, and a request at the gateway that finds none starts the first pod of each"
    )


def test_a_stack_without_fleets_is_one_fleet_which_is_the_stack() -> None:
    read = settings()
    (only,) = read.each_fleet
    assert only.stack is read
    assert (only.release, only.deployment) == ("triton", None)
    assert only.grpc_url == "dns:///triton-headless.triton.svc.cluster.local:8001"


def test_rollouts_in_place_are_of_all_fleets() -> None:
    in_place = fleets({"triton.rollout": "in-place", "models.serving.rank": GPU_MODEL})
    assert {fleet.stack.triton.rollout for fleet in in_place.values()} == {"in-place"}


def test_a_fleet_says_what_differs_and_has_the_rest_of_triton() -> None:
    cpu, g5, p4d = fleets().values()
    assert [one.release for one in (cpu, g5, p4d)] == ["triton-cpu", "triton-g5", "triton-p4d"]
    sizes = [(one.stack.triton.gpus, one.stack.triton.cpu, one.stack.triton.memory_gib) for one in (cpu, g5, p4d)]
    assert sizes == [(0, "2", 8), (1, "3", 12), (4, "40", 400)]
    assert [one.stack.triton_nodes.name for one in (cpu, g5, p4d)] == ["cpu", "g5", "p4d"]
    assert [one.stack.pod_autoscaler for one in (cpu, g5, p4d)] == ["none", "keda", "none"]
    assert [one.stack.fewest_pods for one in (cpu, g5, p4d)] == [2, 2, 2]
    assert [list(one.stack.models.serving) for one in (cpu, g5, p4d)] == [["tokenize"], ["tokenize", "embed"], ["rank"]]
    assert len({one.stack.triton.image for one in (cpu, g5, p4d)}) == 1


def test_nodes_are_karpenters_for_every_fleet_where_one_is_scaled() -> None:
    read = settings({**THREE, "nodes.autoscaler": "karpenter"})
    assert (read.pod_autoscaler, read.node_autoscaler) == ("keda", "karpenter")
    assert {fleet.stack.node_autoscaler for fleet in read.each_fleet} == {"karpenter"}


def test_a_fleet_is_scaled_on_its_own_pods() -> None:
    g5 = fleets()["g5"]
    queries = {signal.name: signal.query for signal in signals(g5.stack, g5.deployment)}
    assert list(queries) == ["pending-embed", "busy-embed", "pending-tokenize", "busy-tokenize"]
    assert queries["pending-embed"] == (
        "sum(avg_over_time(pod_model:triton_pending_requests:sum{"
        'namespace="triton",model="embed",pod=~"triton-g5-[0-9a-z]+-[0-9a-z]{5}"}[30s]))'
    )


def test_what_no_model_of_a_fleet_uses_it_does_not_have() -> None:
    cached = {**THREE, "triton.responseCacheMiB": 64, "models.serving.embed": {**GPU_MODEL, "responseCache": True}}
    cpu, g5, _ = fleets(cached).values()
    assert (cpu.stack.triton.response_cache_mib, g5.stack.triton.response_cache_mib) == (None, 64)


def test_requests_are_shared_by_weight() -> None:
    weighted = fleets({"fleets[0].weights": {"tokenize": 3}})
    assert [(fleet.serves("tokenize"), fleet.weight("tokenize")) for fleet in weighted.values()] == [
        (True, 3),
        (True, 1),
        (False, 1),
    ]


def fleet(index: int, **keys: Any) -> dict[str, Any]:
    return {f"fleets[{index}].{key}": value for key, value in keys.items()}


RELEASE = {"id": "3f2a9c1b7d04" + 52 * "0", "bytes": 1, "models": {"tokenize": 1, "embed": 1, "rank": 1, "pipeline": 1}}

MISTAKES: list[tuple[dict[str, Any], list[str]]] = [
    ({"fleets": []}, ["fleets: is empty; give at least one"]),
    (
        fleet(1, name="cpu"),
        ["fleets[1].name: 'cpu' is the name of another fleet; give each its own"],
    ),
    (
        fleet(1, name="G5"),
        [
            "fleets[1].name: 'G5' is not the name of a fleet; use up to 20 lower-case letters, digits and hyphens, a letter "
            "first"
        ],
    ),
    (
        fleet(1, name="a" * 21),
        [
            f"fleets[1].name: '{'a' * 21}' is not the name of a fleet; use up to 20 lower-case letters, digits and hyphens, "
            "a letter first"
        ],
    ),
    (
        fleet(1, name="parity"),
        ["fleets[1].name: an object that belongs to another is called triton-parity; use another name"],
    ),
    (
        fleet(1, name="cpu-headless"),
        ["fleets[1].name: an object that belongs to another is called triton-cpu-headless; use another name"],
    ),
    (fleet(1, models=[]), ["fleets[1].models: is empty; give at least one"]),
    (
        fleet(2, models=["rank", "rank"]),
        ["fleets[2].models[1]: 'rank' is listed twice; list each model once"],
    ),
    (
        fleet(1, models=["tokenize"]),
        ["fleets: no fleet serves 'embed', and nobody could ask it; add it to the models of one"],
    ),
    (
        {"models.release": RELEASE, **fleet(1, models=["tokenize", "embed", "pipelin"])},
        [
            "models.release.serving: is missing; release 3f2a9c1b7d04 was made without models.serving; run `python -m "
            "modelctl release … --pin stacks/Pulumi.staging.yaml`",
            "fleets[1].models[2]: neither models.serving nor release 3f2a9c1b7d04 has 'pipelin'; did you mean 'pipeline'? "
            "use embed, pipeline, rank or tokenize",
            "fleets: no fleet serves 'pipeline', and nobody could ask it; add it to the models of one",
        ],
    ),
    (
        fleet(1, pool="g6"),
        ["fleets[1].pool: there is no GPU pool 'g6'; use g5 or p4d"],
    ),
    (
        fleet(2, gpus=16),
        ["fleets[2].gpus: 16 is out of range; use 0 to 8 whole GPUs per pod"],
    ),
    (
        fleet(1, gpus=2),
        ["fleets[1].gpus: 2 GPUs are more than a g5.xlarge of pool 'g5' has; use at most 1"],
    ),
    (
        fleet(1, gpus=0, models=["embed"]),
        [
            "models.serving.embed.device: in fleet 'g5': the pods have no GPU; use device: cpu, or serve it from a fleet "
            "with GPUs",
            "fleets[1].gpus: 0 leave the GPUs of pool 'g5' idle; use 1 or more, or pool: cpu (nodes.cpu)",
        ],
    ),
    (
        fleet(0, gpus=1),
        ["fleets[0].gpus: 1 are more than the nodes of nodes.cpu have, which is none; use 0"],
    ),
    (
        {"nodes.cpu": None},
        ["fleets[0].pool: the stack has no nodes.cpu; add it, like {instanceTypes: [m7i.2xlarge], max: 4, diskGiB: 100}"],
    ),
    (
        {**fleet(1, models=["embed", "rank"]), **fleet(2, weights={"rank": 1})},
        [
            "models.serving: in fleet 'g5': a pod needs 42764 MiB on each GPU (embed 1 x 6000 + rank 1 x 36000 + CUDA "
            "context 700 + CUDA pool 64) and a g5.xlarge of pool 'g5' has 22528 MiB (A10G); use fewer instances, fewer "
            "models, or a pool with larger GPUs"
        ],
    ),
    (
        fleet(0, memoryGiB=16),
        [
            "fleets[0].memoryGiB: 16 GiB are more than a m7i.xlarge of pool 'cpu' has left beside the kubelet and the "
            "add-ons; use at most 13"
        ],
    ),
    (
        {"triton.memoryGiB": 16},
        [
            "triton.memoryGiB: in fleet 'g5': 16 GiB are more than a g5.xlarge of pool 'g5' has left beside the kubelet and "
            "the add-ons; use at most 12"
        ],
    ),
    (
        fleet(2, weights={"rank": 2}),
        ["fleets[2].weights.rank: no other fleet serves 'rank', so that it is always asked; remove the weight"],
    ),
    (
        fleet(2, weights={"embed": 2}),
        ["fleets[2].weights.embed: the fleet does not serve 'embed'; add it to models, or remove the weight"],
    ),
    (
        {**fleet(0, weights={"tokenize": 0}), **fleet(1, weights={"tokenize": 0})},
        [
            "fleets[0].weights.tokenize: every fleet that serves 'tokenize' has the weight 0; give one of them more",
            "fleets[1].weights.tokenize: every fleet that serves 'tokenize' has the weight 0; give one of them more",
        ],
    ),
    (
        fleet(0, replicas=REMOVED),
        [
            "fleets[0].replicas: is missing; nobody else sets the number of pods while autoscaler is none; give it, or the "
            "section autoscaling, within whose bounds KEDA sets it"
        ],
    ),
    (
        fleet(1, replicas=2),
        ["fleets[1].replicas: autoscaling says how many pods there are; remove one of the two"],
    ),
    (
        fleet(1, autoscaling={"minReplicas": 3, "maxReplicas": 2}),
        ["fleets[1].autoscaling.minReplicas: 3 is more than maxReplicas 2; give 0 to 2"],
    ),
    (
        fleet(1, autoscaling={"minReplicas": 1, "maxReplicas": 2, "targets": {"rank": {"pending": 4}}}),
        ["fleets[1].autoscaling.targets.rank: the fleet serves no 'rank' that models.serving has; use embed or tokenize"],
    ),
    (
        {"monitoring": None},
        [
            "fleets[1].autoscaling.prometheusUrl: is missing; without the section monitoring there is no Prometheus to ask: "
            "add it, or give the URL of your own"
        ],
    ),
    (
        {"fleets": [*FLEETS, {**FLEETS[2], "name": "second", "replicas": 6}], "gpu.pools[1].max": 3},
        [
            "gpu.pools[1].max: 3 nodes do not hold the pods of all its fleets, which fill 4 (p4d 1, second 3); give 4, or a "
            "fleet a pool of its own"
        ],
    ),
    (
        fleet(0, replicas=9),
        [
            "nodes.cpu.max: 4 x m7i.xlarge have no room for triton-cpu (5 of 9, 2000m CPU and 8192 MiB each): the 9 pods "
            "ask for 18000m CPU and 73728 MiB, and 4 nodes have room for 14880m CPU and 54612 MiB beside the kubelet and "
            "DaemonSets; give 9, larger types, or fewer pods"
        ],
    ),
    (
        fleet(1, replica=2),
        [
            "fleets[1].replica: unknown key; did you mean 'replicas'? the keys here are name, models, weights, "
            "pool, gpus, replicas, autoscaling, cpu, memoryGiB"
        ],
    ),
    (
        {"models.release": {**RELEASE, "ensembles": {"pipeline": ["tokenize", "embed", "rank"]}}},
        [
            "models.release.serving: is missing; release 3f2a9c1b7d04 was made without models.serving; run `python -m "
            "modelctl release … --pin stacks/Pulumi.staging.yaml`",
            "fleets[1].models[1]: 'pipeline' is an ensemble, and the fleet lacks rank of its steps; add it",
        ],
    ),
    (
        {"models.release": {**RELEASE, "asks": {"pipeline": ["tokenize", "rank"], "rank": ["embed", "tokenize"]}}},
        [
            "models.release.serving: is missing; release 3f2a9c1b7d04 was made without models.serving; run `python -m "
            "modelctl release … --pin stacks/Pulumi.staging.yaml`",
            "fleets[1].models[1]: 'pipeline' asks rank inside of its server, and the fleet lacks it; add it",
            "fleets[2].models[0]: 'rank' asks embed, tokenize inside of its server, and the fleet lacks them; add them",
        ],
    ),
    (
        {"models.serving.tokenize": {**CPU_MODEL, "sequence": {"strategy": "direct"}}},
        [
            "models.serving.tokenize.sequence: fleets cpu and g5 share its requests, and those of a sequence belong to one "
            "server; give all but one the weight 0, or serve it from one"
        ],
    ),
]


@pytest.mark.parametrize(("changes", "sentences"), MISTAKES)
def test_every_mistake_is_a_sentence_with_its_place(changes: dict[str, Any], sentences: list[str]) -> None:
    assert complaints({**THREE, **changes}) == sentences


def test_objects_beside_the_pods_belong_to_one_fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "helm-values/triton").mkdir(parents=True)
    shutil.copytree(ROOT / "charts/triton", tmp_path / "charts/triton")
    metadata = {"name": "labels"}
    written = {"extraObjects": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"mine": "1"}}]}
    (tmp_path / "helm-values/triton/base.yaml").write_text(json.dumps(written))
    (tmp_path / "helm-values/triton/staging.yaml").write_text("{}")
    monkeypatch.setattr(chart_values, "_ROOT", tmp_path)
    pod_values.cache_clear()
    try:
        told = complaints(THREE)
        settings()
        settings({"fleets": [{"name": "one", "models": ["resnet50"]}]})
    finally:
        pod_values.cache_clear()
    assert told == [
        "fleets: extraObjects of helm-values/triton (ConfigMap labels) would be owned by each of the 3 fleets, and go with "
        "the first of them that goes; make them elsewhere in the namespace"
    ]


def test_pods_on_nodes_without_gpus_are_counted_with_the_containers_beside_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stack = settings({**THREE, **fleet(0, cpu="1", memoryGiB=6)})
    (alone,) = fleets_without_gpus(stack)
    nodes = [nodes_for_workers(stack, 0, {"triton-cpu": count}) for count in (2, 3)]
    values = chart_values.PodValues(beside_millis=500, beside=1024)
    monkeypatch.setattr(chart_values, "pod_values", lambda _: values)
    (together,) = fleets_without_gpus(stack)
    assert (alone.request, together.request) == (Request(1000, 6144), Request(1500, 7168))
    assert nodes == [1, 2]
    assert [nodes_for_workers(stack, 0, {"triton-cpu": count}) for count in (2, 3)] == [2, 3]


def test_a_sidecar_that_follows_rollouts_is_such_a_container() -> None:
    fetcher, rank = {"image": f"{ECR}/modelctl@{DIGEST}"}, {"models.serving": {**THREE["models.serving"], "rank": GPU_MODEL}}
    followed = {"models.access": "local", "models.fetcher": fetcher, "triton.rollout": "in-place"}
    (pods,) = fleets_without_gpus(settings({**THREE, **rank, **followed}))
    assert (pods.request, pods.beside) == (Request(2250, 8448), Request(250, 256))
