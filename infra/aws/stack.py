"""One stack in one AWS account: names, tags and protection of its resources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from infra.aws.account import Account
from spec import names
from spec.ownership import own_tags
from spec.settings import Settings


@dataclass(frozen=True)
class Stack:
    """Names, tags and protection of one stack. `tags` are set on every resource that supports tags."""

    name: str
    """The name of the stack, part of all other names."""
    environment: str
    """local, dev, staging or prod; each may have several stacks."""
    account: Account
    tags: Mapping[str, str]
    protected: bool
    """Cluster, VPC, KMS keys and model bucket can be neither deleted nor replaced (`Settings.protected`)."""
    chart_registry: str | None = None
    """The registry with copies of the third-party charts; None if each comes from its project's own registry."""
    bounded: bool = True
    """The stack's roles have its permissions boundary."""

    @classmethod
    def of(cls, settings: Settings, account: Account) -> Stack:
        """Return the stack with these settings in this account."""
        registry = settings.charts.registry if settings.charts is not None else None
        tags, bounded = own_tags(settings), settings.permissions_boundary
        return cls(settings.stack, settings.environment, account, tags, settings.protected, registry, bounded)

    @property
    def region(self) -> str:
        """Return the AWS region."""
        return self.account.region

    @property
    def boundary_arn(self) -> str | None:
        """Return the permissions boundary of the stack's roles; None without one."""
        return self.account.iam_arn(f"policy/{names.permissions_boundary(self.name)}") if self.bounded else None

    @property
    def disposable(self) -> bool:
        """Return whether `pulumi destroy` empties a bucket before it deletes it."""
        return not self.protected

    @property
    def cluster_name(self) -> str:
        """Return the name of the program's cluster. It is also the prefix of names that other systems use."""
        return names.cluster_name(self.name)

    @property
    def model_bucket(self) -> str:
        """Return the bucket of model releases."""
        return names.model_bucket(self.name, self.account.id, self.region)

    @property
    def request_bucket(self) -> str:
        """Return the bucket of asynchronous requests."""
        return names.request_bucket(self.name, self.account.id, self.region)

    @property
    def request_queue(self) -> str:
        """Return the queue of asynchronous requests."""
        return names.request_queue(self.cluster_name)

    @property
    def request_queue_url(self) -> str:
        """Return the URL of the request queue, known before the queue exists."""
        return names.queue_url(self.request_queue, self.account.id, self.region, self.account.partition)

    def named(self, name: str) -> dict[str, str]:
        """Return the tags with `Name`, which the AWS console shows."""
        return {**self.tags, "Name": name}
