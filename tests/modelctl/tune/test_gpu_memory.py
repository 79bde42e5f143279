"""GPU memory of models, read over HTTP from a server's metrics on an H200."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from modelctl.tune import gpu_memory
from modelctl.tune.candidate import Candidate
from modelctl.tune.command import _tell_memory
from modelctl.tune.gpu_memory import MemoryUse, watched
from modelctl.tune.pipeline import Found
from modelctl.tune.report import memory_in_words, table_of
from modelctl.tune.stack_file import gpu_memory_mib
from modelctl.tune.study import Trial, Winner
from tests.modelctl.stacks import wants, write_stack
from tests.modelctl.tune.played_gpu import CPU_ONLY, RECORDED, PlayedGpu, serving


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poll as fast as the server answers; the background follower never polls."""
    monkeypatch.setattr(gpu_memory, "_POLL_SECONDS", 0)
    monkeypatch.setattr(gpu_memory, "_EVERY_SECONDS", 3600)


def measured(gpu: PlayedGpu, trials: int = 1) -> list[MemoryUse | None]:
    said: list[str] = []
    with serving(gpu) as address, watched(address, said.append) as memory:
        assert memory is not None
        found = []
        for _ in range(trials):
            memory.loaded()
            found.append(memory.use())
    assert said == []
    return found


def test_use_is_told_before_the_load_after_it_and_at_the_highest() -> None:
    # The first answer is always an old number.
    assert measured(PlayedGpu(591, 700, 1211)) == [MemoryUse(591, 700, 1211)]
    assert MemoryUse(591, 700, 1211).taken_mib == 620


def test_each_trial_has_its_own_highest_above_the_same_beginning() -> None:
    assert measured(PlayedGpu(591, 900, 1500, 650, 640), trials=2) == [MemoryUse(591, 900, 1500), MemoryUse(591, 650, 650)]


def test_of_several_gpus_the_one_counts_of_which_most_was_taken() -> None:
    assert measured(PlayedGpu(591, 591, 800, second=30_000)) == [MemoryUse(591, 591, 800)]


def test_what_was_used_between_two_readings_of_ours_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = PlayedGpu(591, 700, 2000, 700)
    with serving(gpu) as address, watched(address, pytest.fail) as memory:
        assert memory is not None
        memory.loaded()
        monkeypatch.setattr(gpu_memory, "_EVERY_SECONDS", 0)
        memory.follow(_EndsAfter(3))
        assert memory.use() == MemoryUse(591, 700, 2000)


