"""IAM principals at the API server of a twin that is up: kubeconfigs of the AWS CLI, and each role's permissions.

The expectations are AWS's tables (https://docs.aws.amazon.com/eks/latest/userguide/access-policy-permissions.html) and the
roles of docs/github.md and docs/private-api.md. tests/twin/aws/test_cluster_access.py tests refused tokens.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client as kubernetes
from kubernetes.client.exceptions import ApiException
from kubernetes.stream import portforward, stream

from infra.aws.cluster import access_entries
from infra.platform import viewers
from modelctl import cluster as modelctl_cluster
from modelctl.cluster.admin_key import admin_key
from modelctl.rollout.fleet import ServedVersion
from modelctl.rollout.kubernetes_fleet import KubernetesFleet
from spec.names import SERVED_VERSIONS, TRITON_HTTP_PORT, TRITON_NAMESPACE, VIEWERS
from tests.eks_tokens import Keys, assume, token_of, url_of
from tests.infra.access import stack
from tests.spec.stack_config import settings
from tests.system.e2e.account import REGION, client
from tests.system.e2e.conftest import Twin
from twin.aws import table
from twin.aws.base.clients import Clients
from twin.host.processes import wait_until

CLUSTER = "triton-local"
ADMINISTRATOR, ROLLOUTS, DEPLOYMENT, PREVIEW, RUNNER = (
    f"arn:aws:iam::123456789012:role/{name}"
    for name in ("platform-admin", "triton-rollouts", "triton-eks-deploy", "triton-eks-preview", "triton-local-runner")
)
"""The stack file of `local` names the first two. The last is the runner's own role (infra/aws/runner.py); its jobs use
DEPLOYMENT.
"""


@dataclass(frozen=True)
class Caller:
    """A client of the API server with a token of the AWS CLI."""

    api: kubernetes.ApiClient

    @property
    def core(self) -> kubernetes.CoreV1Api:
        return kubernetes.CoreV1Api(self.api)

    def may(
        self, verb: str, resource: str, group: str = "", namespace: str | None = TRITON_NAMESPACE, name: str | None = None
    ) -> bool:
        """Return the API server's answer to a SelfSubjectAccessReview."""
        kind, _, sub = resource.partition("/")
        attributes = {
            **{"verb": verb, "resource": kind, "subresource": sub, "group": group},
            **{"namespace": namespace, "name": name},
        }
        review = kubernetes.AuthorizationV1Api(self.api).create_self_subject_access_review(
            {"spec": {"resourceAttributes": attributes}}
        )
        return bool(review.status.allowed)


def caller(twin: Twin, role: str | None = None) -> Caller:
    """Return a caller with the role, or the cluster's creator."""
    url = twin.servers().aws_url
    keys = Keys() if role is None else assume(url, role, "a-test")
    cluster = client(url, "eks").describe_cluster(name=CLUSTER)["cluster"]
    configuration = kubernetes.Configuration()
    configuration.host, configuration.ssl_ca_cert = cluster["endpoint"], str(twin.home.pki / "ca.crt")
    configuration.api_key = {"authorization": f"Bearer {token_of(url_of(url, keys, CLUSTER))}"}
    return Caller(kubernetes.ApiClient(configuration))


