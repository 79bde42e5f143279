"""The limits of one deploy role: the stacks of one environment in one region."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from infra.aws.account import Account
from spec import names
from spec.versions import PROJECT

Condition = Mapping[str, Any]


@dataclass(frozen=True)
class Scope:
    """The scope of one deploy role.

    `account`: with the region. `stacks`: their names. `clusters`: existing clusters that the stacks use. `connections`: the
    CodeConnections of the stacks' runners. `older_roles`: ARNs of the stacks' roles from before roles had the stack's path.
    `before`: the previous environment and its stacks, whose releases this one may read.
    """

    account: Account
    environment: str
    stacks: tuple[str, ...]
    clusters: tuple[str, ...] = ()
    connections: tuple[str, ...] = ()
    older_roles: tuple[str, ...] = ()
    before: tuple[str, tuple[str, ...]] | None = field(default=None)

    @property
    def _tags(self) -> dict[str, str]:
        return {"project": PROJECT, "environment": self.environment}

    @property
    def owned(self) -> Condition:
        """Return the condition that the resource has the tags of this environment."""
        return {"StringEquals": {f"aws:ResourceTag/{key}": value for key, value in self._tags.items()}}

    @property
    def requested(self) -> Condition:
        """Return the condition that the request gives the resource these tags. By itself it does not limit which resources
        are tagged."""
        return {"StringEquals": {f"aws:RequestTag/{key}": value for key, value in self._tags.items()}}

    @property
    def claimed(self) -> Condition:
        """Return the condition that the request gives these tags to a resource that no stack owns yet."""
        return {**self.requested, "Null": {"aws:ResourceTag/project": "true"}}

    def named(self, pattern: str) -> list[str]:
        """Return the pattern for each stack, with its cluster's name for `{}`."""
        return [pattern.format(names.cluster_name(stack)) for stack in self.stacks]

    def arns(self, service: str, pattern: str) -> list[str]:
        """Return the ARNs of the stacks' resources of a service."""
        return [self.account.arn(service, resource) for resource in self.named(pattern)]

    @property
    def roles(self) -> list[str]:
        """Return the ARNs of the stacks' roles."""
        region = self.account.region
        return [
            *(self.account.iam_arn(f"role{names.role_path(stack)}*") for stack in self.stacks),
            *(self.account.iam_arn(f"role/{name}") for name in self.named(f"{{}}-{region}-model-reader")),
        ]

    @property
    def boundaries(self) -> list[str]:
        """Return the ARNs of the permissions boundaries of the stacks' roles."""
        return [self.account.iam_arn(f"policy/{names.permissions_boundary(stack)}") for stack in self.stacks]

    @property
    def buckets(self) -> list[str]:
        """Return the ARNs of the stacks' buckets."""
        id, region = self.account.id, self.account.region
        found = [make(stack, id, region) for stack in self.stacks for make in (names.model_bucket, names.request_bucket)]
        return [f"arn:{self.account.partition}:s3:::{bucket}" for bucket in found]
