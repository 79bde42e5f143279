"""The gateway's domain: a certificate for it, and its DNS record for the load balancer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_aws as aws

from infra.aws.stack import Stack
from spec.names import GATEWAY, GATEWAY_NAMESPACE
from spec.settings.domain import Domain

_VALIDATION_TTL_SECONDS = 300


class DomainCertificate(pulumi.ComponentResource):
    """An issued ACM certificate for a domain, validated by a record in a public hosted zone.

    The record stays, because ACM checks it at every renewal. `arn` is known when the certificate has been issued, because a
    load balancer accepts no other.
    https://docs.aws.amazon.com/acm/latest/userguide/dns-validation.html
    """

    arn: pulumi.Output[str]

    def __init__(self, name: str, stack: Stack, domain: Domain, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("triton:domain:DomainCertificate", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        certificate = aws.acm.Certificate(
            f"{name}-request",
            domain_name=domain.name,
            validation_method="DNS",
            tags=stack.named(name),
            opts=child,
        )
        proof = certificate.domain_validation_options[0]
        record = aws.route53.Record(
            f"{name}-proof",
            zone_id=domain.proof_zone_id,
            name=proof.resource_record_name,
            type=proof.resource_record_type,
            records=[proof.resource_record_value],
            ttl=_VALIDATION_TTL_SECONDS,
            opts=child,
        )
        issued = aws.acm.CertificateValidation(
            f"{name}-issued", certificate_arn=certificate.arn, validation_record_fqdns=[record.fqdn], opts=child
        )
        self.arn = issued.certificate_arn
        self.register_outputs({"arn": self.arn})


def lead_to_load_balancer(
    name: str, domain: Domain, gateway_status: pulumi.Output[Mapping[str, Any] | None], opts: pulumi.ResourceOptions
) -> None:
    """Register the domain's record, an alias of the network load balancer in a Gateway's status.

    Queries of an alias are free, and an alias may have the name of the zone itself.
    """
    zone = aws.lb.get_hosted_zone_id_output(load_balancer_type="network", opts=pulumi.InvokeOptions(parent=opts.parent))
    target = aws.route53.RecordAliasArgs(name=gateway_status.apply(address), zone_id=zone.id, evaluate_target_health=False)
    aws.route53.Record(name, zone_id=domain.hosted_zone_id, name=domain.name, type="A", aliases=[target], opts=opts)


def address(gateway_status: Mapping[str, Any] | None) -> str:
    """Return the load balancer's host name. Raises ValueError if the status has none."""
    for found in (gateway_status or {}).get("addresses") or ():
        return str(found["value"])
    raise ValueError(
        "the Gateway has no address, so that the domain cannot lead to it; "
        f"`kubectl --namespace {GATEWAY_NAMESPACE} describe gateway {GATEWAY}` says what it waits for"
    )
