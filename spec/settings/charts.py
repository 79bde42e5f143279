"""The registry of third-party charts: `triton-eks:charts`."""

from collections.abc import Iterator
from typing import Annotated, ClassVar

from pydantic import Field

from spec.problem import Problem
from spec.settings.images import wrong_with_registry
from spec.settings.kind import matching
from spec.settings.rule import Place, rule
from spec.settings.section import Section

_REGISTRY = r"oci://[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"


class Charts(Section):
    """A registry of yours that holds copies of the pinned charts under their own names and versions."""

    guide: ClassVar[str] = "docs/chart-registry.md"

    registry: Annotated[
        str,
        matching(
            _REGISTRY,
            "is not an OCI registry with lower-case names, without a tag and without a slash at its end",
            "give one like oci://123456789012.dkr.ecr.us-west-2.amazonaws.com/charts",
        ),
    ] = Field(description="the OCI registry, with the path below which each chart is called as upstream calls it")

    @rule
    def _registry_is_an_address(self, at: Place) -> Iterator[Problem]:
        """Require a registry with a valid host name. Its port, if any, has to be 1 to 65535."""
        wrong = wrong_with_registry(self.registry.removeprefix("oci://"))
        if wrong is not None:
            yield at.problem("registry", wrong)
