"""The interface between a rollout and Triton's environment: the serving pods, and the versions that clients request."""

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
    """The versions of a model that clients request.

    `percent` of the requests go to version `canary`, the others to `stable`; without a canary, all go to `stable`.
    """

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
        """Return the value for the ConfigMap."""
        return self.model_dump_json(exclude_none=True)


class FleetError(Failure):
    """The pods or the served versions cannot be read or changed. The text is one sentence."""

    exit_code = NOT_TRIED


class FleetAbsent(FleetError):
    """The served versions cannot be written, because Triton is not installed yet."""


@dataclass(frozen=True)
class Pod:
    """One Triton pod.

    `http` and `metrics` are base URLs. `uid` changes when the pod is replaced. `admin_key` reads the key of its load API.
    `fleet` and `models` are set if a stack has several fleets; without them, the pod serves every model of the release.
    `follower` is the base URL of the process that fetches `live/` to the pod's disk (`modelctl follow`); None if the server
    reads S3 itself. `forwards` are port forwards to these URLs, whose host is then the pod's name; None if the addresses are
    reachable from here.
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
        """Return whether the model belongs to the pod's fleet."""
        return self.models is None or model in self.models


class Fleet(Protocol):
    """All pods of one Triton. Every method raises FleetError."""

    def pods(self) -> list[Pod]:
        """Return every pod that has an address and is not terminating, ready or not, sorted by name."""

    def release(self, pod: Pod) -> str | None:
        """Return the id of the release with which the pod was started.

        None if rollouts change the pod in place, or if it is gone.
        """

    def restart(self, pod: Pod) -> None:
        """Drain and delete this pod, and return when it is gone; its controller replaces it."""

    def served(self) -> dict[str, ServedVersion]:
        """Return the versions that clients are told to request; empty before the first rollout."""

    def serve(self, versions: Mapping[str, ServedVersion | None]) -> None:
        """Publish the versions of all these models at once (None: remove the model's entry). Other models stay unchanged.

        Raises FleetAbsent too.
        """
