"""Let GitHub's workflows of one repository into the account: an identity provider, and roles that read and deploy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pulumi
import pulumi_aws as aws

from bootstrap import deploy_permissions, permissions
from bootstrap.bounds import Scope
from bootstrap.permissions import StateAccess
from bootstrap.settings import Settings
from infra.aws.account import Account
from spec.iam_policy import document
from spec.names import DEPLOY_ROLE

ISSUER = "token.actions.githubusercontent.com"
AUDIENCE = "sts.amazonaws.com"
PREVIEW_SECONDS = 3600
DEPLOY_SECONDS = 4 * 3600
"""A first `up` takes most of an hour, a destroy longer, and a session that ends in the middle leaves a lock."""


@dataclass(frozen=True)
class GitHubArgs:
    account: Account
    settings: Settings
    scopes: Sequence[Scope]
    """One for each deploy role."""
    state_bucket_arn: pulumi.Input[str]
    state_key_arn: pulumi.Input[str]
    secrets_key_arn: pulumi.Input[str]
    tags: Mapping[str, str]


class GitHub(pulumi.ComponentResource):
    """The identity provider, for each region the role of previews, and for each environment in it the role of deployments.

    Neither has a key: a workflow shows GitHub's token, which says of which repository and for what it runs, and the trust of
    each role is bound to both.
    """

    preview_role_arns: Mapping[str, pulumi.Output[str]]
    """By region. Each reads all of the state, and may do the rest in its own region alone."""

    def __init__(self, name: str, args: GitHubArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("triton:bootstrap:GitHub", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        state = pulumi.Output.all(args.state_bucket_arn, args.state_key_arn, args.secrets_key_arn).apply(
            lambda arns: StateAccess(bucket_arn=arns[0], bucket_key_arn=arns[1], secrets_key_arn=arns[2])
        )
        provider_arn: pulumi.Input[str]
        if args.settings.github_provider_arn is None:
            provider_arn = aws.iam.OpenIdConnectProvider(
                f"{name}-provider",
                url=f"https://{ISSUER}",
                client_id_lists=[AUDIENCE],
                tags={**args.tags, "Name": "github-actions"},
                opts=child,
            ).arn
        else:
            provider_arn = args.settings.github_provider_arn
        self.preview_role_arns = {}
        zones, sources = args.settings.hosted_zones, args.settings.release_accounts
        for region in (args.account.region, *args.settings.regions):
            account = replace(args.account, region=region)
            suffix = "" if region == args.account.region else f"-{region}"
            self.preview_role_arns[region] = self._role(
                f"{name}-preview{suffix}",
                f"triton-eks-preview{suffix}",
                "Previews of pull requests and the nightly look for drift: reads",
                provider_arn,
                preview_subjects(args.settings),
                PREVIEW_SECONDS,
                {"read": document(*permissions.read(account))},
                {
                    "state": state.apply(permissions.read_state),
                    **({"domains": document(*permissions.read_domains(account, zones))} if zones else {}),
                },
                args,
                child,
            )
        for scope in args.scopes:
            suffix = "" if scope.account.region == args.account.region else f"-{scope.account.region}"
            promote = deploy_permissions.promote(scope, sources)
            self._role(
                # Not `-deploy-…`: so began the names of the one role for all environments (docs/github.md).
                f"{name}-{scope.environment}-deploy{suffix}",
                _deploy_role(scope, args.account.region),
                f"Deployments by GitHub's environment {scope.environment}",
                provider_arn,
                [deploy_subject(args.settings, scope.environment)],
                DEPLOY_SECONDS,
                {
                    "read": document(*permissions.read(scope.account)),
                    **{purpose: document(*what) for purpose, what in deploy_permissions.deploy(scope).items()},
                },
                {
                    "state": _write_state(state, scope),
                    "access": document(*deploy_permissions.access(scope)),
                    **({"domains": document(*deploy_permissions.domains(scope, zones))} if zones else {}),
                    **({"promote": document(*promote)} if promote else {}),
                },
                args,
                child,
            )
        self.register_outputs({"previewRoleArns": self.preview_role_arns})

    @staticmethod
    def _role(
        name: str,
        role_name: str,
        description: str,
        provider_arn: pulumi.Input[str],
        subjects: Sequence[str],
        seconds: int,
        managed: Mapping[str, pulumi.Input[str]],
        inline: Mapping[str, pulumi.Input[str]],
        args: GitHubArgs,
        opts: pulumi.ResourceOptions,
    ) -> pulumi.Output[str]:
        role = aws.iam.Role(
            f"{name}-role",
            name=role_name,
            description=description,
            assume_role_policy=pulumi.Output.from_input(provider_arn).apply(lambda arn: trust(arn, subjects)),
            max_session_duration=seconds,
            tags={**args.tags, "Name": role_name},
            opts=opts,
        )
        # A role has 10 managed policies of 6,144 characters each, and 10,240 characters for all that are its own.
        for purpose, policy in inline.items():
            aws.iam.RolePolicy(f"{name}-{purpose}-inline", name=purpose, role=role.name, policy=policy, opts=opts)
        for purpose, policy in managed.items():
            made = aws.iam.Policy(
                f"{name}-{purpose}",
                name=f"{role_name}-{purpose}",
                description=f"{description}: {purpose}",
                policy=policy,
                tags={**args.tags, "Name": f"{role_name}-{purpose}"},
                opts=opts,
            )
            aws.iam.RolePolicyAttachment(f"{name}-{purpose}-attached", role=role.name, policy_arn=made.arn, opts=opts)
        return role.arn


def preview_subjects(settings: Settings) -> list[str]:
    """Return who may preview: pull requests of this repository's branches, and the default branch for drift.

    GitHub gives a fork's pull request no token at all.
    """
    return [subject(settings, "pull_request"), subject(settings, f"ref:refs/heads/{settings.branch}")]


def deploy_role_arns(scope: Scope, home: str) -> Iterator[tuple[str, str]]:
    """Yield each stack of a scope with the ARN of the role that deploys it; `home` is the bootstrap stack's region."""
    yield from ((stack, scope.account.iam_arn(f"role/{_deploy_role(scope, home)}")) for stack in scope.stacks)


