"""Elastic addresses and NAT gateways."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError, Problem
from twin.aws.base.handler import Values
from twin.aws.base.lookup import gone_is_fine
from twin.aws.ec2 import api
from twin.aws.ec2.api import Ec2Handler


class Eip(Ec2Handler):
    kind = "elastic-ip"
    token = "aws:ec2/eip:Eip"
    inputs = frozenset({"domain", "tags"})
    computed = frozenset({"allocationId", "arn", "publicIp"})
    replace_on = frozenset({"domain"})

    def rules(self, inputs: Values) -> Iterable[Problem]:
        if inputs.get("domain", "vpc") != "vpc":
            yield Problem("domain", f"{inputs['domain']!r}; EC2-Classic is gone, 'vpc' is the only domain")

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        address = clients("ec2").allocate_address(Domain="vpc", **api.tag_specifications("elastic-ip", inputs))
        id = address["AllocationId"]
        computed = {
            "allocationId": id,
            "arn": clients.arn("ec2", f"elastic-ip/{id}"),
            "publicIp": address["PublicIp"],
        }
        return id, self.outputs(inputs, computed)

    def observed(self, clients: Clients, found: Values, state: Values) -> Values:
        return {"publicIp": found["PublicIp"]}

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        user = nat_using(clients, id)
        if user:
            raise HandlerError(f"elastic IP {id} is in use by NAT gateway {user}")
        with gone_is_fine():
            clients("ec2").release_address(AllocationId=id)


class NatGateway(Ec2Handler):
    kind = "natgateway"
    token = "aws:ec2/natGateway:NatGateway"
    inputs = frozenset({"allocationId", "subnetId", "connectivityType", "tags"})
    defaults: ClassVar[Values] = {"connectivityType": "public"}
    computed = frozenset({"associationId", "networkInterfaceId", "privateIp", "publicIp"})
    replace_on = frozenset({"allocationId", "subnetId", "connectivityType"})

    def rules(self, inputs: Values) -> Iterable[Problem]:
        if "subnetId" not in inputs:
            yield Problem("subnetId", "required: the twin has no regional NAT gateways")
        if inputs.get("connectivityType", "public") == "public" and "allocationId" not in inputs:
            yield Problem("allocationId", "required for a public NAT gateway")

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        self._check_references(clients, inputs)
        allocation = {"AllocationId": inputs["allocationId"]} if "allocationId" in inputs else {}
        nat = clients("ec2").create_nat_gateway(
            SubnetId=inputs["subnetId"],
            ConnectivityType=inputs.get("connectivityType", "public"),
            **allocation,
            **api.tag_specifications("natgateway", inputs),
        )["NatGateway"]
        return nat["NatGatewayId"], self.outputs(inputs, self._computed(nat))

    def observed(self, clients: Clients, found: Values, state: Values) -> Values:
        return {**self._computed(found), "subnetId": found["SubnetId"]}

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        super().delete(clients, id, state)
        # AWS removes the gateway's interface with it, moto leaves it in the subnet.
        if state.get("networkInterfaceId"):
            with gone_is_fine():
                clients("ec2").delete_network_interface(NetworkInterfaceId=state["networkInterfaceId"])

    @staticmethod
    def _computed(nat: dict[str, Any]) -> Values:
        address = nat["NatGatewayAddresses"][0]
        return {
            "associationId": address.get("AssociationId", ""),
            "networkInterfaceId": address["NetworkInterfaceId"],
            "privateIp": address["PrivateIp"],
            "publicIp": address.get("PublicIp", ""),
        }

    @staticmethod
    def _check_references(clients: Clients, inputs: Values) -> None:
        subnet = api.require(clients, "subnet", inputs["subnetId"], "NAT gateway")
        if "allocationId" not in inputs:
            return
        api.require(clients, "elastic-ip", inputs["allocationId"], "NAT gateway")
        user = nat_using(clients, inputs["allocationId"])
        if user:
            raise HandlerError(f"NAT gateway: elastic IP {inputs['allocationId']} is already used by {user}")
        gateways = clients("ec2").describe_internet_gateways(
            Filters=[{"Name": "attachment.vpc-id", "Values": [subnet["VpcId"]]}]
        )["InternetGateways"]
        if not gateways:
            raise HandlerError(f"NAT gateway: VPC {subnet['VpcId']} has no internet gateway attached")


def nat_using(clients: Clients, allocation_id: str) -> str | None:
    """Return the id of the living NAT gateway that holds this elastic address."""
    for nat in clients("ec2").describe_nat_gateways()["NatGateways"]:
        held = [address.get("AllocationId") for address in nat["NatGatewayAddresses"]]
        if nat["State"] not in ("deleted", "deleting") and allocation_id in held:
            return str(nat["NatGatewayId"])
    return None
