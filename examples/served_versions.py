"""Which version of a model to ask for: what the ConfigMap `triton-served-versions` says (follow_versions.py watches it).

While `modelctl rollout` has two versions of a model loaded, a request without a version gets the highest one that its
pod happens to have (docs/facts/triton-server.md#versions): answers would change pod by pod. A client that names the
version in every request changes all at once, as soon as the watch delivers the new value.

Each key of the ConfigMap is a model, each value JSON: {"stable": 1}, and during a canary
{"stable": 1, "canary": 2, "percent": 5}. Without an entry the server chooses, which is right when it has one version.
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
    """The versions of one model that clients ask for; `percent` of the requests go to `canary`."""

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
        """Takes over the ConfigMap's data. A value that cannot be read leaves that model as it was, and is logged."""
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
        """Return the version to name in the next request; "" leaves it to the server.

        With a `key` (a user, a session) the same key gets the same version as long as the percentage stays, and once in
        the canary it stays in it when the percentage grows. Without one each request is drawn by itself.
        """
        served = self._served.get(model)
        if served is None:
            return _ANY_VERSION
        if served.canary is None or served.percent is None:
            return str(served.stable)
        drawn = self._random.random() if key is None else _share(f"{model} {key}")
        return str(served.canary if drawn * 100 < served.percent else served.stable)


def _share(text: str) -> float:
    """Return a number in [0, 1) that is always the same for the same text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big") / 2**48
