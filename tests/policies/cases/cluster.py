"""Cases of policies about the control plane."""

from tests.policies.case import ABSENT, Case, fail, made
from triton_policies.cluster import ACCESS_ENTRY, ACCESS_POLICY, ADDON, CLUSTER, CONFIG_MAP
from triton_policies.network import INGRESS_RULE

_ADMIN = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
_DAY = {"asOf": "2026-11-21"}

CASES = (
    Case(
        policy="eks-endpoint-not-world",
        type=CLUSTER,
        passes={"vpcConfig": {"endpointPrivateAccess": True, "endpointPublicAccess": False}},
        fails=(
            fail(
                {"vpcConfig.endpointPrivateAccess": False},
                (
                    "it: vpcConfig.endpointPrivateAccess: is false: nodes and people in the VPC reach the API "
                    "through the internet. "
                    "Fix: set it to true"
                ),
            ),
            fail(
                {"vpcConfig.endpointPublicAccess": True},
                (
                    "it: vpcConfig.endpointPublicAccess: is not false: the API is on the internet. "
                    "Fix: set it to false, and come by VPN"
                ),
            ),
            fail(
                {"vpcConfig.endpointPublicAccess": ABSENT},
                (
                    "it: vpcConfig.endpointPublicAccess: is not false: the API is on the internet. "
                    "Fix: set it to false, and come by VPN"
                ),
            ),
            fail(
                {"vpcConfig.endpointPublicAccess": True},
                (
                    "it: vpcConfig.publicAccessCidrs: is not set: the whole internet may ask the API. "
                    "Fix: name the networks that may"
                ),
                environment="dev",
            ),
            fail(
                {"vpcConfig.endpointPublicAccess": True, "vpcConfig.publicAccessCidrs": ["203.0.113.0/24", "0.0.0.0/0"]},
                (
                    "it: vpcConfig.publicAccessCidrs[1]: is 0.0.0.0/0: the whole internet may ask the API. "
                    "Fix: name the networks that may, never 0.0.0.0/0"
                ),
                environment="dev",
            ),
            fail(
                {"vpcConfig.endpointPublicAccess": True},
                (
                    "it: vpcConfig.endpointPublicAccess: is not false: the API is on the internet. "
                    "Fix: set it to false, and come by VPN"
                ),
                environment="a-stack-of-no-known-environment",
            ),
        ),
        unknown="vpcConfig.endpointPublicAccess",
    ),
    Case(
        policy="eks-api-private-sources",
        type="",
        passes=(
            made(CLUSTER, "cluster", {"name": "triton"}),
            made(INGRESS_RULE, "vpn", {"cidrIpv4": "172.16.0.0/12"}, securityGroupId="cluster"),
            made(INGRESS_RULE, "runner", {"referencedSecurityGroupId": "sg-1"}, securityGroupId="cluster"),
            made(INGRESS_RULE, "of-another-group", {"cidrIpv4": "198.51.100.0/24", "securityGroupId": "sg-2"}),
        ),
        fails=(
            *(
                fail(
                    {"vpn": {"cidrIpv4": cidr, "tags": {"public-load-balancer": "true"}}},
                    f"vpn: cidrIpv4: is {cidr}: lets addresses of the internet reach the API server and every node. "
                    "Fix: name private ranges or security groups; a public API is publicAccessCidrs of the cluster",
                )
                for cidr in ("0.0.0.0/0", "198.51.100.0/24", "10.0.0.0/7")
            ),
            fail(
                {"runner": {"cidrIpv6": "::/0"}},
                "runner: cidrIpv6: is ::/0: lets addresses of the internet reach the API server and every node. "
                "Fix: name private ranges or security groups; a public API is publicAccessCidrs of the cluster",
            ),
        ),
        unknown=("vpn", "cidrIpv4"),
    ),
    Case(
        policy="eks-secrets-kms",
        type=CLUSTER,
        passes={"encryptionConfig": {"resources": ["secrets"], "provider": {"keyArn": "arn:aws:kms:us-west-2:1:key/a"}}},
        fails=(
            fail(
                {"encryptionConfig": ABSENT},
                (
                    "it: encryptionConfig.resources: is not set: secrets are encrypted with a key that is not "
                    "yours. "
                    "Fix: set encryptionConfig with resources [secrets] and provider.keyArn; it cannot be taken "
                    "back or changed later"
                ),
                (
                    "it: encryptionConfig.provider.keyArn: is not set: secrets are encrypted with a key that is not "
                    "yours. "
                    "Fix: set encryptionConfig with resources [secrets] and provider.keyArn; it cannot be taken "
                    "back or changed later"
                ),
            ),
            fail(
                {"encryptionConfig.provider": ABSENT},
                (
                    "it: encryptionConfig.provider.keyArn: is not set: secrets are encrypted with a key that is not "
                    "yours. "
                    "Fix: set encryptionConfig with resources [secrets] and provider.keyArn; it cannot be taken "
                    "back or changed later"
                ),
            ),
            fail(
                {"encryptionConfig.resources": []},
                (
                    "it: encryptionConfig.resources: is empty: secrets are encrypted with a key that is not yours. "
                    "Fix: set encryptionConfig with resources [secrets] and provider.keyArn; it cannot be taken "
                    "back or changed later"
                ),
            ),
        ),
        unknown="encryptionConfig",
    ),
    Case(
        policy="eks-control-plane-logs",
        type=CLUSTER,
        passes={"enabledClusterLogTypes": ["api", "audit", "authenticator", "controllerManager", "scheduler"]},
        fails=(
            fail(
                {"enabledClusterLogTypes": ABSENT},
                (
                    "it: enabledClusterLogTypes: has no api, audit, authenticator, controllerManager, scheduler: "
                    "what happened there cannot be found out afterwards. "
                    "Fix: set enabledClusterLogTypes to api, audit, authenticator, controllerManager, scheduler"
                ),
            ),
            fail(
                {"enabledClusterLogTypes[1]": "api"},
                (
                    "it: enabledClusterLogTypes: has no audit: what happened there cannot be found out afterwards. "
                    "Fix: set enabledClusterLogTypes to api, audit, authenticator, controllerManager, scheduler"
                ),
            ),
        ),
        unknown="enabledClusterLogTypes",
    ),
    Case(
        policy="eks-auth-api-only",
        type=CLUSTER,
        passes={"accessConfig": {"authenticationMode": "API"}},
        fails=(
            fail(
                {"accessConfig.authenticationMode": "API_AND_CONFIG_MAP"},
                (
                    "it: accessConfig.authenticationMode: is API_AND_CONFIG_MAP: the ConfigMap aws-auth decides who "
                    "may enter too. "
                    "Fix: set accessConfig.authenticationMode to API, and give people access entries"
                ),
            ),
            fail(
                {"accessConfig": ABSENT},
                (
                    "it: accessConfig.authenticationMode: is not set: the ConfigMap aws-auth decides who may enter "
                    "too. "
                    "Fix: set accessConfig.authenticationMode to API, and give people access entries"
                ),
            ),
        ),
        unknown="accessConfig.authenticationMode",
    ),
    Case(
        policy="eks-auth-api-only",
        type=CONFIG_MAP,
        passes={"metadata": {"name": "settings", "namespace": "kube-system"}},
        fails=(
            fail(
                {"metadata.name": "aws-auth"},
                (
                    "it: metadata.name: is aws-auth: who edits it is an administrator, and nothing logs it. "
                    "Fix: set accessConfig.authenticationMode to API, and give people access entries"
                ),
            ),
        ),
        unknown="metadata.name",
    ),
    Case(
        policy="eks-version-supported",
        type=CLUSTER,
        passes={"version": "1.35", "upgradePolicy": {"supportType": "STANDARD"}},
        fails=(
            fail(
                {"version": "1.31"},
                (
                    "it: version: is 1.31, which is not among those supported: 1.34, 1.35, 1.36, 1.37. "
                    "Fix: upgrade to a supported minor version, one at a time"
                ),
            ),
            fail(
                {"version": "1.33"},
                (
                    "it: version: is 1.33, whose standard support ended on 2026-07-29: it costs six times as much. "
                    "Fix: upgrade to a supported minor version, one at a time"
                ),
            ),
            fail(
                {"upgradePolicy.supportType": "EXTENDED"},
                (
                    "it: upgradePolicy.supportType: is EXTENDED: extended support begins by itself, at six times "
                    "the price. "
                    "Fix: set it to STANDARD"
                ),
            ),
            fail(
                {"upgradePolicy": ABSENT},
                (
                    "it: upgradePolicy.supportType: is not set: extended support begins by itself, at six times the "
                    "price. "
                    "Fix: set it to STANDARD"
                ),
            ),
        ),
        unknown="version",
        config=_DAY,
    ),
    Case(
        policy="eks-version-ageing",
        type=CLUSTER,
        passes={"version": "1.35"},
        fails=(
            fail(
                {"version": "1.34"},
                (
                    "it: version: is 1.34, whose standard support ends on 2026-12-02, in 11 days. "
                    "Fix: plan the upgrade to the next minor version now"
                ),
            ),
        ),
        unknown="version",
        config=_DAY,
    ),
    Case(
        policy="eks-deletion-protection",
        type=CLUSTER,
        passes={"deletionProtection": True},
        fails=(
            fail(
                {"deletionProtection": False},
                (
                    "it: deletionProtection: is false: one wrong destroy ends the cluster and what runs on it. "
                    "Fix: set deletionProtection to true"
                ),
            ),
            fail(
                {"deletionProtection": ABSENT},
                (
                    "it: deletionProtection: is not set: one wrong destroy ends the cluster and what runs on it. "
                    "Fix: set deletionProtection to true"
                ),
            ),
        ),
        unknown="deletionProtection",
    ),
    Case(
        policy="eks-deletion-protection",
        type=CLUSTER,
        passes={"deletionProtection": False},
        fails=(),
        unknown=None,
        environment="staging",
    ),
    Case(
        policy="eks-addons-pinned",
        type=ADDON,
        passes={"addonName": "coredns", "addonVersion": "v1.13.2-eksbuild.21"},
        fails=(
            fail(
                {"addonVersion": ABSENT},
                (
                    "it: addonVersion: is not set: EKS takes whatever is the default that day. "
                    "Fix: set addonVersion, e.g. v1.22.4-eksbuild.3"
                ),
            ),
        ),
        unknown="addonVersion",
    ),
    Case(
        policy="eks-access-admin-limit",
        type=ACCESS_POLICY,
        passes={
            "principalArn": "arn:aws:iam::123456789012:role/platform-admin",
            "policyArn": _ADMIN,
            "accessScope": {"type": "cluster"},
        },
        fails=(
            fail(
                {"principalArn": "arn:aws:iam::123456789012:role/intern"},
                (
                    "it: principalArn: is arn:aws:iam::123456789012:role/intern, who may not administer clusters; "
                    "arn:*:iam::*:role/platform-admin may. "
                    "Fix: associate a policy of less power, bind it to namespaces, or put the role into "
                    "`administrators` of this policy"
                ),
            ),
        ),
        unknown="principalArn",
    ),
    Case(
        policy="eks-access-admin-limit",
        type=ACCESS_POLICY,
        passes={
            "principalArn": "arn:aws:iam::123456789012:role/reader",
            "policyArn": "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy",
            "accessScope": {"type": "cluster"},
        },
        fails=(),
        unknown="policyArn",
    ),
    Case(
        policy="eks-access-admin-limit",
        type=ACCESS_ENTRY,
        passes={"principalArn": "arn:aws:iam::123456789012:role/reader", "kubernetesGroups": ["readers"]},
        fails=(
            fail(
                {"kubernetesGroups[0]": "system:masters"},
                (
                    "it: kubernetesGroups: has system:masters: no access policy and no RBAC rule bounds who is in "
                    "it. "
                    "Fix: associate a policy of less power, bind it to namespaces, or put the role into "
                    "`administrators` of this policy"
                ),
            ),
        ),
        unknown="kubernetesGroups",
    ),
)
