"""The models that the gateway routes: their Services, access and mirrors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from infra.serving.model_access import ModelAccess
from spec.names import COMPARER, TRITON_SERVICE
from spec.settings import Settings
from spec.settings.blue_green import helm_release, other_slot
from spec.settings.fleets import Fleet
from spec.settings.gateway import Gateway
from spec.settings.models import Models
from spec.settings.serving import ModelServing


@dataclass(frozen=True)
class RoutedModel:
    """A model of the release.

    `serving` is None if the stack has no entry for it. `decoupled` models may send any number of responses. Without `access`
    all clients may call it. `woken`: a request that finds no pod starts the first one. `least_peak_rate` is the lowest peak
    rate of the models with an entry, in requests per second. `services` are the Services of its fleets, each with its share
    of the requests. `mirror` is the Service for copies (the candidate or the comparer) and the percentage of requests. Envoy
    drops its responses.
    """

    name: str
    serving: ModelServing | None
    least_peak_rate: float | None = None
    decoupled: bool = False
    access: ModelAccess | None = None
    services: tuple[tuple[str, int], ...] = ((TRITON_SERVICE, 1),)
    mirror: tuple[str, int] | None = None
    woken: bool = False

    @property
    def peak_rate(self) -> float | None:
        """Return the model's peak rate, or else the lowest rate of all models.

        A model without a rate may be an ensemble, whose requests reach its steps without their limits.
        """
        return self.least_peak_rate if self.serving is None else self.serving.peak_rate

    @property
    def streams(self) -> bool:
        """Return whether clients use streams for it."""
        return self.decoupled or (self.serving is not None and self.serving.sequence is not None)


def routed(models: Models, gateway: Gateway, fleets: Sequence[Fleet[Settings]] = ()) -> tuple[RoutedModel, ...]:
    """Return every model of the release, in order, with its settings and fleets; none without a release.

    Without `fleets`, requests go to Triton's one Service.
    """
    versions = models.release.models if models.release is not None else {}
    least = min((one.peak_rate for one in models.serving.values()), default=None)
    access = None if gateway.clients is None else ModelAccess(gateway.clients, gateway.jwt)
    return tuple(
        RoutedModel(
            name,
            models.serving.get(name),
            least,
            models.is_decoupled(name),
            None if access is None else access.of_model(name, _served_beside(name, models, fleets)),
            _services(name, fleets) if fleets else ((TRITON_SERVICE, 1),),
            _mirror(name, models),
            any(fleet.stack.woken_at_gateway for fleet in fleets if fleet.serves(name)),
        )
        for name in sorted(versions)
    )


def _mirror(model: str, models: Models) -> tuple[str, int] | None:
    candidate = models.candidate
    if candidate is None or not candidate.mirror_percent or model not in candidate.release.models:
        return None
    if models.keeps_sequences(model):
        return None  # sequences that are open when copies begin would miss their first request
    service = COMPARER if model in candidate.mirror_tolerances else helm_release(other_slot(models.slot))
    return service, candidate.mirror_percent


def _services(model: str, fleets: Sequence[Fleet[Settings]]) -> tuple[tuple[str, int], ...]:
    return tuple((fleet.release, fleet.weight(model)) for fleet in fleets if fleet.serves(model))


def _served_beside(model: str, models: Models, fleets: Sequence[Fleet[Settings]]) -> frozenset[str]:
    """Return all models of the pods that serve a model."""
    sections = [fleet.stack.models for fleet in fleets if fleet.serves(model)] or [models]
    return frozenset(name for one in sections if one.release is not None for name in one.release.models)
