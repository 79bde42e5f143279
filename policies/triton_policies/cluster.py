"""Rules about the EKS control plane."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from fnmatch import fnmatchcase

from triton_policies.findings import Finding, Violation, attempt, each, is_true, require
from triton_policies.network import INGRESS_RULE
from triton_policies.networks import is_private, is_world
from triton_policies.policy import Policy, ResourcePolicy, Setting, Settings, StackPolicy, number, strings, switch
from triton_policies.reading import Property
from triton_policies.resources import Resource, Stack

CLUSTER = "aws:eks/cluster:Cluster"
ADDON = "aws:eks/addon:Addon"
ACCESS_POLICY = "aws:eks/accessPolicyAssociation:AccessPolicyAssociation"
ACCESS_ENTRY = "aws:eks/accessEntry:AccessEntry"
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"

LOG_TYPES = ("api", "audit", "authenticator", "controllerManager", "scheduler")
END_OF_STANDARD_SUPPORT = {
    "1.33": "2026-07-29",
    "1.34": "2026-12-02",
    "1.35": "2027-03-27",
    "1.36": "2027-08-02",
    "1.37": "2027-12-01",
}
"""The end dates of EKS's standard support for Kubernetes versions (the EKS release calendar)."""

_VERSIONS = Setting(
    "the Kubernetes versions that a cluster may have, each with the day on which its standard support ends",
    {"type": "object", "additionalProperties": {"type": "string", "format": "date"}},
    END_OF_STANDARD_SUPPORT,
)
_AS_OF = Setting("the day to judge by (YYYY-MM-DD); empty: today", {"type": "string"}, "")


def _endpoint(cluster: Resource, settings: Settings) -> Iterator[Finding]:
    vpc = cluster["vpcConfig"]
    yield from require(
        vpc["endpointPrivateAccess"],
        is_true,
        "is {value}: nodes and people in the VPC reach the API through the internet",
        fix="set it to true",
    )
    yield from attempt(lambda: _public_endpoint(vpc, settings))


def _public_endpoint(vpc: Property, settings: Settings) -> Iterator[Finding]:
    public = vpc["endpointPublicAccess"]
    # EKS makes the endpoint public by default.
    if public.value is False:
        return
    if not settings["publicEndpoint"]:
        yield Violation(public.path, "is not false: the API is on the internet", fix="set it to false, and come by VPN")
        return
    ranges = vpc["publicAccessCidrs"]
    if not ranges.elements:
        yield Violation(ranges.path, "is not set: the whole internet may ask the API", fix="name the networks that may")
    yield from each(
        ranges.elements,
        lambda one: require(one, lambda cidr: not is_world(cidr), "is {value}: the whole internet may ask the API"),
    )


def _private_sources(stack: Stack, settings: Settings) -> Iterator[Finding]:
    for cluster in stack.of(CLUSTER):
        for rule in stack.of(INGRESS_RULE):

            def check(rule: Resource = rule, cluster: Resource = cluster) -> Iterator[Finding]:
                if not _is_of_its_group(stack, rule, cluster):
                    return
                for key in ("cidrIpv4", "cidrIpv6"):
                    if rule[key].given and not is_private(rule[key].value):
                        problem = f"is {rule[key].value}: lets addresses of the internet reach the API server and every node"
                        yield Violation(rule[key].path, problem, rule)

            yield from attempt(check, rule)


def _is_of_its_group(stack: Stack, rule: Resource, cluster: Resource) -> bool:
    """Return whether a rule belongs to the cluster's EKS security group; the id may come from a component that contains
    both."""
    around = {source for source in rule.sources.get("securityGroupId", ()) if _is_around(source, cluster.urn)}
    own = cluster["vpcConfig.clusterSecurityGroupId"]
    known = own.known and own.given and rule["securityGroupId"].value == own.value
    return bool(around) or known or stack.names(rule, "securityGroupId", cluster)


def _is_around(component_urn: str, urn: str) -> bool:
    """Return whether the component contains the resource: a URN has the types of all parents before its name."""
    return urn.startswith(component_urn.rpartition("::")[0] + "$")


