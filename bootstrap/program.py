"""The bootstrap stack, on one page."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import replace

import pulumi
import pulumi_aws as aws

from bootstrap import limits
from bootstrap import settings as stack_settings
from bootstrap.bounds import Scope
from bootstrap.deploy_identity import OLDER_ROLES
from bootstrap.github import GitHub, GitHubArgs, deploy_role_arns
from bootstrap.settings import ENVIRONMENT, Settings, SettingsInvalid
from bootstrap.spot import spot_role
from bootstrap.stacks import ENVIRONMENTS
from bootstrap.state import State, StateArgs
from infra.aws import account as aws_account
from infra.aws.account import Account
from infra.stack_settings import refuse
from spec import names
from spec.boundary import boundary
from spec.names import SECRETS_ALIAS
from spec.versions import PROJECT


def main() -> None:
    """Read the stack's settings and deploy them; report mistakes in the settings without a traceback."""
    try:
        deploy(stack_settings.from_pulumi(), pulumi.Config("aws").require("region"))
    except SettingsInvalid as error:
        file = f"Pulumi.{pulumi.get_stack()}.yaml"
        refuse(file, str(error).splitlines())


def deploy(settings: Settings, region: str) -> None:
    """Register all resources, and export the values for `pulumi login` and, with a repository, for the workflows.

    Raises SettingsInvalid before any registration if the settings name more than IAM has room for.
    """
    account = aws_account.current(region)
    reach = scopes(account, settings)
    boundaries = {name: text for scope in reach for name, text in _boundaries(scope, settings).items()}
    too_long = list(limits.problems(account, settings, reach)) if settings.repository is not None else []
    if too_long := [*too_long, *limits.problems_of_boundaries(settings, boundaries)]:
        raise SettingsInvalid("\n".join(too_long))
    tags = {"project": PROJECT, "environment": ENVIRONMENT, "owner": "platform", "cost-center": "platform"}
    state = State("state", StateArgs(account=account, tags=tags))
    spot_role("spot", tags)
    for stack, policy in boundaries.items():
        name = names.permissions_boundary(stack)
        aws.iam.Policy(
            f"boundary-{stack}",
            name=name,
            description=f"The most that roles of the stack {stack} can do",
            policy=policy,
            tags={**tags, "Name": name},
        )
    pulumi.export("backendUrl", state.bucket_name.apply(lambda name: f"s3://{name}?region={region}"))
    pulumi.export("secretsProvider", f"awskms://alias/{SECRETS_ALIAS}?region={region}")
    if settings.repository is None:
        return
    github = GitHub(
        "github",
        GitHubArgs(
            account=account,
            settings=settings,
            scopes=reach,
            state_bucket_arn=state.bucket_arn,
            state_key_arn=state.bucket_key_arn,
            secrets_key_arn=state.secrets_key_arn,
            tags=tags,
        ),
    )
    pulumi.export("previewRoleArn", github.preview_role_arns[region])
    for other in settings.regions:
        pulumi.export(f"previewRoleArn-{other}", github.preview_role_arns[other])
    # In the form of GitHub's variable AWS_DEPLOY_ROLES.
    pulumi.export("deployRoles", json.dumps(dict(role for scope in reach for role in deploy_role_arns(scope, region))))


def scopes(account: Account, settings: Settings) -> list[Scope]:
    """Return the scope of each deploy role: the stacks of one environment in one region."""
    found = []
    older_roles = _older_roles() if settings.stacks else {}
    for region in (account.region, *settings.regions):
        for at, environment in enumerate(ENVIRONMENTS):
            stacks = settings.stacks_of(environment, region)
            earlier = ENVIRONMENTS[at - 1] if at else None
            before = tuple(one.name for one in settings.stacks if (one.environment, one.region) == (earlier, region))
            if stacks:
                scope = Scope(
                    account=replace(account, region=region),
                    environment=environment,
                    stacks=tuple(one.name for one in stacks),
                    clusters=settings.clusters,
                    connections=tuple(sorted({one.connection for one in stacks if one.connection is not None})),
                    older_roles=tuple(older_roles.get(environment, ())),
                    before=(earlier, before) if earlier is not None and before else None,
                )
                found.append(scope)
    return found


def _older_roles() -> dict[str, list[str]]:
    """Return, by environment, the ARNs of our roles from before roles had the stack's path."""
    pattern = rf".*:role/(({'|'.join(OLDER_ROLES)})-role(-pods)?-[0-9a-f]{{7}}|triton-.*-(alertmanager|worker))"
    roles: dict[str, list[str]] = defaultdict(list)
    for arn in sorted(aws.iam.get_roles(path_prefix="/").arns):
        if re.fullmatch(pattern, arn):
            tags = aws.iam.get_role(name=arn.rpartition("/")[2]).tags
            if tags.get("project") == PROJECT:
                roles[tags.get("environment", "")].append(arn)
    return roles


def _boundaries(scope: Scope, settings: Settings) -> dict[str, str]:
    account = scope.account
    return {
        stack.name: boundary(
            account.id,
            account.region,
            stack.name,
            stack.environment,
            partition=account.partition,
            clusters=settings.clusters,
            connection=stack.connection,
            older_node_roles=[arn for arn in scope.older_roles if ":role/nodes-role-" in arn],
        )
        for stack in settings.stacks_of(scope.environment, account.region)
    }
