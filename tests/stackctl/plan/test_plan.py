"""`stackctl plan` on a stack of three pools: requirements, missing parts, and output."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from spec.settings import Settings
from stackctl.cost import throughput
from stackctl.cost.prices import PriceTable
from stackctl.plan import command, stack
from stackctl.plan.command import Planned, flow
from stackctl.plan.stack import NoPlan
from tests.command import run
from tests.spec.stack_config import config, settings
from tests.spec.test_fleets import THREE, released
from tests.stackctl.cost.test_usage import prices

PRICES = prices(ec2_m7i_xlarge="0.2", ec2_g5_xlarge="1", ec2_p4d_24xlarge="22", ebs_gp3_gib_month="0")
RATES = ["tokenize@cpu=20", "tokenize@g5=100", "embed@g5=4", "rank@p4d=5"]
"""Of each model's expected 10 requests/s: half a pod, a tenth, two and a half, and two."""


CONFIG = config(THREE)


def planned(rates: list[str]) -> Planned:
    return command.of(settings(THREE), CONFIG, rates, PRICES)


def test_models_are_where_they_cost_least_at_the_expected_rates_and_scale_to_the_peak() -> None:
    made = planned(RATES)
    shape = {"cpu": "3", "memoryGiB": 12}
    assert made.entries == (
        {
            "name": "p4d",
            "models": ["rank"],
            "pool": "p4d",
            "gpus": 4,
            "cpu": "40",
            "memoryGiB": 400,
            "autoscaling": {"minReplicas": 2, "maxReplicas": 8},
        },
        # tokenize uses the free part of embed's third pod at no cost; its own node would cost 146 US$.
        {
            "name": "g5",
            "models": ["embed", "tokenize"],
            "pool": "g5",
            "gpus": 1,
            **shape,
            "autoscaling": {"minReplicas": 3, "maxReplicas": 11},
        },
    )
    assert (made.found.usd, made.found.proven) == (22 * 730 + 3 * 730, True)
    assert made.found.bound == pytest.approx(22 * 730 + 2.5 * 730 + 0.1 * 730)
    assert made.notes[-1] == "places without a known rate are not considered: embed@p4d, rank@g5, tokenize@p4d (--rate)"


def test_what_else_the_stack_file_needs_is_said() -> None:
    assert any(line.startswith("fleets[0].autoscaling.maxReplicas: 8 pods do not fit ") for line in planned(RATES).changes)


@pytest.mark.parametrize("of", [dict, json.dumps])
@pytest.mark.parametrize("prefix", ["triton-eks:", "", "triton-eks:config:"])
def test_bounds_of_the_stack_are_kept_however_its_file_spells_them(prefix: str, of: Callable[[object], object]) -> None:
    bounds = {"minReplicas": 1, "maxReplicas": 2, "warmPods": 1, "targets": {"rank": 3}}
    others = {key: value for key, value in CONFIG.items() if key != "triton-eks:fleets"}
    spelled = {f"{prefix}autoscaling": of(bounds), f"{prefix}fleets": CONFIG["triton-eks:fleets"]}

    made = command.of(settings(THREE), {**others, **spelled}, RATES, PRICES)

    assert [entry["autoscaling"] for entry in made.entries] == [
        {"warmPods": 1, "minReplicas": 2, "maxReplicas": 8, "targets": {"rank": 3}},
        {"warmPods": 1, "minReplicas": 3, "maxReplicas": 11},
    ]
    assert not [line for line in made.changes if line.startswith("fleets:")]


def test_a_model_that_fits_no_gpu_of_a_pool_is_on_another() -> None:
    assert [fleet.pool.name for fleet in planned([*RATES, "rank@g5=1000"]).found.fleets if "rank" in fleet.models] == ["p4d"]
    with pytest.raises(NoPlan, match=r"^no pod has room in the memory of its GPUs for rank; add a pool with larger GPUs$"):
        planned([*RATES[:3], "rank@g5=1000"])


@pytest.mark.parametrize("key", ["ensembles", "asks"])
def test_a_model_is_on_a_fleet_with_all_that_it_needs(key: str) -> None:
    read = released()
    assert read.models.release is not None
    release = read.models.release.model_copy(
        update={"ensembles": {"pipeline": ("rank",)}, key: {"pipeline": ("tokenize", "rank")}}
    )
    known = read.model_copy(update={"models": read.models.model_copy(update={"release": release})})
    made = command.of(known, CONFIG, [*RATES, "tokenize@p4d=100"], PRICES)
    assert [entry["models"] for entry in made.entries] == [["pipeline", "rank", "tokenize"], ["embed"]]


def test_a_model_of_the_release_without_rates_has_no_plan() -> None:
    with pytest.raises(NoPlan, match=r"^models\.serving says no rates of pipeline, which the release has; add them, or, "):
        command.of(released(), CONFIG, RATES, PRICES)


def test_everything_that_is_missing_is_asked_for_at_once() -> None:
    with pytest.raises(NoPlan) as refused:
        planned(["rank@p4d=5"])
    assert str(refused.value).splitlines() == [
        f"no pool is known to hold {model}; tune there (`modelctl tune … --stack NAME`), or give rates, like --rate "
        f"{model}@g5=120"
        for model in ("embed", "tokenize")
    ]