class _EndsAfter(gpu_memory.threading.Event):
    """An event that is set after this many checks."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self._left = times

    def wait(self, timeout: float | None = None) -> bool:
        self._left -= 1
        return self._left < 0


def test_a_gpu_without_a_counter_of_energy_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_memory, "_NEW_SECONDS", 0.05)
    monkeypatch.setattr(gpu_memory, "_POLL_SECONDS", 0.01)
    gpu = PlayedGpu(591, 591, 700, every=1)
    gpu.counts_energy = False
    with serving(gpu) as address, watched(address, pytest.fail) as memory:
        assert memory is not None
        memory.loaded()
        assert memory.use() == MemoryUse(700, 700, 700)


def test_of_a_server_without_a_gpu_nothing_is_claimed_and_nothing_said() -> None:
    with serving(CPU_ONLY) as address, watched(address, pytest.fail) as memory:
        assert memory is None


def test_a_gpu_that_is_never_read_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_memory, "_NEW_SECONDS", 0.05)
    unread = RECORDED.replace("} 4182769664", "} 0")
    assert unread != RECORDED
    with serving(unread) as address, watched(address, pytest.fail) as memory:
        assert memory is None


def test_metrics_that_do_not_answer_are_said_with_the_option_that_names_them() -> None:
    with serving(CPU_ONLY) as address:
        pass
    said: list[str] = []
    with watched(address, said.append) as memory:
        assert memory is None
    assert len(said) == 1
    assert said[0].startswith(f"no metrics at {address} (")
    assert said[0].endswith("): GPU memory is not measured; name their port with --metrics HOST:PORT")


def test_metrics_that_end_meanwhile_claim_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_memory, "_ANSWER_SECONDS", 1)
    with serving(PlayedGpu(591, 700)) as address:
        opened = watched(address, pytest.fail)
        memory = opened.__enter__()
        assert memory is not None
        memory.loaded()
    assert memory.use() is None
    opened.__exit__(None, None, None)


def test_the_table_has_a_column_of_it_only_where_it_was_measured() -> None:
    trial = Trial(1, "prior", Candidate(1, 0, 1), 10.0, 40.0)
    measured = Trial(2, "search", Candidate(8, 0, 1), 10.0, 60.0, gpu_memory=MemoryUse(591, 700, 1211))
    assert "GPU MiB" not in [column.header for column in table_of([trial]).columns]
    (column,) = [column for column in table_of([trial, measured]).columns if column.header == "GPU MiB"]
    assert list(column.cells) == ["620", "-"]


TAKEN = "GPU memory: 620 MiB taken at the highest (591 in use before, 700 when loaded, 1211 then)"


@pytest.mark.parametrize(
    ("instances", "counted", "said"),
    [
        ({}, {}, TAKEN),
        ({"net": 1}, {"net": 620}, TAKEN),
        (
            {"net": 2},
            {"net": 309},
            f"{TAKEN}\ngpuMemoryMiB of Pulumi.dev.yaml counts 618 MiB (net 2 x 309), which is less: pods would run out of "
            "GPU memory; give models.serving.net.gpuMemoryMiB 310 or more",
        ),
        (
            {"net": 2, "head": 1},
            {"net": 200, "head": 100},
            f"{TAKEN}\ngpuMemoryMiB of Pulumi.dev.yaml counts 500 MiB (net 2 x 200 + head 1 x 100), which is less: pods "
            "would run out of GPU memory; give more to the model that takes it",
        ),
    ],
)
def test_a_stack_that_counts_on_less_is_told_so(instances: dict[str, int], counted: dict[str, int], said: str) -> None:
    assert memory_in_words(MemoryUse(591, 700, 1211), instances, counted, Path("Pulumi.dev.yaml")) == said


def test_the_stack_counts_its_models_on_gpus_alone(tmp_path: Path) -> None:
    on_gpu = wants(device="gpu", gpuMemoryMiB=400)
    stack = write_stack(tmp_path, {"net": on_gpu, "head": wants()})
    assert gpu_memory_mib(stack, ["net", "head"]) == {"net": 400}


def test_what_is_told_is_of_the_values_that_were_chosen_for_all_models(capsys: pytest.CaptureFixture[str]) -> None:
    chosen, other = Candidate(8, 0, 2), Candidate(8, 0, 4)
    trials = [
        Trial(1, "prior", other, 10.0, 60.0, gpu_memory=MemoryUse(591, 900, 2000)),
        Trial(2, "prior", chosen, 10.0, 60.0, gpu_memory=MemoryUse(591, 700, 1000)),
        Trial(3, "again", chosen, 10.0, 60.0, gpu_memory=MemoryUse(591, 700, 1211)),
        Trial(4, "claim", chosen, 10.0, 60.0),
    ]
    run, part, search = (cast("Any", SimpleNamespace()) for _ in range(3))
    run.gpu_memory_mib, search.trials, part.model = {"net": 200, "head": 50}, trials, SimpleNamespace(name="net")
    last = Found(part, search, Winner(chosen, 60.0, 0.06), {"head": Candidate(1, 0, 3), "on_cpu": Candidate(1, 0, 1)})

    _tell_memory(run, last, Path("Pulumi.dev.yaml"))

    said, less = capsys.readouterr().out.splitlines()
    assert said == TAKEN
    assert less.startswith("gpuMemoryMiB of Pulumi.dev.yaml counts 550 MiB (net 2 x 200 + head 3 x 50), which is less")
