"""Checks IAM policy documents against AWS's data about its actions, as shipped by cfn-lint.

cfn-lint's own rules read only CloudFormation templates and accept `*`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from tests.system.component.engine.recording import Recording

_DOCUMENTS: Mapping[str, str] = {
    "aws:iam/role:Role": "assumeRolePolicy",
    "aws:iam/rolePolicy:RolePolicy": "policy",
    "aws:iam/policy:Policy": "policy",
    "aws:s3/bucketPolicy:BucketPolicy": "policy",
    "aws:sqs/queuePolicy:QueuePolicy": "policy",
    "aws:sns/topicPolicy:TopicPolicy": "policy",
    "aws:kms/key:Key": "policy",
    "aws:ecr/repositoryPolicy:RepositoryPolicy": "policy",
}
"""Type -> the property that holds its policy document."""
_TRUST = "aws:iam/role:Role"
_IDENTITY = ("aws:iam/rolePolicy:RolePolicy", "aws:iam/policy:Policy")
_POD_TAGS = ("aws:requesttag/kubernetes-namespace", "aws:requesttag/kubernetes-service-account")
_SOURCES = ("aws:sourceaccount", "aws:sourcearn", "kms:encryptioncontext:aws:logs:arn")
"""A statement for a service needs one of these keys, to restrict on whose behalf the service acts."""
_ALIKE = frozenset({"StringEquals", "StringEqualsIgnoreCase", "StringLike", "ArnEquals", "ArnLike"})
"""The operators of an effective condition. With `IfExists` or `ForAllValues:` a request without the key passes."""
ACCOUNT = "123456789012"
"""The account that the tests deploy to: principals and sources of other accounts are foreign."""


@dataclass(frozen=True)
class Document:
    """A policy document and its resource."""

    owner: str
    type: str
    statements: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class Finding:
    """A mistake in one statement. `subject`: the wrong action or principal."""

    owner: str
    statement: str
    subject: str
    problem: str

    def __str__(self) -> str:
        return f"{self.owner} {self.statement}: {self.subject}: {self.problem}"


def documents(recording: Recording) -> Iterator[Document]:
    """Return every policy document of a run. Raises ValueError for a document that is not JSON."""
    for item in recording.registrations:
        key = _DOCUMENTS.get(item.type)
        text = (item.checked or item.inputs).get(key) if key else None
        if text is not None:
            found = json.loads(text)["Statement"]
            yield Document(item.name, item.type, tuple(found if isinstance(found, list) else [found]))


def lint(document: Document) -> Iterator[Finding]:
    """Return all mistakes in the document."""
    for index, statement in enumerate(document.statements):
        label = statement.get("Sid", f"Statement[{index}]")
        for subject, problem in _problems(document, statement):
            yield Finding(document.owner, label, subject, problem)


def _problems(document: Document, statement: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key in ("NotAction", "NotResource", "NotPrincipal"):
        if key in statement:
            yield key, "means all but what it names"
    if statement["Effect"] == "Deny":
        return
    for action in _list(statement["Action"]):
        yield from _action_problems(action, _list(statement.get("Resource", [])), document)
    if document.type not in _IDENTITY:
        yield from _principal_problems(statement, document)


def _action_problems(action: str, arns: list[str], document: Document) -> Iterator[tuple[str, str]]:
    if "*" in action or "?" in action:
        yield action, "is a pattern: it grows with what AWS adds"
        return
    service, _, name = action.partition(":")
    known = _services().get(service, {}).get("Actions", {}).get(name.lower())
    if known is None:
        yield action, "is no action of AWS"
        return
    if document.type == _TRUST:
        return
    kinds = known.get("Resources", [])
    if not kinds:
        if document.type in _IDENTITY and "*" not in arns:
            yield action, "takes no resource: with anything but * it is allowed nothing"
        return
    if any(map(_is_anything, arns)) and document.type in _IDENTITY:
        yield action, f"has resource *, and takes {', '.join(sorted(kinds)[:3])}"
    elif "*" not in arns and not any(_fits(arn, service, kind) for arn in arns for kind in kinds):
        yield action, f"takes {', '.join(sorted(kinds)[:3])}, and none of its resources is one"


def _is_anything(arn: str) -> bool:
    """Return whether an ARN has no fixed part after its service, like `arn:aws:s3:::*/*`: the same as `*`."""
    return not arn.split(":", maxsplit=3)[-1].strip("*?:/")


def _principal_problems(statement: Mapping[str, Any], document: Document) -> Iterator[tuple[str, str]]:
    principal = statement.get("Principal", {})
    if principal == "*" or "*" in _list(principal.get("AWS", [])):
        yield "*", "is anyone, in any account"
        return
    for identity in (*_list(principal.get("AWS", [])), *_list(principal.get("Federated", []))):
        if _account_of(identity) != ACCOUNT:
            yield identity, "is of another account"
    bounds = _bounds(statement)
    for service in _list(principal.get("Service", [])):
        # EC2 assumes a role for an instance, and sends neither key.
        bounded = (
            all(key in bounds for key in _POD_TAGS)
            if service == "pods.eks.amazonaws.com"
            else any(key in bounds for key in _SOURCES)
        )
        if service != "ec2.amazonaws.com" and not bounded:
            yield service, "may act for anyone: compare aws:SourceAccount, aws:SourceArn or the pod's tags"
    for provider in _list(principal.get("Federated", [])):
        issuer = provider.partition("oidc-provider/")[2]
        equal = {key.lower(): value for key, value in statement.get("Condition", {}).get("StringEquals", {}).items()}
        for claim in ("aud", "sub"):
            values = _list(equal.get(f"{issuer}:{claim}".lower(), []))
            if not values or any("*" in value for value in values):
                yield provider, f"is not bounded by an exact {claim}"


def _bounds(statement: Mapping[str, Any]) -> frozenset[str]:
    """Return the keys, in lower case, that a statement compares with values that only this account can have."""
    return frozenset(
        key.lower()
        for operator, compared in statement.get("Condition", {}).items()
        if operator in _ALIKE
        for key, values in compared.items()
        if _list(values) and all(_is_a_bound(key.lower(), value) for value in _list(values))
    )


def _is_a_bound(key: str, value: str) -> bool:
    if key == "aws:sourceaccount":
        return value == ACCOUNT
    if key.endswith("arn"):
        # A bucket's ARN has no account, but bucket names are globally unique.
        return _account_of(value) in (ACCOUNT, "") and not _is_anything(value)
    return bool(value) and "*" not in value and "?" not in value


def _account_of(identity: str) -> str:
    """Return the account in an ARN, or an account id on its own; "" for a bucket's ARN without an account."""
    return identity.split(":", maxsplit=5)[4] if identity.count(":") >= 5 else identity


def _fits(arn: str, service: str, kind: str) -> bool:
    """Return whether an ARN, perhaps with wildcards, can be one of the kind: the same service and the same beginning."""
    formats = _services()[service]["Resources"].get(kind.lower(), {}).get("ARNFormats", [])
    return any(_begins_alike(arn.split(":", maxsplit=5), form.split(":", maxsplit=5)) for form in formats)


def _begins_alike(arn: list[str], form: list[str]) -> bool:
    if len(arn) < len(form) or arn[2] != form[2]:
        return False
    fixed = re.split(r"\.\*|\$\{", form[5])[0]
    own, wildcard, _ = arn[5].partition("*")
    return own.startswith(fixed) or (bool(wildcard) and fixed.startswith(own))


@cache
def _services() -> Mapping[str, Any]:
    text = resources.files("cfnlint.data.AdditionalSpecs").joinpath("Policies.json").read_text(encoding="utf-8")
    found: Mapping[str, Any] = json.loads(text)
    return found


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
