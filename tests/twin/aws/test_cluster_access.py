"""The API server's webhooks for IAM principals, with the API server's requests and the AWS CLI's tokens."""

from __future__ import annotations

import base64
import datetime
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import boto3
import httpx
import pytest
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from moto import mock_aws

from tests.eks_tokens import Keys, assume, token_of, url_of
from tests.twin.aws.world import ACCESS_ENTRY, ACCESS_POLICY, CLUSTER, ROLE, World, cluster_inputs, network, roles
from twin.aws import moto_server
from twin.aws.access.tokens import TokenRefused
from twin.aws.access.webhooks import Account
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError
from twin.host import processes
from twin.host.home import TwinHome

ACCOUNT = "123456789012"
CREATOR = f"arn:aws:iam::{ACCOUNT}:user/moto"
SERVER = "https://127.0.0.1:20443"
TRUSTING_THE_ACCOUNT = (
    '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole", '
    f'"Principal": {{"AWS": "arn:aws:iam::{ACCOUNT}:root"}}}}]}}'
)


@dataclass(frozen=True)
class Site:
    """A twin's moto with one cluster, `c`."""

    world: World
    url: str

    def role(self, name: str, **more: Any) -> str:
        """Create a role that the account's users may assume; return its ARN."""
        return str(self.world.make(ROLE, name, name=name, assumeRolePolicy=TRUSTING_THE_ACCOUNT, **more).outputs["arn"])

    def entry(self, principal: str, **more: Any) -> None:
        """Create an access entry."""
        self.world.make(ACCESS_ENTRY, f"entry-{principal}", clusterName="c", principalArn=principal, **more)

    def associate(self, principal: str, policy: str, *namespaces: str) -> None:
        """Associate an access policy with the principal's entry, for the namespaces or for the cluster."""
        scope = {"type": "namespace", "namespaces": list(namespaces)} if namespaces else {"type": "cluster"}
        arn = f"arn:aws:eks::aws:cluster-access-policy/{policy}"
        inputs = {"clusterName": "c", "principalArn": principal, "policyArn": arn, "accessScope": scope}
        self.world.make(ACCESS_POLICY, f"policy-{principal}-{policy}", **inputs)

    def session(self, role: str, name: str = "deploy") -> Keys:
        return assume(self.url, role, name)

    def user(self, token: str) -> dict[str, Any]:
        """Return the user in the authentication webhook's response, which must have one."""
        status = self._ask("authentication", "authentication.k8s.io/v1", "TokenReview", {"token": token})
        assert status["authenticated"], status
        return dict(status["user"])

    def refusal(self, token: str) -> str:
        """Return the authentication webhook's reason for refusing the token, which it must refuse."""
        status = self._ask("authentication", "authentication.k8s.io/v1", "TokenReview", {"token": token})
        assert status["authenticated"] is False and "user" not in status, status
        return str(status["error"])

    def may(self, user: dict[str, Any], verb: str, resource: str, namespace: str = "", group: str = "") -> bool:
        """Return the authorization webhook's decision on a request for a resource."""
        kind, _, sub = resource.partition("/")
        attributes = {"verb": verb, "resource": kind, "subresource": sub, "namespace": namespace, "group": group}
        return self._may(user, resourceAttributes={name: value for name, value in attributes.items() if value})

    def may_on_path(self, user: dict[str, Any], verb: str, path: str) -> bool:
        """Return the authorization webhook's decision on a request for a path."""
        return self._may(user, nonResourceAttributes={"verb": verb, "path": path})

    def _may(self, user: dict[str, Any], **attributes: Any) -> bool:
        spec = {"user": user["username"], "groups": user["groups"], "extra": user["extra"], **attributes}
        status = self._ask("authorization", "authorization.k8s.io/v1", "SubjectAccessReview", spec)
        assert "denied" not in status
        return bool(status["allowed"])

    def _ask(self, webhook: str, version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
        review = {"apiVersion": version, "kind": kind, "spec": spec}
        answer = httpx.post(f"{self.url}/twin/{webhook}", json=review, timeout=60, trust_env=False).raise_for_status().json()
        assert (answer["apiVersion"], answer["kind"]) == (version, kind)
        return dict(answer["status"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    home = TwinHome(tmp_path_factory.mktemp("twin"))
    home.pki.mkdir()
    (home.pki / "ca.crt").write_text("the twin's authority")
    home.save_endpoints(api_server_url=SERVER)
    try:
        moto_server.ensure(home, lambda _: None)
        url = home.load_endpoints().aws_url
        assert url is not None
        world = World(Clients("us-west-2", url))
        network(world)
        roles(world)
        world.make(CLUSTER, "cluster", **cluster_inputs(world))
        yield Site(world, url)
    finally:
        processes.stop_all(home, seconds=5)


def changed(url: str, **parameters: str) -> str:
    """Return the URL with these parameters replaced or added."""
    parts = urllib.parse.urlsplit(url)
    query = {**dict(urllib.parse.parse_qsl(parts.query)), **{name.replace("_", "-"): v for name, v in parameters.items()}}
    return parts._replace(query=urllib.parse.urlencode(query)).geturl()


def test_a_cluster_leads_to_the_twins_api_server(site: Site) -> None:
    cluster = site.world.clients("eks").describe_cluster(name="c")["cluster"]
    assert cluster["endpoint"] == SERVER
    assert base64.b64decode(cluster["certificateAuthority"]["data"]) == b"the twin's authority"


def test_of_two_clusters_of_one_name_the_region_of_the_signature_decides(site: Site) -> None:
    """The second cluster has no entry for the role, which reads the first one."""
    role = site.role("regional")
    site.entry(role)
    site.associate(role, "AmazonEKSViewPolicy")
    keys = site.session(role)
    eks = Clients("eu-west-1", site.url)("eks")
    eks.create_cluster(name="c", roleArn=role, resourcesVpcConfig={"subnetIds": []})
    try:
        assert site.may(site.user(token_of(url_of(site.url, keys))), "list", "pods", "default")
        there = site.refusal(token_of(url_of(site.url, keys, region="eu-west-1")))
        assert there == f"{role} has no access entry of c"
    finally:
        eks.delete_cluster(name="c")


def test_whoever_made_the_cluster_administers_it(site: Site) -> None:
    user = site.user(token_of(url_of(site.url, Keys())))
    assert (user["username"], user["groups"]) == (CREATOR, [])
    assert site.may(user, "deletecollection", "secrets", "kube-system")
    assert site.may(user, "escalate", "clusterroles", group="rbac.authorization.k8s.io")
    assert site.may_on_path(user, "get", "/metrics")


def test_a_role_that_makes_a_cluster_administers_that_one_alone(site: Site) -> None:
    role = site.role("maker", path="/ci/")
    keys = site.session(role)
    clients = Clients("us-west-2", site.url)
    clients._session = boto3.Session(keys.id, keys.secret, keys.token, "us-west-2")
    World(clients, dict(site.world.made)).make(CLUSTER, "second", **cluster_inputs(site.world, name="second"))
    user = site.user(token_of(url_of(site.url, keys, cluster="second")))
    assert site.may(user, "delete", "secrets", "kube-system")
    assert site.refusal(token_of(url_of(site.url, keys))) == f"{role} has no access entry of c"
    site.entry(role)
    assert not site.may(site.user(token_of(url_of(site.url, keys))), "delete", "secrets", "kube-system")
    assert site.refusal(token_of(url_of(site.url, Keys(), cluster="second"))) == f"{CREATOR} has no access entry of second"


def test_the_creators_second_entry_is_refused(site: Site) -> None:
    with pytest.raises(HandlerError, match="ResourceInUseException"):
        site.entry(CREATOR)


def test_a_session_is_its_role_whatever_the_roles_path(site: Site) -> None:
    role = site.role("deploy", path="/teams/serving/")
    assert role == f"arn:aws:iam::{ACCOUNT}:role/teams/serving/deploy"
    site.entry(role, kubernetesGroups=["deployers", "readers"])
    user = site.user(token_of(url_of(site.url, site.session(role, "jo@example.com"))))
    id = site.world.clients("iam").get_role(RoleName="deploy")["Role"]["RoleId"]
    assert user["username"] == f"arn:aws:sts::{ACCOUNT}:assumed-role/deploy/jo-example.com"
    assert user["groups"] == ["deployers", "readers"]
    assert user["uid"] == f"aws-iam-authenticator:{ACCOUNT}:{id}"
    assert user["extra"]["arn"] == [f"arn:aws:sts::{ACCOUNT}:assumed-role/deploy/jo@example.com"]
    assert user["extra"]["canonicalArn"] == [f"arn:aws:iam::{ACCOUNT}:role/deploy"]
    assert user["extra"]["sessionName"] == ["jo@example.com"]
    assert not site.may(user, "get", "pods", "default")


def test_an_entry_names_its_user(site: Site) -> None:
    role = site.role("named")
    site.entry(role, userName="ci:{{SessionName}}")
    assert site.user(token_of(url_of(site.url, site.session(role, "run-7"))))["username"] == "ci:run-7"


def test_an_iam_user_has_an_entry_of_its_own(site: Site) -> None:
    iam = site.world.clients("iam")
    arn = iam.create_user(UserName="jo")["User"]["Arn"]
    key = iam.create_access_key(UserName="jo")["AccessKey"]
    keys = Keys(key["AccessKeyId"], key["SecretAccessKey"])
    assert site.refusal(token_of(url_of(site.url, keys))) == f"{arn} has no access entry of c"
    site.entry(arn)
    assert site.user(token_of(url_of(site.url, keys)))["username"] == arn
    iam.update_access_key(UserName="jo", AccessKeyId=keys.id, Status="Inactive")
    said = site.refusal(token_of(url_of(site.url, keys)))
    assert said == f"InvalidClientTokenId: the access key {keys.id!r} is Inactive"


@pytest.fixture(scope="module")
def viewer(site: Site) -> Keys:
    role = site.role("viewer")
    site.entry(role)
    return site.session(role)


def _signed_at(url: str, keys: Keys, moment: datetime.datetime) -> str:
    """Return the URL with the date and valid signature of another moment."""
    parts = urllib.parse.urlsplit(url)
    query = dict(urllib.parse.parse_qsl(parts.query))
    plain = urllib.parse.urlencode({name: query[name] for name in ("Action", "Version")})
    request = AWSRequest("GET", parts._replace(query=plain).geturl(), headers={"x-k8s-aws-id": "c"})
    stamp = moment.strftime("%Y%m%dT%H%M%SZ")
    signer = SigV4QueryAuth(Credentials(keys.id, keys.secret, keys.token), "sts", "us-west-2", expires=60)
    request.context["timestamp"] = stamp
    signer._modify_request_before_signing(request)
    signature = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
    return f"{request.url}&X-Amz-Signature={signature}"


def test_a_token_of_now_signed_as_the_expired_ones_is_accepted(site: Site, viewer: Keys) -> None:
    now = datetime.datetime.now(datetime.UTC)
    assert site.user(token_of(_signed_at(url_of(site.url, viewer), viewer, now)))
    later = _signed_at(url_of(site.url, viewer), viewer, now + datetime.timedelta(minutes=6))
    assert site.refusal(token_of(later)).startswith("Signature not yet current: ")


def test_an_expired_token_is_refused(site: Site, viewer: Keys) -> None:
    then = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=16)
    said = site.refusal(token_of(_signed_at(url_of(site.url, viewer), viewer, then)))
    assert said.startswith("X-Amz-Date parameter is expired (15 minute expiration) ")


def test_a_token_of_a_session_that_has_ended_is_refused() -> None:
    with mock_aws():
        role = boto3.client("iam", "us-west-2").create_role(RoleName="r", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
        sts = boto3.client("sts", "us-west-2")
        made = sts.assume_role(RoleArn=role, RoleSessionName="short", DurationSeconds=900)["Credentials"]
        keys = Keys(made["AccessKeyId"], made["SecretAccessKey"], made["SessionToken"])
        later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=16)
        url = "http://127.0.0.1:9"
        token = token_of(_signed_at(url_of(url, keys), keys, later))
        with pytest.raises(TokenRefused, match="ExpiredToken: the session has ended"):
            Account(ACCOUNT, url).authenticate(token, later)
        with pytest.raises(TokenRefused, match="SignatureDoesNotMatch"):  # valid until then; no cluster exists
            Account(ACCOUNT, url).authenticate(token, later - datetime.timedelta(minutes=2))


def test_a_token_for_another_cluster_is_refused(site: Site, viewer: Keys) -> None:
    said = site.refusal(token_of(url_of(site.url, viewer, cluster="triton-prod")))
    assert said == "SignatureDoesNotMatch: of another secret key, or for another cluster"


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("http://127.0.0.1:9", "unexpected hostname '127.0.0.1:9' in pre-signed URL"),
        ("http://sts.us-west-2.amazonaws.com", "unexpected hostname 'sts.us-west-2.amazonaws.com' in pre-signed URL"),
        ("https://127.0.0.1:9", "unexpected scheme 'https' in pre-signed URL"),
    ],
)
def test_a_token_for_another_sts_is_refused(site: Site, viewer: Keys, host: str, said: str) -> None:
    assert site.refusal(token_of(url_of(host, viewer))) == said


