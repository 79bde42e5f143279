"""MIG on a node: GPUs partitioned into instances with separate memory and compute."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from spec.settings.gpu import Sharing

_SCRIPT = Path(__file__).with_name("mig.sh")


@dataclass(frozen=True)
class MigLayout:
    """Equal instances on each GPU of a node: an NVIDIA profile like `1g.10gb`, and their number."""

    profile: str
    instances: int


def layout(sharing: Sharing) -> MigLayout | None:
    """Return the MIG layout of nodes that share GPUs in this way; None without MIG."""
    if sharing.strategy != "mig" or sharing.profile is None:
        return None
    return MigLayout(sharing.profile, sharing.replicas)


def boot_script(wanted: MigLayout) -> str:
    """Return the script that a node runs as root before it joins the cluster."""
    head = f"#!/bin/bash\nMIG_PROFILE={wanted.profile}\nMIG_INSTANCES={wanted.instances}\n"
    return head + _SCRIPT.read_text(encoding="utf-8")
