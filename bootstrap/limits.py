"""Check that the policies for the settings do not exceed IAM's limits of characters."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from bootstrap import deploy_permissions, permissions
from bootstrap.bounds import Scope
from bootstrap.settings import Settings
from infra.aws.account import Account
from spec.iam_policy import Statement, document
from spec.names import state_bucket

MANAGED, INLINE = 6144, 10240
"""Maximum characters of each managed policy, and of all inline policies of a role, without white space:
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html."""
_LONGEST_KEY = f"key/mrk-{'0' * 32}"
_SMALLER = "name fewer, or give those to the bootstrap stack of another account"


def problems_of_boundaries(settings: Settings, boundaries: Mapping[str, str]) -> Iterator[str]:
    """Yield the stacks whose boundary is longer than a managed policy may be."""
    for stack, policy in boundaries.items():
        if (characters := _characters(policy)) > MANAGED:
            yield (
                f"clusters: with these {len(settings.clusters)} names the boundary of the stack {stack} has {characters} "
                f"characters, and IAM takes {MANAGED}; {_SMALLER}"
            )


def problems(account: Account, settings: Settings, scopes: Sequence[Scope]) -> Iterator[str]:
    """Yield the lists that are too long for IAM in any of the deploy roles' scopes."""
    managed = max((_largest(deploy_permissions.deploy(scope)) for scope in scopes), default=0)
    if managed > MANAGED:
        yield (
            f"clusters: these {len(settings.clusters)} names, and {max(len(scope.stacks) for scope in scopes)} stacks of "
            f"one environment, make a policy of {managed} characters, and IAM takes {MANAGED}; {_SMALLER}"
        )
    inline = max((_inline(account, scope, settings) for scope in scopes), default=0)
    if inline > INLINE:
        yield (
            f"hostedZones and releaseAccounts: these {len(settings.hosted_zones)} and {len(settings.release_accounts)} make "
            f"{inline} characters of a role's own policies, and IAM takes {INLINE}; {_SMALLER}"
        )


def _largest(policies: Mapping[str, list[Statement]]) -> int:
    return max(_characters(document(*statements)) for statements in policies.values())


def _inline(home: Account, scope: Scope, settings: Settings) -> int:
    key = home.arn("kms", _LONGEST_KEY)
    bucket = f"arn:{home.partition}:s3:::{state_bucket(home.id, home.region)}"
    found = [
        permissions.write_state(permissions.StateAccess(bucket, key, key), scope.stacks),
        document(*deploy_permissions.access(scope)),
        document(*deploy_permissions.promote(scope, settings.release_accounts)),
    ]
    if settings.hosted_zones:
        found.append(document(*deploy_permissions.domains(scope, settings.hosted_zones)))
    return sum(map(_characters, found))


def _characters(policy: str) -> int:
    return len(json.dumps(json.loads(policy), separators=(",", ":")))
