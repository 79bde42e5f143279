"""Check that each client of the gateway has keys."""

from __future__ import annotations

from collections.abc import Iterator

from spec.names import client_secret
from stackctl.account.read_only import or_none
from stackctl.preflight.checks.check import Finding, Subject, fail, ok


def check(subject: Subject) -> Iterator[Finding]:
    """Yield the clients without keys: the gateway gets the keys of all clients, or no update at all. No key is read."""
    settings = subject.settings
    if settings.gateway is None or not settings.gateway.has_keys:
        yield ok("not needed: no client of the gateway has keys")
        return
    clients, complete = tuple(settings.gateway.clients or ()), True
    for client in clients:
        problem = _problem(subject, client)
        if problem is not None:
            complete = False
            yield problem
    if complete:
        yield ok(f"{len(clients)} clients have keys")


def _problem(subject: Subject, client: str) -> Finding | None:
    settings, secrets = subject.settings, subject.readers("secretsmanager")
    name = client_secret(settings.cluster_name, client)
    found = or_none(lambda: secrets.describe_secret(SecretId=name), "ResourceNotFoundException")
    if found is None:
        remedy = f"python3 -m stackctl keys create {settings.stack} {client}"
        return fail(f"the client {client} has no keys ({name})", remedy)
    if "DeletedDate" in found:
        return fail(
            f"the keys of the client {client} are being deleted", f"aws secretsmanager restore-secret --secret-id {name}"
        )
    return None
