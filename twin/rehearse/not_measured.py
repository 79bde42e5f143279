"""Say why a change to an exported state is judged and not made under load: what the stack needs that the twin has not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spec.names import POD_RELEASE_LABEL, TRITON_CONTAINER, TRITON_NAMESPACE
from twin.engine.stack_files import STACK
from twin.rehearse.state import State

_DEPLOYMENT = "kubernetes:apps/v1:Deployment"
_GPUS = "nvidia.com/"
_MADE = f"`python3 -m twin rehearse --from REV` makes the change from a revision on a twin of `{STACK}`, under load"


@dataclass(frozen=True)
class _Server:
    """A Deployment of Triton. `release` None: that of a rollout in place. `gpus`: what each of its pods asks for, like
    `1 nvidia.com/gpu`.
    """

    name: str
    release: str | None
    gpus: str | None


def sentence(found: State) -> str:
    """Return what stands in the place of figures about requests."""
    if found.stack == STACK:
        return (
            "no request was sent: a state says which resources there are, and not from which models and settings they were "
            f"made, without which no pod answers. {_MADE}; give the one that the state was brought up from"
        )
    servers = list(_servers(found.resources))
    if not servers:
        return "no request was sent: the state has no Deployment of Triton, so that nobody would answer"
    lacks = "the models, which are in that account's bucket," + (" and the GPUs" if any(one.gpus for one in servers) else "")
    return f"no request was sent: {'; '.join(map(_told, servers))}. This machine has not {lacks} that answer them. {_MADE}"


def _told(server: _Server) -> str:
    serves = f"release {server.release}" if server.release is not None else "what the last rollout has put into the bucket"
    return f"{server.name} serves {serves}{f' on {server.gpus} a pod' if server.gpus else ''}"


def _servers(resources: Sequence[Mapping[str, Any]]) -> Iterator[_Server]:
    for one in resources:
        inputs = one.get("inputs")
        if one["type"] != _DEPLOYMENT or one.get("delete") or _at(inputs, "metadata", "namespace") != TRITON_NAMESPACE:
            continue
        template = _at(inputs, "spec", "template")
        listed = _at(template, "spec", "containers")
        containers = [one for one in listed if _at(one, "name") == TRITON_CONTAINER] if isinstance(listed, list) else []
        release = _at(template, "metadata", "labels", POD_RELEASE_LABEL)
        if containers:
            name = str(_at(inputs, "metadata", "name"))
            yield _Server(name, release if isinstance(release, str) else None, _gpus(containers[0]))


def _gpus(container: Any) -> str | None:
    limits = _at(container, "resources", "limits")
    found = [f"{limits[key]} {key}" for key in limits if key.startswith(_GPUS)] if isinstance(limits, Mapping) else []
    return found[0] if found else None


def _at(value: Any, *path: str) -> Any:
    """Return what stands there; None where something on the way is no object, as what is encrypted is none."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