@pytest.fixture(scope="module")
def roles(twin: Twin) -> Iterator[Clients]:
    """Create the roles of GitHub's workflows and of a runner. The first two get our program's access entries."""
    url = twin.servers().aws_url
    clients = Clients(REGION, url)
    trust = {"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::123456789012:root"}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    names = [role.rpartition("/")[2] for role in (DEPLOYMENT, PREVIEW, RUNNER)]
    for name in names:
        client(url, "iam").create_role(RoleName=name, AssumeRolePolicyDocument=document)
    cluster = settings({"cluster.adminRoleArns": [DEPLOYMENT], "cluster.viewRoleArns": [PREVIEW]}).cluster
    made = []
    for entry in access_entries(stack("local"), cluster).values():
        groups = {"kubernetesGroups": entry.kubernetes_groups} if entry.kubernetes_groups else {}
        own = {"clusterName": CLUSTER, "principalArn": entry.principal_arn, **groups}
        made.append(_create(clients, "aws:eks/accessEntry:AccessEntry", own))
        for policy in (entry.access_policies or {}).values():
            scope = {"type": policy.access_scope.type}
            own = {"clusterName": CLUSTER, "principalArn": entry.principal_arn}
            association = {**own, "policyArn": policy.policy_arn, "accessScope": scope}
            made.append(_create(clients, "aws:eks/accessPolicyAssociation:AccessPolicyAssociation", association))
    rbac = kubernetes.RbacAuthorizationV1Api(caller(twin).api)
    read = {"verbs": ["get", "list", "watch"]}
    core, other = {"apiGroups": [""], "resources": viewers.CORE}, {"apiGroups": viewers.GROUPS, "resources": ["*"]}
    rbac.create_cluster_role({"metadata": {"name": VIEWERS}, "rules": [{**core, **read}, {**other, **read}]})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": VIEWERS}
    group = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": VIEWERS}
    rbac.create_cluster_role_binding({"metadata": {"name": VIEWERS}, "roleRef": reference, "subjects": [group]})
    try:
        yield clients
    finally:
        rbac.delete_cluster_role_binding(VIEWERS)
        rbac.delete_cluster_role(VIEWERS)
        for delete in reversed(made):
            delete()
        for name in names:
            client(url, "iam").delete_role(RoleName=name)


def _create(clients: Clients, type: str, inputs: Mapping[str, Any]) -> Callable[[], None]:
    """Create a resource as the AWS provider does, and return a function that deletes it."""
    handler = table.handler(type)
    id, outputs = handler.create(clients, handler.check(inputs))
    return lambda: handler.delete(clients, id, outputs)


@pytest.fixture(scope="module")
def callers(twin: Twin, roles: Clients) -> dict[str, Caller]:
    """Return the cluster's creator, and the roles with an access entry."""
    named = {"creator": None, "administrator": ADMINISTRATOR, "deployment": DEPLOYMENT, "preview": PREVIEW}
    return {name: caller(twin, role) for name, role in named.items()}


@pytest.fixture(scope="module")
def pod(twin: Twin) -> str:
    """Return a running Triton pod."""
    names = twin.shell(f"kubectl get pods -n {TRITON_NAMESPACE} -l app.kubernetes.io/name=triton -o name").stdout.split()
    assert names
    return names[0].removeprefix("pod/")


def test_the_kubeconfig_of_the_aws_cli_works_unchanged(twin: Twin, tmp_path: Path) -> None:
    """For an administrator's role, as in docs/aws.md, and for the shell's own credentials."""
    commands = []
    for role in ("", f" --role-arn {ADMINISTRATOR}"):
        file = tmp_path / f"kubeconfig-{len(commands)}"
        commands += [
            f"aws eks update-kubeconfig --name {CLUSTER} --region {REGION} --kubeconfig {file}{role} > {file}.said",
            f"kubectl --kubeconfig {file} auth whoami -o jsonpath='{{.status.userInfo.username}} '",
            f"kubectl --kubeconfig {file} get pods -n {TRITON_NAMESPACE} -o jsonpath='{{.items[0].metadata.namespace}} '",
        ]
    done = twin.shell(" && ".join(commands))
    assert done.returncode == 0, done.stderr
    creator, first, administrator, second = done.stdout.split()
    assert creator == "arn:aws:iam::123456789012:user/moto"
    assert administrator == "arn:aws:sts::123456789012:assumed-role/platform-admin/EKSGetTokenAuth"
    assert first == second == TRITON_NAMESPACE


def test_the_program_deployed_as_whoever_made_the_cluster(twin: Twin) -> None:
    """The state has pulumi-eks' command and no certificate; the API server says which user applied the objects."""
    state = twin.shell("pulumi stack export --stack local --show-secrets").stdout
    assert (
        f"eks get-token --cluster-name {CLUSTER}".split()
        == [word for word in _kubeconfig(state)["users"][0]["user"]["exec"]["args"] if word not in ("--region", REGION)][:4]
    )
    assert "client-key-data" not in state


