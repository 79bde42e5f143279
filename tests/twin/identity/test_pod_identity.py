"""The Pod Identity agent, called by an AWS SDK with a pod's token; and the pod's own specification of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.session
import httpx
import pytest
from botocore.exceptions import CredentialRetrievalError
from moto.server import ThreadedMotoServer

from infra.platform import pod_identity as given
from spec.iam_policy import pod_identity_trust
from tests.pod_identity import assert_pod
from tests.worker.site import free_port
from twin.aws import faults
from twin.aws.base import records
from twin.aws.base.clients import Clients
from twin.aws.eks import lookup
from twin.cluster.kube_api import Object
from twin.identity import pod_identity
from twin.identity.exchange import IdentityExchange
from twin.identity.irsa import IdentityRefused
from twin.identity.pod_identity import PodIdentityAgent

CLUSTER_ARN = "arn:aws:eks:us-west-2:123456789012:cluster/c"


def trust(arn: str = CLUSTER_ARN, namespace: str = "kube-system", account: str = "karpenter") -> str:
    return pod_identity_trust(arn, namespace, account)


class Api:
    """An API server that knows one token, of kube-system/karpenter."""

    async def create(self, path: str, body: Object) -> Object:
        assert path == "/apis/authentication.k8s.io/v1/tokenreviews"
        assert body["spec"]["audiences"] == ["pods.eks.amazonaws.com"]
        if body["spec"]["token"] != "good-token":
            return {"status": {"error": "token has expired"}}
        return {"status": {"authenticated": True, "user": {"username": "system:serviceaccount:kube-system:karpenter"}}}


@pytest.fixture(scope="module")
def clients() -> Iterator[Clients]:
    """Yield an account with a cluster, a role, and its association."""
    server = ThreadedMotoServer("127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    found = Clients("us-west-2", f"http://{host}:{port}")
    role = found("iam").create_role(RoleName="karpenter", AssumeRolePolicyDocument=trust())["Role"]["Arn"]
    found("eks").create_cluster(name="c", roleArn=role, resourcesVpcConfig={})
    records.put(found, lookup.record_name("c", "pod-identities", "kube-system", "karpenter"), {"roleArn": role})
    yield found
    server.stop()


@pytest.fixture
def late(clients: Clients) -> Iterator[Any]:
    yield lambda value: clients("ssm").put_parameter(Name=faults.DELAYS, Value=value, Type="String", Overwrite=True)
    clients("ssm").delete_parameters(Names=[faults.DELAYS])


def with_agent(clients: Clients, ask: Any) -> Any:
    """Return the result of `ask`, called with the agent's URL."""

    async def work() -> Any:
        port = free_port()
        await PodIdentityAgent(Api(), clients).start(port)  # type: ignore[arg-type]
        return await asyncio.to_thread(ask, f"http://127.0.0.1:{port}/v1/credentials")

    return asyncio.run(work())


def test_an_sdk_gets_the_credentials_of_the_associations_role(
    clients: Clients, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "token").write_text("good-token")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(tmp_path / "token"))

    def ask(url: str) -> Any:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url)
        return botocore.session.Session().get_credentials().get_frozen_credentials()

    found = with_agent(clients, ask)
    assert found.access_key.startswith("ASIA") and found.token
    (tmp_path / "token").write_text("forged")
    with pytest.raises(CredentialRetrievalError):
        with_agent(clients, ask)


def status(clients: Clients, token: str) -> tuple[int, str]:
    def ask(url: str) -> tuple[int, str]:
        answer = httpx.get(url, headers={"Authorization": token}, trust_env=False)
        return answer.status_code, "" if answer.is_success else answer.text

    found: tuple[int, str] = with_agent(clients, ask)
    return found


def test_who_is_refused_is_told_why(clients: Clients, late: Any) -> None:
    assert status(clients, "forged") == (
        400,
        "the token is none of a service account for pods.eks.amazonaws.com: token has expired",
    )
    late("pod-identity=3600")
    assert status(clients, "good-token") == (
        404,
        "ResourceNotFoundException: no association of kube-system/karpenter is known",
    )
    late("iam=3600")
    assert status(clients, "good-token")[0] == 403
    late("iam=0")
    assert status(clients, "good-token") == (200, "")


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (
            trust(account="another"),
            "StringEquals aws:RequestTag/kubernetes-service-account wants another, and the session has karpenter",
        ),
        (
            trust(arn=f"{CLUSTER_ARN}c"),
            f"StringEquals aws:RequestTag/eks-cluster-arn wants {CLUSTER_ARN}c, and the session has {CLUSTER_ARN}",
        ),
        (
            trust().replace(', "sts:TagSession"', ""),
            "its action is sts:AssumeRole, not sts:TagSession",
        ),
        (
            trust().replace("pods.eks.", "ec2."),
            "its service principal is ec2.amazonaws.com, not pods.eks.amazonaws.com",
        ),
    ],
    ids=["another account", "another cluster", "no tags", "another service"],
)
def test_a_trust_policy_that_does_not_allow_the_pod_gives_it_nothing(clients: Clients, document: str, why: str) -> None:
    iam = clients("iam")
    iam.update_assume_role_policy(RoleName="karpenter", PolicyDocument=document)
    try:
        assert status(clients, "good-token") == (
            403,
            "AccessDeniedException: the trust policy of arn:aws:iam::123456789012:role/karpenter does not let "
            f"kube-system/karpenter assume it: statement 0: {why}",
        )
    finally:
        iam.update_assume_role_policy(RoleName="karpenter", PolicyDocument=trust())


def test_a_web_identity_gets_no_role_that_sts_does_not_know_yet(clients: Clients, late: Any) -> None:
    assert clients.endpoint_url is not None
    exchange = IdentityExchange(clients.endpoint_url, clients.region)
    role = clients("iam").get_role(RoleName="karpenter")["Role"]["Arn"]
    late("iam=3600")
    with pytest.raises(IdentityRefused, match=r"role/karpenter: IAM has not told STS of the role yet$"):
        exchange.check(role, "", "c")


POD = {
    "containers": [{"env": given.environment(), "volumeMounts": given.mounts()}],
    "volumes": given.volumes(),
}


def test_our_charts_give_a_pod_what_the_webhook_would_give_it() -> None:
    assert_pod(POD)
    assert pod_identity.token_audience(POD, pod_identity.TOKEN_PATH) == "pods.eks.amazonaws.com"


def test_the_variables_lead_to_the_agent_of_this_machine_if_they_led_to_the_nodes() -> None:
    here = pod_identity.on_this_machine(given.VARIABLES, "http://127.0.0.1:5/v1/credentials", Path("/t"))
    assert here == {
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:5/v1/credentials",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "/t",
    }
    assert pod_identity.on_this_machine({"A": "b"}, "http://127.0.0.1:5/v1/credentials", Path("/t")) == {"A": "b"}


def test_a_token_that_is_not_mounted_is_none() -> None:
    assert pod_identity.token_audience(POD, "/elsewhere/eks-pod-identity-token") is None
    assert pod_identity.token_audience({**POD, "volumes": []}, pod_identity.TOKEN_PATH) is None