def _secrets(cluster: Resource, settings: Settings) -> Iterator[Finding]:
    config = cluster["encryptionConfig"]
    yield from require(
        config["resources"],
        lambda kinds: isinstance(kinds, list) and "secrets" in kinds,
        "is {value}: secrets are encrypted with a key that is not yours",
    )
    if config.known and not config.at("provider.keyArn").given:
        yield Violation(f"{config.path}.provider.keyArn", "is not set: secrets are encrypted with a key that is not yours")


def _logs(cluster: Resource, settings: Settings) -> Iterator[Finding]:
    types = cluster["enabledClusterLogTypes"]
    missing = [kind for kind in LOG_TYPES if kind not in (types.value or [])]
    if missing:
        yield Violation(types.path, f"has no {', '.join(missing)}: what happened there cannot be found out afterwards")


def _access(resource: Resource, settings: Settings) -> Iterator[Finding]:
    if resource.type == CONFIG_MAP:
        name = resource["metadata.name"]
        if name.value == "aws-auth" and resource["metadata.namespace"].value == "kube-system":
            yield Violation(name.path, "is aws-auth: who edits it is an administrator, and nothing logs it")
        return
    mode = resource["accessConfig.authenticationMode"]
    yield from require(mode, lambda value: value == "API", "is {value}: the ConfigMap aws-auth decides who may enter too")


def _version(cluster: Resource, settings: Settings) -> Iterator[Finding]:
    version = cluster["version"]

    def check() -> Iterator[Finding]:
        known, today = settings["versions"], _today(settings)
        if version.value not in known:
            choices = ", ".join(sorted(name for name, end in known.items() if end >= today.isoformat()))
            yield Violation(version.path, f"is {version.value}, which is not among those supported: {choices}")
        elif known[version.value] < today.isoformat():
            yield Violation(
                version.path,
                f"is {version.value}, whose standard support ended on {known[version.value]}: it costs six times as much",
            )

    yield from attempt(check)
    yield from require(
        cluster["upgradePolicy.supportType"],
        lambda kind: kind == "STANDARD",
        "is {value}: extended support begins by itself, at six times the price",
        fix="set it to STANDARD",
    )


def _ageing(cluster: Resource, settings: Settings) -> Iterator[Finding]:
    version, today = cluster["version"], _today(settings)
    end = settings["versions"].get(version.value)
    if end is not None and today <= date.fromisoformat(end) < today + timedelta(days=settings["days"]):
        days = (date.fromisoformat(end) - today).days
        yield Violation(version.path, f"is {version.value}, whose standard support ends on {end}, in {days} days")


def _deletion(cluster: Resource, settings: Settings) -> Iterator[Finding]:
    if settings["required"]:
        yield from require(
            cluster["deletionProtection"], is_true, "is {value}: one wrong destroy ends the cluster and what runs on it"
        )


def _addon(addon: Resource, settings: Settings) -> Iterator[Finding]:
    version = addon["addonVersion"]
    if not version.given:
        yield Violation(version.path, "is not set: EKS takes whatever is the default that day")


def _administrators(resource: Resource, settings: Settings) -> Iterator[Finding]:
    principal = resource["principalArn"]
    if resource.type == ACCESS_ENTRY:
        groups = resource["kubernetesGroups"]
        if "system:masters" in (groups.value or []):
            yield Violation(groups.path, "has system:masters: no access policy and no RBAC rule bounds who is in it")
        return
    policy = str(resource["policyArn"].value or "").rpartition("/")[2]
    whole_cluster = resource["accessScope.type"].value == "cluster"
    allowed = settings["administrators"]
    if policy in ("AmazonEKSClusterAdminPolicy", "AmazonEKSAdminPolicy") and whole_cluster:
        who = principal.value
        if not any(fnmatchcase(str(who), pattern) for pattern in allowed):
            yield Violation(
                principal.path, f"is {who}, who may not administer clusters; {', '.join(allowed) or 'nobody'} may"
            )