def evidence(folder: Path, monkeypatch: pytest.MonkeyPatch, *, server_on_loopback: bool) -> Settings:
    """Return the stack with evidence of 5 requests/s for each model except `rank`."""
    serving = {name: dict(wants) for name, wants in THREE["models.serving"].items()}
    for model in ("embed", "tokenize"):
        machine = {"cpu": "A CPU", "cpus": 2, "server_on_loopback": server_on_loopback}
        found = {"model": model, "winner": {"rate": 5}, "machine": machine}
        (folder / f"{model}-x.json").write_text(json.dumps(found), encoding="utf-8")
        serving[model]["tuned"] = f"benchmarks/results/{model}-x.json"
    monkeypatch.setattr(throughput, "RESULTS", folder)
    return settings({**THREE, "models.serving": serving})


def test_a_measured_rate_is_that_of_the_pools_that_serve_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = evidence(tmp_path, monkeypatch, server_on_loopback=False)
    assert stack.measured(elsewhere) == {("embed", "g5"): 5, ("tokenize", "cpu"): 5, ("tokenize", "g5"): 5}


def test_a_rate_of_the_machine_of_the_load_is_not_that_of_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = evidence(tmp_path, monkeypatch, server_on_loopback=True)
    assert stack.measured(here) == {("tokenize", "cpu"): 5}
    said = (
        "the rate of {0} was measured with its server on 2 CPUs (A CPU), or behind a forwarded port, which says nothing of "
        "the GPUs of g5; give what a pod there holds with --rate {0}@g5=RATE"
    )
    with pytest.raises(NoPlan) as refused:
        command.of(here, CONFIG, ["rank@p4d=5"], PRICES)
    assert str(refused.value).endswith(f"like --rate embed@g5=120; {said.format('embed')}")
    made = command.of(here, CONFIG, ["rank@p4d=5", "embed@g5=4"], PRICES)
    assert said.format("tokenize") in made.notes
    assert said.format("embed") not in made.notes


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        (["embed=5"], "--rate 'embed=5': write MODEL@POOL=REQUESTS_PER_SECOND, like embed@g5=120"),
        (["embed@g5=0"], "--rate 'embed@g5=0': write MODEL@POOL=REQUESTS_PER_SECOND, like embed@g5=120"),
        (["embed@g5=nan"], "--rate 'embed@g5=nan': write MODEL@POOL=REQUESTS_PER_SECOND, like embed@g5=120"),
        (
            ["embd@g5=5"],
            "--rate 'embd@g5=5': 'embd' is no model of models.serving; did you mean 'embed'? use embed, rank or tokenize",
        ),
        (["embed@g6=5"], "--rate 'embed@g6=5': 'g6' is no pool of the stack; use cpu, g5 or p4d"),
        (["embed@g5=5", "embed@g5=6"], "--rate 'embed@g5=6': another --rate is of embed on g5; give one"),
    ],
)
def test_a_rate_that_is_none_is_told(rates: list[str], said: str) -> None:
    with pytest.raises(NoPlan) as refused:
        planned(rates)
    assert str(refused.value) == said


def test_a_price_that_is_not_known_is_told() -> None:
    with pytest.raises(NoPlan, match=r"^pool g5: unknown, as us-west-2 has no price of it: ec2\.g5\.xlarge\. "):
        command.of(settings(THREE), CONFIG, RATES, without("ec2.g5.xlarge"))


def without(key: str) -> PriceTable:
    return PriceTable(PRICES.region, {name: price for name, price in PRICES.prices.items() if name != key})


@pytest.mark.parametrize(
    "value",
    [{"name": "g5", "models": ["a-b", "on", "1"], "gpus": 1, "cpu": "3", "weights": {"null": 0}, "x": None}, [], 1.5],
)
def test_entries_are_yaml_that_is_read_as_it_was(value: object) -> None:
    assert yaml.safe_load(flow(value)) == value


def test_the_command_prints_what_can_be_pasted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "stacks" / "Pulumi.staging.yaml"
    file.parent.mkdir()
    file.write_text(yaml.safe_dump({"config": CONFIG}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command.prices, "load", lambda _: PRICES)
    rates = [word for rate in RATES for word in ("--rate", rate)]
    done = run("stackctl", "plan", "staging", *rates)
    assert done.exit_code == 0, done.output
    said = done.stdout.splitlines()
    assert "nodes at the expected rates: 18,250.00 US$ a month (list prices of us-west-2 as of 2026-01-02)" in said
    assert any(line.startswith("bound: no fleets with each model on one of them cost less than 17,") for line in said)
    assert "no other fleets with each model on one of them cost less: all were looked at" in said
    start = said.index("  triton-eks:fleets:")
    pasted = yaml.safe_load("\n".join(said[start : said.index("", start)]))
    document = json.loads(run("stackctl", "plan", "staging", *rates, "--json").stdout)
    assert pasted == {"triton-eks:fleets": document["fleets"]}
    assert (document["usdAMonth"], document["proven"], document["nodes"]) == ("18250.00", True, {"p4d": 1, "g5": 3})
