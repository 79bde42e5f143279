"""The domain name of the gateway: `gateway.domain`."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

from pydantic import Field

from spec.problem import Problem
from spec.settings.addresses import is_host
from spec.settings.kind import Kind, matching, refuse, text_of
from spec.settings.rule import Place, rule
from spec.settings.section import Section

_LONGEST_NAME = 64
"""ACM's limit for the first name of a certificate:
https://docs.aws.amazon.com/acm/latest/APIReference/API_RequestCertificate.html
"""
_AMAZONS = ("amazonaws.com", "amazonaws.com.cn", "cloudfront.net", "elasticbeanstalk.com")
"""https://docs.aws.amazon.com/acm/latest/userguide/acm-certificate-characteristics.html"""
_OF_NOBODY = (
    *("local", "localhost", "internal", "invalid", "test", "example", "onion", "alt", "home.arpa"),
    *("lan", "corp", "home", "intranet", "private"),
)
"""Names reserved for other uses (https://www.iana.org/assignments/special-use-domain-names), and names that private networks
use without registration. No public authority certifies a name below them.
"""


def uncertified_ending(name: str) -> str | None:
    """Return the ending for which ACM issues no certificate; None if the name has no such ending."""
    return next((ending for ending in (*_AMAZONS, *_OF_NOBODY) if f".{name}".endswith(f".{ending}")), None)


def _domain(value: Any) -> str:
    valid = "give one like inference.example.com"
    text = text_of(value, valid)
    if text.startswith("*."):
        refuse(f"'{text}' is for many names, and clients ask one; {valid}")
    if not is_host(text) or "." not in text or text.rpartition(".")[2].isdigit() or text != text.lower():
        refuse(f"'{text}' is not a domain name in lower case; {valid}")
    return text


_ZoneId = Annotated[
    str,
    matching(
        r"[A-Z0-9]{1,32}",
        "is not the id of a hosted zone",
        "`aws route53 list-hosted-zones-by-name` prints one like Z0123456789ABCDEFGHIJ",
    ),
]


class Domain(Section):
    """A name in a Route 53 hosted zone. It points to the load balancer, and ACM issues a certificate for it."""

    guide: ClassVar[str] = "docs/access.md#a-name-and-its-certificate"

    name: Annotated[
        str,
        Kind(
            _domain,
            "a domain name in lower case, like inference.example.com",
            {"type": "string", "pattern": r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+$"},
        ),
    ] = Field(description="the name, like inference.example.com")
    hosted_zone_id: _ZoneId = Field(
        description="the hosted zone of Route 53 in the stack's account that the name is in, public or private"
    )
    public_zone_id: _ZoneId | None = Field(
        default=None,
        description="the public hosted zone for the name, where hostedZoneId is private: ACM asks DNS from outside for the "
        "record by which it gives a certificate; without it: hostedZoneId",
    )

    @property
    def proof_zone_id(self) -> str:
        """Return the zone for the DNS record by which ACM validates the certificate."""
        return self.public_zone_id or self.hosted_zone_id

    @rule
    def _zones_are_two(self, at: Place) -> Iterator[Problem]:
        """Require two different zones if publicZoneId is set."""
        if self.public_zone_id == self.hosted_zone_id:
            yield at.problem("publicZoneId", "is hostedZoneId; remove it, or give the public zone beside a private one")

    @rule
    def _a_certificate_can_have_it(self, at: Place) -> Iterator[Problem]:
        """Require a name of at most 64 characters, ACM's limit."""
        if len(self.name) > _LONGEST_NAME:
            yield at.problem("name", f"has {len(self.name)} characters, and ACM takes {_LONGEST_NAME}; give a shorter one")
