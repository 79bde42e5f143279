"""Several Triton fleets in one stack: `triton-eks:fleets`, and the view of the stack for one fleet.

A fleet is a Deployment of equal pods: on one pool, of one size, with the same models, scaled together. Every rule about
Triton (relations of the settings, the program, costs) applies to a stack with one fleet. In a stack with several fleets it
applies to each fleet as if the stack had no other (`seen_by`).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Generic, TypeVar

from pydantic import Field

from spec.names import PARITY_EXPORTER, SERVED_VERSIONS, TRITON_RELEASE, triton_grpc_url, triton_http_url
from spec.problem import Problem
from spec.settings.autoscaling import Autoscaling, Pods
from spec.settings.fields import Cpu, ModelName, Name
from spec.settings.kind import between, matching
from spec.settings.rule import Place, rule
from spec.settings.section import Section

LONGEST_NAME = 20
"""The longest fleet name with which no name gets cut off. Deployment, ReplicaSet and pod names add a prefix and suffixes."""
_SUFFIXES = ("headless", "metrics")
_RESERVED = (*_SUFFIXES, *(name.removeprefix(f"{TRITON_RELEASE}-") for name in (PARITY_EXPORTER, SERVED_VERSIONS)))
_OF_THE_SERVER = ("pool", "gpus", "cpu", "memory_gib")
"""The keys of the section `triton` that a fleet may override."""

S = TypeVar("S", bound=Section)

FleetName = Annotated[
    str,
    matching(
        rf"[a-z]([a-z0-9-]{{0,{LONGEST_NAME - 2}}}[a-z0-9])?",
        "is not the name of a fleet",
        f"use up to {LONGEST_NAME} lower-case letters, digits and hyphens, a letter first",
        quote=True,
    ),
]


class FleetKeys(Section):
    """One fleet: equal pods with their own Deployment, Services and autoscaler."""

    guide: ClassVar[str] = "docs/fleets.md"

    name: FleetName = Field(description="a name that is unique among the fleets, like g5; its Deployment is triton-<name>")
    models: Annotated[tuple[ModelName, ...], Field(min_length=1)] = Field(
        description="the models that it loads and serves, like [classify], with every step of an ensemble"
    )
    weights: dict[ModelName, Annotated[int, between(0, 1000, "parts")]] = Field(
        default_factory=dict,
        description="by model that another fleet serves too, its part of the requests that come through the gateway, like "
        "{classify: 3}; 0: the model is loaded and not asked; without it: 1",
    )
    pool: Name | None = Field(
        default=None, description="the GPU pool that its pods run on, or cpu for nodes.cpu; without it: triton.pool"
    )
    gpus: Annotated[int, between(0, 8, "whole GPUs per pod")] | None = Field(
        default=None, description="whole GPUs per pod; 0 with pool: cpu; without it: triton.gpus"
    )
    replicas: Pods | None = Field(
        default=None, description="the number of its pods, which then nothing scales; without it: as autoscaling says"
    )
    autoscaling: Autoscaling | None = Field(
        default=None,
        description="bounds of its own, in the place of the whole section autoscaling; without it: that section, or "
        "triton.replicas",
    )
    cpu: Cpu | None = Field(default=None, description='vCPUs per pod in quotes, like "3"; without it: triton.cpu')
    memory_gib: Annotated[int, between(1, 2048, "GiB")] | None = Field(
        default=None, description="memory per pod in GiB, like 12; without it: triton.memoryGiB"
    )

    @rule
    def _name_is_free(self, at: Place) -> Iterator[Problem]:
        """Refuse a name that gives another object in Triton's namespace and an object of the fleet the same name."""
        if self.name in _RESERVED or re.search(rf"-({'|'.join(_SUFFIXES)})$", self.name):
            yield at.problem(
                "name", f"an object that belongs to another is called {TRITON_RELEASE}-{self.name}; use another name"
            )

    @rule
    def _models_are_distinct(self, at: Place) -> Iterator[Problem]:
        """Require each model once."""
        for index, model in enumerate(self.models):
            if model in self.models[:index]:
                yield at.problem(f"models[{index}]", f"'{model}' is listed twice; list each model once")

    @rule
    def _weights_are_of_its_models(self, at: Place) -> Iterator[Problem]:
        """Require weights only for models of the fleet."""
        for model in self.weights:
            if model not in self.models:
                yield at.problem(
                    f"weights.{model}", f"the fleet does not serve '{model}'; add it to models, or remove the weight"
                )

    @rule
    def _one_owner(self, at: Place) -> Iterator[Problem]:
        """Refuse replicas together with autoscaling."""
        if self.replicas is not None and self.autoscaling is not None:
            yield at.problem("replicas", "autoscaling says how many pods there are; remove one of the two")


