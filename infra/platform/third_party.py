"""Third-party charts as Helm releases: the one way in which this program installs them."""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from spec.versions import ChartPin

INSTALL_TIMEOUT_SECONDS = 600
_OCI = "oci://"


def release(
    name: str, pin: ChartPin, namespace: str, values: dict[str, Any], opts: pulumi.ResourceOptions
) -> k8s.helm.v3.Release:
    """A release of the pinned chart, called as the chart is. `opts` has the provider, and what it waits for.

    `helm.v3.Release`, because hooks run in no other: webhook certificates and upgrades of CRDs are hooks. Values are all
    that a preview shows of it.
    """
    in_registry = pin.repository.startswith(_OCI)
    return k8s.helm.v3.Release(
        name,
        name=pin.name,
        chart=f"{pin.repository}/{pin.name}" if in_registry else pin.name,
        version=pin.version,
        repository_opts=None if in_registry else k8s.helm.v3.RepositoryOptsArgs(repo=pin.repository),
        namespace=namespace,
        values=values,
        # A failed upgrade goes back by itself instead of leaving a release that is "pending" for ever.
        atomic=True,
        timeout=INSTALL_TIMEOUT_SECONDS,
        opts=opts,
    )
