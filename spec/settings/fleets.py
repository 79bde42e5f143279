"""Several fleets of Triton in one stack: `triton-eks:fleets`, and the stack as one of them has it.

A fleet is a Deployment of pods that are alike: on one pool, of one size, with the same models, scaled together. Whatever is
said about Triton (relations of the settings, the program, costs) is said of a stack with one fleet, and of each fleet of a
stack with several as if the stack had no other (`seen_by`).
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
"""With the name of a Deployment in front of it and those of ReplicaSet and pod behind, no name is cut off."""
_SUFFIXES = ("headless", "metrics")
_RESERVED = (*_SUFFIXES, *(name.removeprefix(f"{TRITON_RELEASE}-") for name in (PARITY_EXPORTER, SERVED_VERSIONS)))
_OF_THE_SERVER = ("pool", "gpus", "cpu", "memory_gib")
"""The keys of the section `triton` that a fleet may say for itself."""

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
    """One fleet: pods that are alike, with a Deployment, Services and an autoscaler of their own."""

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
        """Refuse names of which a Service or another object of Triton's namespace would be called like that of another."""
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
        """Require weights of models of the fleet."""
        for model in self.weights:
            if model not in self.models:
                yield at.problem(
                    f"weights.{model}", f"the fleet does not serve '{model}'; add it to models, or remove the weight"
                )

    @rule
    def _one_owner(self, at: Place) -> Iterator[Problem]:
        """Refuse replicas beside autoscaling."""
        if self.replicas is not None and self.autoscaling is not None:
            yield at.problem("replicas", "autoscaling says how many pods there are; remove one of the two")


@dataclass(frozen=True)
class Fleet(Generic[S]):
    """A fleet, and the stack file (`stack`) as if it were its only one.

    `name`, `keys` and `index` are None where the stack file has no `fleets`: then Triton is one fleet, without a name. With
    `rollout: blue-green` its one or two fleets have names and no keys (`spec.settings.blue_green`): `percent` is the part of
    the requests where there are two, and `candidate` says of the one whether it is that of models.candidate. `file` is then
    the stack file, whose bounds the candidate may have raised in `stack`.
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
        """Return its Helm release, which its Deployment, Service, service account and autoscaler are called after."""
        return TRITON_RELEASE if self.name is None else f"{TRITON_RELEASE}-{self.name}"

    @property
    def deployment(self) -> str | None:
        """Return the Deployment that tells its pods from those of other fleets; None where there is no other."""
        return None if self.name is None else self.release

    @property
    def http_url(self) -> str:
        """Return where clients in the cluster ask it over HTTP."""
        return triton_http_url(self.release)

    @property
    def grpc_url(self) -> str:
        """Return the name by which gRPC clients in the cluster find each of its pods."""
        return triton_grpc_url(self.release)

    def serves(self, model: str) -> bool:
        """Return whether it serves a model."""
        if self.percent is not None:
            release = self.stack.__dict__["models"].release
            return release is None or model in release.models
        return self.keys is None or model in self.keys.models

    def weight(self, model: str) -> int:
        """Return its part of the requests for a model, relative to the other fleets' that serve it.

        Of a model with sequences, whose requests belong to one server, the candidate has all requests or none.
        """
        if self.percent is not None:
            shared = 0 < self.percent < 100 and self.stack.__dict__["models"].keeps_sequences(model)
            return (0 if self.candidate else 100) if shared else self.percent
        return 1 if self.keys is None else self.keys.weights.get(model, 1)

    def problem(self, found: Problem) -> Problem:
        """Return what is wrong with `stack`, told where the stack file has it: with the fleet, or with what fleets share."""
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
    """Return the stack file as if the fleet were its only one: its models alone, and its keys where it gives them.

    What is missing or invalid in `document` or `keys` is missing in it too.
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
    """Return a section with the values that a fleet gives for itself."""
    changed = section.model_copy()
    for name in names:
        if name not in keys.__dict__:
            changed.__dict__.pop(name, None)  # it is invalid, which has been told
        elif keys.__dict__[name] is not None:
            changed.__dict__[name] = keys.__dict__[name]
    return changed


def _models_of(models: S, names: tuple[str, ...]) -> S:
    """Return the section `models` with these models alone, among its wants and in its release."""
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
