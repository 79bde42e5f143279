"""IAM policy documents against what AWS says of its actions: the data that cfn-lint ships.

cfn-lint's own rules read CloudFormation templates, which there are none of here, and are content with `*`.
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
"""Keys of which one bounds what a service may do for others."""
_ALIKE = frozenset({"StringEquals", "StringEqualsIgnoreCase", "StringLike", "ArnEquals", "ArnLike"})
"""The operators that a bound may have. With `IfExists` or `ForAllValues:` a request without the key passes."""
ACCOUNT = "123456789012"
"""The account that the tests deploy to: principals and sources of any other one are strangers."""


@dataclass(frozen=True)
class Document:
    """A policy document and the resource that has it."""

    owner: str
    type: str
    statements: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class Finding:
    """A mistake in one statement. `subject`: the action or principal at fault."""

    owner: str
    statement: str
    subject: str
    problem: str

    def __str__(self) -> str:
        return f"{self.owner} {self.statement}: {self.subject}: {self.problem}"


def documents(recording: Recording) -> Iterator[Document]:
    """Every document of a run that has one. Raises ValueError for one that is no JSON."""
    for item in recording.registrations:
        key = _DOCUMENTS.get(item.type)
        text = (item.checked or item.inputs).get(key) if key else None
        if text is not None:
            found = json.loads(text)["Statement"]
            yield Document(item.name, item.type, tuple(found if isinstance(found, list) else [found]))


def lint(document: Document) -> Iterator[Finding]:
    """Everything that is wrong with the document."""
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
    """Return whether an ARN has no fixed part after its service, like `arn:aws:s3:::*/*`: `*` in more letters."""
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
        # EC2 takes a role for an instance, and sends neither key.
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
    """The keys, in lower case, that a statement compares with what only this account's own can have."""
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
        # A bucket's ARN names no account, and nobody else's bucket has its name.
        return _account_of(value) in (ACCOUNT, "") and not _is_anything(value)
    return bool(value) and "*" not in value and "?" not in value


def _account_of(identity: str) -> str:
    """The account in an ARN, or the one that stands alone; empty where an ARN of a bucket has none."""
    return identity.split(":", maxsplit=5)[4] if identity.count(":") >= 5 else identity


def _fits(arn: str, service: str, kind: str) -> bool:
    """Return whether an ARN, which may have wildcards, can be one of the kind: of its service, and beginning as it does."""
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
