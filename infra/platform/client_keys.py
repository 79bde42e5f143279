"""The keys of the gateway's clients: from Secrets Manager to where Envoy Gateway reads them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pulumi

from infra.aws.account import Account
from infra.aws.cluster_access import ClusterAccess
from infra.aws.identity import WorkloadRoleArgs
from infra.platform import pod_identity
from infra.platform.installed_chart import InstalledChart, chart_values, custom_resource
from spec.charts import EXTERNAL_SECRETS_OPERATOR
from spec.iam_policy import Statement, document
from spec.names import CLIENT_KEYS, EXTERNAL_SECRETS, TRITON_NAMESPACE, client_secret

Manifest = dict[str, Any]

REFRESH_SECONDS = 60
"""How often the keys are read: a change of them is at the gateways after that and a few seconds."""
_STORE = "secrets-manager"


class ClientKeys(InstalledChart):
    """The External Secrets Operator, and the Secret that it makes of each client's keys and keeps as they are.

    Keys are in Secrets Manager, in the cluster's Secret and in Envoy; not in Pulumi's state. The namespace is the operator's
    alone: it may read the Secrets of no other, and Triton's pods none of this. `stackctl keys` writes the keys.

    `opts.depends_on` has to name the gateway, whose chart brings the kind ReferenceGrant.
    """

    def __init__(
        self, name: str, cluster: ClusterAccess, clients: Sequence[str], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("triton:platform:ClientKeys", name, cluster, opts)
        stack = cluster.stack
        namespace = self._namespace(EXTERNAL_SECRETS.namespace, "restricted")
        role = self._role(
            f"{name}-reader",
            WorkloadRoleArgs(
                description=f"Keys of the clients of {stack.cluster_name}",
                service_account=EXTERNAL_SECRETS,
                policy=policy(stack.account, stack.cluster_name),
            ),
        )
        release = self._install(EXTERNAL_SECRETS_OPERATOR, EXTERNAL_SECRETS.namespace, values(), namespace, role)
        last: pulumi.Resource = release
        for manifest in manifests(stack.cluster_name, stack.region, clients):
            last = custom_resource(f"{name}-{manifest['kind'].lower()}", manifest, self._after(last))
        self.register_outputs({})


def values() -> dict[str, Any]:
    """Return the chart's values."""
    computed = {"serviceAccount": {"name": EXTERNAL_SECRETS.name}, "extraEnv": pod_identity.environment()}
    return chart_values(EXTERNAL_SECRETS_OPERATOR, {**computed, **pod_identity.extra()})


def policy(account: Account, cluster: str) -> str:
    """Return the operator's rights as JSON text: it reads the secrets of this stack's clients, and no others.

    They are encrypted with AWS's own key for Secrets Manager, for which no right is needed.
    """
    secrets = f"arn:{account.partition}:secretsmanager:{account.region}:{account.id}:secret:{client_secret(cluster, '*')}"
    statement: Statement = {
        "Sid": "KeysOfClients",
        "Effect": "Allow",
        "Action": ["secretsmanager:GetSecretValue", "secretsmanager:DescribeSecret"],
        "Resource": secrets,
    }
    return document(statement)


def manifests(cluster: str, region: str, clients: Iterable[str]) -> list[Manifest]:
    """Return the custom resources, each after those that it names."""
    group, grants = "external-secrets.io/v1", "gateway.networking.k8s.io/v1"
    return [
        _manifest(group, "SecretStore", _STORE, {"provider": {"aws": {"service": "SecretsManager", "region": region}}}),
        _manifest(group, "ExternalSecret", CLIENT_KEYS, external_secret_spec(cluster, clients)),
        # The policies of the routes are in Triton's namespace, as the routes are.
        _manifest(
            grants,
            "ReferenceGrant",
            CLIENT_KEYS,
            {
                "from": [{"group": "gateway.envoyproxy.io", "kind": "SecurityPolicy", "namespace": TRITON_NAMESPACE}],
                "to": [{"group": "", "kind": "Secret", "name": CLIENT_KEYS}],
            },
        ),
    ]


def external_secret_spec(cluster: str, clients: Iterable[str]) -> Manifest:
    """Return what makes one Secret of the secrets of all clients: under `<client>.<slot>` the key.

    Where one of them cannot be read, the Secret stays as it is: the other clients' keys go on working.
    """
    return {
        "secretStoreRef": {"kind": "SecretStore", "name": _STORE},
        "refreshInterval": f"{REFRESH_SECONDS}s",
        "target": {"name": CLIENT_KEYS, "creationPolicy": "Owner", "deletionPolicy": "Retain"},
        "dataFrom": [
            {
                "extract": {"key": client_secret(cluster, client)},
                "rewrite": [{"regexp": {"source": "^(.+)$", "target": f"{client}.${{1}}"}}],
            }
            for client in clients
        ],
    }


def _manifest(api_version: str, kind: str, name: str, spec: Manifest) -> Manifest:
    metadata = {"name": name, "namespace": EXTERNAL_SECRETS.namespace}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}