def _deploy_role(scope: Scope, home: str) -> str:
    suffix = "" if scope.account.region == home else f"-{scope.account.region}"
    return f"{DEPLOY_ROLE}-{scope.environment}{suffix}"


def deploy_subject(settings: Settings, environment: str) -> str:
    """Return who may deploy to an environment: jobs that run in it, which is where GitHub asks approvers."""
    return subject(settings, f"environment:{environment}")


def _write_state(state: pulumi.Output[StateAccess], scope: Scope) -> pulumi.Output[str]:
    return state.apply(lambda access: permissions.write_state(access, scope.stacks))


def subject(settings: Settings, what: str) -> str:
    """Return the subject of GitHub's token for what a job of the repository runs for.

    With the numbers of owner and repository where the settings have them: GitHub names them for repositories that were
    made, renamed or transferred since 15 July 2026 or have asked for it, so that a name that somebody else takes over opens
    nothing: https://docs.github.com/en/actions/reference/security/oidc#immutable-subject-claims.
    One form is trusted, never both.
    """
    if settings.repository is None:
        raise ValueError("without a repository there is no subject")
    if settings.repository_id is None:
        return f"repo:{settings.repository}:{what}"
    owner, _, name = settings.repository.partition("/")
    return f"repo:{owner}@{settings.repository_owner_id}/{name}@{settings.repository_id}:{what}"


def trust(provider_arn: str, subjects: Sequence[str]) -> str:
    """Trust in GitHub's tokens that are for AWS and for exactly these subjects."""
    return document(
        {
            "Effect": "Allow",
            "Principal": {"Federated": provider_arn},
            "Action": "sts:AssumeRoleWithWebIdentity",
            "Condition": {"StringEquals": {f"{ISSUER}:aud": AUDIENCE, f"{ISSUER}:sub": list(subjects)}},
        }
    )
