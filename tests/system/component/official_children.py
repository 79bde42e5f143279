"""Children of pulumi-eks' `eks.Cluster`, from its source.

https://github.com/pulumi/pulumi-eks/tree/7bf0c1b179932ce51cb02dfc4f9bd0d7550cb0cd/nodejs/eks/cluster, for these arguments:
authentication mode API, one access entry `admin` without tags and with one policy `view`, a service role, a version of
kube-proxy; no CoreDNS, default node group, default security groups or VPC CNI. `createOidcProvider` is off.
"""

from __future__ import annotations

from dataclasses import dataclass

COMPONENT = "the component"


@dataclass(frozen=True)
class OfficialChild:
    """`name` follows the component's name. `parent` and `depends_on` are such names, or COMPONENT.

    `depends_on` has the option's resources and the sources of the inputs, because the engine gets both as dependencies.
    `inputs` are the keys that have a value.
    """

    type: str
    name: str
    source: str
    inputs: frozenset[str]
    parent: str = COMPONENT
    depends_on: frozenset[str] = frozenset()
    ignore_changes: tuple[str, ...] = ()


_ON_THE_CLUSTER = frozenset({"-eksCluster"})

CHILDREN = (
    OfficialChild(
        "aws:eks/cluster:Cluster",
        "-eksCluster",
        "cluster.ts:687-762",
        frozenset(
            {
                "accessConfig",
                "bootstrapSelfManagedAddons",
                "deletionProtection",
                "enabledClusterLogTypes",
                "encryptionConfig",
                "name",
                "roleArn",
                "tags",
                "upgradePolicy",
                "version",
                "vpcConfig",
            }
        ),
        ignore_changes=("accessConfig.bootstrapClusterCreatorAdminPermissions", "bootstrapSelfManagedAddons"),
    ),
    OfficialChild(
        "aws:eks/addon:Addon",
        "-kube-proxy",
        "cluster.ts:779-796",
        frozenset(
            {
                "addonName",
                "addonVersion",
                "clusterName",
                "preserve",
                "resolveConflictsOnCreate",
                "resolveConflictsOnUpdate",
                "tags",
            }
        ),
        depends_on=_ON_THE_CLUSTER,
    ),
    # The kubeconfig comes from the cluster (cluster.ts:851-912). It names no AWS profile if providerCredentialOpts is set,
    # also to {} (cluster.ts:2102-2113, 883-891, 232-237).
    OfficialChild(
        "pulumi:providers:kubernetes",
        "-eks-k8s",
        "cluster.ts:914-921",
        frozenset({"kubeconfig"}),
        depends_on=_ON_THE_CLUSTER,
    ),
    # It has only the entry's own tags, not the component's. For its options see cluster.ts:1050-1056.
    OfficialChild(
        "aws:eks/accessEntry:AccessEntry",
        "-admin",
        "authenticationMode.ts:185-193",
        frozenset({"clusterName", "principalArn"}),
        depends_on=_ON_THE_CLUSTER,
    ),
    OfficialChild(
        "aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
        "-admin-view",
        "authenticationMode.ts:197-210",
        frozenset({"accessScope", "clusterName", "policyArn", "principalArn"}),
        parent="-admin",
        depends_on=frozenset({"-admin", "-eksCluster"}),
    ),
)
