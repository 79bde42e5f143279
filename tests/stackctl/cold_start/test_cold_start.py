"""`stackctl cold-start`: counts for each stage, and pods' times."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from spec.prometheus.timing import start_seconds, timing
from spec.settings import Settings
from stackctl.cold_start import command
from stackctl.cold_start.pods import Start, slowest, start_of
from stackctl.cold_start.stages import stages
from tests.command import run
from tests.spec import stack_config
from tests.spec.test_fleets import THREE
from tests.stackctl.cost.test_usage import stack

OUTPUTS = {"clusterName": "triton-prod", "region": "us-west-2", "tritonRoleArn": "arn:aws:iam::123456789012:role/triton"}


def pod(**changes: Any) -> dict[str, Any]:
    """Return a pod with a node after 100 s, volumes 20 s later, its image 70 s later, its models 45 s later."""
    conditions = {"PodScheduled": "10:01:40", "Initialized": "10:02:00", "Ready": "10:03:55"}
    made: dict[str, dict[str, Any]] = {
        "metadata": {"name": "triton-1", "creationTimestamp": "2026-11-23T10:00:00Z"},
        "status": {
            "conditions": [
                {"type": name, "status": "True", "lastTransitionTime": f"2026-11-23T{at}Z"}
                for name, at in conditions.items()
            ],
            "containerStatuses": [
                {"name": "other", "restartCount": 4},
                {"name": "triton", "restartCount": 0, "state": {"running": {"startedAt": "2026-11-23T10:03:10Z"}}},
            ],
        },
    }
    for path, value in changes.items():
        section, key = path.split("_")
        made[section][key] = value
    return made


def counted(settings: Settings) -> dict[str, int | None]:
    return {stage.name: stage.counted for stage in stages(settings)}


def test_each_stage_is_as_long_as_the_next_time_on_the_pod_is_later() -> None:
    found = start_of(pod())
    assert found == Start("triton-1", {"node": 100, "volumes": 20, "image": 70, "models": 45})
    assert found.total == 235


@pytest.mark.parametrize(
    "untold",
    [
        pod(metadata_deletionTimestamp="2026-11-23T10:09:00Z"),
        pod(status_conditions=[{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-23T10:01:40Z"}]),
        pod(status_containerStatuses=[{"name": "triton", "restartCount": 1, "state": {"running": {"startedAt": "x"}}}]),
        pod(status_containerStatuses=[{"name": "triton", "restartCount": 0, "state": {"waiting": {}}}]),
        {"metadata": {"name": "new", "creationTimestamp": "2026-11-23T10:00:00Z"}},
    ],
    ids=["ending", "not ready", "restarted", "no image yet", "without a status"],
)
def test_a_pod_whose_start_cannot_be_told_is_left_out(untold: Mapping[str, Any]) -> None:
    assert start_of(untold) is None


def test_the_slowest_start_is_the_one_with_the_longest_sum() -> None:
    quick, slow = Start("quick", {"node": 0, "image": 50}), Start("slow", {"node": 240, "image": 5})
    assert slowest([quick, slow]) is slow


def test_what_is_counted_is_what_autoscaling_assumes() -> None:
    for name in ("dev", "staging", "prod"):
        settings = stack(name)
        assert sum(seconds or 0 for seconds in counted(settings).values()) == start_seconds(settings)


def whys(settings: Settings) -> dict[str, str]:
    return {stage.name: stage.why for stage in stages(settings)}


def test_of_the_image_there_is_a_figure_of_aws_where_nobody_has_measured_it() -> None:
    assert whys(stack("prod"))["image"] == (
        "not counted, nor measured: AWS gives 4 to 6 minutes for 15 to 20 GB, and the image has some 10"
    )


def test_a_release_on_local_disks_is_fetched_before_the_models_load() -> None:
    def local(sections: dict[str, Any]) -> None:
        image = f"123456789012.dkr.ecr.us-west-2.amazonaws.com/modelctl@sha256:{'0123456789abcdef' * 4}"
        sections["models"] |= {"access": "local", "fetcher": {"image": image}}
        sections["models"]["release"]["bytes"] = 100 * 1024**3

    assert whys(stack("dev"))["models"] == "at most, to fetch, load and warm 6 models: the limit of the startup probe"
    settings = stack("dev", local)
    assert whys(settings)["models"] == "at most, to load and warm 6 models: the limit of the startup probe"
    assert counted(settings) == {"node": 240, "volumes": 1024, "image": None, "models": timing(settings).start - 1024}


def answer(monkeypatch: pytest.MonkeyPatch, pods: list[dict[str, Any]], settings: Settings, *options: str) -> Any:
    asked = []

    class Cluster:
        def objects(self, path: str) -> list[dict[str, Any]]:
            asked.append(path)
            return pods

    @contextmanager
    def connect(*_: str) -> Iterator[Cluster]:
        yield Cluster()

    monkeypatch.setattr(command, "settings_of", lambda _: settings)
    monkeypatch.setattr(command, "connect", connect)
    monkeypatch.setattr(command.pulumi_program, "outputs", lambda _: OUTPUTS)
    done = run("stackctl", "cold-start", "prod", "--measured", *options)
    assert done.exit_code == 0, done.output
    assert all(path.startswith("/api/v1/namespaces/triton/pods?labelSelector=") for path in asked)
    return json.loads(done.output) if "--json" in options else done.output


def test_the_slowest_pod_says_which_start_seconds_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    said = answer(monkeypatch, [pod()], stack("prod"))
    assert "pods that were looked at took 235 s; the slowest is triton-1" in said
    assert "autoscaling.startSeconds: 235 if that pod came up on a new node" in said


def test_a_start_that_is_longer_than_the_stack_file_says_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def quick(sections: dict[str, Any]) -> None:
        sections["autoscaling"]["startSeconds"] = 200

    assert "more than startSeconds: raise it to 235" in answer(monkeypatch, [pod()], stack("prod", quick))


def test_without_a_pod_that_can_be_told_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "nothing is measured" in answer(monkeypatch, [], stack("prod"))


def test_each_fleet_has_its_own_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    document = answer(monkeypatch, [pod()], stack_config.settings(THREE), "--json")
    assert [(fleet["fleet"], fleet["pods"][0]["total"]) for fleet in document["fleets"]] == [
        ("triton-cpu", 235),
        ("triton-g5", 235),
        ("triton-p4d", 235),
    ]


def test_a_stack_that_is_not_up_has_no_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "settings_of", lambda _: stack("prod"))
    monkeypatch.setattr(command.pulumi_program, "outputs", lambda _: {})
    done = run("stackctl", "cold-start", "prod", "--measured")
    assert (done.exit_code, "prod is not up" in done.output) == (2, True)
