"""Reasons for a failed server start, from logs of a real server 2.51."""

from pathlib import Path

import pytest

from twin.triton.triton_log import causes

ISO = """\
2026-11-21T19:16:37Z E 21481 server.cc:241] "CudaDriverHelper has not been initialized."
2026-11-21T19:16:37Z W 21481 metrics.cc:798] "DCGM unable to start: DCGM initialization error"
2026-11-21T19:16:37Z I 21481 model_lifecycle.cc:472] "loading: normalize:1"
"""
FAILED = (
    '2026-11-21T19:16:37Z E 21481 backend_model.cc:692] "ERROR: Failed to create instance: RuntimeError: no weights"\n'
    "2026-11-21T19:16:37Z E 21481 model_lifecycle.cc:642] \"failed to load 'normalize' version 1: Internal: RuntimeError: "
    r"the weights\nare missing\n\nAt:\n  /twin/pods/u/volumes/folderTCo8Rf/1/model.py(3): initialize\n"
    '"\n'
    "2026-11-21T19:16:37Z E 21481 model_repository_manager.cc:703] \"Invalid argument: ensemble 'pipeline' depends on "
    "'normalize' which has no loaded version.\"\n"
    "error: creating server: Internal - failed to load all models\n"
)
CAUSE = "failed to load 'normalize' version 1: Internal: RuntimeError: the weights are missing (1/model.py(3): initialize)"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "triton.log"


def test_the_models_that_failed_to_load_are_the_cause_and_said_once_however_often_it_was_tried(log: Path) -> None:
    log.write_text(ISO + FAILED + ISO + FAILED.replace("folderTCo8Rf", "folderLJ6p04"))
    assert causes(log) == [CAUSE]


def test_without_a_model_to_blame_every_error_counts_but_those_of_a_machine_without_a_gpu(log: Path) -> None:
    log.write_text(ISO + "error: creating server: Internal - Could not get MetaData for bucket with name models\n")
    assert causes(log) == ["creating server: Internal - Could not get MetaData for bucket with name models"]


def test_the_servers_default_log_format_is_read_too(log: Path) -> None:
    log.write_text(
        "E1121 19:07:02.469033 5643 model_lifecycle.cc:642] \"failed to load 'a' version 2: Not found: no model.py\"\n"
        'I1121 19:07:02.496182 5643 server.cc:345] "Waiting for in-flight requests to complete."\n'
    )
    assert causes(log) == ["failed to load 'a' version 2: Not found: no model.py"]


def test_a_log_without_errors_or_no_log_names_no_cause(log: Path) -> None:
    assert causes(log) == []
    log.write_text(ISO)
    assert causes(log) == []
