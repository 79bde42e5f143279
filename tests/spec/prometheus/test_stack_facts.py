"""Facts of the chart, the program and the generated configs on which the rules rely."""

import json

import pytest
import yaml

from modelctl.repository.configure.derive import histogram_buckets_ms
from spec.names import TRITON_CONTAINER, TRITON_DEPLOYMENT, TRITON_NAMESPACE
from spec.prometheus.rule import JOB, duration
from spec.prometheus.rule_file import LARGEST_BYTES, groups, prometheus_rules
from spec.prometheus.timing import timing
from spec.settings import Release
from tests.charts import rendering
from tests.spec.prometheus.stacks import SERVING, STACKS, rules, settings, want


def alerts(stack: str, name: str) -> list[dict[str, object]]:
    return [rule for rule in rules(stack) if rule.get("alert") == name]


def test_triton_runs_where_the_rules_look_for_it() -> None:
    deployment = rendering.deployment()
    assert deployment["metadata"]["name"] == TRITON_DEPLOYMENT
    assert deployment["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/name"] == JOB
    assert [container["name"] for container in rendering.pod()["containers"]] == [TRITON_CONTAINER]


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize(("size", "models"), [(15_693, 1), (123_456_789_012, 3), (5_000_000_000, 12)])
def test_a_start_takes_as_long_as_the_startup_probe_allows(stack: str, size: int, models: int) -> None:
    served = {f"model{number}": 1 for number in range(models)}
    configured = settings(stack)
    release = Release.model_construct(id="0" * 64, bytes=size, models=served)
    configured = configured.model_copy(update={"models": configured.models.model_copy(update={"release": release})})
    fetcher = {"fetch": {"image": configured.models.fetcher.image}} if configured.models.fetcher is not None else {}
    values = {"release": {"bytes": size, "models": served}, "modelRepository": fetcher}
    probe = rendering.container(values, environment=stack)["startupProbe"]
    allowed, expected = probe["periodSeconds"] * probe["failureThreshold"], timing(configured)
    assert allowed - probe["periodSeconds"] < expected.start - expected.fetch <= allowed, "it begins after the fetch"


@pytest.mark.parametrize("slo_ms", [1, 25, 50, 333, 60_000])
def test_the_generated_config_has_a_bucket_that_ends_at_the_slo(slo_ms: int) -> None:
    assert float(slo_ms) in histogram_buckets_ms(slo_ms)


def test_a_stack_without_triton_is_not_told_that_it_is_down() -> None:
    staging = settings("staging")
    without = staging.model_copy(update={"models": staging.models.model_copy(update={"release": None})})
    assert "TritonDown" not in [rule.get("alert") for group in groups(without) for rule in group["rules"]]
    assert [rule["for"] for rule in alerts("staging", "TritonDown")] == ["2m"]


def test_the_only_pod_of_a_fleet_may_be_away_for_as_long_as_it_starts() -> None:
    staging = settings("staging")
    one = staging.model_copy(update={"triton": staging.triton.model_copy(update={"replicas": 1})})
    (down,) = [rule for group in groups(one) for rule in group["rules"] if rule.get("alert") == "TritonDown"]
    assert down["for"] == duration(timing(staging).start + 120)


@pytest.mark.parametrize("stack", STACKS)
def test_a_start_that_takes_longer_than_the_startup_probe_allows_is_told(stack: str) -> None:
    (slow,) = alerts(stack, "TritonPodNotReady")
    assert slow["for"] == duration(timing(settings(stack)).start + 120)


def test_the_availability_of_all_models_is_one_alert_of_each_level() -> None:
    base = settings(SERVING)
    serving = {name: base.models.serving["embed.v2"] for name in ("embed.v2", "classify")}
    changed = base.model_copy(update={"models": base.models.model_copy(update={"serving": serving})})
    burns = [
        rule for group in groups(changed) for rule in group["rules"] if rule.get("alert") == "TritonAvailabilityBudgetBurn"
    ]
    assert [rule["labels"] for rule in burns] == [{"severity": "critical"}, {"severity": "warning"}]
    for rule in burns:
        assert rule["annotations"]["summary"] == "Requests for {{ $labels.model }} fail: {{ $value | humanizePercentage }}"
        assert rule["expr"].count('{namespace="triton",model=~"(classify|embed[.]v2)"}') == 6


def test_a_decoupled_model_without_a_histogram_has_no_latency_to_judge() -> None:
    base = settings(SERVING)
    stream = base.models.serving["embed.v2"].model_copy(update={"decoupled": True})
    changed = base.model_copy(update={"models": base.models.model_copy(update={"serving": {"chat": stream}})})
    names = {rule.get("alert") for group in groups(changed) for rule in group["rules"]}
    assert not names & {"TritonMeanLatencyHigh", "TritonLatencyBudgetBurn", "TritonSloNotMeasured"}
    assert "TritonAvailabilityBudgetBurn" in names


@pytest.mark.parametrize(("seconds", "text"), [(30, "1m"), (60, "1m"), (301, "6m"), (3600, "1h"), (5400, "90m")])
def test_a_duration_is_rounded_up_to_minutes(seconds: int, text: str) -> None:
    assert duration(seconds) == text


def test_the_object_of_the_operator_holds_the_same_groups() -> None:
    staging = settings("staging")
    (rule,) = prometheus_rules(staging, "https://runbooks.example.com/")
    assert (rule["apiVersion"], rule["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    assert rule["metadata"]["namespace"] == TRITON_NAMESPACE
    assert rule["spec"]["groups"] == groups(staging, "https://runbooks.example.com")
    (down,) = [r for group in rule["spec"]["groups"] for r in group["rules"] if r.get("alert") == "TritonDown"]
    assert down["annotations"]["runbook_url"] == "https://runbooks.example.com/TritonDown.md"


def test_rules_of_many_models_are_in_objects_that_the_operator_takes() -> None:
    staging = settings("staging")
    wants = {f"model-{number:03}": want(sloP95Ms=50, expectedRate=40.0, peakRate=120.0) for number in range(200)}
    many = staging.model_copy(update={"models": staging.models.model_copy(update={"serving": wants})})
    objects = prometheus_rules(many)
    assert [one["metadata"]["name"] for one in objects] == ["triton", "triton-2", "triton-3", "triton-4"]
    parts = [group for one in objects for group in one["spec"]["groups"]]
    assert [(part["name"], rule) for part in parts for rule in part["rules"]] == [
        (group["name"], rule) for group in groups(many) for rule in group["rules"]
    ]
    assert all(part["rules"] for part in parts)
    for one in objects:
        names = [group["name"] for group in one["spec"]["groups"]]
        assert len(names) == len(set(names))
        assert 0 < sum(len(json.dumps(rule)) for group in one["spec"]["groups"] for rule in group["rules"]) <= LARGEST_BYTES
        assert len(yaml.safe_dump(one["spec"])) < 512 * 1024
