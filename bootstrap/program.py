"""The bootstrap stack, on one page."""

from __future__ import annotations

import pulumi

from bootstrap import limits
from bootstrap import settings as stack_settings
from bootstrap.github import GitHub, GitHubArgs
from bootstrap.settings import ENVIRONMENT, Settings, SettingsInvalid
from bootstrap.spot import spot_role
from bootstrap.state import State, StateArgs
from infra.aws import account as aws_account
from infra.stack_settings import refuse
from spec.names import SECRETS_ALIAS
from spec.versions import PROJECT


def main() -> None:
    """Read the stack's settings and deploy them; what is wrong with them is told without a traceback."""
    try:
        deploy(stack_settings.from_pulumi(), pulumi.Config("aws").require("region"))
    except SettingsInvalid as error:
        file = f"Pulumi.{pulumi.get_stack()}.yaml"
        refuse(file, str(error).splitlines())


def deploy(settings: Settings, region: str) -> None:
    """Register everything, and export what `pulumi login` and, where there is a repository, the workflows are told.

    Raises SettingsInvalid, before anything is registered, where IAM has no room for what the settings name.
    """
    account = aws_account.current(region)
    if settings.repository is not None and (too_long := list(limits.problems(account, settings))):
        raise SettingsInvalid("\n".join(too_long))
    tags = {"project": PROJECT, "environment": ENVIRONMENT, "owner": "platform", "cost-center": "platform"}
    state = State("state", StateArgs(account=account, tags=tags))
    spot_role("spot", tags)
    pulumi.export("backendUrl", state.bucket_name.apply(lambda name: f"s3://{name}?region={region}"))
    pulumi.export("secretsProvider", f"awskms://alias/{SECRETS_ALIAS}?region={region}")
    if settings.repository is None:
        return
    github = GitHub(
        "github",
        GitHubArgs(
            account=account,
            settings=settings,
            state_bucket_arn=state.bucket_arn,
            state_key_arn=state.bucket_key_arn,
            secrets_key_arn=state.secrets_key_arn,
            tags=tags,
        ),
    )
    pulumi.export("previewRoleArn", github.preview_role_arns[region])
    pulumi.export("deployRoleArn", github.deploy_role_arns[region])
    for other in settings.regions:
        pulumi.export(f"previewRoleArn-{other}", github.preview_role_arns[other])
        pulumi.export(f"deployRoleArn-{other}", github.deploy_role_arns[other])