def test_a_token_of_another_secret_key_is_refused(site: Site, viewer: Keys) -> None:
    forged = Keys(viewer.id, "A" * 40, viewer.token)
    assert site.refusal(token_of(url_of(site.url, forged))).startswith("SignatureDoesNotMatch")
    assert site.refusal(token_of(url_of(site.url, Keys(secret="another")))).startswith("SignatureDoesNotMatch")


def test_a_changed_signature_is_refused(site: Site, viewer: Keys) -> None:
    url = url_of(site.url, viewer)
    assert site.refusal(token_of(changed(url, X_Amz_Signature="0" * 64))).startswith("SignatureDoesNotMatch")
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=1)
    moved = changed(url, X_Amz_Date=later.strftime("%Y%m%dT%H%M%SZ"))
    assert site.refusal(token_of(moved)).startswith("SignatureDoesNotMatch")


def test_a_session_with_another_ones_session_token_is_refused(site: Site, viewer: Keys) -> None:
    other = site.session(site.role("other"))
    said = site.refusal(token_of(url_of(site.url, Keys(viewer.id, viewer.secret, other.token))))
    assert said == "InvalidClientTokenId: the session token belongs to another access key"


def test_an_unknown_access_key_is_refused(site: Site) -> None:
    said = site.refusal(token_of(url_of(site.url, Keys("AKIASTRANGER", "x"))))
    assert said == "InvalidClientTokenId: there is no access key 'AKIASTRANGER'"