POLICIES: tuple[Policy, ...] = (
    ResourcePolicy(
        id="eks-endpoint-not-world",
        says="The Kubernetes API is private, or open to named networks where that is allowed.",
        severity="critical",
        controls=("CIS EKS 5.4.1", "CIS EKS 5.4.2", "FSBP EKS.1"),
        fix="name the networks that may, never 0.0.0.0/0",
        settings={
            "publicEndpoint": switch("whether named networks may reach the API by the internet", False, dev=True, local=True)
        },
        types=(CLUSTER,),
        judge=_endpoint,
    ),
    StackPolicy(
        id="eks-api-private-sources",
        says="The security group of the control plane and its nodes admits private networks alone.",
        severity="critical",
        controls=("CIS EKS 5.4.2", "FSBP EC2.18"),
        fix="name private ranges or security groups; a public API is publicAccessCidrs of the cluster",
        judge=_private_sources,
    ),
    ResourcePolicy(
        id="eks-secrets-kms",
        says="Kubernetes secrets are encrypted with a KMS key of your own.",
        severity="high",
        controls=("CIS EKS 5.3.1", "FSBP EKS.3"),
        fix="set encryptionConfig with resources [secrets] and provider.keyArn; it cannot be taken back or changed later",
        types=(CLUSTER,),
        judge=_secrets,
    ),
    ResourcePolicy(
        id="eks-control-plane-logs",
        says="All five kinds of control plane logs are kept.",
        severity="medium",
        controls=("CIS EKS 2.1.1", "FSBP EKS.8"),
        fix=f"set enabledClusterLogTypes to {', '.join(LOG_TYPES)}",
        types=(CLUSTER,),
        judge=_logs,
    ),
    ResourcePolicy(
        id="eks-auth-api-only",
        says="Access entries alone decide who may enter a cluster; there is no ConfigMap aws-auth.",
        severity="high",
        controls=("CIS EKS 5.5.1",),
        fix="set accessConfig.authenticationMode to API, and give people access entries",
        types=(CLUSTER, CONFIG_MAP),
        judge=_access,
    ),
    ResourcePolicy(
        id="eks-version-supported",
        says="A cluster runs a Kubernetes version in standard support, and never slides into extended support.",
        severity="high",
        controls=("FSBP EKS.2",),
        fix="upgrade to a supported minor version, one at a time",
        settings={"versions": _VERSIONS, "asOf": _AS_OF},
        types=(CLUSTER,),
        judge=_version,
    ),
    ResourcePolicy(
        id="eks-version-ageing",
        says="The end of a cluster's Kubernetes version is not near.",
        severity="medium",
        level="advisory",
        controls=("FSBP EKS.2",),
        fix="plan the upgrade to the next minor version now",
        settings={"versions": _VERSIONS, "asOf": _AS_OF, "days": number("how many days ahead to warn", 90)},
        types=(CLUSTER,),
        judge=_ageing,
    ),
    ResourcePolicy(
        id="eks-deletion-protection",
        says="EKS refuses to delete a cluster that customers use.",
        severity="high",
        controls=(),
        fix="set deletionProtection to true",
        settings={"required": switch("whether clusters have to be protected", True, local=False, dev=False, staging=False)},
        types=(CLUSTER,),
        judge=_deletion,
    ),
    ResourcePolicy(
        id="eks-addons-pinned",
        says="Every EKS add-on is of a pinned version.",
        severity="medium",
        controls=(),
        fix="set addonVersion, e.g. v1.22.4-eksbuild.3",
        types=(ADDON,),
        judge=_addon,
    ),
    ResourcePolicy(
        id="eks-access-admin-limit",
        says="Only named roles administer a whole cluster.",
        severity="critical",
        controls=("CIS EKS 4.1.1", "CIS EKS 4.1.7"),
        fix="associate a policy of less power, bind it to namespaces, or put the role into `administrators` of this policy",
        settings={
            "administrators": strings("ARN patterns of roles that may administer", ["arn:*:iam::*:role/platform-admin"])
        },
        types=(ACCESS_POLICY, ACCESS_ENTRY),
        judge=_administrators,
    ),
)


def _today(settings: Settings) -> date:
    return date.fromisoformat(settings["asOf"]) if settings["asOf"] else date.today()
