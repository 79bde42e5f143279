"""The parts of a pipeline are searched in turn, and once more after any change."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import cast

from modelctl.repository.load import load
from modelctl.repository.model import Model
from modelctl.tune.candidate import Candidate, Space, configured
from modelctl.tune.pipeline import Found, Part, batch_limit, ensembles_of, models_of, search
from modelctl.tune.study import Search, Winner

SLOW, FAST = Candidate(1, 0, 1), Candidate(8, 0, 2)


def _models(models: Path) -> dict[str, Model]:
    return {model.name: model for model in load(models)}


def _parts(models: Path) -> list[Part]:
    return [
        Part(model, partial(configured, model.config), Space.of(model.config, 2))
        for name, model in _models(models).items()
        if name != "pipeline"
    ]


class _Played:
    """Searches with given winners; records the served models."""

    def __init__(self, winners: Sequence[Candidate]) -> None:
        self._winners = iter(winners)
        self.searched: list[str] = []
        self.used: list[tuple[str, Candidate]] = []
        self.found: list[Found] = []

    def one(self, part: Part) -> tuple[Search, Winner]:
        self.searched.append(part.model.name)
        return cast("Search", None), Winner(next(self._winners), 100.0, 0.06)

    def run(self, parts: Sequence[Part]) -> dict[str, Candidate]:
        return search(
            parts,
            self.one,
            lambda part, candidate: self.used.append((part.model.name, candidate)),
            self.found.append,
        )


def test_an_ensemble_has_its_steps_and_a_model_those_that_it_asks(models: Path) -> None:
    assert [model.name for model in models_of(_models(models), "pipeline")] == ["pipeline", "normalize", "classify"]
    config = models / "normalize" / "config.pbtxt"
    config.write_text(config.read_text() + 'parameters { key: "asks" value: { string_value: "classify" } }\n')
    assert [model.name for model in models_of(_models(models), "normalize")] == ["normalize", "classify"]
    assert [model.name for model in models_of(_models(models), "classify")] == ["classify"]


def test_each_part_is_searched_while_the_others_have_their_best(models: Path) -> None:
    played = _Played([FAST, FAST, FAST, FAST])

    assert played.run(_parts(models)) == {"classify": FAST, "normalize": FAST}

    assert played.searched == ["classify", "normalize", "classify", "normalize"]
    assert played.used == [(name, FAST) for name in played.searched]
    assert [found.beside for found in played.found] == [
        {"normalize": SLOW},
        {"classify": FAST},
        {"normalize": FAST},
        {"classify": FAST},
    ]


def test_where_nothing_changes_all_is_searched_once(models: Path) -> None:
    played = _Played([SLOW, SLOW])
    assert played.run(_parts(models)) == {"classify": SLOW, "normalize": SLOW}
    assert played.searched == ["classify", "normalize"]


def test_a_model_by_itself_is_searched_once(models: Path) -> None:
    played = _Played([FAST])
    assert played.run(_parts(models)[:1]) == {"classify": FAST}


def test_an_ensemble_takes_no_larger_batch_than_its_steps(models: Path) -> None:
    loaded = _models(models)
    (config,) = ensembles_of([*loaded.values()], 1)
    assert (config.name, config.max_batch_size, loaded["pipeline"].config.max_batch_size) == ("pipeline", 1, 8)
    assert batch_limit(loaded["pipeline"], loaded, {"classify": Candidate(4, 0, 1)}) == 4
    assert batch_limit(loaded["pipeline"], loaded, {}) == 8