@dataclass(frozen=True)
class Fleet(Generic[S]):
    """A fleet, and the stack file (`stack`) as if the fleet were the only one.

    `name`, `keys` and `index` are None if the stack file has no `fleets`: then Triton is one fleet without a name.

    With `rollout: blue-green` the one or two fleets have names and no keys (`spec.settings.blue_green`). `percent` is the
    fleet's share of the requests if there are two, and `candidate` is true for the fleet of models.candidate. `file` is then
    the stack file; `stack` may have raised bounds for the candidate.
    """

    stack: S
    name: str | None = None
    keys: FleetKeys | None = None
    index: int | None = None
    percent: int | None = None
    candidate: bool = False
    file: S | None = None

    @property
    def release(self) -> str:
        """Return the fleet's Helm release. Its Deployment, Service, service account and autoscaler have the same name."""
        return TRITON_RELEASE if self.name is None else f"{TRITON_RELEASE}-{self.name}"

    @property
    def deployment(self) -> str | None:
        """Return the Deployment that distinguishes the fleet's pods from others; None if Triton is one fleet."""
        return None if self.name is None else self.release

    @property
    def http_url(self) -> str:
        """Return the URL for HTTP clients in the cluster."""
        return triton_http_url(self.release)

    @property
    def grpc_url(self) -> str:
        """Return the name under which gRPC clients in the cluster find each of the fleet's pods."""
        return triton_grpc_url(self.release)

    def serves(self, model: str) -> bool:
        """Return whether the fleet serves a model."""
        if self.percent is not None:
            release = self.stack.__dict__["models"].release
            return release is None or model in release.models
        return self.keys is None or model in self.keys.models

    def weight(self, model: str) -> int:
        """Return the fleet's share of a model's requests, relative to the other fleets that serve it.

        For a model with sequences, which stay on one server, the candidate gets all requests or none.
        """
        if self.percent is not None:
            shared = 0 < self.percent < 100 and self.stack.__dict__["models"].keeps_sequences(model)
            return (0 if self.candidate else 100) if shared else self.percent
        return 1 if self.keys is None else self.keys.weights.get(model, 1)

    def problem(self, found: Problem) -> Problem:
        """Return a problem of `stack` with its path in the stack file: in the fleet's section or in a shared one."""
        if self.candidate:
            path = found.path.replace("models.release", "models.candidate.release", 1)
            return Problem(path, f"with models.candidate: {found.message}")
        if self.keys is None:
            return found
        section, _, key = found.path.partition(".")
        given = {type(self.keys).model_fields[name].alias or name for name, value in self.keys.__dict__.items() if value}
        given |= {"gpus"} if self.keys.__dict__.get("gpus") == 0 else set()
        missing = found.message.startswith("is missing")
        own = f"fleets[{self.index}]"
        if section == "triton" and (key in given or (missing and key == "replicas")):
            return Problem(f"{own}.{key}", found.message)
        if section == "autoscaling" and ("autoscaling" in given or (missing and not key)):
            return Problem(f"{own}.{found.path}", found.message)
        return Problem(found.path, f"in fleet '{self.name}': {found.message}")


def seen_by(keys: FleetKeys, document: S) -> S:
    """Return the stack file as if the fleet were its only one: only its models, with its keys in place of the shared ones.

    Values that are missing or invalid in `document` or `keys` are missing in the result too.
    """
    view = document.model_copy()
    values, own = view.__dict__, keys.__dict__
    values["fleets"] = None
    names: tuple[str, ...] = own.get("models", ())
    if "models" not in own:
        values.pop("models", None)
    elif "models" in values:
        values["models"] = _models_of(values["models"], names)
    if "triton" in values:
        values["triton"] = _without_unused(_changed(values["triton"], keys, _OF_THE_SERVER), values.get("models"))
    if "replicas" not in own or "autoscaling" not in own:
        values.pop("autoscaling", None)
        return view
    if own["replicas"] is not None:
        values["autoscaling"] = None
        if "triton" in values:
            values["triton"] = values["triton"].model_copy(update={"replicas": own["replicas"], "autoscaler": "none"})
    elif own["autoscaling"] is not None:
        values["autoscaling"] = own["autoscaling"]
        if "triton" in values:
            values["triton"] = values["triton"].model_copy(update={"replicas": None})
    elif isinstance(values.get("autoscaling"), Section):
        bounds = values["autoscaling"]
        targets = {name: target for name, target in bounds.__dict__.get("targets", {}).items() if name in names}
        values["autoscaling"] = bounds.model_copy(update={"targets": targets})
    return view


def _changed(section: S, keys: FleetKeys, names: tuple[str, ...]) -> S:
    """Return a section with the values that a fleet overrides."""
    changed = section.model_copy()
    for name in names:
        if name not in keys.__dict__:
            changed.__dict__.pop(name, None)  # the value is invalid, which is already reported
        elif keys.__dict__[name] is not None:
            changed.__dict__[name] = keys.__dict__[name]
    return changed


def _models_of(models: S, names: tuple[str, ...]) -> S:
    """Return the section `models` with only these models in `serving` and in its release."""
    found: dict[str, Any] = {}
    release = models.__dict__.get("release")
    if "serving" in models.__dict__:
        found["serving"] = {name: model for name, model in models.__dict__["serving"].items() if name in names}
    if release is not None:
        kept = {
            key: {name: value for name, value in release.__dict__[key].items() if name in names}
            for key in ("models", "others")
            if key in release.__dict__
        }
        found["release"] = release.model_copy(update=kept)
    return models.model_copy(update=found)


def _without_unused(triton: S, models: Any) -> S:
    """Return the section `triton` without the response cache and the resources that no model of the fleet has a use for."""
    wants = list(models.__dict__.get("serving", {}).values()) if models is not None else []
    limiters = [limiter for model in wants if (limiter := model.__dict__.get("rate_limiter")) is not None]
    used = {name for limiter in limiters for name in limiter.__dict__.get("resources", {})}
    found: dict[str, Any] = {}
    if not any(model.__dict__.get("response_cache") for model in wants):
        found["response_cache_mib"] = None
    if "rate_limiter_resources" in triton.__dict__:
        there = triton.__dict__["rate_limiter_resources"]
        found["rate_limiter_resources"] = {name: count for name, count in there.items() if name in used}
    return triton.model_copy(update=found)