def test_a_role_without_an_entry_is_refused(site: Site) -> None:
    role = site.role("stranger")
    assert site.refusal(token_of(url_of(site.url, site.session(role)))) == f"{role} has no access entry of c"


def test_a_deleted_entry_lets_nobody_in(site: Site) -> None:
    role = site.role("leaver")
    site.entry(role)
    site.associate(role, "AmazonEKSClusterAdminPolicy")
    token = token_of(url_of(site.url, site.session(role)))
    user = site.user(token)
    assert site.may(user, "get", "secrets", "triton")
    site.world.delete(f"entry-{role}")
    assert site.refusal(token) == f"{role} has no access entry of c"
    assert not site.may(user, "get", "secrets", "triton")


def test_a_deleted_role_lets_nobody_in_and_nobody_can_assume_it(site: Site) -> None:
    role = site.role("short-lived")
    site.entry(role)
    keys = site.session(role)
    site.world.delete("short-lived")
    assert site.refusal(token_of(url_of(site.url, keys))) == f"{role} does not exist"
    with pytest.raises(ClientError, match=f"{CREATOR} is not authorized to perform: sts:AssumeRole on resource: {role}"):
        site.session(role)


def test_an_entry_of_nodes_is_no_persons(site: Site) -> None:
    role = site.role("machines")
    site.entry(role, type="EC2_LINUX")
    said = site.refusal(token_of(url_of(site.url, site.session(role))))
    assert said == f"the access entry of {role} is of type EC2_LINUX, for nodes"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"Action": "AssumeRole"}, "unexpected action parameter in pre-signed URL"),
        ({"RoleArn": "arn:aws:iam::123456789012:role/x"}, "non-whitelisted query parameter 'RoleArn'"),
        ({"action": "GetCallerIdentity"}, "duplicate query parameter found: 'action'"),
        ({"X_Amz_SignedHeaders": "host"}, "client did not sign the x-k8s-aws-id header in the pre-signed URL"),
        ({"X_Amz_Expires": "901"}, "invalid X-Amz-Expires parameter in pre-signed URL: '901'"),
        ({"X_Amz_Expires": "-1"}, "invalid X-Amz-Expires parameter in pre-signed URL: '-1'"),
        ({"X_Amz_Date": "yesterday"}, "X-Amz-Date is 'yesterday', not like 20060102T150405Z"),
        ({"X_Amz_Credential": "/20261128/us-west-2/sts/aws4_request"}, "InvalidClientTokenId: there is no access key ''"),
        ({"X_Amz_Credential": "test"}, "X-Amz-Credential is not KEY/DATE/REGION/sts/aws4_request"),
        (
            {"X_Amz_Credential": "test/20261127/us-west-2/s3/aws4_request"},
            "X-Amz-Credential is not KEY/DATE/REGION/sts/aws4_request",
        ),
        ({"X_Amz_SignedHeaders": "host;x-k8s-aws-id;x-more"}, "client signed a header that STS does not receive"),
    ],
)
def test_a_request_that_is_no_identitys_is_refused(site: Site, change: dict[str, str], said: str) -> None:
    assert site.refusal(token_of(changed(url_of(site.url, Keys()), **change))) == said


