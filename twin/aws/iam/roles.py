"""Roles, service-linked roles and instance profiles."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import ClassVar

from twin.aws.base import documents, tags
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError, Problem
from twin.aws.base.handler import Handler, Values
from twin.aws.base.lookup import gone_is_fine, or_none
from twin.aws.iam import trust

_TRUST_LIMIT = 2048  # default quota, characters without white space


class Role(Handler):
    token = "aws:iam/role:Role"
    inputs = frozenset(
        {
            "assumeRolePolicy",
            "description",
            "forceDetachPolicies",
            "maxSessionDuration",
            "name",
            "path",
            "permissionsBoundary",
            "tags",
        }
    )
    defaults: ClassVar[Values] = {"forceDetachPolicies": False, "maxSessionDuration": 3600, "path": "/"}
    computed = frozenset({"arn", "createDate", "uniqueId"})
    replace_on = frozenset({"name", "path"})
    name_input = "name"

    def rules(self, inputs: Values) -> Iterable[Problem]:
        return documents.problems(inputs, "assumeRolePolicy", limit=_TRUST_LIMIT)

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        iam = clients("iam")
        trust.check_principals(clients, documents.parse(inputs["assumeRolePolicy"]))
        boundary = inputs.get("permissionsBoundary")
        _check_boundary(clients, boundary)
        role = iam.create_role(
            RoleName=inputs["name"],
            AssumeRolePolicyDocument=inputs["assumeRolePolicy"],
            Path=inputs.get("path", "/"),
            Description=inputs.get("description", ""),
            MaxSessionDuration=inputs.get("maxSessionDuration", 3600),
            Tags=tags.to_list(inputs.get("tags")),
            **({"PermissionsBoundary": boundary} if boundary else {}),
        )["Role"]
        try:
            # moto parses a trust policy when it changes, not when the role is created.
            iam.update_assume_role_policy(RoleName=inputs["name"], PolicyDocument=inputs["assumeRolePolicy"])
        except Exception:
            iam.delete_role(RoleName=inputs["name"])
            raise
        computed = {
            "arn": role["Arn"],
            "createDate": role["CreateDate"].isoformat(),
            "uniqueId": role["RoleId"],
        }
        return inputs["name"], self.outputs(inputs, computed)

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        answer = or_none(clients("iam").get_role, RoleName=id)
        if answer is None:
            return None
        role = answer["Role"]
        document = role["AssumeRolePolicyDocument"]
        same = documents.parse(state["assumeRolePolicy"]) == document
        seen = tags.from_list(role.get("Tags"))
        return {
            **{key: value for key, value in state.items() if key != "permissionsBoundary"},
            "assumeRolePolicy": state["assumeRolePolicy"] if same else json.dumps(document),
            "maxSessionDuration": role["MaxSessionDuration"],
            "arn": role["Arn"],
            "uniqueId": role["RoleId"],
            **_observed_boundary(role),
            **tags.observed(state, seen),
        }

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        iam = clients("iam")
        if old["assumeRolePolicy"] != new["assumeRolePolicy"]:
            trust.check_principals(clients, documents.parse(new["assumeRolePolicy"]))
            iam.update_assume_role_policy(RoleName=id, PolicyDocument=new["assumeRolePolicy"])
        iam.update_role(
            RoleName=id,
            Description=new.get("description", ""),
            MaxSessionDuration=new.get("maxSessionDuration", 3600),
        )
        boundary = new.get("permissionsBoundary")
        if boundary != old.get("permissionsBoundary"):
            if boundary:
                _check_boundary(clients, boundary)
                iam.put_role_permissions_boundary(RoleName=id, PermissionsBoundary=boundary)
            else:
                iam.delete_role_permissions_boundary(RoleName=id)
        tags.retag(old, new, iam.untag_role, iam.tag_role, RoleName=id)
        return self.kept(new, old)

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        with gone_is_fine():
            clients("iam").delete_role(RoleName=id)


def _check_boundary(clients: Clients, arn: str | None) -> None:
    """Refuse a nonexistent permissions boundary, as IAM does; moto accepts any policy ARN."""
    if arn and or_none(clients("iam").get_policy, PolicyArn=arn) is None:
        raise HandlerError(f"NoSuchEntity: Scope ARN: {arn} does not exist or is not attachable.")


def _observed_boundary(role: Values) -> Values:
    arn = role.get("PermissionsBoundary", {}).get("PermissionsBoundaryArn")
    return {"permissionsBoundary": arn} if arn else {}


class ServiceLinkedRole(Handler):
    """The single role of an AWS service in the account. moto's name for it sometimes differs from AWS's."""

    token = "aws:iam/serviceLinkedRole:ServiceLinkedRole"
    inputs = frozenset({"awsServiceName", "tags"})
    computed = frozenset({"arn", "createDate", "name", "path", "uniqueId"})
    replace_on = frozenset({"awsServiceName"})

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        iam, service = clients("iam"), inputs["awsServiceName"]
        if iam.list_roles(PathPrefix=f"/aws-service-role/{service}/")["Roles"]:
            raise HandlerError(f"CreateServiceLinkedRole: InvalidInput: the service role name of {service} has been taken")
        role = iam.create_service_linked_role(AWSServiceName=service)["Role"]
        if inputs.get("tags"):
            iam.tag_role(RoleName=role["RoleName"], Tags=tags.to_list(inputs["tags"]))
        computed = {
            "arn": role["Arn"],
            "createDate": role["CreateDate"].isoformat(),
            "name": role["RoleName"],
            "path": role["Path"],
            "uniqueId": role["RoleId"],
        }
        return role["Arn"], self.outputs(inputs, computed)

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        answer = or_none(clients("iam").get_role, RoleName=state["name"])
        if answer is None:
            return None
        return {**state, **tags.observed(state, tags.from_list(answer["Role"].get("Tags")))}

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        iam = clients("iam")
        tags.retag(old, new, iam.untag_role, iam.tag_role, RoleName=old["name"])
        return self.kept(new, old)

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        with gone_is_fine():
            clients("iam").delete_service_linked_role(RoleName=state["name"])


class InstanceProfile(Handler):
    token = "aws:iam/instanceProfile:InstanceProfile"
    inputs = frozenset({"name", "path", "role", "tags"})
    defaults: ClassVar[Values] = {"path": "/"}
    computed = frozenset({"arn", "createDate", "uniqueId"})
    replace_on = frozenset({"name", "path"})
    name_input = "name"

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        iam = clients("iam")
        profile = iam.create_instance_profile(
            InstanceProfileName=inputs["name"],
            Path=inputs.get("path", "/"),
            Tags=tags.to_list(inputs.get("tags")),
        )["InstanceProfile"]
        if "role" in inputs:
            iam.add_role_to_instance_profile(InstanceProfileName=inputs["name"], RoleName=inputs["role"])
        computed = {
            "arn": profile["Arn"],
            "createDate": profile["CreateDate"].isoformat(),
            "uniqueId": profile["InstanceProfileId"],
        }
        return inputs["name"], self.outputs(inputs, computed)

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        answer = or_none(clients("iam").get_instance_profile, InstanceProfileName=id)
        if answer is None:
            return None
        roles = answer["InstanceProfile"]["Roles"]
        return {**state, **({"role": roles[0]["RoleName"]} if roles else {"role": None})}

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        iam = clients("iam")
        if old.get("role") != new.get("role"):
            if old.get("role"):
                iam.remove_role_from_instance_profile(InstanceProfileName=id, RoleName=old["role"])
            if new.get("role"):
                iam.add_role_to_instance_profile(InstanceProfileName=id, RoleName=new["role"])
        return self.kept(new, old)

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        iam = clients("iam")
        with gone_is_fine():
            if state.get("role"):
                iam.remove_role_from_instance_profile(InstanceProfileName=id, RoleName=state["role"])
        with gone_is_fine():
            iam.delete_instance_profile(InstanceProfileName=id)
