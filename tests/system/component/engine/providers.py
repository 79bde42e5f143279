"""Providers that the monitor calls for a custom resource, to apply it or only to plan it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pulumi.runtime.rpc import UNKNOWN

from tests.system.component.engine.recording import Values
from twin.aws import table
from twin.aws.base.clients import Clients
from twin.aws.base.errors import InvalidInputs, UnsupportedType
from twin.aws.base.handler import APPLY_ERRORS, explain
from twin.aws.base.tags import merge_default_tags


class Refused(Exception):
    """A resource that its provider refuses; the message is the provider's."""


@dataclass(frozen=True)
class Applied:
    """Provider id ("" in a preview), outputs, and the inputs after the check."""

    id: str
    outputs: Values
    checked: Values


@dataclass(frozen=True)
class Aws:
    """The twin's AWS handlers, on the moto account that is active in this process."""

    clients: Clients
    default_tags: Mapping[str, str]

    def apply(self, type: str, urn: str, name: str, inputs: Values, *, preview: bool) -> Applied:
        """Check and create, or check and plan. Raises Refused."""
        try:
            handler = table.handler(type)
            merged = merge_default_tags(handler, inputs, self.default_tags)
            checked = handler.check(merged, _autoname(urn, name))
            if preview:
                return Applied("", handler.preview(checked), checked)
            id, outputs = handler.create(self.clients, checked)
        except InvalidInputs as error:
            raise Refused("; ".join(map(str, error.problems))) from error
        except UnsupportedType as error:
            raise Refused(str(error)) from error
        except APPLY_ERRORS as error:
            raise Refused(explain(error)) from error
        return Applied(id, outputs, checked)

    def invoke(self, token: str, arguments: Values) -> Values:
        """Call a function. Raises Refused."""
        try:
            return table.invoke(token)(self.clients, arguments)
        except APPLY_ERRORS as error:
            raise Refused(explain(error)) from error


LOAD_BALANCER = "k8s-envoygat-0123456789-fedcba9876543210.elb.us-west-2.amazonaws.com"
"""The address that Envoy Gateway would write into a Gateway's status."""


def kubernetes_object(inputs: Values, *, preview: bool) -> Applied:
    """Return a Kubernetes object or Helm release as declared; these tests have no API server."""
    metadata: Mapping[str, Any] = inputs.get("metadata") or {}
    name = metadata.get("name") or inputs.get("name")
    if not name:
        raise Refused("metadata.name: required, the programs of this repository name their objects")
    namespace = metadata.get("namespace") or inputs.get("namespace")
    outputs = dict(inputs)
    if inputs.get("kind") == "Gateway" and not preview:
        outputs["status"] = {"addresses": [{"type": "Hostname", "value": LOAD_BALANCER}]}
    return Applied("" if preview else f"{namespace}/{name}" if namespace else str(name), outputs, dict(inputs))


def provider_resource(urn: str, inputs: Values, *, preview: bool) -> Applied:
    """Return an explicit provider; tests only compare its id."""
    id = UNKNOWN if preview else hashlib.sha256(urn.encode()).hexdigest()[:12]
    return Applied(id, dict(inputs), dict(inputs))


def _autoname(urn: str, name: str) -> str:
    """Return a physical name that is the same in every run."""
    return f"{name}-{hashlib.sha256(urn.encode()).hexdigest()[:7]}"
