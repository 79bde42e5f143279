"""A policy: its requirement, the severity of a violation, the remedy, and its settings by environment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from triton_policies.findings import Finding, attempt
from triton_policies.resources import Resource, Stack

Severity = Literal["critical", "high", "medium", "low"]
Level = Literal["mandatory", "advisory"]
Settings = Mapping[str, Any]

LENIENT_ENVIRONMENTS = ("local", "dev", "staging")


@dataclass(frozen=True)
class Setting:
    """One number or list that a rule uses.

    `strict` is the value for prod and for every stack with an unknown environment, which is treated like prod.
    """

    what: str
    schema: Mapping[str, Any]
    strict: Any
    local: Any = None
    dev: Any = None
    staging: Any = None

    def of(self, environment: str) -> Any:
        """Return the default value for the environment, before the pack's configuration."""
        own = getattr(self, environment) if environment in LENIENT_ENVIRONMENTS else None
        return self.strict if own is None else own


def strings(what: str, strict: list[str], **environments: list[str]) -> Setting:
    """Return a setting with a list of texts."""
    return Setting(what, {"type": "array", "items": {"type": "string"}}, strict, **environments)


def _filled(value: Any, environment: str) -> Any:
    """Return a configured value with `{environment}` in each text of a list replaced by the stack's environment."""
    return [str(one).replace("{environment}", environment) for one in value] if isinstance(value, list) else value


def number(what: str, strict: int, **environments: int) -> Setting:
    """Return a setting with an integer of 0 or more."""
    return Setting(what, {"type": "integer", "minimum": 0}, strict, **environments)


def switch(what: str, strict: bool, **environments: bool) -> Setting:
    """Return a setting that is on or off."""
    return Setting(what, {"type": "boolean"}, strict, **environments)


@dataclass(frozen=True, kw_only=True)
class Policy:
    """One rule. `says` is its requirement in one sentence, and `fix` the remedy for a violation."""

    id: str
    says: str
    severity: Severity
    fix: str
    controls: tuple[str, ...]
    """Ids in the CIS Amazon EKS Benchmark ("CIS EKS 5.4.1") and AWS Foundational Security Best Practices ("FSBP EKS.1").

    It has no default, so it cannot be forgotten; `()` if neither catalogue requires the policy.
    """
    level: Level = "mandatory"
    settings: Mapping[str, Setting] = field(default_factory=dict)

    @property
    def tells_unknown(self) -> bool:
        """Return whether a preview reports the checks of this rule that it could not make.

        It does for the most important rules. All rules run again at `up`, where every value is known and before the resource
        is created, so less important rules wait silently.
        """
        return self.severity in ("critical", "high")

    def settings_of(self, environment: str, configured: Mapping[str, Any]) -> Settings:
        """Return the values for the environment, overridden by the pack's configuration."""
        own = {name: _filled(value, environment) for name, value in configured.items()}
        return {name: setting.of(environment) for name, setting in self.settings.items()} | own


@dataclass(frozen=True, kw_only=True)
class ResourcePolicy(Policy):
    """A rule about single resources of certain types."""

    types: tuple[str, ...]
    """Type tokens; a token that ends in `*` is a prefix."""
    judge: Callable[[Resource, Settings], Iterator[Finding]]

    def is_about(self, type: str) -> bool:
        """Return whether the rule applies to resources of the type."""
        return any(type == one or (one.endswith("*") and type.startswith(one[:-1])) for one in self.types)

    def findings(self, resource: Resource, environment: str, configured: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield the problems of a resource to which the rule applies."""
        settings = self.settings_of(environment, configured)
        yield from attempt(lambda: self.judge(resource, settings))


@dataclass(frozen=True, kw_only=True)
class StackPolicy(Policy):
    """A rule about relations between resources of a stack."""

    judge: Callable[[Stack, Settings], Iterator[Finding]]

    def findings(self, stack: Stack, environment: str, configured: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield the problems of the stack."""
        settings = self.settings_of(environment, configured)
        yield from attempt(lambda: self.judge(stack, settings))