def _kubeconfig(state: str) -> dict[str, Any]:
    (provider,) = (
        resource
        for resource in json.loads(state)["deployment"]["resources"]
        if resource["urn"].endswith("pulumi:providers:kubernetes::cluster-kubernetes")
    )
    document: dict[str, Any] = json.loads(provider["inputs"]["kubeconfig"])
    return document


# Verb, resource, API group, namespace; then whether AmazonEKSClusterAdminPolicy and the program's ClusterRole allow it.
REVIEWS: list[tuple[str, str, str, str | None, bool, bool]] = [
    ("list", "pods", "", TRITON_NAMESPACE, True, True),
    ("get", "pods/log", "", TRITON_NAMESPACE, True, False),
    ("list", "secrets", "", TRITON_NAMESPACE, True, False),
    ("list", "scaledobjects", "keda.sh", TRITON_NAMESPACE, True, True),
    ("list", "customresourcedefinitions", "apiextensions.k8s.io", None, True, True),
    ("get", "nodes/proxy", "", None, True, False),
    ("get", "pods/exec", "", TRITON_NAMESPACE, True, False),
    ("create", "pods/exec", "", TRITON_NAMESPACE, True, False),
    ("create", "pods/portforward", "", TRITON_NAMESPACE, True, False),
    ("create", "pods/eviction", "", TRITON_NAMESPACE, True, False),
    ("create", "serviceaccounts/token", "", TRITON_NAMESPACE, True, False),
    ("patch", "deployments", "apps", TRITON_NAMESPACE, True, False),
    ("patch", "configmaps", "", TRITON_NAMESPACE, True, False),
    ("create", "secrets", "", TRITON_NAMESPACE, True, False),
    ("delete", "namespaces", "", None, True, False),
    ("escalate", "clusterroles", "rbac.authorization.k8s.io", None, True, False),
]


@pytest.mark.parametrize("name", ["creator", "administrator", "deployment", "preview"])
def test_a_role_may_do_what_its_policy_says(callers: dict[str, Caller], name: str) -> None:
    expected = {(verb, resource): (admin, view)[name == "preview"] for verb, resource, _, _, admin, view in REVIEWS}
    found = {(verb, resource): callers[name].may(verb, resource, group, at) for verb, resource, group, at, _, _ in REVIEWS}
    assert found == expected


def _status(request: Callable[[], object]) -> tuple[int, str]:
    """Return the status and the text of the API server's response."""
    try:
        request()
    except ApiException as error:
        return error.status or int(str(error.reason).partition("Handshake status ")[2][:3]), str(error.reason) + str(
            error.body
        )
    return 200, ""


def _forwarded(core: kubernetes.CoreV1Api, pod: str) -> None:
    """Ask Triton through the API server whether it is ready."""
    connection = portforward(core.connect_get_namespaced_pod_portforward, pod, TRITON_NAMESPACE, ports=str(TRITON_HTTP_PORT))
    socket = connection.socket(TRITON_HTTP_PORT)
    socket.settimeout(30)
    socket.sendall(b"GET /v2/health/ready HTTP/1.1\r\nHost: triton\r\nConnection: close\r\n\r\n")
    answer = b""
    while part := socket.recv(4096):
        answer += part
    socket.close()
    assert answer.startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize("name", ["administrator", "deployment", "preview"])
def test_a_role_gets_what_it_may_and_nothing_else(callers: dict[str, Caller], pod: str, name: str) -> None:
    core = callers[name].core
    config_map = {"metadata": {"name": "written-by-a-test"}}
    requests: dict[str, Callable[[], object]] = {
        "secrets": lambda: core.list_namespaced_secret(TRITON_NAMESPACE),
        "port forward": lambda: _forwarded(core, pod),
        "config map": lambda: core.create_namespaced_config_map(TRITON_NAMESPACE, config_map, dry_run="All"),
    }
    expected = {"secrets": 200, "port forward": 200, "config map": 200}
    if name == "preview":
        expected |= {"secrets": 403, "port forward": 403, "config map": 403}
    assert {what: _status(request)[0] for what, request in requests.items()} == expected


