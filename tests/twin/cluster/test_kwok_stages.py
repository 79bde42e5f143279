"""The Stages for kwok."""

import stat
from pathlib import Path
from typing import Any

import yaml

from twin.cluster import kwok_stages


def written(tmp_path: Path, images: str) -> list[dict[str, Any]]:
    kwok_stages.write(tmp_path / "stages.yaml", images)
    return list(yaml.safe_load_all((tmp_path / "stages.yaml").read_text()))


def test_every_pod_stage_and_no_other_leaves_out_the_pods_that_run_as_processes(tmp_path: Path) -> None:
    key = '.spec.containers[] | .name + " " + .image | select(test("/(a|b/c)"))'
    expected = {"key": key, "operator": "DoesNotExist"}
    for stage in written(tmp_path, "/(a|b/c)"):
        is_of_pods = stage["spec"]["resourceRef"]["kind"] == "Pod"
        assert (expected in stage["spec"]["selector"]["matchExpressions"]) is is_of_pods, stage["metadata"]["name"]


def test_without_images_every_pod_is_simulated(tmp_path: Path) -> None:
    keys = [e["key"] for stage in written(tmp_path, "") for e in stage["spec"]["selector"]["matchExpressions"]]
    assert not any("image" in key for key in keys)


def test_there_is_a_stage_for_each_step_of_nodes_and_pods(tmp_path: Path) -> None:
    assert [stage["metadata"]["name"] for stage in written(tmp_path, "/a")] == [
        "node-ready",
        "node-heartbeat",
        "pod-ready",
        "pod-complete",
        "pod-delete",
    ]


def test_a_stage_is_otherwise_what_the_file_has(tmp_path: Path) -> None:
    file = Path(kwok_stages.__file__).with_name("kwok_stages.yaml")
    assert written(tmp_path, "") == list(yaml.safe_load_all(file.read_text()))
    assert stat.S_ISREG((tmp_path / "stages.yaml").stat().st_mode)
