"""One stack in one AWS account: what everything that is made for it is called, tagged and guarded by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from infra.aws.account import Account
from spec import names
from spec.ownership import own_tags
from spec.settings import Settings


@dataclass(frozen=True)
class Stack:
    """Names, tags and protection of one stack. `tags` are on every resource that takes tags."""

    name: str
    """The name of the stack, which all other names are made of."""
    environment: str
    """Local, dev, staging or prod: there may be several stacks of each."""
    account: Account
    tags: Mapping[str, str]
    protected: bool
    """Cluster, VPC, KMS keys and model bucket can neither be deleted nor replaced (`Settings.protected`)."""
    chart_registry: str | None = None
    """The registry that third-party charts are copied to; None where each comes from its own project's."""
    bounded: bool = True
    """Its roles have the permissions boundary of the stack."""

    @classmethod
    def of(cls, settings: Settings, account: Account) -> Stack:
        """Return the stack that has these settings, in the account that the program runs for."""
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
        """Return whether `pulumi destroy` empties a bucket that it deletes."""
        return not self.protected

    @property
    def cluster_name(self) -> str:
        """Return the name of a cluster that the program makes, and the prefix of what other systems address by name."""
        return names.cluster_name(self.name)

    @property
    def model_bucket(self) -> str:
        """Return the bucket that model releases live in."""
        return names.model_bucket(self.name, self.account.id, self.region)

    @property
    def request_bucket(self) -> str:
        """Return the bucket of the asynchronous path."""
        return names.request_bucket(self.name, self.account.id, self.region)

    @property
    def request_queue(self) -> str:
        """Return the queue of the asynchronous path."""
        return names.request_queue(self.cluster_name)

    @property
    def request_queue_url(self) -> str:
        """Return the URL of that queue, known before the queue exists."""
        return names.queue_url(self.request_queue, self.account.id, self.region, self.account.partition)

    def named(self, name: str) -> dict[str, str]:
        """Return the tags with `Name`, which the AWS console shows."""
        return {**self.tags, "Name": name}
