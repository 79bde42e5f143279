"""Clients that may send requests through the gateway: `gateway.clients` and `gateway.jwt`."""

from collections.abc import Iterator
from typing import Annotated, ClassVar

from pydantic import Field

from spec.problem import Problem
from spec.settings.addresses import WebAddress
from spec.settings.fields import ModelName
from spec.settings.kind import Kind, between, key_matching, matching, refuse
from spec.settings.rule import Place, rule
from spec.settings.section import Section

MOST_RATES = 15
"""The most clients that may have a rate. Envoy Gateway allows 16 rules for a route, and one of them is the model's own."""

CLIENT_NAME = r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?"
ClientName = Annotated[
    str,
    key_matching(
        CLIENT_NAME,
        "is not the name of a client",
        "use up to 40 lower-case letters, digits and hyphens, a letter first",
    ),
]
_Claim = Annotated[
    str,
    matching(
        r"[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64}){0,4}",
        "is not the name of a claim",
        "give one like client_id; a dot leads into a claim that is an object",
    ),
]
_ClaimValue = Annotated[
    str, matching(r"[!-~]{1,256}", "cannot be told from others by Envoy", "give 1 to 256 ASCII characters without spaces")
]
_Audience = Annotated[
    str, matching(r"[!-~]{1,253}", "is not an audience", "give 1 to 253 ASCII characters without spaces", quote=True)
]


class Client(Section):
    """One client of the gateway."""

    guide: ClassVar[str] = "docs/access.md"

    models: tuple[ModelName, ...] | None = Field(
        default=None,
        description="the models that it may ask; over gRPC, of a stack or fleet that serves no others; without "
        "it: all models, those of later releases too",
    )
    requests_per_second: Annotated[int, between(1, 1_000_000, "requests per second")] | None = Field(
        default=None,
        description="how many of its requests for a model each Envoy lets through in a second, over HTTP and over gRPC by "
        "itself; the output clientRates says how many all Envoys let through together; without it: it shares what the "
        "gateway lets through for the model",
    )
    claim: _ClaimValue | None = Field(
        default=None, description="with gateway.jwt, the value of jwt.clientClaim that is this client; without it: its name"
    )

    @property
    def restricted(self) -> bool:
        """Return whether the client is limited to some models or has its own request rate."""
        return self.models is not None or self.requests_per_second is not None

    @rule
    def _models_are_a_choice(self, at: Place) -> Iterator[Problem]:
        """Require at least one model, each once."""
        if self.models is None:
            return
        if not self.models:
            yield at.problem("models", "is empty, so that it may ask nothing; list its models, or remove the key for all")
        for index, model in enumerate(self.models):
            if model in self.models[:index]:
                yield at.problem(f"models[{index}]", f"{model} is listed twice; list each model once")


def _some(clients: dict[str, Client]) -> dict[str, Client]:
    if not clients:
        refuse("is empty, so that nobody may ask; give one or more, or remove the key")
    return clients


Clients = Annotated[dict[ClientName, Client], Kind(_some, "one client or more, by name", {"minProperties": 1}, alone=False)]


class Jwt(Section):
    """Tokens of an identity provider. They identify the gateway's clients instead of keys."""

    guide: ClassVar[str] = "docs/access.md"

    issuer: WebAddress = Field(description="the claim iss of its tokens, to the letter, like https://login.example.com/")
    jwks_uri: WebAddress = Field(
        description="where its public keys are, which each Envoy fetches, like https://login.example.com/keys.json"
    )
    audiences: tuple[_Audience, ...] = Field(description="of the claim aud a token has to have one of these")
    client_claim: _Claim = Field(default="sub", description="the claim that says which client it is, like client_id")

    @rule
    def _tokens_are_for_this_gateway(self, at: Place) -> Iterator[Problem]:
        """Require 1 to 8 audiences, each once. Without an audience, tokens for any other service would be valid here."""
        if not 1 <= len(self.audiences) <= 8:
            yield at.problem(
                "audiences",
                f"has {len(self.audiences)}; list 1 to 8: without one, the provider's tokens for other services would do",
            )
        for index, audience in enumerate(self.audiences):
            if audience in self.audiences[:index]:
                yield at.problem(f"audiences[{index}]", f"{audience} is listed twice; list each once")

    @rule
    def _envoy_takes_the_addresses(self, at: Place) -> Iterator[Problem]:
        """Require addresses without a fragment and of at most 253 characters, the limit of Envoy Gateway's definitions."""
        for key, address in (("issuer", self.issuer), ("jwksUri", self.jwks_uri)):
            if len(address) > 253:
                yield at.problem(key, f"has {len(address)} characters, and Envoy Gateway takes 253; use a shorter address")
            if "#" in address:
                yield at.problem(key, "has a fragment (#), which no server is asked for and no issuer has; remove it")
