"""Where third-party charts come from: `triton-eks:charts`."""

from collections.abc import Iterator
from typing import Annotated, ClassVar

from pydantic import Field

from spec.problem import Problem
from spec.settings.fields import is_host, is_port
from spec.settings.kind import matching
from spec.settings.rule import Place, rule
from spec.settings.section import Section

_REGISTRY = r"oci://[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"


class Charts(Section):
    """A registry of yours with copies of the pinned charts, under their own names and versions."""

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
        """Require a registry with the name of a host, and a port from 1 to 65535 if any."""
        host, colon, port = self.registry.removeprefix("oci://").partition("/")[0].partition(":")
        if not is_host(host):
            yield at.problem("registry", f"'{host}' is no name of a host; give one like registry.example.com")
        if colon and not is_port(port):
            yield at.problem("registry", f"'{port}' is no port, which is 1 to 65535; give one like 5000, or none")
