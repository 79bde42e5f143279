"""The system node group."""

from collections.abc import Iterator

from spec.catalog import CPU_FAMILIES, FAMILY_REGIONS, INSTANCE_TYPES
from spec.settings.checks.sizes import sizes_are_ordered
from spec.settings.checks.subject import Check, Subject
from spec.settings.problem import Problem
from spec.wording import did_you_mean, one_of

_PATH = "nodes.system"


def _sizes(subject: Subject) -> Iterator[Problem]:
    yield from sizes_are_ordered(subject.document.nodes.system, _PATH)


def _never_empty(subject: Subject) -> Iterator[Problem]:
    if subject.document.nodes.system.min < 1:
        yield Problem(f"{_PATH}.min", "0 leaves no node for DNS and the metrics server; use at least 1")


def _types_have_no_gpu(subject: Subject) -> Iterator[Problem]:
    cpu_types = [t.name for t in INSTANCE_TYPES.values() if not t.gpus]
    here = [family for family in CPU_FAMILIES if subject.document.region in FAMILY_REGIONS[family]]
    for index, name in enumerate(subject.document.nodes.system.instance_types):
        path, known = f"{_PATH}.instanceTypes[{index}]", INSTANCE_TYPES.get(name)
        if known is None:
            yield Problem(
                path, f"unknown instance type '{name}'; {did_you_mean(name, cpu_types)}use one of {', '.join(cpu_types)}"
            )
        elif known.gpus:
            yield Problem(
                path,
                f"'{name}' has a GPU, which system nodes would waste; use {one_of(CPU_FAMILIES)}, "
                "and gpu.pools for GPU nodes",
            )
        elif known.family not in here:
            yield Problem(path, f"EC2 has no {known.family} in {subject.document.region}; use {one_of(here)}")


CHECKS: tuple[Check, ...] = (_sizes, _never_empty, _types_have_no_gpu)
