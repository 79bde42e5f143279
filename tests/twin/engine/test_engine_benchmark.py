"""The stacks that benchmarks/engine.py measures, and the arithmetic of its table."""

from __future__ import annotations

import pytest

from benchmarks import engine, results_page
from spec.settings import load
from tests.paths import ROOT
from twin.plugins.values import UNKNOWN

COUNTS = {
    "models": lambda settings: len(settings.models.serving),
    "pools": lambda settings: len(settings.gpu.pools),
    "fleets": lambda settings: len(settings.each_fleet),
}


@pytest.mark.parametrize("kind", engine.PREVIEWED)
def test_the_largest_stack_of_each_kind_is_a_valid_one_with_so_many(kind: engine.Kind) -> None:
    number = engine.PREVIEWED[kind][-1]
    assert COUNTS[kind](load(engine.STACKS[kind](number), engine.STACK)) == number


def test_each_process_of_the_engine_is_told_from_the_others_by_its_command_line() -> None:
    commands = {
        "/twin/engine/pulumi\0preview\0--policy-pack\0/checkout/policies\0": "pulumi",
        "/.venv/bin/python\0-P\0-m\0twin.plugins.language_host\0127.0.0.1:1\0": "language host",
        f"/.venv/bin/python\0-P\0-u\0{ROOT}/twin/plugins/executor.py\0": "program",
        "/policies/venv/bin/python\0-P\0-u\0-m\0pulumi.policy\0127.0.0.1:1\0/checkout/policies\0": "policies",
        "/.venv/bin/python\0-P\0-m\0twin.plugins.aws\0127.0.0.1:1\0": "plugin aws",
        "/.venv/bin/python\0-P\0-m\0twin.plugins.kubernetes\0127.0.0.1:1\0": "plugin kubernetes",
    }
    assert {command: engine.part_of(command) for command in commands} == commands


def test_processes_of_one_part_are_counted_together() -> None:
    usage = engine._Usage({1: 0.25, 2: 0.5, 3: 0.5}, {}, {1: "language host", 2: "program", 3: "language host"})
    assert list(usage.cpu_by_part().items()) == [("language host", 0.75), ("program", 0.5)]


def test_growth_is_the_processor_time_of_each_resource_that_is_more() -> None:
    costs = [{"cpu_seconds": cpu, "resources": resources} for cpu, resources in ((5.0, 100), (6.0, 300), (9.0, 400))]
    assert results_page._growth(costs) == [5.0, 30.0]


def test_the_page_has_a_row_for_each_stack_and_for_the_empty_program_beside_it() -> None:
    stack, empty = ({"cpu_seconds_by_part": parts} for parts in ({"program": 1.5, "pulumi": 1.0}, {"pulumi": 0.75}))
    point = {"action": "preview", "number": 10, "kind": "fleets", "stack": stack, "empty": empty}
    assert list(results_page._parts([point])) == [
        "",
        "| CPU seconds of | program | pulumi |",
        "|---|---:|---:|",
        "| preview, 10 fleets | 1.5 | 1 |",
        "| as many empty ones | 0 | 0.75 |",
    ]


def test_a_record_with_the_bare_program_has_its_columns_and_an_earlier_one_has_not() -> None:
    costs = {name: _cost(cpu) for name, cpu in (("stack", 6.0), ("empty", 4.0), ("bare", 5.0))}
    point = {"action": "preview", "number": 1, "kind": "fleets", **costs}
    earlier = {**point, "bare": None}
    assert list(results_page._engine({"points": [point]}))[2:5] == [
        "| | number | resources | CPU seconds | as many empty ones | times | bare | times | seconds | peak MiB | empty |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
        "| preview, fleets | 1 | 251 | 6 | 4 | 1.50 | 5 | 1.20 | 3 | 500 | 500 |",
    ]
    assert list(results_page._engine({"points": [earlier]}))[2:5] == [
        "| | number | resources | CPU seconds | as many empty ones | times | seconds | peak MiB | empty |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
        "| preview, fleets | 1 | 251 | 6 | 4 | 1.50 | 3 | 500 | 500 |",
    ]


def _cost(cpu: float) -> dict[str, object]:
    return {"resources": 251, "seconds": 3.0, "cpu_seconds": cpu, "peak_mib": 500, "cpu_seconds_by_part": {"pulumi": cpu}}


def test_the_resources_of_a_preview_become_config_maps_with_their_texts() -> None:
    cluster, network = (
        "urn:pulumi:s::p::pulumi:providers:kubernetes::cluster",
        "urn:pulumi:s::p::triton:network:Network::net",
    )
    subnet = "urn:pulumi:s::p::triton:network:Network$aws:ec2/subnet:Subnet::a"
    inputs = {"cidrBlock": "10.0.0.0/24", "vpcId": UNKNOWN, "tags": {"a/b": ["one", 2]}}
    states = [
        {"urn": network, "custom": False, "type": "triton:network:Network"},
        {"urn": subnet, "custom": True, "type": "aws:ec2/subnet:Subnet", "parent": network, "inputs": inputs},
        {"urn": cluster, "custom": True, "type": "pulumi:providers:kubernetes", "inputs": {}},
    ]
    provider, component, config_map = engine.config_maps(states)
    assert (provider, component) == (states[2], states[0])
    assert config_map == {
        **states[1],
        "type": "kubernetes:core/v1:ConfigMap",
        "name": "measured-1",
        "provider": f"{cluster}::",
        "inputs": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "measured-1", "namespace": "default"},
            "data": {"0cidrBlock": "10.0.0.0/24", "1vpcId": "x" * 36, "2a_b": "one", "3a_b": "2"},
        },
    }


def test_an_earlier_record_has_no_parts() -> None:
    assert list(results_page._parts([{"stack": {"cpu_seconds": 5.0}, "empty": {"cpu_seconds": 3.0}}])) == []
