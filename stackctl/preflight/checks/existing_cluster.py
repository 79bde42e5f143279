"""Check that an existing cluster meets the stack's requirements and that the caller has access.

Version, access entries and OIDC provider follow the program's rules (`spec.existing.cluster`). The owner is responsible for
add-ons: EKS lists only managed add-ons, so an unlisted one may still run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from spec.existing.cluster import ClusterFacts, mistakes
from spec.settings import Settings
from spec.settings.existing import ExistingCluster
from stackctl.account.read_only import or_none
from stackctl.preflight.checks.check import Finding, Subject, fail, ok, warn


def check(subject: Subject) -> Iterator[Finding]:
    """Yield the problems of the cluster, of the caller's access to it, and of its add-ons."""
    existing = subject.settings.cluster.existing
    if existing is None:
        yield ok("the stack makes its own cluster")
        return
    described = _described(subject, existing)
    if described is not None and "resourcesVpcConfig" not in described:
        yield fail(
            f"cluster.existing.name: {existing.name} runs elsewhere, and EKS Connector only shows it",
            "name a cluster that EKS runs, or remove cluster.existing to have one made",
        )
        return
    cluster = _facts(subject, existing, described) if described is not None else None
    found = mistakes(subject.settings, existing, cluster)
    for problem in found:
        message, _, remedy = str(problem).partition("; ")
        yield fail(message, remedy)
    if cluster is None or not cluster.is_up:
        return
    if not found:
        yield ok(f"{cluster.name}: Kubernetes {cluster.version}, access entries, an OIDC provider")
    yield _access(subject, cluster)
    yield from _add_ons(subject, cluster.name)


def needed_add_ons(settings: Settings) -> dict[str, str]:
    """Return the add-ons that the stack needs, each with the failure that its absence causes."""
    found = {
        "vpc-cni": "no pod gets an address",
        "coredns": "no pod finds another by its name",
        "kube-proxy": "no Service answers",
    }
    if settings.monitoring is not None:
        found["aws-ebs-csi-driver"] = "Prometheus gets no volume"
    if _has_pod_identity(settings):
        found["eks-pod-identity-agent"] = "pods with a role get no credentials"
    if settings.models.access == "mountpoint":
        found["aws-mountpoint-s3-csi-driver"] = "pods cannot mount the bucket"
    if settings.models.access == "fsx-lustre":
        found["aws-fsx-csi-driver"] = "pods cannot mount the file system"
    return found


def _has_pod_identity(settings: Settings) -> bool:
    """Return whether a workload gets its role by Pod Identity: docs/decisions/pod-identity.md."""
    monitoring, tracing = settings.monitoring, settings.tracing
    return (
        settings.node_autoscaler != "none"
        or any(section is not None for section in (settings.worker, settings.gateway, settings.logs))
        or (monitoring is not None and (monitoring.amp is not None or monitoring.alert_topic_arn is not None))
        or (tracing is not None and tracing.exporter == "xray")
    )


def _described(subject: Subject, existing: ExistingCluster) -> dict[str, Any] | None:
    answer = or_none(lambda: subject.readers("eks").describe_cluster(name=existing.name), "ResourceNotFoundException")
    return answer["cluster"] if answer is not None else None


def _facts(subject: Subject, existing: ExistingCluster, found: Mapping[str, Any]) -> ClusterFacts:
    # Missing until EKS has created the cluster.
    issuer = found.get("identity", {}).get("oidc", {}).get("issuer", "").removeprefix("https://")
    return ClusterFacts(
        name=existing.name,
        arn=found["arn"],
        version=found["version"],
        status=found["status"],
        endpoint=found.get("endpoint", ""),
        certificate_authority=found.get("certificateAuthority", {}).get("data", ""),
        issuer=issuer,
        authentication_mode=found.get("accessConfig", {}).get("authenticationMode", "CONFIG_MAP"),
        vpc_id=found["resourcesVpcConfig"]["vpcId"],
        security_group_id=found["resourcesVpcConfig"].get("clusterSecurityGroupId", ""),
        oidc_provider_arn=_provider(subject, issuer) if issuer else None,
    )


def _provider(subject: Subject, issuer: str) -> str | None:
    arn = f"arn:{subject.partition}:iam::{subject.caller.account}:oidc-provider/{issuer}"
    iam = subject.readers("iam")
    found = or_none(lambda: iam.get_open_id_connect_provider(OpenIDConnectProviderArn=arn), "NoSuchEntity")
    return arn if found is not None else None


def _access(subject: Subject, cluster: ClusterFacts) -> Finding:
    """Return whether the cluster has an entry for the caller. Names are compared, because STS omits a role's path."""
    name = subject.caller.arn.split(":", maxsplit=5)[5].split("/")[1:][:1]
    pages = subject.readers("eks").get_paginator("list_access_entries").paginate(clusterName=cluster.name)
    principals = [principal for page in pages for principal in page["accessEntries"]]
    if any(principal == subject.caller.arn or principal.split("/")[-1:] == name for principal in principals):
        return ok(f"{subject.caller.arn} has an access entry of {cluster.name}")
    says = f"{cluster.name} has no access entry of {subject.caller.arn}"
    remedy = (
        f"aws eks create-access-entry --cluster-name {cluster.name} --principal-arn ROLE, then aws eks "
        f"associate-access-policy --cluster-name {cluster.name} --principal-arn ROLE --access-scope type=cluster "
        f"--policy-arn arn:{subject.partition}:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy, for the "
        "role that runs `pulumi up`"
    )
    if cluster.authentication_mode == "API":
        return fail(says, remedy)
    return warn(f"{says}; the ConfigMap aws-auth may name it", remedy)


def _add_ons(subject: Subject, cluster: str) -> Iterator[Finding]:
    eks = subject.readers("eks")
    there = {name for page in eks.get_paginator("list_addons").paginate(clusterName=cluster) for name in page["addons"]}
    for name, consequence in needed_add_ons(subject.settings).items():
        if name not in there:
            yield warn(
                f"EKS manages no {name} in {cluster}; where it does not run in another way, {consequence}",
                f"aws eks create-addon --cluster-name {cluster} --addon-name {name}, if it does not run",
            )
    if "vpc-cni" in there:
        yield _prefixes(eks.describe_addon(clusterName=cluster, addonName="vpc-cni")["addon"], cluster)


def _prefixes(add_on: dict[str, Any], cluster: str) -> Finding:
    """Return whether nodes use /28 prefixes: with single addresses they run fewer pods than their kubelets allow."""
    # JSON or YAML, as the user passed it to EKS.
    configured = yaml.safe_load(add_on.get("configurationValues") or "{}").get("env") or {}
    if str(configured.get("ENABLE_PREFIX_DELEGATION")).lower() == "true":
        return ok(f"vpc-cni of {cluster}: prefix delegation is on")
    values = '{"env":{"ENABLE_PREFIX_DELEGATION":"true","WARM_PREFIX_TARGET":"1"}}'
    return warn(
        f"vpc-cni of {cluster} has no ENABLE_PREFIX_DELEGATION in its configuration; a node would take more pods than "
        "it has addresses for, and the rest of them would wait",
        f"aws eks update-addon --cluster-name {cluster} --addon-name vpc-cni --configuration-values '{values}' (with what "
        "it has configured already)",
    )
