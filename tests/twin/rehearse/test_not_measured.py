"""Why nothing is measured of a change to an exported state."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from spec.names import POD_RELEASE_LABEL
from tests.twin.rehearse.test_state import ENCRYPTED, NETWORK, read, resource
from twin.host.home import REPOSITORY
from twin.rehearse import not_measured

TYPE = "kubernetes:apps/v1:Deployment"
PROD = json.loads((REPOSITORY / "tests/system/component/snapshots/prod.json").read_text())["resources"]
MODELS = "This machine lacks the models, which are in that account's bucket"


@pytest.fixture
def triton() -> dict[str, Any]:
    """Triton's Deployment of prod, a copy."""
    (found,) = [
        one["inputs"]
        for key, one in PROD.items()
        if key.endswith(f"({TYPE})") and one["inputs"]["metadata"]["name"] == "triton"
    ]
    copied: dict[str, Any] = json.loads(json.dumps(found))
    return copied


def told(tmp_path: Path, *inputs: dict[str, Any]) -> str:
    deployments = [resource(TYPE, f"triton-{number}", given) for number, given in enumerate(inputs)]
    return not_measured.sentence(read(tmp_path, NETWORK, *deployments), alone=False)


def test_the_models_and_gpus_of_a_real_stack_are_named(tmp_path: Path, triton: dict[str, Any]) -> None:
    release = triton["spec"]["template"]["metadata"]["labels"][POD_RELEASE_LABEL]
    assert told(tmp_path, triton) == (
        f"no request was sent: triton serves release {release} on 1 nvidia.com/gpu a pod. {MODELS}, and the GPUs"
    )


def test_pods_without_gpus_lack_the_models_alone(tmp_path: Path, triton: dict[str, Any]) -> None:
    for container in triton["spec"]["template"]["spec"]["containers"]:
        container["resources"]["limits"].pop("nvidia.com/gpu", None)
    said = told(tmp_path, triton)
    assert said.endswith(MODELS) and "GPU" not in said


def test_a_rollout_in_place_has_no_release_in_the_state(tmp_path: Path, triton: dict[str, Any]) -> None:
    del triton["spec"]["template"]["metadata"]["labels"][POD_RELEASE_LABEL]
    assert ": triton serves what the last rollout has put into the bucket on 1 nvidia.com/gpu a pod. This" in told(
        tmp_path, triton
    )


def test_a_state_in_which_nobody_answers_is_said_to_be_one(tmp_path: Path) -> None:
    hidden = {"metadata": ENCRYPTED, "spec": {"template": ENCRYPTED}}
    other = {"metadata": {"namespace": "triton", "name": "worker"}, "spec": {"template": {"spec": {"containers": 3}}}}
    for found in (told(tmp_path), told(tmp_path, hidden), told(tmp_path, other)):
        assert found.endswith("the state has no Deployment of Triton, so that nobody would answer")


def test_of_the_twins_own_stack_the_state_does_not_say_what_made_it(tmp_path: Path) -> None:
    said = not_measured.sentence(dataclasses.replace(read(tmp_path, NETWORK), stack="local"), alone=False)
    assert "not from which models and settings they were made" in said


def test_a_state_alone_is_told_how_the_change_is_made_under_load(tmp_path: Path) -> None:
    found = read(tmp_path, NETWORK)
    beside, alone = (not_measured.sentence(found, alone=alone) for alone in (False, True))
    assert alone.startswith(
        f"{beside}. With `--from REV` too, where REV is the git revision that the stack was deployed from, a twin of "
    )
