"""The EKS control plane: its keys, logs, roles and administrators, and the prerequisites of nodes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import pulumi
import pulumi_aws as aws
import pulumi_eks as eks
import pulumi_kubernetes as k8s

from infra.aws.cluster_access import ClusterAccess, OidcProvider
from infra.aws.identity import WorkloadRole, WorkloadRoleArgs
from infra.aws.keys import EncryptionKey, EncryptionKeyArgs
from infra.aws.log_group import log_group
from infra.aws.network_access import NetworkAccess
from infra.aws.role import role
from infra.aws.stack import Stack
from spec.iam_policy import allow, document, service_trust
from spec.names import NETWORK_PLUGIN, ROLLOUTS, VIEWERS, control_plane_log_group
from spec.settings.cluster import Cluster as ClusterSettings
from spec.versions import KUBERNETES, support_type

LOG_TYPES = ("api", "audit", "authenticator", "controllerManager", "scheduler")
_CNI_CONFIGURATION = {
    # The nodes enforce network policies; without this setting the policies have no effect.
    "enableNetworkPolicy": "true",
    "env": {
        # /28 blocks instead of single addresses: ten times the pods per node, and the basis of
        # `spec.subnets.addresses_per_node`.
        "ENABLE_PREFIX_DELEGATION": "true",
        "WARM_PREFIX_TARGET": "1",
    },
}


@dataclass(frozen=True)
class ClusterArgs:
    stack: Stack
    cluster: ClusterSettings
    network: NetworkAccess
    logs_key_arn: pulumi.Input[str]
    allow_destroy: bool
    """The cluster can be deleted, whatever `cluster.deletionProtection` is."""
    today: date
    """The date for checks of Kubernetes support (`Settings.today`)."""


class Cluster(pulumi.ComponentResource):
    """A control plane with its network plugin, ready for node groups.

    `eks.Cluster` is used only for the control plane. Its vpc-cni add-on is turned off and created here instead. The add-on's
    role uses the cluster's OIDC provider, which exists only after the cluster, but `eks.Cluster` needs the role as an
    argument. kube-proxy needs no role and stays with `eks.Cluster`.

    The role that runs the first `pulumi up` stays an administrator permanently, because `eks.Cluster` requires it
    (docs/facts/eks.md#creator-is-administrator). Run it as the deployment role, and list other administrators in
    `admin_role_arns`. The deployment role must not be listed there: see `creators_second_entry`.
    """

    access: ClusterAccess
    """Names, ids and API provider of the cluster, for all components in the cluster."""

    def __init__(self, name: str, args: ClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("triton:cluster:Cluster", name, None, opts)
        self._name = name
        self._args = args
        self._arn = cluster_arn(args.stack)
        self._child = pulumi.ResourceOptions(parent=self)

        control_plane = self._control_plane()
        ways_in = self._ways_in(control_plane.cluster_security_group_id)
        self.access = ClusterAccess(
            stack=args.stack,
            kubernetes_version=args.cluster.version,
            name=control_plane.eks_cluster.name,
            known_name=args.stack.cluster_name,
            arn=self._arn,
            oidc=self._oidc_provider(control_plane),
            network=args.network,
            security_group_id=control_plane.cluster_security_group_id,
            ready=[self],
            kubernetes=k8s.Provider(
                f"{name}-kubernetes",
                kubeconfig=control_plane.kubeconfig_json,
                enable_server_side_apply=True,
                # The provider is replaced only with the cluster, not whenever its endpoint or certificate changes.
                cluster_identifier=self._arn,
                # If the provider cannot reach the API server at its start, every object of the run fails.
                opts=pulumi.ResourceOptions(parent=self, depends_on=ways_in),
            ),
        )
        self._network_plugin()
        self.register_outputs({"name": self.access.name, "arn": self._arn})

    def _control_plane(self) -> eks.Cluster:
        name, stack, cluster = self._name, self._args.stack, self._args.cluster
        secrets_key = EncryptionKey(
            f"{name}-secrets",
            EncryptionKeyArgs(
                account=stack.account,
                alias=f"{stack.cluster_name}-secrets",
                description=f"Kubernetes secrets of {stack.cluster_name}",
                tags=stack.tags,
                protected=stack.protected,
            ),
            opts=self._child,
        )
        # Created first; otherwise EKS creates it without a retention and leaves it behind on destroy.
        logs = log_group(
            self,
            name,
            control_plane_log_group(stack.cluster_name),
            stack.tags,
            retention_days=cluster.log_retention_days,
            kms_key_arn=self._args.logs_key_arn,
        )
        service_role, granted = self._service_role(secrets_key.arn)
        public = cluster.endpoint == "public"
        return eks.Cluster(
            f"{name}-control-plane",
            name=stack.cluster_name,
            version=cluster.version,
            vpc_id=self._args.network.vpc_id,
            subnet_ids=list(self._args.network.control_plane_subnet_ids),
            endpoint_private_access=True,
            endpoint_public_access=public,
            public_access_cidrs=[str(cidr) for cidr in cluster.public_access_cidrs] if public else None,
            authentication_mode=eks.AuthenticationMode.API,
            access_entries=access_entries(stack, cluster),
            service_role=service_role,
            # Without it the component writes the current AWS profile into its provider, so laptop and CI would update it in
            # turn (docs/facts/eks.md#the-component).
            provider_credential_opts=eks.KubeconfigOptionsArgs(),
            encryption_config_key_arn=secrets_key.arn,
            enabled_cluster_log_types=list(LOG_TYPES),
            skip_default_node_group=True,
            skip_default_security_groups=True,
            # No self-managed add-ons to adopt later: each add-on is pinned from the start.
            bootstrap_self_managed_addons=False,
            use_default_vpc_cni=True,
            kube_proxy_addon_options=eks.KubeProxyAddonOptionsArgs(version=KUBERNETES[cluster.version].addons["kube-proxy"]),
            coredns_addon_options=eks.CoreDnsAddonOptionsArgs(enabled=False),
            # Otherwise extended support starts automatically, at six times the price.
            upgrade_policy=aws.eks.ClusterUpgradePolicyArgs(support_type=support_type(cluster.version, self._args.today)),
            deletion_protection=cluster.deletion_protection and not self._args.allow_destroy,
            tags=dict(stack.tags),
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=[logs, *granted],
                transforms=[_protect_the_control_plane] if stack.protected else None,
            ),
        )

    def _oidc_provider(self, control_plane: eks.Cluster) -> OidcProvider:
        """Create the OIDC provider without thumbprints, because IAM reads them itself.

        `create_oidc_provider` of `eks.Cluster` opens a TLS connection to the issuer in every preview and update. The private
        zone of the VPC's `eks` endpoint hides that host from all runs inside the VPC
        (docs/facts/eks.md#the-issuer-inside-the-vpc).
        """
        # The component's earlier name for it, so an upgrade keeps the provider.
        component_child = pulumi.Alias(name=f"{self._name}-control-plane-oidcProvider", parent=control_plane)
        provider = aws.iam.OpenIdConnectProvider(
            f"{self._name}-oidc-provider",
            url=control_plane.oidc_provider_url,
            client_id_lists=["sts.amazonaws.com"],
            tags=self._args.stack.tags,
            opts=pulumi.ResourceOptions(parent=self, aliases=[component_child]),
        )
        return OidcProvider(arn=provider.arn, issuer=control_plane.oidc_issuer)

    def _ways_in(self, group_id: pulumi.Output[str]) -> list[pulumi.Resource]:
        """Allow the networks and groups of `cluster.apiAccess`. EKS's own security group admits only its members, the nodes.

        https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html#private-access
        """
        named = self._args.cluster.api_access
        if named is None:
            return []
        sources = [(str(cidr).replace("/", "-"), {"cidr_ipv4": str(cidr)}) for cidr in named.cidrs]
        sources += [(group, {"referenced_security_group_id": group}) for group in named.security_groups]
        return [
            aws.vpc.SecurityGroupIngressRule(
                f"{self._name}-api-from-{label}",
                security_group_id=group_id,
                description="Kubernetes API",
                ip_protocol="tcp",
                from_port=443,
                to_port=443,
                tags=self._args.stack.tags,
                opts=self._child,
                **source,
            )
            for label, source in sources
        ]

    def _service_role(self, secrets_key_arn: pulumi.Output[str]) -> tuple[aws.iam.Role, list[pulumi.Resource]]:
        name, stack = self._name, self._args.stack
        created = role(
            f"{name}-role",
            stack,
            description=f"Control plane of {stack.cluster_name}",
            trust=service_trust("eks.amazonaws.com", source_account=stack.account.id, source_arn=self._arn),
            tags=stack.named(f"{stack.cluster_name}-control-plane"),
            opts=self._child,
        )
        granted: list[pulumi.Resource] = [
            aws.iam.RolePolicyAttachment(
                f"{name}-AmazonEKSClusterPolicy",
                role=created.name,
                policy_arn=stack.account.managed_policy("AmazonEKSClusterPolicy"),
                opts=self._child,
            ),
            aws.iam.RolePolicy(
                f"{name}-secrets-policy",
                role=created.name,
                policy=secrets_key_arn.apply(
                    lambda arn: document(allow(["kms:Encrypt", "kms:Decrypt", "kms:ListGrants", "kms:DescribeKey"], [arn]))
                ),
                opts=self._child,
            ),
        ]
        return created, granted

    def _network_plugin(self) -> None:
        """Register the vpc-cni, with prefix delegation and network policies, before the first node needs an address."""
        name, stack = self._name, self._args.stack
        plugin_role = WorkloadRole(
            f"{name}-vpc-cni",
            self.access,
            WorkloadRoleArgs(
                description=f"Network plugin of {stack.cluster_name}",
                service_account=NETWORK_PLUGIN,
                identity="irsa",
                managed_policy_arns=(stack.account.managed_policy("AmazonEKS_CNI_Policy"),),
            ),
            opts=self._child,
        )
        aws.eks.Addon(
            f"{name}-addon-vpc-cni",
            cluster_name=self.access.name,
            addon_name="vpc-cni",
            addon_version=self.access.pins.addons["vpc-cni"],
            service_account_role_arn=plugin_role.arn,
            configuration_values=json.dumps(_CNI_CONFIGURATION, sort_keys=True),
            resolve_conflicts_on_create="OVERWRITE",
            resolve_conflicts_on_update="OVERWRITE",
            tags=stack.tags,
            opts=self._child,
        )


def _protect_the_control_plane(args: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
    """Protect only the cluster itself.

    As an option of `eks.Cluster`, protection would apply to all its children, so an administrator's access entry could not
    be removed.
    """
    if args.type_ != "aws:eks/cluster:Cluster":
        return None
    return pulumi.ResourceTransformResult(
        props=args.props, opts=pulumi.ResourceOptions.merge(args.opts, pulumi.ResourceOptions(protect=True))
    )


def cluster_arn(stack: Stack) -> str:
    """Return the ARN of the stack's cluster."""
    return stack.account.arn("eks", f"cluster/{stack.cluster_name}")


def creators_second_entry(caller_arn: str, admin_role_arns: Sequence[str]) -> str | None:
    """Return the administrator that is the caller's own role, for which EKS refuses a second access entry; None without one.

    `caller_arn` is STS's answer. For a role it is a session, `arn:aws:sts::<account>:assumed-role/<name>/<session>`, without
    the role's path. EKS makes the role that creates a cluster an administrator, and answers ResourceInUseException to
    another entry for it (pulumi/pulumi-eks#2373).
    """
    partition, service, _, account_id, resource = caller_arn.split(":", maxsplit=5)[1:]
    kind, _, session = resource.partition("/")
    if (service, kind) != ("sts", "assumed-role"):
        return None
    caller = (partition, account_id, session.partition("/")[0])
    return next((arn for arn in admin_role_arns if _partition_account_and_name(arn) == caller), None)


def _partition_account_and_name(role_arn: str) -> tuple[str, str, str]:
    parts = role_arn.split(":", maxsplit=5)
    return parts[1], parts[4], parts[5].rpartition("/")[2]


def _entry_name(role_arn: str) -> str:
    """Return a name for an access entry that does not depend on the order of the list."""
    account_id, resource = role_arn.split(":")[4:6]
    return f"{account_id}-{resource.removeprefix('role/').replace('/', '-')}"


def access_entries(stack: Stack, cluster: ClusterSettings) -> dict[str, eks.AccessEntryArgs]:
    """Return the access entries of administrators, viewers and rollout roles, by resource name.

    EKS's access policies (https://docs.aws.amazon.com/eks/latest/userguide/access-policy-permissions.html) are too wide for
    viewers and rollouts. These roles get Kubernetes groups, which `infra.platform.viewers` and `infra.serving.rollouts`
    bind.
    """
    # The tags of `eks.Cluster` do not reach its access entries.
    tags = dict(stack.tags)
    whole_cluster = eks.AccessPolicyAssociationArgs(
        policy_arn=f"arn:{stack.account.partition}:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy",
        access_scope=aws.eks.AccessPolicyAssociationAccessScopeArgs(type="cluster"),
    )
    entries = {
        _entry_name(arn): eks.AccessEntryArgs(principal_arn=arn, tags=tags, access_policies={"admin": whole_cluster})
        for arn in cluster.admin_role_arns
    }
    return entries | {
        _entry_name(arn): eks.AccessEntryArgs(principal_arn=arn, tags=tags, kubernetes_groups=[group])
        for group, arns in ((VIEWERS, cluster.view_role_arns), (ROLLOUTS, cluster.rollout_role_arns))
        for arn in arns
    }
