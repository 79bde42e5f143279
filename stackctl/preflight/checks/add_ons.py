"""Check that EKS offers the pinned add-on versions for the cluster's Kubernetes version."""

from __future__ import annotations

from collections.abc import Iterator

from spec.settings.scheduling.add_ons import addons
from spec.versions import KUBERNETES
from stackctl.preflight.checks.check import Finding, Subject, fail, ok


def check(subject: Subject) -> Iterator[Finding]:
    """Yield a finding for each add-on without its pinned version, otherwise one for all."""
    kubernetes = subject.settings.cluster.version
    if subject.settings.cluster.existing is not None:
        yield ok("none are made: those of the cluster are its owner's")
        return
    pins = {name: KUBERNETES[kubernetes].addons[name] for name in addons(subject.settings)}
    missing = False
    for addon, pinned in pins.items():
        offered = _offered(subject, addon, kubernetes)
        if pinned not in offered:
            missing = True
            known = f"EKS has {', '.join(offered[:3])}" if offered else "EKS has no version of it"
            yield fail(
                f"{addon} {pinned} is not on offer for Kubernetes {kubernetes}: {known}",
                f'change the pin of {addon} in spec/versions.py, KUBERNETES["{kubernetes}"]',
            )
    if not missing:
        yield ok(", ".join(f"{addon} {pinned}" for addon, pinned in pins.items()))


def _offered(subject: Subject, addon: str, kubernetes: str) -> list[str]:
    """Return the add-on's versions in EKS's order: newest first."""
    pages = (
        subject.readers("eks")
        .get_paginator("describe_addon_versions")
        .paginate(addonName=addon, kubernetesVersion=kubernetes)
    )
    return [known["addonVersion"] for page in pages for found in page["addons"] for known in found["addonVersions"]]
