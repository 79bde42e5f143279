"""The response of `modelctl follow` at /live. It describes the part of `live/` on a pod's disk, for which a rollout
waits."""

from __future__ import annotations

import hashlib
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from modelctl import documents
from modelctl.documents import DocumentError
from modelctl.store.manifest import Name, Sha256, Version

PATH = "/live"


class FollowedModel(BaseModel):
    """One model that a server can load: its verified versions, and the digest of its config.pbtxt."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    versions: tuple[Version, ...]
    config: Sha256


class Followed(BaseModel):
    """The models on a pod's disk, the bytes received or hashed since the start, and why fetching stopped.

    `rollout_started`: the start of the rollout in `live/` at the last read; None if there was none. `problem` belongs to
    that rollout.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    models: dict[Name, FollowedModel] = Field(default_factory=dict)
    done_bytes: Annotated[int, Field(ge=0)] = 0
    problem: str | None = None
    rollout_started: AwareDatetime | None = None

    @classmethod
    def parse(cls, content: bytes) -> Followed:
        """Read a response. Raises ValueError, in one sentence."""
        try:
            return documents.read(cls, content)
        except DocumentError as error:
            raise ValueError(str(error)) from None


def digest(config: str) -> str:
    """Return the digest of a config.pbtxt."""
    return hashlib.sha256(config.encode()).hexdigest()