@pytest.mark.parametrize("name", ["administrator", "deployment"])
def test_who_administers_may_run_a_command_in_a_pod(callers: dict[str, Caller], pod: str, name: str) -> None:
    key = admin_key(callers[name].api.configuration, TRITON_NAMESPACE, pod)
    assert re.fullmatch("[0-9a-f]{64}", key)


def test_whoever_looks_may_not_run_a_command_in_a_pod(callers: dict[str, Caller], pod: str) -> None:
    core = callers["preview"].core
    status, _ = _status(lambda: stream(core.connect_get_namespaced_pod_exec, pod, TRITON_NAMESPACE, command=["id"]))
    assert status == 403


def test_whoever_looks_may_not_use_the_kubelets_api(callers: dict[str, Caller], pod: str) -> None:
    core = callers["preview"].core
    node = core.read_namespaced_pod(pod, TRITON_NAMESPACE).spec.node_name
    status, _ = _status(lambda: core.connect_get_node_proxy_with_path(node, f"exec/{TRITON_NAMESPACE}/{pod}/triton"))
    assert status == 403


def test_a_runner_takes_the_role_of_its_job(twin: Twin, callers: dict[str, Caller]) -> None:
    """The runner's own role has no access entry: docs/private-api.md."""
    runner = caller(twin, RUNNER)
    assert _status(lambda: runner.core.list_namespaced_pod(TRITON_NAMESPACE))[0] == 401
    assert callers["deployment"].may("create", "pods/portforward")


# From docs/private-api.md#pods: verb, resource, API group, and the object's name if the Role allows only one.
OF_ROLLOUTS = [
    ("list", "endpointslices", "discovery.k8s.io", None),
    ("get", "pods", "", None),
    ("delete", "pods", "", None),
    ("get", "pods/portforward", "", None),
    ("create", "pods/portforward", "", None),
    ("create", "configmaps", "", None),
    ("get", "configmaps", "", "triton-served-versions"),
    ("update", "configmaps", "", "triton-served-versions"),
]
REFUSED_TO_ROLLOUTS = [
    *((verb, "secrets", "", None) for verb in ("get", "list", "create")),
    *((verb, "pods/exec", "", None) for verb in ("get", "create")),
    ("create", "pods/eviction", "", None),
    ("create", "pods", "", None),
    ("list", "pods", "", None),
    ("get", "configmaps", "", "another"),
    ("update", "configmaps", "", "another"),
    ("delete", "configmaps", "", "triton-served-versions"),
    ("create", "serviceaccounts/token", "", None),
    ("patch", "deployments", "apps", None),
    ("update", "roles", "rbac.authorization.k8s.io", None),
    ("update", "rolebindings", "rbac.authorization.k8s.io", None),
]


def test_who_rolls_out_may_do_that_in_tritons_namespace_alone(twin: Twin) -> None:
    rollouts = caller(twin, ROLLOUTS)
    reviews = [*OF_ROLLOUTS, *REFUSED_TO_ROLLOUTS]
    allowed = [item for item in reviews if rollouts.may(item[0], item[1], item[2], TRITON_NAMESPACE, item[3])]
    assert allowed == OF_ROLLOUTS
    elsewhere = [item for item in reviews if rollouts.may(item[0], item[1], item[2], "kube-system", item[3])]
    of_the_cluster = [item for item in reviews if rollouts.may(item[0], item[1], item[2], None, item[3])]
    assert elsewhere == of_the_cluster == []


