"""Access to the gateway on the real Envoy Gateway and Envoy: keys, tokens, and refused requests."""

from __future__ import annotations

import time
from functools import partial

import pytest

from infra.serving import routes
from tests.system.e2e import gateway_clients
from tests.system.e2e.gateway_load import ANSWERED, load, over_grpc, over_http
from tests.system.e2e.gateway_twin import Gateway, listens, until


def test_only_who_has_a_key_may_ask_and_each_its_own_models(gateway: Gateway) -> None:
    keys = {client: {"current": gateway_clients.new_key()} for client in gateway_clients.CLIENTS}
    access = gateway_clients.by_keys(gateway.kube, keys)
    ours, theirs, every = (keys[client]["current"] for client in ("team-a", "team-b", "everything"))
    with gateway_clients.closed(gateway.kube), gateway.routed(gateway.model(access=access)):
        until(lambda: gateway_clients.http(gateway.http, ours) == 200, "the key to be known")
        until(lambda: gateway_clients.grpc(gateway.grpc, every) == ANSWERED, "the key to be known over gRPC")
        envoy = listens(gateway.envoys()[0])
        http, grpc = partial(gateway_clients.http, f"{envoy}:8000"), partial(gateway_clients.grpc, f"{envoy}:8001")
        assert (http(every), grpc(every)) == (200, ANSWERED)
        # Its message could name the other model of these pods.
        assert (http(ours), grpc(ours)) == (200, "StatusCode.PERMISSION_DENIED")
        assert http(**{"x-api-key": ours}) == 200
        assert (http(), grpc()) == (401, "StatusCode.UNAUTHENTICATED")
        assert (http("wrong"), grpc("wrong")) == (401, "StatusCode.UNAUTHENTICATED")
        assert (http(theirs), grpc(theirs)) == (403, "StatusCode.PERMISSION_DENIED")
        # A client that sets the header with its name.
        assert http(theirs, **{"x-triton-client": "team-a.current"}) == 403
        slow = keys["slow"]["current"]
        assert sorted(http(slow) for _ in range(5)) == [200, 429, 429, 429, 429]
        assert http(ours) == 200
    until(lambda: gateway_clients.http(gateway.http) == 200, "the gateway to be open again")


def test_a_route_without_a_policy_of_its_own_is_closed_where_there_are_clients(gateway: Gateway) -> None:
    with gateway_clients.closed(gateway.kube):
        until(lambda: gateway_clients.http(gateway.http) == 403, "the route to be closed")
        until(
            lambda: gateway_clients.grpc(gateway.grpc) == "StatusCode.PERMISSION_DENIED", "the route to be closed over gRPC"
        )
    until(lambda: gateway_clients.http(gateway.http) == 200, "the gateway to be open again")


def test_a_key_is_rotated_under_load_and_no_request_is_lost(gateway: Gateway) -> None:
    keys = {client: {"current": gateway_clients.new_key()} for client in gateway_clients.CLIENTS}
    access = gateway_clients.by_keys(gateway.kube, keys)
    old, new = keys["everything"]["current"], gateway_clients.new_key()
    sent = {"authorization": f"Bearer {old}"}
    asks = [over_http(gateway.http, reused=reused, named=sent) for reused in (True, False)]
    with gateway_clients.closed(gateway.kube), gateway.routed(gateway.model(access=access)):
        until(lambda: gateway_clients.http(gateway.http, old) == 200, "the key to be known")
        until(lambda: gateway_clients.grpc(gateway.grpc, old) == ANSWERED, "the key to be known over gRPC")
        with load(*asks, over_grpc(gateway.grpc, named=sent)) as account:
            for step in ({"current": old, "next": new}, {"current": new, "previous": old}, {"current": new}):
                with gateway.told():
                    gateway_clients.write_keys(gateway.kube, {**keys, "everything": step})
                sent["authorization"] = f"Bearer {new}"
                account.grow(30)
        assert account.answered == account.sent, account.outcomes
        assert gateway_clients.http(gateway.http, old) == 401
    until(lambda: gateway_clients.http(gateway.http) == 200, "the gateway to be open again")


def test_a_token_is_checked_for_who_made_it_for_whom_and_when(gateway: Gateway) -> None:
    provider = gateway_clients.Provider()
    made = routes.manifests
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            routes,
            "manifests",
            lambda models, drain: (
                provider.known(one) if one["kind"] == "SecurityPolicy" and "jwt" in one["spec"] else one
                for one in made(models, drain)
            ),
        )
        with gateway_clients.closed(gateway.kube), gateway.routed(gateway.model(access=provider.access)):
            until(lambda: gateway_clients.http(gateway.http, provider.token()) == 200, "the provider to be known")
            envoy = listens(gateway.envoys()[0])
            http, grpc = partial(gateway_clients.http, f"{envoy}:8000"), partial(gateway_clients.grpc, f"{envoy}:8001")
            everything = provider.token(client_id="everything")
            until(lambda: grpc(everything) == ANSWERED, "the provider to be known over gRPC")
            assert (http(provider.token()), http(everything)) == (200, 200)
            assert grpc(provider.token()) == "StatusCode.PERMISSION_DENIED"
            refused = {
                "none": http(),
                "no token": http("x"),
                "expired": http(provider.token(exp=int(time.time()) - 120)),
                "for another service": http(provider.token(aud="another")),
                "of another issuer": http(provider.token(iss="https://evil.example.com/")),
                "signed by somebody else": http(gateway_clients.Provider().token()),
            }
            # For a token of another audience, Envoy returns 403 (`JwtAudienceNotAllowed`).
            assert refused == {**dict.fromkeys(refused, 401), "for another service": 403}
            assert grpc(provider.token(exp=int(time.time()) - 120)) == "StatusCode.UNAUTHENTICATED"
            assert http(provider.token(client_id="team-b")) == 403
            assert http(provider.token(client_id="nobody")) == 403
    until(lambda: gateway_clients.http(gateway.http) == 200, "the gateway to be open again")
