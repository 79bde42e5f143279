"""The way from clients to Triton: Envoy Gateway behind a network load balancer."""

from typing import Annotated, Literal

from pydantic import Field

from spec.settings.fields import CertificateArn, Cidr, Cpu, KubernetesName, ModelName, between
from spec.settings.section import Section


class Canary(Section):
    """A part of one model's requests that goes elsewhere: to a `version` of it in the same pods, or to another `service`.

    `version` works for HTTP only (gRPC has it in the message, which no proxy reads), with in-place rollouts, or where the
    release serves that version too.
    `service` is one with Triton's ports in Triton's namespace, such as that of a second installation of the chart.
    """

    percent: Annotated[int, between(1, 99, "percent")] = Field(description="the percentage of requests, 1 to 99")
    version: Annotated[int, between(1, 999_999_999, "for a version")] | None = None
    service: KubernetesName | None = None


class Gateway(Section):
    """Envoy and its load balancer. Absent: clients balance themselves (`--grpc-max-connection-age` is their fallback).

    `exposure`: `internal` is reached from the VPC and from `allowed_cidrs`, `public` from `allowed_cidrs` alone.
    TLS ends at the load balancer with the certificate `certificate_arn` of ACM, or in Envoy with the Secret `tls_secret` of
    its namespace. `replicas`, `cpu` and `memory_mib` are Envoy's. `canaries`: by model.
    """

    exposure: Literal["internal", "public"] = "internal"
    allowed_cidrs: tuple[Cidr, ...] = ()
    certificate_arn: CertificateArn | None = None
    tls_secret: KubernetesName | None = None
    replicas: Annotated[int, between(1, 100, "pods")] = Field(description="the number of Envoy's pods, like 2")
    cpu: Cpu = Field(description='vCPUs of a pod of Envoy in quotes, like "1"')
    memory_mib: Annotated[int, between(128, 65_536, "MiB")] = Field(description="memory of such a pod in MiB, like 512")
    canaries: dict[ModelName, Canary] = Field(default_factory=dict)
