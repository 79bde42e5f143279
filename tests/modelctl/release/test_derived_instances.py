"""Models on a GPU get two instances if its memory is large enough, and the pin records it."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from modelctl.release.pin import pin
from modelctl.release.progress import Silent
from modelctl.release.publish import Plan, prepare
from modelctl.store.bucket import PART_BYTES
from spec.settings import load_stack_file
from tests.modelctl.stacks import wants, write_stack

# An A10G has 22 GiB (22528 MiB): 700 for a context, 64 for the server's pool, 21764 MiB for models.


def _plan(models: Path, stacks: Path) -> Plan:
    return prepare(models, PART_BYTES, Silent(), stacks)


def _gpu(mib: int, **more: Any) -> dict[str, Any]:
    return wants(device="gpu", gpuMemoryMiB=mib, **more)


def _count(plan: Plan, model: str) -> int:
    source = plan.objects[f"{model}/configs/dev.pbtxt"].source
    assert isinstance(source, bytes)
    (line,) = [line for line in source.decode().splitlines() if line.strip().startswith("count:") and "warm" not in line][:1]
    return int(line.split(":")[1])


@pytest.mark.parametrize(("mib", "instances"), [(10_882, 2), (10_883, 1)])
def test_a_model_gets_two_instances_if_the_gpu_holds_both(tmp_path: Path, models: Path, mib: int, instances: int) -> None:
    write_stack(tmp_path / "stacks", {"normalize": _gpu(mib)})

    plan = _plan(models, tmp_path / "stacks")

    assert _count(plan, "normalize") == instances
    assert plan.manifest.derived["dev"].instances == ({"normalize": 2} if instances == 2 else {})


def test_the_smallest_models_get_them_first(tmp_path: Path, models: Path) -> None:
    write_stack(tmp_path / "stacks", {"classify": _gpu(6000), "normalize": _gpu(5000)})

    # 2 x 5000 + 6000 fit, 2 x 5000 + 2 x 6000 do not.
    assert _plan(models, tmp_path / "stacks").manifest.derived["dev"].instances == {"normalize": 2}


@pytest.mark.parametrize(
    ("entry", "triton"),
    [
        (wants(), {}),
        (_gpu(500, instances=1), {}),
        (_gpu(500, maxQueueDelayUs=100), {"version": "26.07"}),
        (_gpu(500, expectedRate=2000, peakRate=3000), {"version": "26.07"}),
        (_gpu(6000), {"rollout": "in-place"}),  # 2 x 2 x 6000 during a rollout
    ],
    ids=["on the CPU", "written", "starved by a delay", "starved by a derived delay", "in place"],
)
def test_other_models_have_one(tmp_path: Path, models: Path, entry: dict[str, Any], triton: dict[str, Any]) -> None:
    write_stack(tmp_path / "stacks", {"normalize": entry}, triton=triton)

    plan = _plan(models, tmp_path / "stacks")

    assert _count(plan, "normalize") == 1
    assert plan.manifest.derived["dev"].instances == {}


def test_an_older_server_gets_two_without_a_delay(tmp_path: Path, models: Path) -> None:
    write_stack(tmp_path / "stacks", {"normalize": _gpu(500)}, triton={"version": "26.07"})

    assert _plan(models, tmp_path / "stacks").manifest.derived["dev"].instances == {"normalize": 2}


def test_a_pinned_stack_counts_them_until_its_file_says_otherwise(tmp_path: Path, models: Path) -> None:
    file = write_stack(tmp_path / "stacks", {"classify": _gpu(600), "normalize": _gpu(500, instances=1)})
    manifest = _plan(models, tmp_path / "stacks").manifest

    changes = pin(file, manifest)

    assert "instances none → classify: 2" in changes
    settings = load_stack_file(file)
    assert [settings.models.instances_of(name) for name in ("classify", "normalize")] == [2, 1]
    assert settings.models.release is not None and settings.models.release.serving == manifest.serving["dev"]
    document = yaml.safe_load(file.read_text())
    assert document["config"]["triton-eks:models"]["release"]["instances"] == {"classify": 2}


def test_a_release_from_before_has_one_instance_each_and_stays(tmp_path: Path, models: Path) -> None:
    written = write_stack(tmp_path / "written", {"normalize": _gpu(500, instances=1)})
    older = _plan(models, tmp_path / "written").manifest.serving["dev"]
    file = write_stack(tmp_path / "stacks", {"normalize": _gpu(500)})
    manifest = _plan(models, tmp_path / "stacks").manifest
    # As modelctl wrote it when the default was one instance.
    pin(file, manifest.model_copy(update={"serving": {"dev": older}, "derived": {}}))

    assert load_stack_file(file).models.instances_of("normalize") == 1
    assert written.exists() and manifest.serving["dev"] != older


def test_the_memory_of_a_model_is_estimated_from_its_files_until_it_is_measured(tmp_path: Path, models: Path) -> None:
    (models / "normalize" / "1" / "weights.bin").write_bytes(bytes(100 * 1024**2 - 10))
    file = write_stack(tmp_path / "stacks", {"classify": _gpu(600), "normalize": wants(device="gpu")})
    (unknown,) = [str(one) for one in load_stack_file(file).warnings if "gpuMemoryMiB" in str(one)]
    assert "models.serving.normalize.gpuMemoryMiB: is not given, and `modelctl release` will estimate it" in unknown

    pin(file, _plan(models, tmp_path / "stacks").manifest)

    settings = load_stack_file(file)
    # 3 x 100 MiB, the few bytes of model.py, and 1024.
    assert settings.models.release is not None
    assert settings.models.release.gpu_memory_mib == {"normalize": 1325}
    (estimated,) = [str(one) for one in settings.warnings if "gpuMemoryMiB" in str(one)]
    assert "is not given, and 1325 MiB are estimated from the size of the model's files" in estimated


def test_estimates_count_where_models_have_to_fit(tmp_path: Path, models: Path) -> None:
    (models / "normalize" / "1" / "weights.bin").touch()
    os.truncate(models / "normalize" / "1" / "weights.bin", 4 * 1024**3)  # 3 x 4096 + 1024 of 21764 MiB, once
    write_stack(tmp_path / "stacks", {"normalize": wants(device="gpu")})

    derived = _plan(models, tmp_path / "stacks").manifest.derived["dev"]

    assert (derived.instances, derived.gpu_memory_mib) == ({}, {"normalize": 13313})
