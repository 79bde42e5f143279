"""Read the settings of the bootstrap stack: `Pulumi.<stack>.yaml` of this folder."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

import pulumi

from bootstrap import stacks
from bootstrap.stacks import ENVIRONMENTS, StackFacts
from spec.catalog import REGIONS
from spec.wording import one_of

_REPOSITORY = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})/[A-Za-z0-9._-]{1,100}")
_BRANCH = re.compile(r"[A-Za-z0-9._/-]{1,100}")
_PROVIDER_ARN = re.compile(r"arn:[a-z-]+:iam::\d{12}:oidc-provider/token\.actions\.githubusercontent\.com")
_CLUSTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_ZONE = re.compile(r"[A-Z0-9]{1,32}")
_ACCOUNT = re.compile(r"[0-9]{12}")
_WHERE_IDS_ARE = "`gh api repos/ORG/REPO --jq '.owner.id, .id'` prints repositoryOwnerId and repositoryId"
ENVIRONMENT = "bootstrap"
"""The tag `environment` of this stack's resources. No stack of the platform has that name."""


class SettingsInvalid(ValueError):
    """The stack file has mistakes; the text has all of them, a line each."""


@dataclass(frozen=True)
class Settings:
    """The settings of the bootstrap stack. Without a repository, nothing is created for GitHub.

    `repository`: GitHub's `ORG/REPO`. `environments`: the GitHub environments that may deploy. `branch`: the default branch.
    `stacks`: the checkout's stacks of all environments.

    `repository_owner_id` and `repository_id`: GitHub's numbers, for a repository whose tokens include them
    (`github.subject`). `regions`: further regions to which the workflows deploy, besides this stack's region, where the
    state is. `clusters`: names of existing clusters that stacks use. `hosted_zones`: ids of the Route 53 zones with the
    gateways' names. `release_accounts`: accounts from whose buckets releases are promoted here (their stacks'
    `models.readerAccounts`). `github_provider_arn`: an existing identity provider for GitHub, of which an account has one.
    None: this stack creates it.
    """

    repository: str | None = None
    repository_owner_id: int | None = None
    repository_id: int | None = None
    branch: str = "main"
    environments: tuple[str, ...] = ENVIRONMENTS
    stacks: tuple[StackFacts, ...] = ()
    github_provider_arn: str | None = None
    regions: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    hosted_zones: tuple[str, ...] = ()
    release_accounts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        problems = []
        if self.repository is not None and not _REPOSITORY.fullmatch(self.repository):
            problems.append(f"repository: {self.repository!r} is not a GitHub repository; give ORG/REPO, without wildcards")
        problems += self._problems_of_ids()
        if not _BRANCH.fullmatch(self.branch):
            problems.append(f"branch: {self.branch!r} is not a branch; give its name, without wildcards")
        if not self.environments:
            problems.append("environments: is empty; give at least one, like [dev]")
        problems += [
            f"environments: {name!r} is not an environment of stacks; use {one_of(ENVIRONMENTS)}"
            for name in self.environments
            if name not in ENVIRONMENTS
        ]
        problems += [
            f"stacks: names of {one.name!r} ({one.environment}) also match {other.name!r} ({other.environment}); rename "
            "one, because each environment's role is bound to names"
            for one, other in permutations(self.stacks, 2)
            if one.environment != other.environment and f"{other.name}-".startswith(f"{one.name}-")
        ]
        if self.github_provider_arn is not None and not _PROVIDER_ARN.fullmatch(self.github_provider_arn):
            problems.append(
                f"githubProviderArn: {self.github_provider_arn!r} is not GitHub's identity provider; give "
                "arn:aws:iam::ACCOUNT:oidc-provider/token.actions.githubusercontent.com"
            )
        problems += [
            f"regions: {region!r} is not a region with EKS; use {one_of(sorted(REGIONS))}"
            for region in self.regions
            if region not in REGIONS
        ]
        problems += [
            f"regions: {region} is listed twice; list each region once"
            for region in sorted({one for one in self.regions if self.regions.count(one) > 1})
        ]
        problems += [
            f"clusters: {name!r} is not the name of an EKS cluster; give names, without wildcards"
            for name in self.clusters
            if not _CLUSTER.fullmatch(name)
        ]
        problems += [
            f"hostedZones: {zone!r} is not the id of a hosted zone; give ids like Z0123456789ABCDEFGHIJ, without wildcards"
            for zone in self.hosted_zones
            if not _ZONE.fullmatch(zone)
        ]
        problems += [
            f"releaseAccounts: {one!r} is not the id of an AWS account; give its 12 digits in quotes, like '123456789012'"
            for one in self.release_accounts
            if not _ACCOUNT.fullmatch(one)
        ]
        if problems:
            raise SettingsInvalid("\n".join(problems))

    def _problems_of_ids(self) -> Iterator[str]:
        ids = {"repositoryOwnerId": self.repository_owner_id, "repositoryId": self.repository_id}
        for key, value in ids.items():
            if value is not None and value < 1:
                yield f"{key}: {value} is not a number of GitHub; {_WHERE_IDS_ARE}"
        if (self.repository_owner_id is None) != (self.repository_id is None):
            missing = next(key for key, value in ids.items() if value is None)
            yield f"{missing}: is missing beside the other number; {_WHERE_IDS_ARE}"
        elif self.repository_id is not None and self.repository is None:
            yield "repositoryId: is of no repository; give repository, like ORG/REPO, too"

    def stacks_of(self, environment: str, region: str) -> tuple[StackFacts, ...]:
        """Return the stacks of an environment in a region. Empty if the environment does not deploy here."""
        wanted = environment if environment in self.environments else None
        return tuple(one for one in self.stacks if (one.environment, one.region) == (wanted, region))


