"""Ingress from clients to Triton, Envoy Gateway behind a network load balancer: `triton-eks:gateway`."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from spec.charts import AWS_LOAD_BALANCER_CONTROLLER, ENVOY_GATEWAY, EXTERNAL_SECRETS_OPERATOR, ChartPin
from spec.problem import Problem
from spec.settings.addresses import Cidr, in_no_network, never_on_the_internet
from spec.settings.clients import MOST_RATES, Clients, Jwt
from spec.settings.domain import Domain, uncertified_ending
from spec.settings.fields import CertificateArn, Cpu, KubernetesName
from spec.settings.images import wrong_with_registry
from spec.settings.kind import between, matching
from spec.settings.rule import Place, rule
from spec.settings.section import Section

_UNENCRYPTED = ("local", "dev")
_WIDEST_PREFIX = 8
TARGET_LEAVES_SECONDS = 60
"""How long a load balancer may still send new connections to a target after its removal."""
LONGEST_DEREGISTRATION_SECONDS = 3600
"""The maximum of a target group's `deregistration_delay.timeout_seconds`
(https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_TargetGroupAttribute.html).
"""


class Gateway(Section):
    """Envoy and its load balancer."""

    guide: ClassVar[str] = "docs/traffic.md"

    exposure: Literal["internal", "public"] = Field(
        default="internal",
        description="internal is reached from the VPC and from allowedCidrs, public from allowedCidrs alone",
    )
    allowed_cidrs: tuple[Cidr, ...] = Field(
        default=(), description="the ranges that reach it from outside of the VPC; required with exposure: public"
    )
    certificate_arn: CertificateArn | None = Field(
        default=None,
        description="the certificate of ACM with which TLS ends at the load balancer; without it: one for the domain, "
        "tlsSecret, or, in local and dev, no TLS",
    )
    tls_secret: KubernetesName | None = Field(
        default=None,
        description="the Secret in Envoy's namespace with which TLS ends in Envoy; without it: certificateArn",
    )
    domain: Domain | None = Field(
        default=None,
        description="the name by which clients find it, with its certificate; without it: the load balancer's own name, "
        "which no certificate has",
    )
    replicas: Annotated[int, between(1, 100, "pods")] = Field(description="the number of Envoy's pods, like 2")
    cpu: Cpu = Field(description='vCPUs of a pod of Envoy in quotes, like "1"')
    memory_mib: Annotated[int, between(128, 65_536, "MiB")] = Field(description="memory of such a pod in MiB, like 512")
    image_registry: (
        Annotated[
            str,
            matching(
                r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*",
                "is not a registry with lower-case names, without a scheme and without a slash at its end",
                "give one like 123456789012.dkr.ecr.us-west-2.amazonaws.com/docker-hub",
            ),
        ]
        | None
    ) = Field(
        default=None,
        description="the registry, with a path, that Envoy's images come from instead of Docker Hub, such as a pull-through "
        "cache of ECR; below it they are called as upstream calls them",
    )
    clients: Clients | None = Field(
        default=None,
        description="by name, who may ask, by an API key, or with jwt by a token; without it: whoever reaches the load "
        "balancer may",
    )
    jwt: Jwt | None = Field(
        default=None,
        description="the identity provider whose tokens say which client asks; without it: an API key of "
        "`stackctl keys` does",
    )

    @property
    def encrypted(self) -> bool:
        """Return whether clients use TLS."""
        return self.domain is not None or self.certificate_arn is not None or self.tls_secret is not None

    @property
    def has_keys(self) -> bool:
        """Return whether clients authenticate with API keys."""
        return self.clients is not None and self.jwt is None

    @property
    def installs(self) -> tuple[ChartPin, ...]:
        """Return the charts of the load balancer and of Envoy. With API keys, add the External Secrets Operator."""
        charts = (AWS_LOAD_BALANCER_CONTROLLER, ENVOY_GATEWAY)
        return (*charts, EXTERNAL_SECRETS_OPERATOR) if self.has_keys else charts

    @property
    def certifies_its_domain(self) -> bool:
        """Return whether the stack requests an ACM certificate for the domain, because it has no other certificate."""
        return self.domain is not None and self.certificate_arn is None and self.tls_secret is None

    @rule
    def _public_is_for_somebody(self, at: Place) -> Iterator[Problem]:
        """Require each range once and /8 or narrower. A public gateway needs ranges, and only ranges with public addresses.

        Triton itself has no authentication.
        """
        if self.exposure == "public" and not self.allowed_cidrs:
            yield at.problem(
                "allowedCidrs",
                "a public gateway without a list is open to the world, and Triton asks nobody who they are; "
                "list the ranges that may reach it",
            )
        for index, cidr in enumerate(self.allowed_cidrs):
            private = never_on_the_internet(cidr)
            if cidr in self.allowed_cidrs[:index]:
                yield at.problem(f"allowedCidrs[{index}]", f"{cidr} is listed twice; list each range once")
            elif self.exposure == "public" and private is not None:
                yield at.problem(
                    f"allowedCidrs[{index}]",
                    f"{cidr} is inside {private}, from which nothing comes over the internet; give public addresses, or use "
                    "exposure: internal",
                )
            elif in_no_network(cidr) is not None:
                yield at.problem(
                    f"allowedCidrs[{index}]",
                    f"{cidr} is inside {in_no_network(cidr)}, from which no other machine calls; give the ranges of clients",
                )
            elif cidr.prefixlen < _WIDEST_PREFIX:
                yield at.problem(
                    f"allowedCidrs[{index}]",
                    f"{cidr} is the world, and Triton asks nobody who they are; "
                    f"list ranges of /{_WIDEST_PREFIX} or narrower",
                )

    @rule
    def _registry_is_an_address(self, at: Place) -> Iterator[Problem]:
        """Require a registry with a valid host name. Its port, if any, has to be 1 to 65535."""
        wrong = None if self.image_registry is None else wrong_with_registry(self.image_registry)
        if wrong is not None:
            yield at.problem("imageRegistry", wrong)

    @rule
    def _the_domain_can_be_certified(self, at: Place) -> Iterator[Problem]:
        """Refuse a domain for which ACM issues no certificate, if the stack would request one."""
        name = self.domain.name if self.domain is not None and self.certifies_its_domain else ""
        ending = uncertified_ending(name)
        if ending is not None:
            yield at.problem(
                "domain.name",
                f"'{name}' ends in .{ending}, for which ACM gives nobody a certificate; give a name below a "
                "domain of yours, or a certificateArn of a private certificate",
            )

    @rule
    def _tls_ends_in_one_place(self, at: Place) -> Iterator[Problem]:
        """Require TLS at the load balancer or in Envoy, not in both. An internal gateway in local or dev may have no TLS."""
        if self.certificate_arn is not None and self.tls_secret is not None:
            yield at.problem(
                "tlsSecret",
                "TLS ends at the load balancer (certificateArn) or in Envoy (tlsSecret), not in both; remove one",
            )
        if not self.encrypted and (at.environment not in _UNENCRYPTED or self.exposure == "public"):
            yield at.problem(
                "certificateArn",
                "is missing; give the ARN of a certificate of ACM, a domain that gets one, or the Secret that Envoy takes "
                "its own from (tlsSecret)",
            )

    @rule
    def _proof_is_for_a_certificate(self, at: Place) -> Iterator[Problem]:
        """Refuse domain.publicZoneId if the stack requests no ACM certificate."""
        if self.domain is not None and self.domain.public_zone_id is not None and not self.certifies_its_domain:
            given = "certificateArn" if self.certificate_arn is not None else "tlsSecret"
            yield at.problem(
                "domain.publicZoneId", f"is for ACM's certificate, and with {given} none is asked for; remove one of the two"
            )

    @rule
    def _survives_a_pod(self, at: Place) -> Iterator[Problem]:
        """Require at least two Envoy pods in prod."""
        if at.environment == "prod" and self.replicas < 2:
            yield at.problem("replicas", "prod invariant 'two gateways': 1 pod is an outage at every restart; use 2 or more")

    @rule
    def _clients_are_known_by_one_thing(self, at: Place) -> Iterator[Problem]:
        """Require clients with jwt, claims only with jwt, and each value of the claim once."""
        if self.clients is None:
            if self.jwt is not None:
                yield at.problem("jwt", "says by what clients are known, and there are none; give clients")
            return
        named: dict[str, str] = {}
        for name, client in self.clients.items():
            if client.claim is not None and self.jwt is None:
                yield at.problem(f"clients.{name}.claim", "is of tokens, and there is no jwt; remove it, or give jwt")
            claim = client.claim or name
            if self.jwt is not None and claim in named:
                yield at.problem(
                    f"clients.{name}", f"a token with {claim} is the client {named[claim]} already; give another claim"
                )
            named.setdefault(claim, name)

    @rule
    def _rates_fit(self, at: Place) -> Iterator[Problem]:
        """Require rates of at most 15 clients: Envoy Gateway allows no more rules for a route."""
        rated = [name for name, client in (self.clients or {}).items() if client.requests_per_second is not None]
        if len(rated) > MOST_RATES:
            yield at.problem(
                "clients",
                f"{len(rated)} of them have requestsPerSecond, and Envoy Gateway takes {MOST_RATES} for a model; remove it "
                "from those that may share the model's own rate",
            )

    @rule
    def _secrets_are_encrypted(self, at: Place) -> Iterator[Problem]:
        """Require TLS if clients send keys or tokens, except on the twin."""
        if self.clients is not None and not self.encrypted and at.environment != "local":
            yield at.problem(
                "clients",
                "send keys or tokens, and without TLS whoever is on the way reads them; give domain or certificateArn",
            )
