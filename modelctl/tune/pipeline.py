"""Tuning of several models that answer a request together: the steps of an ensemble, and models that a model asks.

The load and the SLO are of the whole. The parts are searched one after the other, each while the others have the best that
was found for them, and all once more where anything has changed: a part that was no bottleneck may have become one.
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
    """A model whose values are searched, and how the config of a candidate is made."""

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
    """Return the model, and those that its ensemble or it itself asks, each once, whatever asks before what is asked."""
    found: dict[str, Model] = {}

    def add(one: str) -> None:
        if one not in found:
            found[one] = models[one]
            for asked in (*models[one].steps, *models[one].asks):
                add(asked)

    add(name)
    return list(found.values())


def refuse_parts(asked: Model, parts: Sequence[Model]) -> None:
    """Raise TuneError for a part that is no model of requests by themselves."""
    for part in parts:
        if part is not asked and part.config.HasField("sequence_batching"):
            raise TuneError(f"{asked.name} asks {part.name}, which keeps sequences: a load of {asked.name} begins none")


def ensembles_of(models: Sequence[Model], largest: int) -> Iterator[ModelConfig]:
    """Yield the configs of the ensembles among them, with a batch that each step may have: requests of a load have one."""
    for model in models:
        if backends.is_ensemble(model.config):
            config = ModelConfig()
            config.CopyFrom(model.config)
            config.name = model.name
            config.max_batch_size = min(config.max_batch_size, largest)
            yield config


def batch_limit(ensemble: Model, models: Mapping[str, Model], chosen: Mapping[str, Candidate]) -> int:
    """Return the largest batch that every step of an ensemble takes: of those that were tuned, with their values."""
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
    """Return the values of every part. `search_one` searches a part as the others are served, `use` serves one so."""
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
