"""A policy: its demand, the severity of a violation, the remedy, and what each environment may do."""

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
    """One number or list that a rule goes by.

    `strict` is what prod gets, and every stack of which nobody says that it is less: the unknown is taken for production.
    """

    what: str
    schema: Mapping[str, Any]
    strict: Any
    local: Any = None
    dev: Any = None
    staging: Any = None

    def of(self, environment: str) -> Any:
        """Return the value for the environment unless the pack's configuration says otherwise."""
        own = getattr(self, environment) if environment in LENIENT_ENVIRONMENTS else None
        return self.strict if own is None else own


def strings(what: str, strict: list[str], **environments: list[str]) -> Setting:
    """Return a setting that is a list of texts."""
    return Setting(what, {"type": "array", "items": {"type": "string"}}, strict, **environments)


def _filled(value: Any, environment: str) -> Any:
    """Return a configured value with the stack's environment for `{environment}` in each text of a list."""
    return [str(one).replace("{environment}", environment) for one in value] if isinstance(value, list) else value


def number(what: str, strict: int, **environments: int) -> Setting:
    """Return a setting that is a whole number of 0 or more."""
    return Setting(what, {"type": "integer", "minimum": 0}, strict, **environments)


def switch(what: str, strict: bool, **environments: bool) -> Setting:
    """Return a setting that is on or off."""
    return Setting(what, {"type": "boolean"}, strict, **environments)


@dataclass(frozen=True, kw_only=True)
class Policy:
    """One rule. `says` is what holds when it is kept, in one sentence; `fix` what to do when it is not."""

    id: str
    says: str
    severity: Severity
    fix: str
    controls: tuple[str, ...]
    """Ids in the CIS Amazon EKS Benchmark ("CIS EKS 5.4.1") and AWS Foundational Security Best Practices ("FSBP EKS.1").

    It has no default, so that nobody forgets them; `()` where neither catalogue asks for the policy.
    """
    level: Level = "mandatory"
    settings: Mapping[str, Setting] = field(default_factory=dict)

    @property
    def tells_unknown(self) -> bool:
        """Return whether a preview says what it could not judge.

        It does where the rule matters most. All rules are judged again at `up`, where everything is known and before the
        resource is made: rules that matter less wait for that in silence.
        """
        return self.severity in ("critical", "high")

    def settings_of(self, environment: str, configured: Mapping[str, Any]) -> Settings:
        """Return the values for the environment, with the pack's configuration on top."""
        own = {name: _filled(value, environment) for name, value in configured.items()}
        return {name: setting.of(environment) for name, setting in self.settings.items()} | own


@dataclass(frozen=True, kw_only=True)
class ResourcePolicy(Policy):
    """A rule about single resources, of `types`."""

    types: tuple[str, ...]
    """Type tokens; one that ends in `*` is a prefix."""
    judge: Callable[[Resource, Settings], Iterator[Finding]]

    def is_about(self, type: str) -> bool:
        """Return whether it judges resources of the type."""
        return any(type == one or (one.endswith("*") and type.startswith(one[:-1])) for one in self.types)

    def findings(self, resource: Resource, environment: str, configured: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield what is wrong with a resource that it is about."""
        settings = self.settings_of(environment, configured)
        yield from attempt(lambda: self.judge(resource, settings))


@dataclass(frozen=True, kw_only=True)
class StackPolicy(Policy):
    """A rule about how resources of a stack fit together."""

    judge: Callable[[Stack, Settings], Iterator[Finding]]

    def findings(self, stack: Stack, environment: str, configured: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield what is wrong with the stack."""
        settings = self.settings_of(environment, configured)
        yield from attempt(lambda: self.judge(stack, settings))
