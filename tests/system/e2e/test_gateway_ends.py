"""Shutdowns and kills of servers and Envoys behind a gateway under load: every request has an outcome."""

from __future__ import annotations

import os
import signal

from infra.platform import gateway as platform
from spec.names import GATEWAY_NAMESPACE, TRITON_NAMESPACE, TRITON_SERVICE
from tests.system.e2e.gateway_load import broken, load, over_http
from tests.system.e2e.gateway_twin import Gateway, age, clients, ending, listens, served, until
from twin.cluster.kube_api import object_path


def test_no_request_fails_while_every_pod_of_triton_is_replaced(gateway: Gateway) -> None:
    before = {pod["metadata"]["uid"] for pod in gateway.tritons()}
    with load(*clients(gateway)) as account:
        restarted = gateway.twin.shell(
            f"kubectl rollout restart deployment/triton -n {TRITON_NAMESPACE} && "
            f"kubectl rollout status deployment/triton -n {TRITON_NAMESPACE} --timeout=300s"
        )
        assert restarted.returncode == 0, restarted.stderr
        until(lambda: not ending(gateway, TRITON_NAMESPACE), "the old pods to be gone", 120)
    assert account.answered == account.sent, account.outcomes
    assert not before & {pod["metadata"]["uid"] for pod in gateway.tritons()}


def test_no_request_fails_while_an_envoy_ends(gateway: Gateway) -> None:
    """This includes new connections to it: a load balancer may open them for another minute."""
    envoy = gateway.envoys()[0]
    straight = [over_http(f"{listens(envoy)}:8000", reused=reused) for reused in (True, False)]
    with load(*clients(gateway)) as account:
        gateway.kube.delete(object_path("v1", "pods", GATEWAY_NAMESPACE, envoy["metadata"]["name"]))
        with load(*straight) as late:
            age(platform.TARGET_LEAVES_SECONDS - 10)
        until(lambda: not ending(gateway, GATEWAY_NAMESPACE), "the Envoy to be gone", 120)
    assert late.answered == late.sent, late.outcomes
    assert account.answered == account.sent, account.outcomes


def test_a_new_pod_gets_its_share_little_by_little(gateway: Gateway) -> None:
    """Pure least-request balancing would send most requests to the idle pod. Envoy raises its share within half a minute."""
    cluster, gone = gateway.twin.servers().cluster(), gateway.tritons()[0]
    with load(*clients(gateway), *clients(gateway), rate=5) as account:
        gateway.kube.delete(object_path("v1", "pods", TRITON_NAMESPACE, gone["metadata"]["name"]))
        until(lambda: len(cluster.service_addresses(TRITON_NAMESPACE, TRITON_SERVICE)) < 2, "the pod to leave")
        until(lambda: len(cluster.service_addresses(TRITON_NAMESPACE, TRITON_SERVICE)) == 2, "a new pod", 120)
        first = _share_of_the_newest(gateway, 150)
        until(lambda: 0.35 < _share_of_the_newest(gateway, 250) < 0.65, "the new pod to have its share")
    assert account.answered == account.sent, account.outcomes
    assert first < 0.3, f"{first:.0%} of the first requests went to a pod that had just become ready"


def _share_of_the_newest(gateway: Gateway, requests: int) -> float:
    """Return the newest pod's share of at least the next `requests` requests."""
    pods = gateway.tritons()
    newest = max(pods, key=lambda pod: pod["status"]["startTime"])["metadata"]["name"]
    before = after = served(pods)

    def enough() -> bool:
        nonlocal after
        after = served(pods)
        return sum(after.values()) - sum(before.values()) >= requests

    until(enough, "the requests to be answered")
    return (after[newest] - before[newest]) / (sum(after.values()) - sum(before.values()))


def test_a_killed_envoy_costs_nothing_but_connections_and_comes_back(gateway: Gateway) -> None:
    """The number of lost requests depends on its restart and on the clients, which wait before they reconnect."""
    with load(*clients(gateway)) as account:
        until(lambda: account.sent > 50, "the load to run")
        os.kill(gateway.process(gateway.envoys()[0], "envoy"), signal.SIGKILL)
        until(
            lambda: all(one["ready"] for pod in gateway.envoys() for one in pod["status"]["containerStatuses"]),
            "it to be back",
        )
        account.recover(100)
    assert account.answered + sum(broken(account).values()) == account.sent, account.outcomes


def test_a_killed_server_costs_the_requests_that_it_had(gateway: Gateway) -> None:
    """Envoy sends a request that could not connect to the other pod."""
    asks = clients(gateway)
    with load(*asks) as account:
        until(lambda: account.sent > 50, "the load to run")
        os.kill(gateway.process(gateway.tritons()[0], "triton"), signal.SIGKILL)
        until(
            lambda: len(gateway.twin.servers().cluster().service_addresses(TRITON_NAMESPACE, TRITON_SERVICE)) < 2,
            "it to be missed",
        )
        ready_again = "the server to be back"
        until(lambda: gateway.twin.servers().cluster().rolled_out(TRITON_NAMESPACE, "triton"), ready_again, 120)
    assert account.sent - account.answered <= len(asks), account.outcomes
