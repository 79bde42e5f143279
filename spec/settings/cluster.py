"""The EKS control plane of a stack: `triton-eks:cluster`."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from spec.settings.fields import Cidr, KubernetesVersion, LogRetention, RoleArn
from spec.settings.section import Section


class Cluster(Section):
    """The EKS control plane."""

    guide: ClassVar[str] = "docs/aws.md"

    version: KubernetesVersion = Field(description='the Kubernetes minor version in quotes, like "1.35"')
    endpoint: Literal["private", "public"] = Field(description="the API endpoint: private or public")
    public_access_cidrs: tuple[Cidr, ...] = Field(
        default=(), description="the ranges that reach a public API endpoint; required with endpoint: public, else forbidden"
    )
    admin_role_arns: Annotated[tuple[RoleArn, ...], Field(min_length=1)] = Field(
        description="the IAM roles that administer the cluster"
    )
    deletion_protection: bool = Field(description="true or false")
    log_retention_days: LogRetention = Field(description="days that control-plane logs are kept, like 365")
