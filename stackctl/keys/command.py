"""Run `stackctl keys`: manage API keys of the gateway's clients."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from console.terminal import output
from spec.failure import NOT_TRIED, Failure
from spec.settings import Settings
from spec.settings.clients import CLIENT_NAME
from spec.stack_names import stack_file
from spec.wording import one_of
from stackctl.account.guard import IDENTITY_OPERATIONS, caller, require_account
from stackctl.account.read_only import Readers
from stackctl.keys.store import KeysRefused, KeyStore, new_key
from stackctl.stack_settings import settings_of

GATEWAYS_HAVE_THEM = timedelta(minutes=5)
"""Time after which every gateway has a change of keys, with a margin.

Gateways read keys each minute (infra/platform/client_keys.py).
"""

_CLIENT = re.compile(CLIENT_NAME)


class NoClients(Failure):
    """The stack file does not name the client, or has no clients with keys. The text has the missing part."""

    exit_code = NOT_TRIED


def create(stack: str, client: str) -> None:
    """Create the first key of a client. Raises Failure."""
    settings = settings_of(stack)
    _require_client(settings, client)
    store = _store(settings, client)
    store.create(client)
    _say(f"{client} has a key, which opens the gateway a minute or two after the `pulumi up` that names the client")
    _say("the client reads it, and again when it is refused, with")
    _say(f"  aws secretsmanager get-secret-value --secret-id {store.name(client)} --query SecretString --output text")
    _say("and takes the value of current")


def rotate(stack: str, client: str) -> None:
    """Create a second key; the next call makes it the current key. Raises Failure."""
    settings = settings_of(stack)
    _require_client(settings, client)
    store = _store(settings, client)
    kept = store.read(client)
    if "previous" in kept.keys:
        raise KeysRefused(
            f"the last key of {client} still opens the gateway; end it first, when no client sends it any more: "
            f"`stackctl keys expire {stack} {client}`"
        )
    if "next" not in kept.keys:
        store.write(client, {**kept.keys, "next": new_key()}, kept)
        ready = _now() + GATEWAYS_HAVE_THEM
        _say(f"{client} gets a second key; the first stays current until the gateways know both")
        _say(f"run the same command again after {ready:%H:%M:%S} UTC, which hands the second one out")
        return
    ready = kept.since + GATEWAYS_HAVE_THEM
    if _now() < ready:
        raise KeysRefused(
            f"the second key of {client} may not be at every gateway yet, and a client that read it now could be refused; "
            f"run this again after {ready.astimezone(UTC):%H:%M:%S} UTC"
        )
    store.write(client, {"current": kept.keys["next"], "previous": kept.keys["current"]}, kept)
    _say(f"the second key of {client} is current, and the first still opens the gateway")
    _say(f"when every part of the client has read it: `stackctl keys expire {stack} {client}`")


def expire(stack: str, client: str) -> None:
    """Expire the key that was current before the last rotation. Raises Failure."""
    store = _store(settings_of(stack), client)
    kept = store.read(client)
    if "previous" not in kept.keys:
        raise KeysRefused(f"{client} has no key of before a rotation; `stackctl keys rotate {stack} {client}` begins one")
    store.write(client, {"current": kept.keys["current"]}, kept)
    _say(f"the last key of {client} stops opening the gateway within a minute or two")


def revoke(stack: str, client: str) -> None:
    """Replace all keys of a client with a new one, for a leaked key. Raises Failure."""
    store = _store(settings_of(stack), client)
    store.write(client, {"current": new_key()}, store.read(client))
    _say(f"every key of {client} stops opening the gateway within a minute or two; it is refused until it reads the new one")


def delete(stack: str, client: str) -> None:
    """Delete the keys of a client that the stack file no longer names. Raises Failure."""
    settings = settings_of(stack)
    if settings.gateway is not None and client in (settings.gateway.clients or {}):
        raise NoClients(
            f"{stack_file(stack)} names {client} in gateway.clients, and without its secret no change of any client's keys "
            "reaches the gateway; remove it there and run `pulumi up` first; to lock it out at once: "
            f"`stackctl keys revoke {stack} {client}`"
        )
    store = _store(settings, client)
    store.read(client)
    store.delete(client)
    _say(
        f"the keys of {client} are gone; for a week this undoes it: "
        f"aws secretsmanager restore-secret --secret-id {store.name(client)}"
    )


def show(stack: str) -> None:
    """List the clients that have keys, and those that should. No key is read. Raises Failure."""
    settings = settings_of(stack)
    named = settings.gateway.clients or {} if settings.gateway is not None and settings.gateway.has_keys else {}
    found = _store(settings).clients()
    for client in sorted({*named, *found}):
        since = f"changed {found[client].astimezone(UTC):%Y-%m-%d %H:%M} UTC" if client in found else "no keys"
        what = "" if client in named else ", not in gateway.clients"
        _say(f"{client}: {since}{what}")
    if not named and not found:
        _say(f"{stack_file(stack)} names no clients with keys, and there are none")


def _require_client(settings: Settings, client: str) -> None:
    file = stack_file(settings.stack)
    if settings.gateway is None or not settings.gateway.has_keys:
        raise NoClients(f"{file}: has no gateway.clients that are known by keys; docs/access.md says what belongs there")
    clients = settings.gateway.clients or {}
    if client not in clients:
        raise NoClients(f"{file}: gateway.clients does not name {client}; it has {one_of(sorted(clients))}")


def _store(settings: Settings, client: str | None = None) -> KeyStore:
    if client is not None and not _CLIENT.fullmatch(client):
        raise NoClients(f"{client!r} is not the name of a client; `stackctl keys list {settings.stack}` prints who has keys")
    require_account(caller(Readers(settings.region, IDENTITY_OPERATIONS)), settings)
    return KeyStore(settings)


def _now() -> datetime:
    return datetime.now(UTC)


def _say(line: str) -> None:
    output(soft_wrap=True).print(line)
