"""The aws provider of the twin: the handlers of ``twin.aws`` against a moto server, behind the engine's protocol."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from twin.plugins import differences
from twin.plugins.autonaming import autoname
from twin.plugins.errors import Failure, NotReady, NotSupported, PluginError
from twin.plugins.loopback import require_loopback
from twin.plugins.provider import Plan, Provider, Resource
from twin.plugins.server import EngineLog, engine_address, leave_on_signals, serve
from twin.plugins.values import Values

if TYPE_CHECKING:
    from twin.aws.base.clients import Clients
    from twin.aws.base.handler import Handler

DEFAULTS = "__defaults"
"""The key under which checked inputs list the inputs that the provider filled in, as in the official provider."""

NAME_DIGITS = 7
"""Hex digits of an autoname, as in the official provider."""


class AwsProvider(Provider):
    """Replaces pulumi-aws. Needs ``AWS_ENDPOINT_URL`` on loopback and a region."""

    package = "aws"
    distribution = "pulumi_aws"

    def __init__(self, log: EngineLog) -> None:
        super().__init__(log)
        self._clients: Clients | None = None
        self._default_tags: dict[str, str] = {}

    def check_config(self, config: Values) -> list[Failure]:
        return [] if _region(config) else [Failure("region", "set it in the stack: aws:region: us-west-2")]

    def configure(self, config: Values) -> None:
        # Importing boto3 takes as long as the rest of the process, so wait until the engine has its port.
        from twin.aws.base.clients import Clients

        endpoint = require_loopback(os.environ.get("AWS_ENDPOINT_URL", ""), "AWS_ENDPOINT_URL")
        region = _region(config)
        if not region:
            raise PluginError("the aws provider has no region: set aws:region in the stack's configuration")
        self._clients = Clients(region, endpoint)
        self._default_tags = _default_tags(config)
        self._require_account(_structured(config.get("allowedAccountIds") or []))

    def _require_account(self, allowed: Sequence[str]) -> None:
        """Ask STS first, like the official provider. Raises PluginError if the account is not allowed."""
        if not allowed:
            return
        with self._applying() as clients:
            account = clients.account_id
        if account not in allowed:
            raise PluginError(f"AWS account ID not allowed: {account}; aws:allowedAccountIds has {', '.join(allowed)}")

    def check(self, resource: Resource, old: Values, new: Values, seed: bytes) -> tuple[Values, list[Failure]]:
        from twin.aws.base.handler import InvalidInputs
        from twin.aws.base.tags import merge_default_tags

        handler = self._handler(resource)
        inputs = merge_default_tags(handler, new, self._default_tags)
        filled = handler.name_input if handler.name_input and new.get(handler.name_input) is None else None
        name = autoname(resource.name, seed, NAME_DIGITS)
        if filled and filled in old.get(DEFAULTS, ()) and filled in old:
            inputs[filled] = old[filled]
        try:
            checked = handler.check(inputs, name)
        except InvalidInputs as error:
            return new, [Failure(problem.property, problem.reason) for problem in error.problems]
        if filled and filled in checked:
            checked[DEFAULTS] = [filled]
        return _with_old_defaults(old, checked), []

    def diff(self, resource: Resource, old: Values, new: Values, state: Values) -> Plan:
        handler = self._handler(resource)
        difference = handler.diff(old, new)
        changed = [change for change in differences.changes(old, new) if change.path[0] in difference.changed]
        autonamed = handler.name_input in new.get(DEFAULTS, ())
        return Plan(
            changed,
            replace=[_changed_part(tuple(path.split(".")), changed) for path in difference.replaces],
            # An autonamed resource gets a new name when it is replaced, so only the type's own reason counts.
            delete_first=handler.delete_before_replace if autonamed else difference.delete_first,
        )

    def preview_create(self, resource: Resource, inputs: Values) -> Values:
        return self._handler(resource).preview(_external(inputs))

    def create(self, resource: Resource, inputs: Values, timeout: float) -> tuple[str, Values]:
        with self._applying() as clients:
            return self._handler(resource).create(clients, _external(inputs))

    def read(self, resource: Resource, inputs: Values, state: Values) -> tuple[Values, Values] | None:
        handler = self._handler(resource)
        with self._applying() as clients:
            found = handler.read(clients, resource.id, state)
        if found is None:
            return None
        internal = {key: value for key, value in inputs.items() if key.startswith("__")}
        return {**handler.refreshed_inputs(_external(inputs), found), **internal}, found

    def preview_update(self, resource: Resource, state: Values, inputs: Values) -> Values:
        return self._handler(resource).preview_update(state, _external(inputs))

    def update(self, resource: Resource, state: Values, inputs: Values, timeout: float) -> Values:
        with self._applying() as clients:
            return self._handler(resource).update(clients, resource.id, state, _external(inputs))

    def delete(self, resource: Resource, inputs: Values, state: Values, timeout: float) -> None:
        with self._applying() as clients:
            self._handler(resource).delete(clients, resource.id, state)

    def invoke(self, token: str, arguments: Values) -> Values:
        from twin.aws import table
        from twin.aws.base.errors import UnsupportedType

        try:
            function = table.invoke(token)
        except UnsupportedType as error:
            raise NotSupported(str(error)) from None
        with self._applying() as clients:
            return function(clients, arguments)

    def _handler(self, resource: Resource) -> Handler:
        from twin.aws import table
        from twin.aws.base.errors import UnsupportedType

        try:
            return table.handler(resource.type)
        except UnsupportedType as error:
            raise NotSupported(str(error)) from None

    @contextmanager
    def _applying(self) -> Iterator[Clients]:
        from botocore.exceptions import EndpointConnectionError

        from twin.aws.base.errors import HalfCreated
        from twin.aws.base.handler import APPLY_ERRORS, explain

        if self._clients is None:
            raise PluginError("the aws provider is used before it is configured")
        try:
            yield self._clients
        except EndpointConnectionError as error:
            raise PluginError(
                f"the twin's AWS does not answer at {self._clients.endpoint_url}: start it with `make up`"
            ) from error
        except HalfCreated as error:
            raise NotReady(error.id, error.outputs, [str(error)]) from error
        except APPLY_ERRORS as error:
            raise PluginError(explain(error)) from error


def _region(config: Mapping[str, Any]) -> str:
    return str(config.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "")


def _default_tags(config: Mapping[str, Any]) -> dict[str, str]:
    return dict(_structured(config.get("defaultTags") or {}).get("tags") or {})


def _structured(value: Any) -> Any:
    """Return structured configuration as a value: the engine sends it as JSON text."""
    return json.loads(value) if isinstance(value, str) else value


def _with_old_defaults(old: Any, new: Any) -> Any:
    """Return checked inputs, with the last deployment's defaults for properties without a value, at any depth.

    The official provider fills in its schema's defaults, lists them in ``__defaults``, and then keeps them (applyDefaults
    in https://github.com/pulumi/pulumi-terraform-bridge/blob/main/pkg/tfbridge/schema.go). The handlers here fill in only
    names, so other defaults come only from the state of a real account.
    """
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        found = {key: _with_old_defaults(old.get(key), value) for key, value in new.items()}
        kept = {key: old[key] for key in old.get(DEFAULTS) or () if key in old and key not in found}
        listed = dict.fromkeys((*(new.get(DEFAULTS) or ()), *kept))
        return {**found, **kept, **({DEFAULTS: list(listed)} if listed or DEFAULTS in old else {})}
    if isinstance(old, list) and isinstance(new, list):
        return [_with_old_defaults(old[at] if at < len(old) else None, value) for at, value in enumerate(new)]
    return new


def _changed_part(path: differences.Path, changed: Sequence[differences.Change]) -> differences.Path:
    """Return the path that forces replacement, or its parent object if that was added or removed as a whole."""
    return next((change.path for change in changed if change.path == path[:1]), path)


def _external(inputs: Mapping[str, Any]) -> Values:
    """Return the inputs without the providers' own keys, at any depth: SDKs do not read them among outputs."""
    return {key: _without_notes(value) for key, value in inputs.items() if not key.startswith("__")}


def _without_notes(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _external(value)
    return [_without_notes(item) for item in value] if isinstance(value, list) else value


def main() -> None:
    """Run the plugin's process."""
    leave_on_signals()
    from pulumi.runtime.proto import provider_pb2_grpc

    provider = AwsProvider(EngineLog(engine_address(sys.argv[1:])))
    serve(lambda server: provider_pb2_grpc.add_ResourceProviderServicer_to_server(provider, server))


if __name__ == "__main__":
    main()
