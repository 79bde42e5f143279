"""Check that EKS still offers the Kubernetes version, with standard support."""

from __future__ import annotations

from collections.abc import Iterator

from stackctl.preflight.checks.check import Finding, Subject, fail, ok, warn


def check(subject: Subject) -> Iterator[Finding]:
    """Compare the stack's `cluster.version` with EKS's versions."""
    wanted = subject.settings.cluster.version
    pages = subject.readers("eks").get_paginator("describe_cluster_versions").paginate()
    offered = {known["clusterVersion"]: known for page in pages for known in page["clusterVersions"]}
    if wanted not in offered:
        yield fail(
            f"EKS does not offer Kubernetes {wanted} in {subject.settings.region}",
            f"set cluster.version to one of {', '.join(sorted(offered))} that spec/versions.py knows",
        )
        return
    found = offered[wanted]
    until = found.get("endOfStandardSupportDate")
    if found.get("versionStatus") != "STANDARD_SUPPORT":
        yield warn(
            f"Kubernetes {wanted} is out of standard support: EKS upgrades such a cluster by itself",
            "set cluster.version to a newer one",
        )
        return
    yield ok(f"{wanted} is offered" + (f", with standard support until {until:%Y-%m-%d}" if until else ""))
