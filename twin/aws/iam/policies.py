"""Managed policies, inline policies and attachments."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import ClassVar

from twin.aws.base import documents, tags
from twin.aws.base.clients import Clients
from twin.aws.base.errors import Problem
from twin.aws.base.handler import Handler, Values
from twin.aws.base.lookup import gone_is_fine, or_none

_MANAGED_LIMIT = 6144  # characters without white space
_INLINE_LIMIT = 10240  # all inline policies of a role combined


class Policy(Handler):
    token = "aws:iam/policy:Policy"
    inputs = frozenset({"description", "name", "path", "policy", "tags"})
    defaults: ClassVar[Values] = {"path": "/"}
    computed = frozenset({"arn", "policyId"})
    replace_on = frozenset({"description", "name", "path"})
    name_input = "name"

    def rules(self, inputs: Values) -> Iterable[Problem]:
        return documents.problems(inputs, "policy", limit=_MANAGED_LIMIT)

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        policy = clients("iam").create_policy(
            PolicyName=inputs["name"],
            Path=inputs.get("path", "/"),
            PolicyDocument=inputs["policy"],
            Description=inputs.get("description", ""),
            Tags=tags.to_list(inputs.get("tags")),
        )["Policy"]
        return policy["Arn"], self.outputs(inputs, {"arn": policy["Arn"], "policyId": policy["PolicyId"]})

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        iam = clients("iam")
        answer = or_none(iam.get_policy, PolicyArn=id)
        if answer is None:
            return None
        version = iam.get_policy_version(PolicyArn=id, VersionId=answer["Policy"]["DefaultVersionId"])
        return {**state, "policy": _observed(state["policy"], version["PolicyVersion"]["Document"])}

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        iam = clients("iam")
        if old["policy"] != new["policy"]:
            versions = iam.list_policy_versions(PolicyArn=id)["Versions"]
            spare = [version["VersionId"] for version in versions if not version["IsDefaultVersion"]]
            if len(versions) >= 5:
                iam.delete_policy_version(PolicyArn=id, VersionId=spare[-1])
            iam.create_policy_version(PolicyArn=id, PolicyDocument=new["policy"], SetAsDefault=True)
        tags.retag(old, new, iam.untag_policy, iam.tag_policy, PolicyArn=id)
        return self.kept(new, old)

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        iam = clients("iam")
        with gone_is_fine():
            for version in iam.list_policy_versions(PolicyArn=id)["Versions"]:
                if not version["IsDefaultVersion"]:
                    iam.delete_policy_version(PolicyArn=id, VersionId=version["VersionId"])
            iam.delete_policy(PolicyArn=id)


class RolePolicy(Handler):
    token = "aws:iam/rolePolicy:RolePolicy"
    inputs = frozenset({"name", "policy", "role"})
    replace_on = frozenset({"name", "role"})
    name_input = "name"

    def rules(self, inputs: Values) -> Iterable[Problem]:
        return documents.problems(inputs, "policy", limit=_INLINE_LIMIT)

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        self._put(clients, inputs)
        return f"{inputs['role']}:{inputs['name']}", self.outputs(inputs, {})

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        answer = or_none(clients("iam").get_role_policy, RoleName=state["role"], PolicyName=state["name"])
        return None if answer is None else {**state, "policy": _observed(state["policy"], answer["PolicyDocument"])}

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        self._put(clients, new)
        return self.kept(new, old)

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        with gone_is_fine():
            clients("iam").delete_role_policy(RoleName=state["role"], PolicyName=state["name"])

    @staticmethod
    def _put(clients: Clients, inputs: Values) -> None:
        clients("iam").put_role_policy(RoleName=inputs["role"], PolicyName=inputs["name"], PolicyDocument=inputs["policy"])


class RolePolicyAttachment(Handler):
    token = "aws:iam/rolePolicyAttachment:RolePolicyAttachment"
    inputs = frozenset({"role", "policyArn"})
    replace_on = inputs

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        clients("iam").attach_role_policy(RoleName=inputs["role"], PolicyArn=inputs["policyArn"])
        return f"{inputs['role']}/{inputs['policyArn']}", self.outputs(inputs, {})

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        answer = or_none(clients("iam").list_attached_role_policies, RoleName=state["role"])
        attached = [policy["PolicyArn"] for policy in answer["AttachedPolicies"]] if answer else []
        return dict(state) if state["policyArn"] in attached else None

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        with gone_is_fine():
            clients("iam").detach_role_policy(RoleName=state["role"], PolicyArn=state["policyArn"])


def _observed(declared: str, document: object) -> str:
    """Return the declared text while it has the same meaning, otherwise the actual document."""
    found = json.loads(document) if isinstance(document, str) else document
    return declared if documents.parse(declared) == found else json.dumps(found)
