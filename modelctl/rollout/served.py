"""Which version of each model clients and the gateway ask for: the data of the ConfigMap `triton-served-versions`."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

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
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise ValueError(
                f"{SERVED_VERSIONS}: {model}: {text!r} is no served version ({error.errors()[0]['msg']}); "
                'like {"stable": 1}'
            ) from None

    def to_json(self) -> str:
        """Return the value in the ConfigMap."""
        return self.model_dump_json(exclude_none=True)
