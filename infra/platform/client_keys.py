"""The keys of the gateway's clients, copied from Secrets Manager into the Secret that Envoy Gateway reads."""

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
"""The interval at which the keys are read. A change reaches the gateways after that and a few seconds."""
_STORE = "secrets-manager"


class ClientKeys(InstalledChart):
    """The External Secrets Operator, and the Secret into which it copies each client's keys and their changes.

    Keys are in Secrets Manager, in the cluster's Secret and in Envoy, but not in Pulumi's state. The namespace contains only
    the operator: it cannot read Secrets elsewhere, and Triton's pods cannot read these. `stackctl keys` writes the keys.
    `opts.depends_on` has to name the gateway, whose chart installs the kind ReferenceGrant.
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
    """Return the operator's permissions as JSON text: it may read only the secrets of this stack's clients.

    They are encrypted with the AWS-managed key for Secrets Manager, which needs no permission.
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
    """Return the custom resources, each after the resources that it refers to."""
    group, grants = "external-secrets.io/v1", "gateway.networking.k8s.io/v1"
    return [
        _manifest(group, "SecretStore", _STORE, {"provider": {"aws": {"service": "SecretsManager", "region": region}}}),
        _manifest(group, "ExternalSecret", CLIENT_KEYS, external_secret_spec(cluster, clients)),
        # The routes' policies are in Triton's namespace, like the routes.
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
    """Return the spec that merges all clients' secrets into one Secret, with each key under `<client>.<slot>`.

    If one of the secrets cannot be read, the Secret stays unchanged, so the other clients' keys still work.
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
