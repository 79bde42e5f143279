"""The answer of `modelctl follow` at /live: what a pod has of `live/` on its disk, which a rollout waits for."""

from __future__ import annotations

import hashlib
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from modelctl import documents
from modelctl.documents import DocumentError
from modelctl.store.manifest import Name, Sha256, Version

PATH = "/live"


class FollowedModel(BaseModel):
    """One model that a server can load: its versions, verified, and the digest of its config.pbtxt."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    versions: tuple[Version, ...]
    config: Sha256


class Followed(BaseModel):
    """Tell what is on the disk, how many bytes have arrived or were hashed since the start, and why no more comes.

    `rollout_started`: when the rollout began of which `live/` told when it was read last; None while there was none.
    A `problem` is of that one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    models: dict[Name, FollowedModel] = Field(default_factory=dict)
    done_bytes: Annotated[int, Field(ge=0)] = 0
    problem: str | None = None
    rollout_started: AwareDatetime | None = None

    @classmethod
    def parse(cls, content: bytes) -> Followed:
        """Read an answer. Raises ValueError, in one sentence."""
        try:
            return documents.read(cls, content)
        except DocumentError as error:
            raise ValueError(str(error)) from None


def digest(config: str) -> str:
    """Return the digest of a config.pbtxt."""
    return hashlib.sha256(config.encode()).hexdigest()
