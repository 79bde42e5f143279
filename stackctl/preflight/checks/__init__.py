"""The checks, in the order in which they are asked. Each module has one `check`, which yields findings."""

from stackctl.preflight.checks import (
    account,
    add_ons,
    ami_release,
    api_access,
    capacity_reservations,
    charts,
    client_keys,
    domain,
    existing_cluster,
    existing_network,
    half_created,
    images,
    instance_offerings,
    kubernetes_version,
    model_release,
    service_quotas,
    spot_role,
    subnet_addresses,
)
from stackctl.preflight.checks.check import Check

CHECKS: tuple[Check, ...] = (
    Check("account", account.check),
    Check("service quotas", service_quotas.check),
    Check("instance offerings", instance_offerings.check),
    Check("Kubernetes version", kubernetes_version.check),
    Check("add-ons", add_ons.check),
    Check("half-created resources", half_created.check),
    Check("node AMIs", ami_release.check),
    Check("images", images.check),
    Check("charts", charts.check),
    Check("capacity reservations", capacity_reservations.check),
    Check("spot instances", spot_role.check),
    Check("existing network", existing_network.check),
    Check("subnet addresses", subnet_addresses.check),
    Check("existing cluster", existing_cluster.check),
    Check("API access", api_access.check),
    Check("model release", model_release.check),
    Check("domain", domain.check),
    Check("client keys", client_keys.check),
)
