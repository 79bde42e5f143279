"""List prices of what a teardown may leave, in us-west-2. For an order of magnitude, never for invoices."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from spec.catalog import INSTANCE_TYPES
from stackctl.orphans.leftover import HOURS_A_MONTH

AS_OF = date(2025, 6, 5)

ADDRESS_HOUR = 0.005
"""A public IPv4 address, attached or not."""
NAT_GATEWAY_HOUR = 0.045
ENDPOINT_HOUR_AND_ZONE = 0.01
LOAD_BALANCER_HOUR = 0.0225
CLUSTER_HOUR = 0.10
KEY_MONTH = 1.0
ALARM_MONTH = 0.10
SNAPSHOT_GIB_MONTH = 0.05
VOLUME_GIB_MONTH: Mapping[str, float] = {"gp3": 0.08, "gp2": 0.10, "standard": 0.05, "st1": 0.045, "sc1": 0.015}
LUSTRE_GIB_MONTH: Mapping[int, float] = {125: 0.145, 250: 0.21, 500: 0.34, 1000: 0.60}
"""FSx for Lustre, persistent on SSD, by MB/s for each TiB."""
LOGS_GIB_MONTH = 0.03


def month(hourly: float) -> float:
    """Return USD in a month of what costs `hourly` USD."""
    return round(hourly * HOURS_A_MONTH, 2)


def instance_month(instance_type: str) -> float | None:
    """Return USD in a month of an instance on demand; None for types that the catalogue lacks."""
    known = INSTANCE_TYPES.get(instance_type)
    return month(known.price_usd_hour) if known is not None else None


def volume_month(volume_type: str, gib: int) -> float | None:
    """Return USD in a month of a volume without provisioned performance; None for other types."""
    per_gib = VOLUME_GIB_MONTH.get(volume_type)
    return round(per_gib * gib, 2) if per_gib is not None else None


def lustre_month(throughput_mbs_per_tib: int, gib: int) -> float | None:
    """Return USD in a month of a file system of Lustre; None for other throughputs."""
    per_gib = LUSTRE_GIB_MONTH.get(throughput_mbs_per_tib)
    return round(per_gib * gib, 2) if per_gib is not None else None
