"""Route tables, routes and associations."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError, Problem
from twin.aws.base.handler import Handler, Values
from twin.aws.base.lookup import gone_is_fine
from twin.aws.ec2 import api
from twin.aws.ec2.api import Ec2Handler

_TARGETS = {"gatewayId": "GatewayId", "natGatewayId": "NatGatewayId"}


class RouteTable(Ec2Handler):
    kind = "route-table"
    token = "aws:ec2/routeTable:RouteTable"
    inputs = frozenset({"vpcId", "tags"})
    computed = frozenset({"arn", "ownerId"})
    replace_on = frozenset({"vpcId"})

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        api.require(clients, "vpc", inputs["vpcId"], "route table")
        table = clients("ec2").create_route_table(VpcId=inputs["vpcId"], **api.tag_specifications("route-table", inputs))
        id = table["RouteTable"]["RouteTableId"]
        computed = {"arn": clients.arn("ec2", f"route-table/{id}"), "ownerId": clients.account_id}
        return id, self.outputs(inputs, computed)

    def observed(self, clients: Clients, found: Values, state: Values) -> Values:
        return {"vpcId": found["VpcId"]}


class Route(Handler):
    token = "aws:ec2/route:Route"
    inputs = frozenset({"routeTableId", "destinationCidrBlock", *_TARGETS})
    computed = frozenset({"origin", "state"})
    replace_on = frozenset({"routeTableId", "destinationCidrBlock"})
    delete_before_replace = True

    def rules(self, inputs: Values) -> Iterable[Problem]:
        if "destinationCidrBlock" not in inputs:
            yield Problem("destinationCidrBlock", "required")
        yield from api.cidr_problem("destinationCidrBlock", inputs.get("destinationCidrBlock"))
        if len(_TARGETS.keys() & inputs.keys()) != 1:
            yield Problem("gatewayId", f"exactly one target of {', '.join(sorted(_TARGETS))} is required")

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        self._check_target(clients, inputs)
        clients("ec2").create_route(**self._parameters(inputs))
        id = f"r-{inputs['routeTableId']}{zlib.crc32(inputs['destinationCidrBlock'].encode())}"
        return id, self.outputs(inputs, {"origin": "CreateRoute", "state": "active"})

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        route = self._find(clients, state)
        if route is None:
            return None
        targets = {key: route[name] for key, name in _TARGETS.items() if route.get(name)}
        rest = {key: value for key, value in state.items() if key not in _TARGETS}
        return {**rest, **targets, "state": route["State"], "origin": route["Origin"]}

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        self._check_target(clients, new)
        clients("ec2").replace_route(**self._parameters(new))
        return self.kept(new, old)

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        if self._find(clients, state) is not None:
            clients("ec2").delete_route(
                RouteTableId=state["routeTableId"], DestinationCidrBlock=state["destinationCidrBlock"]
            )

    @staticmethod
    def _parameters(inputs: Values) -> Values:
        targets = {name: inputs[key] for key, name in _TARGETS.items() if key in inputs}
        return {
            "RouteTableId": inputs["routeTableId"],
            "DestinationCidrBlock": inputs["destinationCidrBlock"],
            **targets,
        }

    @staticmethod
    def _find(clients: Clients, state: Values) -> dict[str, Any] | None:
        table = api.describe(clients, "route-table", state["routeTableId"])
        for route in table["Routes"] if table else ():
            if route.get("DestinationCidrBlock") == state["destinationCidrBlock"]:
                return dict(route)
        return None

    @staticmethod
    def _check_target(clients: Clients, inputs: Values) -> None:
        """AWS refuses (or blackholes) what moto accepts: a detached gateway, one of another VPC, an unknown NAT."""
        where = f"route {inputs['destinationCidrBlock']} of {inputs['routeTableId']}"
        vpc = api.require(clients, "route-table", inputs["routeTableId"], where)["VpcId"]
        if "gatewayId" in inputs:
            gateway = api.require(clients, "internet-gateway", inputs["gatewayId"], where)
            if vpc not in [attachment["VpcId"] for attachment in gateway["Attachments"]]:
                raise HandlerError(f"{where}: internet gateway {inputs['gatewayId']} is not attached to {vpc}")
        if "natGatewayId" in inputs:
            nat = api.require(clients, "natgateway", inputs["natGatewayId"], where)
            if nat["VpcId"] != vpc:
                raise HandlerError(f"{where}: NAT gateway {inputs['natGatewayId']} is in {nat['VpcId']}, not in {vpc}")


class RouteTableAssociation(Handler):
    token = "aws:ec2/routeTableAssociation:RouteTableAssociation"
    inputs = frozenset({"subnetId", "routeTableId"})
    replace_on = frozenset({"subnetId"})
    delete_before_replace = True

    def rules(self, inputs: Values) -> Iterable[Problem]:
        if "subnetId" not in inputs:
            yield Problem("subnetId", "required: the twin does not associate gateways")

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        subnet_id, table_id = inputs["subnetId"], inputs["routeTableId"]
        self._check_same_vpc(clients, inputs)
        other = self._find(clients, subnet_id)
        if other is not None:
            raise HandlerError(f"subnet {subnet_id} is already associated with route table {other['RouteTableId']}")
        answer = clients("ec2").associate_route_table(SubnetId=subnet_id, RouteTableId=table_id)
        return answer["AssociationId"], self.outputs(inputs, {})

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        association = self._find(clients, state["subnetId"])
        return None if association is None else {**state, "routeTableId": association["RouteTableId"]}

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        self._check_same_vpc(clients, new)
        association = self._find(clients, new["subnetId"])
        if association is None:
            raise HandlerError(f"subnet {new['subnetId']} has no route table association to change")
        clients("ec2").replace_route_table_association(
            AssociationId=association["RouteTableAssociationId"], RouteTableId=new["routeTableId"]
        )
        return self.kept(new, old)

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        # Found by its subnet: an update gives the association a new id.
        association = self._find(clients, state["subnetId"])
        if association is not None:
            with gone_is_fine():
                clients("ec2").disassociate_route_table(AssociationId=association["RouteTableAssociationId"])

    @staticmethod
    def _check_same_vpc(clients: Clients, inputs: Values) -> None:
        subnet = api.require(clients, "subnet", inputs["subnetId"], "route table association")
        table = api.require(clients, "route-table", inputs["routeTableId"], "route table association")
        if subnet["VpcId"] != table["VpcId"]:
            raise HandlerError(
                f"route table {inputs['routeTableId']} is in {table['VpcId']}, subnet {inputs['subnetId']} in "
                f"{subnet['VpcId']}"
            )

    @staticmethod
    def _find(clients: Clients, subnet_id: str) -> dict[str, Any] | None:
        tables = clients("ec2").describe_route_tables(Filters=[{"Name": "association.subnet-id", "Values": [subnet_id]}])[
            "RouteTables"
        ]
        for table in tables:
            for association in table["Associations"]:
                if association.get("SubnetId") == subnet_id:
                    return {**association, "RouteTableId": table["RouteTableId"]}
        return None
