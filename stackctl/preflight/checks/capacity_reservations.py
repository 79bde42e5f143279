"""Check that pools with a capacity reservation can launch into it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from spec.ownership import tags_of
from spec.settings import GpuPool
from stackctl.account.read_only import or_none
from stackctl.preflight.checks.check import Finding, Subject, fail, ok, warn
from stackctl.preflight.checks.usage import instances
from stackctl.quotas import nodes_at_start

_NOT_FOUND = ("InvalidCapacityReservationId.NotFound", "InvalidCapacityReservationId.Malformed")


def check(subject: Subject) -> Iterator[Finding]:
    """Yield a finding for each pool with a reservation."""
    pools = [pool for pool in subject.settings.gpu.pools if pool.reservation_id is not None]
    if not pools:
        yield ok("no pool names one")
    for pool in pools:
        yield _pool(subject, pool)


def _pool(subject: Subject, pool: GpuPool) -> Finding:
    name = f"pool {pool.name}: {pool.reservation_id}"
    ec2, asked = subject.readers("ec2"), {"CapacityReservationIds": [pool.reservation_id]}
    found = or_none(lambda: ec2.describe_capacity_reservations(**asked), *_NOT_FOUND)
    if found is None or not found["CapacityReservations"]:
        return fail(
            f"{name} does not exist in {subject.settings.region}, or is not shared with account {subject.caller.account}",
            "correct the pool's reservationId",
        )
    return judge(name, pool, found["CapacityReservations"][0], subject)


def judge(name: str, pool: GpuPool, reservation: Mapping[str, Any], subject: Subject) -> Finding:
    """Compare a reservation, as EC2 describes it, with the pool's requirements."""
    state, instance_type, zone = (reservation[key] for key in ("State", "InstanceType", "AvailabilityZone"))
    is_block = reservation.get("ReservationType") == "capacity-block"
    wanted = "capacity-block" if is_block else "reservation"
    if pool.capacity != wanted:
        kind = "a Capacity Block" if is_block else "an on-demand capacity reservation"
        return fail(f"{name} is {kind}", f"set the pool's capacity to {wanted}")
    if instance_type not in pool.instance_types:
        return fail(f"{name} is for {instance_type}", f"set the pool's instanceTypes to [{instance_type}]")
    if zone not in (pool.zones or ()):  # the settings require one zone for such a pool, and the network lists it
        return fail(f"{name} is in {zone}, where the pool has no subnet", f"give the pool zones: [{zone}]")
    if state in ("scheduled", "pending", "payment-pending"):
        begins = f"{name} is {state} and begins {_when(reservation.get('StartDate'))}"
        if pool.desired:
            return fail(
                f"{begins}, and the pool starts with {pool.desired}; its node group would end in CREATE_FAILED",
                "set the pool's min and desired to 0 until then, or run `pulumi up` after that",
            )
        return warn(begins, "no node starts before that")
    if state != "active":
        return fail(f"{name} is {state}", "reserve anew, or give the pool another capacity")
    return _room(name, pool, reservation, subject)


def _room(name: str, pool: GpuPool, reservation: Mapping[str, Any], subject: Subject) -> Finding:
    """Check that the free capacity and the pool's own nodes cover the pool's size."""
    free, total = int(reservation.get("AvailableInstanceCount", 0)), int(reservation.get("TotalInstanceCount", 0))
    own = _own_nodes(pool, subject)
    ends = reservation.get("EndDate")
    says = f"{name}: {free} of {total} {reservation['InstanceType']} free in {reservation['AvailabilityZone']}"
    says += (f", {own} taken by this stack" if own else "") + (f", until {_when(ends)}" if ends else "")
    remedy = "end what others run in it, reserve more, or give the pool another capacity"
    first = nodes_at_start(subject.settings, pool)
    if free + own < first:
        return fail(f"{says}, and the pool starts with {first}", remedy)
    if total < pool.max:
        return warn(f"{says}, and the pool may have {pool.max}", f"set the pool's max to {total}")
    if free + own < pool.max:
        return warn(f"{says}, and the pool may have {pool.max}", remedy)
    return ok(says)


def _own_nodes(pool: GpuPool, subject: Subject) -> int:
    return sum(
        instance.get("CapacityReservationId") == pool.reservation_id
        and subject.owner.reason(tags_of(instance.get("Tags"))) is not None
        for instance in instances(subject)
    )


def _when(moment: datetime | None) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if moment is not None else "later"
