"""Exchange tokens of the cluster for role credentials: IAM has the roles' trust policies, and STS the credentials."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from twin.aws.base import late
from twin.aws.base.clients import Clients, session
from twin.identity.irsa import Claims, IdentityRefused, Provider, check_trust, claims


class IdentityExchange:
    """STS and IAM of one AWS endpoint. Its methods block."""

    def __init__(self, endpoint_url: str, region: str) -> None:
        self._account = Clients(region, endpoint_url)
        aws = session(region)
        self._iam = aws.client("iam", endpoint_url=endpoint_url)
        self._sts = aws.client("sts", endpoint_url=endpoint_url)
        self._eks = aws.client("eks", endpoint_url=endpoint_url)

    def check(self, role_arn: str, token: str, cluster: str | None = None) -> None:
        """Raise IdentityRefused unless the role exists and trusts the token, as a token of the EKS cluster `cluster`.

        Without a name, it is the account's only cluster.
        """
        role = role_arn.rpartition("/")[2]
        try:
            described = self._iam.get_role(RoleName=role)["Role"]
            name = cluster if cluster is not None else self._only_cluster()
            issuer = self._eks.describe_cluster(name=name)["cluster"]["identity"]["oidc"]["issuer"]
        except ClientError as error:
            raise IdentityRefused(f"{role_arn}: {error.response['Error']['Message']}") from None
        if described["Arn"] != role_arn:
            raise IdentityRefused(f"there is no role {role_arn}; the role of that name is {described['Arn']}")
        if late.left(self._account, "iam", described["CreateDate"]) > 0:
            raise IdentityRefused(f"{role_arn}: IAM has not told STS of the role yet")
        own = claims(token)
        presented = Claims(issuer, own.subject, own.audiences)
        check_trust(_document(described["AssumeRolePolicyDocument"]), presented, self._providers(), role_arn)

    def assume(self, role_arn: str, token: str, cluster: str) -> dict[str, str]:
        """Return the variables with the role's credentials for the holder of `token`, a pod of the EKS cluster `cluster`.

        Raises IdentityRefused if the role does not exist or does not trust the token.
        """
        self.check(role_arn, token, cluster)
        answer = self._sts.assume_role_with_web_identity(RoleArn=role_arn, RoleSessionName="twin", WebIdentityToken=token)[
            "Credentials"
        ]
        return {
            "AWS_ACCESS_KEY_ID": answer["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": answer["SecretAccessKey"],
            "AWS_SESSION_TOKEN": answer["SessionToken"],
        }

    def _only_cluster(self) -> str:
        clusters: list[str] = self._eks.list_clusters()["clusters"]
        if len(clusters) != 1:
            raise IdentityRefused(f"the account has {len(clusters)} EKS clusters: whose token this is, only one would tell")
        return clusters[0]

    def _providers(self) -> list[Provider]:
        listed = self._iam.list_open_id_connect_providers()["OpenIDConnectProviderList"]
        arns = [entry["Arn"] for entry in listed]
        described = [self._iam.get_open_id_connect_provider(OpenIDConnectProviderArn=arn) for arn in arns]
        return [Provider(arn, tuple(d.get("ClientIDList", []))) for arn, d in zip(arns, described, strict=True)]


def _document(policy: str | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(policy, str):
        document: Mapping[str, Any] = json.loads(urllib.parse.unquote(policy))
        return document
    return policy
