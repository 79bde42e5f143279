"""Take the serving part out of the preview of a state: Kubernetes objects that a twin can hold, before and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spec.failure import Failure
from spec.names import TRITON_NAMESPACE
from twin.rehearse import serving
from twin.rehearse.judgement import Finding
from twin.rehearse.serving import DEPLOYMENT, Server

Manifest = Mapping[str, Any]

_NAMESPACE, _PRIORITY = "kubernetes:core/v1:Namespace", "kubernetes:scheduling.k8s.io/v1:PriorityClass"
SERVICE, ACCOUNT = "kubernetes:core/v1:Service", "kubernetes:core/v1:ServiceAccount"
_MADE = frozenset(
    {
        *(ACCOUNT, SERVICE, DEPLOYMENT, "kubernetes:core/v1:ConfigMap", "kubernetes:networking.k8s.io/v1:NetworkPolicy"),
        "kubernetes:policy/v1:PodDisruptionBudget",
    }
)
"""Types of the namespace that every API server has. Other types come from charts, hold secrets or need AWS volumes."""
_KUBERNETES = "kubernetes:"
SECRET_TEXT = "[secret]"
"""The engine's placeholder for a secret in the events of a preview."""
_TEMPLATE = "spec.template"


class NotMade(Failure):
    """The servers of a state, or their change, cannot be made here; the text says why."""


@dataclass(frozen=True)
class Part:
    """The servers of a state and the objects around them.

    `before` and `after`: the objects by `TYPE::NAME`, as the real engine has them in its preview.
    `servers` and `servers_after`: the Deployments of Triton among them. `rolled`: objects whose pod template changes.
    `others`: how many other objects the namespace has, by type.
    """

    before: Mapping[str, Manifest]
    after: Mapping[str, Manifest]
    servers: Sequence[Server]
    servers_after: Sequence[Server]
    rolled: frozenset[str]
    others: Mapping[str, int]

    @property
    def changed(self) -> frozenset[str]:
        """Return the keys of the objects that the change creates, alters or deletes."""
        keys = self.before.keys() | self.after.keys()
        return frozenset(key for key in keys if self.before.get(key) is not self.after.get(key))


def of(inputs: Mapping[str, tuple[Manifest, Manifest]], findings: Sequence[Finding]) -> Part:
    """Return the serving part, from the inputs before and after of all resources in the preview. Raises NotMade.

    If the engine sees no difference, the object stays as it was, however the new program writes it.
    """
    steps = {one.key: one for one in findings}
    before = {key: old for key, (old, _) in inputs.items() if old}
    after = {
        key: new if key in steps else old
        for key, (old, new) in inputs.items()
        if (new or old) and (key not in steps or steps[key].action != "delete")
    }
    made = Part(
        before={key: one for key, one in before.items() if _is_made(key, one, before)},
        after={key: one for key, one in after.items() if _is_made(key, one, after)},
        servers=_servers(before),
        servers_after=_servers(after),
        rolled=frozenset(key for key, step in steps.items() if any(path.startswith(_TEMPLATE) for path in step.because)),
        others=Counter(
            type_of(key) for key, one in before.items() if _is_of_it(key, one) and not _is_made(key, one, before)
        ),
    )
    why = next(_hindrances(made), None)
    if why is not None:
        raise NotMade(why)
    return made


def type_of(key: str) -> str:
    """Return the type in `TYPE::NAME`."""
    return key.partition("::")[0]


def _servers(objects: Mapping[str, Manifest]) -> Sequence[Server]:
    return serving.servers_of((type_of(key), one) for key, one in objects.items())


def _is_of_it(key: str, manifest: Manifest) -> bool:
    return key.startswith(_KUBERNETES) and serving.at(manifest, "metadata", "namespace") == TRITON_NAMESPACE


def _is_made(key: str, manifest: Manifest, beside: Mapping[str, Manifest]) -> bool:
    type_ = type_of(key)
    name = serving.at(manifest, "metadata", "name")
    if type_ == _NAMESPACE:
        return bool(name == TRITON_NAMESPACE)
    if type_ == _PRIORITY:
        path = ("spec", "template", "spec", "priorityClassName")
        return name in {serving.at(one, *path) for other, one in beside.items() if _is_of_it(other, one)}
    if type_ == DEPLOYMENT and not serving.servers_of([(type_, manifest)]):
        return False  # such as the parity exporter, which answers no request
    return type_ in _MADE and _is_of_it(key, manifest)


def _hindrances(part: Part) -> Iterator[str]:
    asked = [one for one in part.servers if one.pods]
    if not asked:
        yield "the state has no Deployment of Triton that keeps a pod, so that nobody would answer"
    services = {serving.at(one, "metadata", "name") for key, one in part.before.items() if type_of(key) == SERVICE}
    for server in asked:
        if server.release is None:
            yield f"{server.name} serves what the last rollout has put into the bucket, and not one release"
        elif not server.reads_bucket:
            yield f"the pods of {server.name} take their models from a volume, or by another program, and not from a bucket"
        elif server.name not in services:
            yield f"the state has no Service called {server.name}, at which its pods would be asked"
    for key, one in (*part.before.items(), *part.after.items()):
        if _has_secret(one):
            type_, _, name = key.partition("::")
            yield f"{name} ({type_}) has a secret among its inputs, which the engine does not tell"
    if not part.changed:
        yield "the change alters none of Triton's own objects in the state, which are all that is made here"


def _has_secret(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_secret, value.values()))
    return any(map(_has_secret, value)) if isinstance(value, list) else value == SECRET_TEXT
