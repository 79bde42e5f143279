from typing import Any

import pytest

from twin.cluster.device_plugin import advertised

GPU_LABELS = {"nvidia.com/gpu.present": "true"}
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
FOUR = "resources: [{name: nvidia.com/gpu, replicas: 4}]"
CONFIGS = {
    "exclusive": "version: v1",
    "ts4": f"sharing: {{timeSlicing: {{renameByDefault: true, {FOUR}}}}}",
    "ts2": "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}",
    "mps4": f"sharing: {{mps: {{renameByDefault: true, {FOUR}}}}}",
    "both": f"sharing: {{mps: {{{FOUR}}}, timeSlicing: {{{FOUR}}}}}",
    "one": "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 1}]}}",
}
VALUES: dict[str, Any] = {"config": {"default": "exclusive", "map": CONFIGS}}


def labelled(config: str) -> dict[str, str]:
    return {**GPU_LABELS, "nvidia.com/device-plugin.config": config}


def test_a_node_without_gpus_offers_none_and_has_no_problem() -> None:
    offer = advertised(None, {}, [], 0)
    assert (offer.resources, offer.problem) == ({}, None)


def test_without_the_plugin_no_gpu_can_be_asked_for() -> None:
    offer = advertised(None, GPU_LABELS, [TAINT], 4)
    assert (offer.resources, offer.problem) == ({}, "the NVIDIA device plugin is not installed")


def test_the_charts_defaults_land_on_a_labelled_and_tainted_node() -> None:
    assert advertised({}, GPU_LABELS, [TAINT], 4).resources == {"nvidia.com/gpu": 4}


@pytest.mark.parametrize("labels", [{}, {"nvidia.com/gpu.present": "false"}])
def test_a_node_without_the_label_is_passed_over(labels: dict[str, str]) -> None:
    offer = advertised({}, labels, [], 1)
    assert offer.resources == {}
    assert offer.problem is not None
    assert "nvidia.com/gpu.present" in offer.problem


@pytest.mark.parametrize(
    ("tolerations", "lands"),
    [
        (None, True),
        ([], False),
        ([{"key": "nvidia.com/gpu", "operator": "Exists"}], True),
        ([{"operator": "Exists"}], True),
        ([{"key": "nvidia.com/gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"}], True),
        ([{"key": "nvidia.com/gpu", "value": "true"}], False),
        ([{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}], False),
    ],
)
def test_tolerations_decide_as_the_scheduler_would(tolerations: list[dict[str, str]] | None, lands: bool) -> None:
    values = {} if tolerations is None else {"tolerations": tolerations}
    assert bool(advertised(values, GPU_LABELS, [TAINT], 1).resources) is lands


def test_a_taint_that_only_discourages_keeps_nothing_away() -> None:
    taint = {"key": "spot", "value": "", "effect": "PreferNoSchedule"}
    assert advertised({}, GPU_LABELS, [taint], 1).resources == {"nvidia.com/gpu": 1}


def test_a_node_selector_of_the_release_counts_too() -> None:
    offer = advertised({"nodeSelector": {"pool": "a"}}, GPU_LABELS, [], 1)
    assert offer.problem == "the NVIDIA device plugin's DaemonSet does not run here: its nodeSelector wants pool=a"


@pytest.mark.parametrize(
    ("config", "resources"),
    [
        ("exclusive", {"nvidia.com/gpu": 2}),
        ("ts4", {"nvidia.com/gpu.shared": 8}),
        ("ts2", {"nvidia.com/gpu": 4}),
    ],
)
def test_the_nodes_label_picks_the_sharing(config: str, resources: dict[str, int]) -> None:
    assert advertised(VALUES, labelled(config), [TAINT], 2).resources == resources


def test_without_the_label_the_default_counts() -> None:
    assert advertised(VALUES, GPU_LABELS, [], 2).resources == {"nvidia.com/gpu": 2}


def test_mps_needs_the_label_that_feature_discovery_sets() -> None:
    assert advertised(VALUES, labelled("mps4"), [], 1).resources == {}
    found = {"gfd": {"enabled": True}, **VALUES}
    assert advertised(found, labelled("mps4"), [], 1).resources == {"nvidia.com/gpu.shared": 4}
    by_hand = {**labelled("mps4"), "nvidia.com/mps.capable": "true"}
    assert advertised(VALUES, by_hand, [], 1).resources == {"nvidia.com/gpu.shared": 4}


@pytest.mark.parametrize(
    ("values", "label", "problem"),
    [
        (VALUES, "ts8", "names no configuration; there are both, exclusive, mps4, one, ts2, ts4"),
        ({}, "ts4", "the release defines no configurations"),
        ({"config": {"map": {"a": "version: v1", "b": "version: v1"}}}, "", "config.default names none"),
        (VALUES, "both", "both by time-slicing and by MPS"),
        (VALUES, "one", "replicas must be a whole number of at least 2, and is 1"),
    ],
)
def test_a_configuration_that_the_plugin_refuses_offers_nothing(values: dict[str, Any], label: str, problem: str) -> None:
    offer = advertised(values, labelled(label) if label else GPU_LABELS, [], 1)
    assert offer.resources == {}
    assert offer.problem is not None
    assert problem in offer.problem


@pytest.mark.parametrize(
    ("config", "resources", "problem"),
    [
        ("flags: {migStrategy: mixed}", {"nvidia.com/mig-1g.5gb": 14}, None),
        ("flags: {migStrategy: single}", {"nvidia.com/gpu": 14}, None),
        ("version: v1", {}, "with migStrategy: none the plugin offers whole ones"),
        (f"{{flags: {{migStrategy: mixed}}, {CONFIGS['ts4']}}}", {}, "shares what MIG has cut"),
    ],
)
def test_gpus_that_were_cut_at_boot(config: str, resources: dict[str, int], problem: str | None) -> None:
    values = {"config": {"default": "mig", "map": {"mig": config}}}
    offer = advertised(values, labelled("mig"), [TAINT], 2, ("1g.5gb", 7))
    assert offer.resources == resources
    assert (offer.problem is None) if problem is None else (problem in (offer.problem or ""))