def test_who_rolls_out_gets_no_secret_and_no_command_in_a_pod(twin: Twin, pod: str) -> None:
    core = caller(twin, ROLLOUTS).core
    refused: dict[str, Callable[[], object]] = {
        "secrets": lambda: core.list_namespaced_secret(TRITON_NAMESPACE),
        "exec": lambda: stream(core.connect_get_namespaced_pod_exec, pod, TRITON_NAMESPACE, command=["id"]),
        "elsewhere": lambda: core.read_namespaced_pod("any", "kube-system"),
    }
    assert {name: _status(request)[0] for name, request in refused.items()} == dict.fromkeys(refused, 403)


def test_modelctl_works_with_the_role_of_rollouts(
    twin: Twin, pod: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sends each request of `parity`, `watch`, `rollout` and `tune --pod`, with the kubeconfig that the AWS CLI writes."""
    kubeconfig = tmp_path / "kubeconfig"
    update = f"aws eks update-kubeconfig --name {CLUSTER} --region {REGION} --kubeconfig {kubeconfig} --role-arn {ROLLOUTS}"
    parity = twin.shell(f"{update} >&2 && KUBECONFIG={kubeconfig} {sys.executable} -m modelctl parity --json")
    assert parity.returncode == 0, parity.stderr
    assert pod in json.loads(parity.stdout)["pods"]

    of_rollouts = caller(twin, ROLLOUTS).api
    monkeypatch.setattr(modelctl_cluster, "connect", lambda: of_rollouts)
    fleet = KubernetesFleet(TRITON_NAMESPACE)
    pods = {item.name: item for item in fleet.pods()}
    assert fleet.release(pods[pod]) is not None
    assert fleet.served() == {}
    core = caller(twin).core
    try:
        fleet.serve({"normalize": ServedVersion(stable=1)})  # creates the ConfigMap
        fleet.serve({"normalize": ServedVersion(stable=1, canary=2, percent=5)})  # updates it
        assert fleet.served() == {"normalize": ServedVersion(stable=1, canary=2, percent=5)}
    finally:
        core.delete_namespaced_config_map(SERVED_VERSIONS, TRITON_NAMESPACE)
    restarted = replace(pods[pod], uid="of-another-pod")  # allowed, and then refused because of its UID, so the pod stays
    fleet.restart(restarted)
    assert fleet.release(pods[pod]) is not None


def test_who_loses_the_entry_is_out(twin: Twin, roles: Clients) -> None:
    url = twin.servers().aws_url
    arn = client(url, "iam").create_role(RoleName="leaver", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
    delete = _create(roles, "aws:eks/accessEntry:AccessEntry", {"clusterName": CLUSTER, "principalArn": arn})
    try:
        leaver = caller(twin, arn)
        # An entry without policies and groups allows only what every authenticated user may do.
        assert _status(lambda: leaver.core.list_namespaced_pod(TRITON_NAMESPACE))[0] == 403
        delete()
        wait_until(
            lambda: _status(lambda: leaver.core.list_namespaced_pod(TRITON_NAMESPACE))[0] == 401,
            "the API server to forget the entry",
            30,
        )
    finally:
        client(url, "iam").delete_role(RoleName="leaver")


def test_groups_of_an_entry_are_those_of_rbac(twin: Twin, roles: Clients) -> None:
    url = twin.servers().aws_url
    arn = client(url, "iam").create_role(RoleName="reader", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
    entry = {"clusterName": CLUSTER, "principalArn": arn, "kubernetesGroups": ["readers"], "userName": "ci:{{SessionName}}"}
    delete = _create(roles, "aws:eks/accessEntry:AccessEntry", entry)
    binding = f"-n {TRITON_NAMESPACE} rolebinding readers"
    try:
        made = twin.shell(f"kubectl create {binding} --clusterrole=view --group=readers")
        assert made.returncode == 0, made.stderr
        reader = caller(twin, arn)
        assert reader.may("list", "pods")
        assert not reader.may("list", "secrets")
        assert not reader.may("list", "pods", namespace="kube-system")
    finally:
        twin.shell(f"kubectl delete {binding}")
        delete()
        client(url, "iam").delete_role(RoleName="reader")
