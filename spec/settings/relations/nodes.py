"""Nodes without GPUs and the stack's region."""

from collections.abc import Iterator

from spec.catalog import CPU_FAMILIES, FAMILY_REGIONS, INSTANCE_TYPES, LISTED_REGIONS
from spec.problem import Problem
from spec.settings.relations.subject import Subject
from spec.settings.rule import rule
from spec.wording import one_of


@rule
def _types_are_in_the_region(subject: Subject) -> Iterator[Problem]:
    """Require types without GPUs that the region offers, if spec/catalog.py lists the region (not GovCloud and China)."""
    region = subject.document.region
    if region not in LISTED_REGIONS:
        return
    here = [family for family in CPU_FAMILIES if region in FAMILY_REGIONS[family]]
    nodes = subject.document.nodes
    for key, group in (("system", nodes.system), ("cpu", nodes.cpu)):
        for index, name in enumerate(group.instance_types if group is not None else ()):
            known = INSTANCE_TYPES.get(name)
            if known and not known.gpus and known.family not in here:
                yield Problem(
                    f"nodes.{key}.instanceTypes[{index}]", f"EC2 has no {known.family} in {region}; use {one_of(here)}"
                )
