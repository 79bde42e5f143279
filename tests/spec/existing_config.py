"""Stacks in an existing VPC or cluster, as changes of the valid config."""

from typing import Any

VPC = "vpc-0123456789abcdef0"
PRIVATE = {f"us-west-2{zone}": f"subnet-0123456789abcde{zone}0" for zone in "abc"}
PUBLIC = {f"us-west-2{zone}": f"subnet-0123456789abcde{zone}1" for zone in "abc"}
IN_A_VPC: dict[str, Any] = {"network": {"existing": {"vpcId": VPC, "privateSubnetIds": PRIVATE}}}
IN_A_CLUSTER: dict[str, Any] = {**IN_A_VPC, "cluster": {"version": "1.35", "existing": {"name": "shared"}}}
