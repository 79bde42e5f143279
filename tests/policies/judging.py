"""Evaluates cases with the policies in this process, through Pulumi's SDK."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi_policy as sdk
from pulumi_policy.proxy import unknown_checking_proxy

from tests.policies.case import Case, Inputs, Made
from triton_policies.registry import POLICIES
from triton_policies.run import Run
from triton_policies.sdk import to_sdk

BY_ID = {policy.id: policy for policy in POLICIES}


@dataclass(frozen=True)
class Verdict:
    """Violations, and the message about all values that could not be evaluated; each is None if there is none."""

    told: tuple[str, ...]
    unjudged: str | None


def judge(case: Case, given: Inputs | Sequence[Made]) -> Verdict:
    """Return the verdict of the case's policy on the inputs or on the stack."""
    run = Run(region=case.region, accounts=frozenset(case.accounts))
    policy: Any = to_sdk(BY_ID[case.policy], run)
    told: list[str] = []

    def report(message: str, urn: str | None = None) -> None:
        told.append(message)

    if isinstance(given, dict):
        policy.validate(_resource_args(case, given), report)
    else:
        policy.validate(_stack_args(case, given), report)
    return Verdict(tuple(told), run.waiting.take())


def _resource_args(case: Case, inputs: Inputs) -> sdk.ResourceValidationArgs:
    options = case.options or {}
    return sdk.ResourceValidationArgs(
        resource_type=case.type,
        props=unknown_checking_proxy(inputs),
        urn=_urn(case.environment, case.type, "it"),
        name="it",
        opts=_options(protect=options.get("protect", False)),
        provider=_provider(options.get("provider")),
        config=case.config,
    )


def _stack_args(case: Case, resources: Sequence[Made]) -> sdk.StackValidationArgs:
    by_name = {
        one.name: sdk.PolicyResource(
            resource_type=one.type,
            props=unknown_checking_proxy(one.properties),
            urn=_urn(case.environment, one.type, one.name),
            name=one.name,
            opts=_options(ignored=one.ignored),
            provider=None,
            parent=None,
            dependencies=[],
            property_dependencies={},
        )
        for one in resources
    }
    for one in resources:
        by_name[one.name].property_dependencies.update(
            {key: [by_name[name] for name in names if name in by_name] for key, names in one.sources.items()}
        )
    return sdk.StackValidationArgs(resources=list(by_name.values()), config=case.config)


def _options(protect: bool = False, ignored: Sequence[str] = ()) -> sdk.PolicyResourceOptions:
    return sdk.PolicyResourceOptions(
        protect=protect,
        ignore_changes=list(ignored),
        delete_before_replace=None,
        aliases=[],
        custom_timeouts=sdk.PolicyCustomTimeouts(0, 0, 0),
        additional_secret_outputs=[],
    )


def _provider(name: str | None) -> sdk.PolicyProviderResource | None:
    properties: Mapping[str, Any] = {}
    kind = "pulumi:providers:kubernetes"
    return None if name is None else sdk.PolicyProviderResource(kind, properties, _urn("prod", kind, name), name)


def _urn(stack: str, type: str, name: str) -> str:
    return f"urn:pulumi:{stack}::triton-eks::{type}::{name}"
