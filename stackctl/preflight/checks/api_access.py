"""Check who may reach the API server, and whether this machine does."""

from __future__ import annotations

from collections.abc import Iterator

from stackctl.account import api_server
from stackctl.preflight.checks.check import Finding, Subject, ok, warn


def check(subject: Subject) -> Iterator[Finding]:
    """Yield the networks that the stack file allows, then whether an existing API server answers this machine."""
    settings = subject.settings
    cluster = settings.cluster
    who = f"reached by {', '.join(cluster.reached_by)}"
    if cluster.existing is None and cluster.endpoint == "private" and cluster.api_access is None:
        yield warn(who, f"give cluster.apiAccess, or {api_server.through_a_node(settings)}")
    else:
        yield ok(who)
    server = api_server.find(settings, subject.readers)
    if server is None:
        return
    why = api_server.silence(server)
    if why is None:
        yield ok(f"{server.host} answers this machine")
    else:
        yield warn(
            f"{server.host} does not answer this machine ({why}); `pulumi up` from here would end there",
            api_server.ways_in(settings),
        )
