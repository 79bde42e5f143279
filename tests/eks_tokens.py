"""Create tokens of `aws eks get-token` with the AWS CLI's own code in this process."""

import base64
from dataclasses import dataclass

import boto3
import botocore.session
from awscli.customizations.eks.get_token import STSClientFactory, TokenGenerator

REGION = "us-west-2"


@dataclass(frozen=True)
class Keys:
    """AWS credentials; by default the keys of the twin's shell."""

    id: str = "test"
    secret: str = "test"
    token: str | None = None


def assume(url: str, role: str, session: str) -> Keys:
    """Return the credentials of a role session, from the STS at `url`."""
    sts = boto3.client("sts", REGION, endpoint_url=url, aws_access_key_id="test", aws_secret_access_key="test")
    made = sts.assume_role(RoleArn=role, RoleSessionName=session)["Credentials"]
    return Keys(made["AccessKeyId"], made["SecretAccessKey"], made["SessionToken"])


def url_of(url: str, keys: Keys, cluster: str = "c", region: str = REGION) -> str:
    """Return the presigned URL of a token for the cluster, from the STS at `url`."""
    session = botocore.session.Session()
    sts = session.create_client(
        "sts",
        region,
        endpoint_url=url,
        aws_access_key_id=keys.id,
        aws_secret_access_key=keys.secret,
        aws_session_token=keys.token,
    )
    STSClientFactory(session)._register_k8s_aws_id_handlers(sts)
    return str(TokenGenerator(sts)._get_presigned_url(cluster))


def token_of(url: str) -> str:
    return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")
