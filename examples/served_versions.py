"""Choose a model's version from the ConfigMap `triton-served-versions` (follow_versions.py watches it).

While `modelctl rollout` has two versions loaded, a request without a version gets its pod's highest loaded version
(docs/facts/triton-server.md#versions), so answers would change pod by pod. Clients that name the version in every request
all change at once, when the watch delivers the new value.

Each key of the ConfigMap is a model, each value JSON: {"stable": 1}, and during a canary {"stable": 1, "canary": 2,
"percent": 5}. Without an entry the server chooses, which is correct if it has one version.
"""

from __future__ import annotations

import hashlib
import logging
import random
from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

CONFIG_MAP = "triton-served-versions"
_log = logging.getLogger(__name__)
_ANY_VERSION = ""

Version = Annotated[int, Field(ge=1)]


class Served(BaseModel):
    """The versions of one model for clients; `percent` of the requests go to `canary`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    stable: Version
    canary: Version | None = None
    percent: Annotated[float, Field(ge=0, le=100)] | None = None

    @model_validator(mode="after")
    def _canary_has_a_share(self) -> Self:
        if (self.canary is None) != (self.percent is None):
            raise ValueError("canary and percent come together")
        return self


class ServedVersions:
    """The current mapping. It is replaced, never changed: one thread may update it while others read."""

    def __init__(self, initial: Mapping[str, Served] | None = None, seed: int | None = None) -> None:
        self._served = dict(initial or {})
        self._random = random.Random(seed)  # noqa: S311  (a share of traffic is no secret)

    def update(self, data: Mapping[str, str]) -> None:
        """Replace the mapping with the ConfigMap's data. Log an invalid value and keep that model's versions."""
        served = {}
        for model, text in data.items():
            try:
                served[model] = Served.model_validate_json(text)
            except ValidationError as error:
                _log.warning("%s: %s: %s", CONFIG_MAP, model, error.errors()[0]["msg"])
                if model in self._served:
                    served[model] = self._served[model]
        self._served = served

    def version_of(self, model: str, key: str | None = None) -> str:
        """Return the version for the next request; "" lets the server choose.

        The same `key` (a user, a session) gets the same version while the percentage stays. Once in the canary, it stays
        there when the percentage grows. Without a key, each request is drawn separately.
        """
        served = self._served.get(model)
        if served is None:
            return _ANY_VERSION
        if served.canary is None or served.percent is None:
            return str(served.stable)
        drawn = self._random.random() if key is None else _share(f"{model} {key}")
        return str(served.canary if drawn * 100 < served.percent else served.stable)


def _share(text: str) -> float:
    """Return a number in [0, 1) that depends only on the text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big") / 2**48
