"""Tune several models that answer a request together, as in ensembles or with models that a model calls.

The load and the SLO apply to the whole pipeline. The parts are searched one after the other, each while the others have
their best values so far. If any value changed, all parts are searched again, because a part that was no bottleneck may have
become one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tritonclient.grpc.model_config_pb2 import ModelConfig

from modelctl.repository import backends
from modelctl.repository.model import Model
from modelctl.tune.candidate import Candidate, Space
from modelctl.tune.errors import TuneError
from modelctl.tune.study import Search, Winner

MOST_ROUNDS = 2


@dataclass(frozen=True)
class Part:
    """A model whose values are searched, and the function that makes a candidate's config."""

    model: Model
    configured: Callable[[Candidate], ModelConfig]
    space: Space


@dataclass(frozen=True)
class Found:
    """The last search of a part, while the others had the values `beside`."""

    part: Part
    search: Search
    winner: Winner
    beside: Mapping[str, Candidate]


def models_of(models: Mapping[str, Model], name: str) -> list[Model]:
    """Return the model and the models that it or its ensemble calls, each once, callers first."""
    found: dict[str, Model] = {}

    def add(one: str) -> None:
        if one not in found:
            found[one] = models[one]
            for asked in (*models[one].steps, *models[one].asks):
                add(asked)

    add(name)
    return list(found.values())


def refuse_parts(asked: Model, parts: Sequence[Model]) -> None:
    """Raise TuneError for a called part that keeps sequences."""
    for part in parts:
        if part is not asked and part.config.HasField("sequence_batching"):
            raise TuneError(f"{asked.name} asks {part.name}, which keeps sequences: a load of {asked.name} begins none")


def ensembles_of(models: Sequence[Model], largest: int) -> Iterator[ModelConfig]:
    """Yield the configs of the ensembles among the models, with a batch size that each step supports.

    Each request of a load has a batch of one.
    """
    for model in models:
        if backends.is_ensemble(model.config):
            config = ModelConfig()
            config.CopyFrom(model.config)
            config.name = model.name
            config.max_batch_size = min(config.max_batch_size, largest)
            yield config


def batch_limit(ensemble: Model, models: Mapping[str, Model], chosen: Mapping[str, Candidate]) -> int:
    """Return the largest batch that every step of an ensemble supports, by its chosen values or its config."""
    limits = [
        chosen[step].max_batch_size if step in chosen else models[step].config.max_batch_size for step in ensemble.steps
    ]
    return min([ensemble.config.max_batch_size, *limits])


def search(
    parts: Sequence[Part],
    search_one: Callable[[Part], tuple[Search, Winner]],
    use: Callable[[Part, Candidate], None],
    found: Callable[[Found], None],
) -> dict[str, Candidate]:
    """Search all parts and return their values.

    `search_one` searches one part while the others are served as they are; `use` serves a part with a candidate.
    """
    chosen = {part.model.name: part.space.first for part in parts}
    for _ in range(MOST_ROUNDS):
        before = dict(chosen)
        for part in parts:
            name = part.model.name
            searched, winner = search_one(part)
            use(part, winner.candidate)
            chosen[name] = winner.candidate
            found(Found(part, searched, winner, {other: chosen[other] for other in chosen if other != name}))
        if chosen == before or len(parts) == 1:
            break
    return chosen
