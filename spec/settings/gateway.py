"""The way from clients to Triton, Envoy Gateway behind a network load balancer: `triton-eks:gateway`."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from spec.settings.fields import CertificateArn, Cidr, Cpu, KubernetesName, ModelName, between
from spec.settings.section import Section


class Canary(Section):
    """A part of one model's requests that goes either to a version of it in the same pods, or to another service."""

    percent: Annotated[int, between(1, 99, "percent")] = Field(description="the percentage of requests, 1 to 99")
    version: Annotated[int, between(1, 999_999_999, "for a version")] | None = Field(
        default=None,
        description="the version of the model that they go to; for HTTP only (gRPC has it in the message, which no proxy "
        "reads), with in-place rollouts, or where the release serves that version too; without it: service",
    )
    service: KubernetesName | None = Field(
        default=None,
        description="a Service with Triton's ports in Triton's namespace that they go to, such as that of a second "
        "installation of the chart; without it: version",
    )


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
        description="the certificate of ACM with which TLS ends at the load balancer; without it: tlsSecret, or, in local "
        "and dev, no TLS",
    )
    tls_secret: KubernetesName | None = Field(
        default=None,
        description="the Secret in Envoy's namespace with which TLS ends in Envoy; without it: certificateArn",
    )
    replicas: Annotated[int, between(1, 100, "pods")] = Field(description="the number of Envoy's pods, like 2")
    cpu: Cpu = Field(description='vCPUs of a pod of Envoy in quotes, like "1"')
    memory_mib: Annotated[int, between(128, 65_536, "MiB")] = Field(description="memory of such a pod in MiB, like 512")
    canaries: dict[ModelName, Canary] = Field(
        default_factory=dict, description="by model, the part of its requests that goes elsewhere"
    )
