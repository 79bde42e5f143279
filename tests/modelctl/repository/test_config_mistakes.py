"""Every mistake in a config is reported with its place, and no other mistake with it."""

from pathlib import Path

import pytest

from modelctl.repository.load import validate
from tests.modelctl.repository import mistakes_of_ensembles, mistakes_of_scheduling, mistakes_of_text_and_tensors
from tests.modelctl.repository.mistake import Mistake

MISTAKES = [
    *mistakes_of_text_and_tensors.MISTAKES,
    *mistakes_of_scheduling.MISTAKES,
    *mistakes_of_ensembles.MISTAKES,
]


def _messages(models: Path) -> list[str]:
    return [str(problem).removeprefix(f"{models}/") for problem in validate(models)]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name.replace(" ", "-"))
def test_a_mistake_is_reported_exactly(models: Path, mistake: Mistake) -> None:
    config = models / mistake.file
    text = config.read_text()
    assert mistake.old in text
    config.write_text(text.replace(mistake.old, mistake.new, 1))

    assert _messages(models) == mistake.problems


def test_mistakes_of_several_models_are_reported_in_one_run(models: Path) -> None:
    for file in ("normalize", "classify"):
        config = models / file / "config.pbtxt"
        config.write_text(config.read_text().replace("count: 1 }", "count: -1 }"))
    (models / "pipeline" / "config.pbtxt").write_text("platform: 3\n")

    assert _messages(models) == [
        "classify/config.pbtxt: instance_group[0].count: -1 is no number of instances; write at least 1, "
        "or give classify an entry in models.serving of each stack",
        "normalize/config.pbtxt: instance_group[0].count: -1 is no number of instances; write at least 1, "
        "or give normalize an entry in models.serving of each stack",
        "pipeline/config.pbtxt:1:11: not valid protobuf text: Expected string but found: '3'",
    ]