@pytest.mark.parametrize(
    ("token", "said"),
    [
        ("eyJhbGciOiJSUzI1NiJ9.e30.c2ln", "token is missing the prefix 'k8s-aws-v1.'"),
        ("k8s-aws-v1.ä", "illegal base64 data"),
        ("k8s-aws-v1.aHR0cDovLw==", "illegal base64 data"),
        ("k8s-aws-v1." + "A" * 4096, "token is too large"),
    ],
)
def test_what_is_no_token_of_the_cli_is_refused(site: Site, token: str, said: str) -> None:
    assert site.refusal(token) == said


def test_a_request_for_another_path_is_refused(site: Site) -> None:
    url = url_of(site.url, Keys()).replace("/?", "/admin?")
    assert site.refusal(token_of(url)) == "unexpected path in pre-signed URL"


def _with(site: Site, name: str, policy: str, *namespaces: str) -> dict[str, Any]:
    role = site.role(name)
    site.entry(role)
    site.associate(role, policy, *namespaces)
    return site.user(token_of(url_of(site.url, site.session(role))))


# https://docs.aws.amazon.com/eks/latest/userguide/access-policy-permissions.html, read on 2026-11-28: whether each policy's
# table has the verb for the resource.
REQUESTS = [
    ("get", "pods", ""),
    ("get", "pods/log", ""),
    ("get", "secrets", ""),
    ("get", "pods/exec", ""),
    ("create", "pods/exec", ""),
    ("create", "pods/portforward", ""),
    ("create", "secrets", ""),
    ("patch", "deployments", "apps"),
    ("update", "deployments/scale", "apps"),
    ("patch", "deployments/status", "apps"),
    ("get", "scaledobjects", "keda.sh"),
    ("create", "rolebindings", "rbac.authorization.k8s.io"),
    ("impersonate", "serviceaccounts", ""),
    ("create", "serviceaccounts/token", ""),
    ("patch", "namespaces", ""),
    ("list", "nodes", ""),
]
TABLES = {
    "AmazonEKSViewPolicy": "yynnnnnnnnnnnnnn",
    "AmazonEKSAdminViewPolicy": "yyyynnnnnnynnnny",
    "AmazonEKSEditPolicy": "yyyyyyyyynnnynnn",
    "AmazonEKSAdminPolicy": "yyyyyyyyynnyynnn",
    "AmazonEKSClusterAdminPolicy": "yyyyyyyyyyyyyyyy",
}