def from_pulumi() -> Settings:
    """Return the settings of the stack that the engine runs. Raises SettingsInvalid."""
    config = pulumi.Config()
    environments = _texts(config, "environments")
    found, unreadable = stacks.read(Path(__file__).resolve().parents[1])
    if unreadable:
        raise SettingsInvalid("\n".join(unreadable))
    return Settings(
        repository=config.get("repository"),
        repository_owner_id=_number(config, "repositoryOwnerId"),
        repository_id=_number(config, "repositoryId"),
        branch=config.get("branch") or "main",
        environments=ENVIRONMENTS if environments is None else environments,
        stacks=found,
        github_provider_arn=config.get("githubProviderArn"),
        regions=tuple(one for one in _texts(config, "regions") or () if one != pulumi.Config("aws").get("region")),
        clusters=_texts(config, "clusters") or (),
        hosted_zones=_texts(config, "hostedZones") or (),
        release_accounts=_texts(config, "releaseAccounts") or (),
    )


def _texts(config: pulumi.Config, key: str) -> tuple[str, ...] | None:
    """Return a list of names; None without one. Raises SettingsInvalid."""
    try:
        found = config.get_object(key)
    except pulumi.ConfigTypeError:
        found = config.get(key)
    if found is None:
        return None
    if key == "releaseAccounts" and any(map(_is_number, found if isinstance(found, list) else [found])):
        # YAML reads a number that begins with 0 in base 8, so the message does not repeat the number.
        raise SettingsInvalid(
            f"{key}: has an account id that is a number; give its 12 digits in quotes, like ['123456789012'], or with "
            f"`pulumi config set --path --type string '{key}[0]' 123456789012`"
        )
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise SettingsInvalid(f"{key}: {found!r} is no list of names; give one like [NAME]")
    return tuple(found)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(config: pulumi.Config, key: str) -> int | None:
    try:
        return config.get_int(key)
    except pulumi.ConfigTypeError:
        raise SettingsInvalid(f"{key}: {config.get(key)!r} is not a number; {_WHERE_IDS_ARE}") from None
