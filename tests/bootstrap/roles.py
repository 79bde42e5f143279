"""The rights that the two roles of the workflows have in an account, beside reading and writing Pulumi's state."""

from __future__ import annotations

from bootstrap import deploy_permissions, permissions
from infra.aws.account import Account

ACCOUNT = Account(id="123456789012", partition="aws", region="us-west-2", caller_arn="arn:aws:iam::123456789012:role/x")
PREVIEW = permissions.read(ACCOUNT)
DEPLOY = [*PREVIEW, *(one for found in deploy_permissions.deploy(ACCOUNT).values() for one in found)]