@pytest.mark.parametrize("policy", TABLES)
def test_a_policy_allows_what_its_table_says(site: Site, policy: str) -> None:
    user = _with(site, policy, policy)
    answers = "".join("y" if site.may(user, verb, of, "triton", group) else "n" for verb, of, group in REQUESTS)
    assert answers == TABLES[policy]
    assert site.may_on_path(user, "get", "/metrics") == (policy == "AmazonEKSClusterAdminPolicy")


def test_a_policy_of_namespaces_ends_with_them(site: Site) -> None:
    user = _with(site, "team", "AmazonEKSClusterAdminPolicy", "triton", "team-*")
    assert site.may(user, "delete", "pods", "triton")
    assert site.may(user, "delete", "pods", "team-a")
    assert not site.may(user, "delete", "pods", "team")
    assert not site.may(user, "delete", "pods", "kube-system")
    assert not site.may(user, "list", "pods")
    assert not site.may(user, "list", "nodes")
    assert not site.may_on_path(user, "get", "/metrics")


def test_policies_of_one_entry_add_up(site: Site) -> None:
    user = _with(site, "both", "AmazonEKSAdminViewPolicy")
    site.associate(f"arn:aws:iam::{ACCOUNT}:role/both", "AmazonEKSEditPolicy", "triton")
    assert site.may(user, "create", "pods/exec", "triton")
    assert not site.may(user, "create", "pods/exec", "keda")
    assert site.may(user, "get", "secrets", "keda")
