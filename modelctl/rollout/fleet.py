"""The pods that serve, and the versions that clients ask them for: what a rollout needs of wherever Triton runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from console.port_forward import PortForwards
from modelctl import documents
from modelctl.documents import DocumentError
from spec.failure import NOT_TRIED, Failure
from spec.names import SERVED_VERSIONS


class ServedVersion(BaseModel):
    """`percent` of a model's requests go to version `canary`, the others to `stable`; without a canary all go there."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    stable: Annotated[int, Field(ge=1)]
    canary: Annotated[int, Field(ge=1)] | None = None
    percent: Annotated[int, Field(ge=1, le=99)] | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.canary is None) != (self.percent is None):
            raise ValueError("canary and percent belong together")
        return self

    @classmethod
    def parse(cls, model: str, text: str) -> ServedVersion:
        """Read one value of the ConfigMap. Raises ValueError, in one sentence."""
        try:
            return documents.read(cls, text.encode(errors="surrogatepass"))
        except DocumentError as error:
            raise ValueError(
                f'{SERVED_VERSIONS}: {model}: {text!r} is no served version ({error}); like {{"stable": 1}}'
            ) from None

    def to_json(self) -> str:
        """Return the value in the ConfigMap."""
        return self.model_dump_json(exclude_none=True)


class FleetError(Failure):
    """The pods or the served versions cannot be read or changed; the text is one sentence."""

    exit_code = NOT_TRIED


class FleetAbsent(FleetError):
    """There is no place for the served versions yet: Triton has not been installed there."""


@dataclass(frozen=True)
class Pod:
    """One Triton. `http` and `metrics` are base URLs; `uid` changes when it is replaced; `admin_key` reads
    the key of its load API.

    `fleet` and `models` are its fleet's, where a stack has several; without: it serves every model of the release.
    `follower`: base URL of what brings `live/` to the pod's disk (`modelctl follow`); None: the server reads S3 itself.
    `forwards` lead to these URLs, whose host is then the pod's name; None: their addresses are reached from here.
    """

    name: str
    uid: str
    http: str
    metrics: str
    admin_key: Callable[[], str] = field(compare=False, repr=False)
    fleet: str = ""
    models: frozenset[str] | None = None
    follower: str | None = None
    forwards: PortForwards | None = field(default=None, compare=False, repr=False)

    def serves(self, model: str) -> bool:
        """Return whether the model is one of its fleet's."""
        return self.models is None or model in self.models


class Fleet(Protocol):
    """All pods of one Triton. Every method raises FleetError."""

    def pods(self) -> list[Pod]:
        """Return every pod that has an address and is not on its way out, ready or not, by name."""

    def release(self, pod: Pod) -> str | None:
        """Return the id of the release that it was started with; None where rollouts change it in place, or it is gone."""

    def restart(self, pod: Pod) -> None:
        """End this pod, draining it; whatever looks after pods puts another in its place. Returns when it is gone."""

    def served(self) -> dict[str, ServedVersion]:
        """Return what clients are told to ask for; empty before the first rollout."""

    def serve(self, versions: Mapping[str, ServedVersion | None]) -> None:
        """Tell clients of all these models at once (None: of no version any more); other models stay as they are.

        Raises FleetAbsent too.
        """
