"""Policies as Pulumi's policy SDK takes them.

A violation is told as `<resource>: <property>: <problem>. Fix: <what to do>`. What a preview cannot judge is an advisory of
its own: the SDK makes one of every UnknownValueError, whatever the policy's level.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pulumi_policy as sdk
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE, UnknownValueError

from triton_policies.findings import Finding, Unjudged, Violation
from triton_policies.policy import Policy, ResourcePolicy, StackPolicy
from triton_policies.reading import Property
from triton_policies.resources import Resource, Stack

_LEVELS = {"mandatory": sdk.EnforcementLevel.MANDATORY, "advisory": sdk.EnforcementLevel.ADVISORY}


def to_sdk(policy: Policy) -> sdk.Policy:
    """The policy for a `PolicyPack`."""
    common: dict[str, Any] = {
        "name": policy.id,
        "description": policy.says,
        "enforcement_level": _LEVELS[policy.level],
        "config_schema": _schema(policy),
        **_metadata(policy),
    }
    if isinstance(policy, ResourcePolicy):
        return sdk.ResourceValidationPolicy(validate=_resource_validation(policy), **common)
    if isinstance(policy, StackPolicy):
        return sdk.StackValidationPolicy(validate=_stack_validation(policy), **common)
    raise TypeError(f"{policy.id}: neither about resources nor about stacks")


def message(policy: Policy, violation: Violation, name: str) -> str:
    """What the violation is told as; `name` is that of the resource at fault, "" for the stack."""
    where = ": ".join(part for part in (name, violation.path) if part)
    told = f"{where}: {violation.problem}" if where else violation.problem
    # One line of a message is one line of the terminal: values that come from elsewhere may have more.
    return " ".join(f"{told}. Fix: {violation.fix or policy.fix}".split())


def _resource_validation(policy: ResourcePolicy) -> sdk.ResourceValidation:
    def validate(args: sdk.ResourceValidationArgs, report: sdk.ReportViolation) -> None:
        if not policy.is_about(args.resource_type):
            return
        resource = Resource(
            type=args.resource_type,
            name=args.name,
            urn=args.urn,
            properties=Property("", args.props),
            protected=args.opts.protect,
            provider=args.provider.name if args.provider is not None else None,
        )
        _report(policy, policy.findings(resource, _configured(args)), report, resource)

    return validate


def _stack_validation(policy: StackPolicy) -> sdk.StackValidation:
    def validate(args: sdk.StackValidationArgs, report: sdk.ReportViolation) -> None:
        resources = tuple(
            Resource(
                type=one.resource_type,
                name=one.name,
                urn=one.urn,
                properties=Property("", one.props),
                protected=one.opts.protect,
                provider=one.provider.name if one.provider is not None else None,
                sources={key: frozenset(source.urn for source in found) for key, found in one.property_dependencies.items()},
            )
            # The engine gives them in whatever order they were done.
            for one in sorted(args.resources, key=lambda one: one.urn)
        )
        _report(policy, policy.findings(Stack(resources), _configured(args)), report, None)

    return validate


def _report(policy: Policy, findings: Iterable[Finding], report: sdk.ReportViolation, resource: Resource | None) -> None:
    unjudged: list[str] = []
    for finding in findings:
        at = finding.resource or resource
        if isinstance(finding, Unjudged):
            unjudged.append(": ".join(part for part in (at.name if at else "", finding.path) if part))
        else:
            report(message(policy, finding, at.name if at else ""), at.urn if at and resource is None else None)
    if unjudged and policy.tells_unknown:
        raise _unjudged(unjudged)


def _unjudged(paths: list[str]) -> UnknownValueError:
    error = UnknownValueError(UNKNOWN_STRING_VALUE, paths)
    error.message = (
        f"{', '.join(dict.fromkeys(paths))} is not known yet. It is judged at `pulumi up`, as soon as it is known"
    )
    return error


def _configured(args: sdk.ResourceValidationArgs | sdk.StackValidationArgs) -> Mapping[str, Any]:
    """What the pack's configuration says of the policy, as plain data: whole numbers come as floats."""
    return {key: Property(key, value).value for key, value in args.get_config().items()}


def _schema(policy: Policy) -> sdk.PolicyConfigSchema | None:
    """Without defaults: they differ by environment, and the engine knows one only."""
    if not policy.settings:
        return None
    return sdk.PolicyConfigSchema(
        properties={name: {**setting.schema, "description": setting.what} for name, setting in policy.settings.items()}
    )


def _metadata(policy: Policy) -> dict[str, Any]:
    return {
        "severity": sdk.Severity(policy.severity),
        "remediation_steps": policy.fix,
        "tags": list(policy.controls),
    }
