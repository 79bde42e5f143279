"""Give GitHub's workflows of one repository access to the account, by an identity provider and roles."""

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
"""A first `up` takes most of an hour, a destroy longer. A session that ends in the middle leaves a lock."""


@dataclass(frozen=True)
class GitHubArgs:
    account: Account
    settings: Settings
    scopes: Sequence[Scope]
    """One scope for each deploy role."""
    state_bucket_arn: pulumi.Input[str]
    state_key_arn: pulumi.Input[str]
    secrets_key_arn: pulumi.Input[str]
    tags: Mapping[str, str]


class GitHub(pulumi.ComponentResource):
    """GitHub's identity provider, a preview role per region, and a deploy role per environment and region.

    Roles have no keys: a workflow presents GitHub's token, which names its repository and purpose, and each role trusts only
    tokens with both.
    """

    preview_role_arns: Mapping[str, pulumi.Output[str]]
    """By region. Each role reads all of the state, and has its other permissions only in its own region."""

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
                # Not `-deploy-…`, because the resource names of the former role for all environments began so
                # (docs/github.md).
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
        # A role has at most 10 managed policies of 6,144 characters each, and 10,240 characters for all inline policies.
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
    """Return the subjects that may preview. These are pull requests from the repository's branches, and the default branch
    for drift.

    GitHub gives a fork's pull request no token.
    """
    return [subject(settings, "pull_request"), subject(settings, f"ref:refs/heads/{settings.branch}")]


def deploy_role_arns(scope: Scope, home: str) -> Iterator[tuple[str, str]]:
    """Yield each stack of a scope with the ARN of its deploy role. `home` is the bootstrap stack's region."""
    yield from ((stack, scope.account.iam_arn(f"role/{_deploy_role(scope, home)}")) for stack in scope.stacks)


def _deploy_role(scope: Scope, home: str) -> str:
    suffix = "" if scope.account.region == home else f"-{scope.account.region}"
    return f"{DEPLOY_ROLE}-{scope.environment}{suffix}"


def deploy_subject(settings: Settings, environment: str) -> str:
    """Return the subject that may deploy to an environment. GitHub requires approval for the environment's jobs."""
    return subject(settings, f"environment:{environment}")


def _write_state(state: pulumi.Output[StateAccess], scope: Scope) -> pulumi.Output[str]:
    return state.apply(lambda access: permissions.write_state(access, scope.stacks))


def subject(settings: Settings, what: str) -> str:
    """Return the subject in GitHub's token for a job of the repository. `what` is the job's purpose.

    It includes the numbers of owner and repository if the settings have them. GitHub includes them for repositories that
    were created, renamed or transferred since 15 July 2026, or that opted in. So a new owner of an old name gets no access:
    https://docs.github.com/en/actions/reference/security/oidc#immutable-subject-claims. Only one form is trusted, never
    both.
    """
    if settings.repository is None:
        raise ValueError("without a repository there is no subject")
    if settings.repository_id is None:
        return f"repo:{settings.repository}:{what}"
    owner, _, name = settings.repository.partition("/")
    return f"repo:{owner}@{settings.repository_owner_id}/{name}@{settings.repository_id}:{what}"


def trust(provider_arn: str, subjects: Sequence[str]) -> str:
    """Return the policy that trusts GitHub's tokens for AWS with exactly these subjects."""
    return document(
        {
            "Effect": "Allow",
            "Principal": {"Federated": provider_arn},
            "Action": "sts:AssumeRoleWithWebIdentity",
            "Condition": {"StringEquals": {f"{ISSUER}:aud": AUDIENCE, f"{ISSUER}:sub": list(subjects)}},
        }
    )
