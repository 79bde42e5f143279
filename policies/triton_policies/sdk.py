"""Policies in the form of Pulumi's policy SDK.

The message of a violation is `<resource>: <property>: <problem>. Fix: <what to do>`. All checks that a preview cannot make
are one advisory for the stack, from `judged_at_up`; unknown settings are reported by `settings_known`. These two policies
have to be the last of their pack.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pulumi_policy as sdk

from triton_policies.findings import Finding, Violation
from triton_policies.policy import Policy, ResourcePolicy, StackPolicy
from triton_policies.reading import Property
from triton_policies.resources import Resource, Stack
from triton_policies.run import Run
from triton_policies.waiting import NAME, SAYS, Waiting

SETTINGS_KNOWN = "settings-known"
"""The name in the pack of the policy about its own configuration."""
_LEVELS = {"mandatory": sdk.EnforcementLevel.MANDATORY, "advisory": sdk.EnforcementLevel.ADVISORY}


def to_sdk(policy: Policy, run: Run) -> sdk.Policy:
    """Return the policy for a `PolicyPack`; its open checks are stored in `run`."""
    common: dict[str, Any] = {
        "name": policy.id,
        "description": policy.says,
        "enforcement_level": _LEVELS[policy.level],
        "config_schema": _schema(policy),
        **_metadata(policy),
    }
    if isinstance(policy, ResourcePolicy):
        return sdk.ResourceValidationPolicy(validate=_resource_validation(policy, run), **common)
    if isinstance(policy, StackPolicy):
        return sdk.StackValidationPolicy(validate=_stack_validation(policy, run), **common)
    raise TypeError(f"{policy.id}: neither about resources nor about stacks")


def judged_at_up(run: Run) -> sdk.Policy:
    """Return the policy that reports the open checks of the others. They come before it in the pack."""

    def validate(args: sdk.StackValidationArgs, report: sdk.ReportViolation) -> None:
        told = run.waiting.take()
        if told is not None:
            report(told, None)

    return sdk.StackValidationPolicy(
        name=NAME,
        description=SAYS,
        validate=validate,
        enforcement_level=sdk.EnforcementLevel.ADVISORY,
        severity=sdk.Severity.LOW,
        remediation_steps="nothing: it is no violation",
    )


def settings_known(run: Run) -> sdk.Policy:
    """Return the policy that refuses settings which no policy has, because the engine silently accepts them."""

    def validate(args: sdk.StackValidationArgs, report: sdk.ReportViolation) -> None:
        for stray, fix in sorted(run.strays.items()):
            report(f"--policy-pack-config: {stray}: there is no such setting, and it changes nothing. Fix: {fix}", None)
        run.strays.clear()

    return sdk.StackValidationPolicy(
        name=SETTINGS_KNOWN,
        description="The pack's configuration sets nothing that no policy has.",
        validate=validate,
        enforcement_level=sdk.EnforcementLevel.MANDATORY,
        severity=sdk.Severity.HIGH,
        remediation_steps="see docs/policies.md",
    )


def message(policy: Policy, violation: Violation, name: str) -> str:
    """Return the message of the violation; `name` is the name of the wrong resource, "" for the stack."""
    where = ": ".join(part for part in (name, violation.path) if part)
    told = f"{where}: {violation.problem}" if where else violation.problem
    # A message has to be one line in the terminal, but values may contain line breaks.
    return " ".join(f"{told}. Fix: {violation.fix or policy.fix}".split())


def _resource_validation(policy: ResourcePolicy, run: Run) -> sdk.ResourceValidation:
    def validate(args: sdk.ResourceValidationArgs, report: sdk.ReportViolation) -> None:
        inputs = run.inputs[args.urn] = Property("", args.props)
        configured = _configured(policy, args, run)
        if not policy.is_about(args.resource_type):
            return
        resource = Resource(
            type=args.resource_type,
            name=args.name,
            urn=args.urn,
            properties=inputs,
            protected=args.opts.protect,
            provider=args.provider.name if args.provider is not None else None,
            region=run.region,
            accounts=run.accounts,
        )
        found = policy.findings(resource, run.environment_of(args.urn), configured)
        _report(policy, found, report, run.waiting, resource)

    return validate


def _stack_validation(policy: StackPolicy, run: Run) -> sdk.StackValidation:
    def validate(args: sdk.StackValidationArgs, report: sdk.ReportViolation) -> None:
        resources = tuple(
            Resource(
                type=one.resource_type,
                name=one.name,
                urn=one.urn,
                properties=Property("", one.props),
                inputs=run.inputs.get(one.urn),
                # The engine does not call a provider with an unknown configuration, and uses empty outputs instead (`Create`
                # in
                # https://github.com/pulumi/pulumi/blob/v3.257.0/sdk/go/common/resource/plugin/provider_plugin.go).
                known=len(one.props) > 0,
                protected=one.opts.protect,
                ignored=frozenset(one.opts.ignore_changes),
                provider=one.provider.name if one.provider is not None else None,
                sources={key: frozenset(source.urn for source in found) for key, found in one.property_dependencies.items()},
            )
            # The engine passes them in the order of their completion.
            for one in sorted(args.resources, key=lambda one: one.urn)
        )
        stack = Stack(resources)
        found = policy.findings(stack, run.environment_of(stack.urn), _configured(policy, args, run))
        _report(policy, found, report, run.waiting, None)

    return validate


def _report(
    policy: Policy, findings: Iterable[Finding], report: sdk.ReportViolation, waiting: Waiting, resource: Resource | None
) -> None:
    for finding in findings:
        at = finding.resource or resource
        if isinstance(finding, Violation):
            report(message(policy, finding, at.name if at else ""), at.urn if at and resource is None else None)
        elif policy.tells_unknown:
            name = finding.needs or (at.name if at else "")
            waiting.add(policy.id, ".".join(part for part in (name, finding.path) if part))


def _configured(policy: Policy, args: sdk.ResourceValidationArgs | sdk.StackValidationArgs, run: Run) -> Mapping[str, Any]:
    """Return the pack's configuration of the policy, as plain data; the engine sends integers as floats."""
    given = args.get_config()
    there_are = f"set {' or '.join(policy.settings)}" if policy.settings else "take it out, the policy has none"
    run.strays |= {f"{policy.id}.{key}": there_are for key in given if key not in policy.settings}
    return {key: Property(key, value).value for key, value in given.items() if key in policy.settings}


def _schema(policy: Policy) -> sdk.PolicyConfigSchema | None:
    """Return the settings' schema without defaults, because they differ by environment and the engine knows only one."""
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
