"""The VPC of a stack: `triton-eks:network`."""

from typing import ClassVar, Literal

from pydantic import Field

from spec.settings.fields import Cidr, LogRetention, Zones
from spec.settings.section import Section


class Network(Section):
    """The VPC."""

    guide: ClassVar[str] = "docs/aws.md"

    cidr: Cidr = Field(description="the address range of the VPC, /16 to /20, like 10.40.0.0/16")
    zones: Zones = Field(description="how many availability zones (2 to 4), or a list of their names")
    nat: Literal["none", "single", "per_az"] = Field(description="NAT gateways: none, single or per_az")
    endpoints: Literal["none", "minimal", "full"] = Field(description="interface endpoints: none, minimal or full")
    flow_log_retention_days: LogRetention = Field(description="days that VPC flow logs are kept, like 90")
