"""Does each client of the gateway have keys?"""

from __future__ import annotations

from collections.abc import Iterator

from spec.names import client_secret
from stackctl.account.read_only import or_none
from stackctl.preflight.checks.check import Finding, Subject, fail, ok


def check(subject: Subject) -> Iterator[Finding]:
    """Yield which clients have none: the gateway gets the keys of all clients, or no change of any. No key is read."""
    settings = subject.settings
    if settings.gateway is None or not settings.gateway.has_keys:
        yield ok("not needed: no client of the gateway has keys")
        return
    clients, secrets = tuple(settings.gateway.clients or ()), subject.readers("secretsmanager")
    missing = False
    for client in clients:
        name = client_secret(settings.cluster_name, client)

        def ask(name: str = name) -> dict[str, object]:
            return dict(secrets.describe_secret(SecretId=name))

        found = or_none(ask, "ResourceNotFoundException")
        if found is None:
            missing = True
            yield fail(
                f"the client {client} has no keys ({name})", f"python3 -m stackctl keys create {settings.stack} {client}"
            )
        elif "DeletedDate" in found:
            missing = True
            yield fail(
                f"the keys of the client {client} are being deleted", f"aws secretsmanager restore-secret --secret-id {name}"
            )
    if not missing:
        yield ok(f"{len(clients)} clients have keys")
