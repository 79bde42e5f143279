"""The pack's side of the engine's calls.

Of a stack, the SDK passes on only its tags. It also converts a resource to Python objects again for each policy, which takes
most of the time of a pack with many policies.
https://github.com/pulumi/pulumi-policy/blob/main/sdk/python/lib/pulumi_policy/policy.py
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from typing import Any

import pulumi_policy as sdk
from google.protobuf import json_format
from pulumi.runtime.proto import analyzer_pb2
from pulumi_policy import policy as sdk_policy
from pulumi_policy.deserialize import deserialize_properties
from pulumi_policy.proxy import unknown_checking_proxy

from triton_policies.run import Run

_ACCOUNT = re.compile(r"\b\d{12}\b")
_SDK_SERVICER = sdk_policy._PolicyAnalyzerServicer


class _Unread(Mapping[str, Any]):
    """Properties as sent by the engine. They are converted on first access, because most rules read only a few types."""

    def __init__(self, message: Any) -> None:
        self._message = message

    @cached_property
    def _read(self) -> Mapping[str, Any]:
        return unknown_checking_proxy(deserialize_properties(json_format.MessageToDict(self._message)))

    def __getitem__(self, key: str) -> Any:
        return self._read[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read)

    def __len__(self) -> int:
        return len(self._message.fields)


class _Servicer(_SDK_SERVICER):
    """The SDK's servicer. It also passes the stack's facts to `run`, and reads each resource once for all policies.

    No policy of this pack raises UnknownValueError (`reading`) or calls `not_applicable`, so these are not handled.
    """

    def __init__(self, run: Run, name: str, version: str, policies: list[sdk.Policy], *others: Any) -> None:
        super().__init__(name, version, policies, *others)
        self._run = run
        self._policies = policies

    def ConfigureStack(self, request: Any, context: Any) -> Any:
        """Store the stack's environment, region and accounts, which no other call of the engine contains.

        `PULUMI_CONFIG` is not set for a pack that a language plugin runs:
        https://github.com/pulumi/pulumi/blob/v3.257.0/sdk/go/common/resource/plugin/analyzer_plugin.go A stack without a
        configured environment is evaluated by its name (`Run.environment_of`).
        """
        self._run.environment = request.config.get(f"{request.project}:environment") or None
        self._run.region = request.config.get("aws:region") or None
        self._run.accounts = frozenset(_ACCOUNT.findall(request.config.get("aws:allowedAccountIds", "")))
        return super().ConfigureStack(request, context)

    def Analyze(self, request: Any, _context: Any) -> Any:
        """Return the findings of the policies about single resources."""
        one = _read(self, request)
        provided = one.resource_type, one.props, one.urn, one.name, one.opts, one.provider
        return self._found(sdk.ResourceValidationPolicy, lambda config: sdk.ResourceValidationArgs(*provided, config))

    def AnalyzeStack(self, request: Any, _context: Any) -> Any:
        """Return the findings of the policies about the whole stack."""
        resources = [_read(self, one) for one in request.resources]
        by_urn = {one.urn: one for one in resources}
        for made, told in zip(resources, request.resources, strict=True):
            for key, sources in told.propertyDependencies.items():
                made.property_dependencies[key] = [by_urn[urn] for urn in sources.urns if urn in by_urn]
        return self._found(sdk.StackValidationPolicy, lambda config: sdk.StackValidationArgs(resources, config))

    def Remediate(self, request: Any, context: Any) -> Any:
        """Answer immediately if no policy remediates; the SDK would read the resource first."""
        if sdk.EnforcementLevel.REMEDIATE in map(self._get_enforcement_level, self._policies):
            return super().Remediate(request, context)
        return analyzer_pb2.RemediateResponse()

    def _found(self, kind: type[sdk.Policy], args: Callable[[Mapping[str, Any] | None], Any]) -> Any:
        response = analyzer_pb2.AnalyzeResponse()
        for policy in self._policies:
            level = self._get_enforcement_level(policy)
            if isinstance(policy, kind) and level != sdk.EnforcementLevel.DISABLED:
                # No policy of this pack remediates, so a violation of a policy configured to do so is refused.
                level = sdk.EnforcementLevel.MANDATORY if level == sdk.EnforcementLevel.REMEDIATE else level
                report = self._create_report_violation(response, policy.name, policy.description, level, policy.severity)
                policy.validate(args(self._get_policy_config(policy.name)), report)  # type: ignore[attr-defined]
        return response


def listen(run: Run) -> None:
    """Pass the engine's facts about the stack to `run` in the next pack. Read each resource once."""
    sdk_policy._PolicyAnalyzerServicer = partial(_Servicer, run)  # type: ignore[misc, assignment]


def _read(servicer: _Servicer, told: Any) -> sdk.PolicyResource:
    """Return a resource without its dependencies."""
    provider = told.provider
    return sdk.PolicyResource(
        told.type,
        _Unread(told.properties),
        told.urn,
        told.name,
        servicer._get_resource_options(told),
        sdk.PolicyProviderResource(provider.type, _Unread(provider.properties), provider.urn, provider.name)
        if told.HasField("provider")
        else None,
        None,
        [],
        {},
    )
