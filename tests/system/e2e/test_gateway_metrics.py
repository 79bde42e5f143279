"""What Prometheus has of the real Envoys: every alert and every panel about the gateway reads series that are there."""

from __future__ import annotations

import os
import re
import signal

from infra.platform.dashboards import dashboards
from spec.prometheus.gateway import attempts, calls
from tests.system.e2e.gateway_load import load, over_grpc, over_http
from tests.system.e2e.gateway_twin import Gateway, listens, until

TARGETS = "podMonitor/monitoring/envoy/0"
ALERT = "TritonGatewayFailures"
QUIET = "normalize"
"""A model that no other test asks, so that a few requests are a share of its own."""


def test_each_envoy_is_scraped_where_it_exports(gateway: Gateway) -> None:
    def scraped() -> bool:
        up = [target for target in gateway.twin.targets(TARGETS) if target["health"] == "up"]
        return {target["scrapeUrl"] for target in up} == {
            f"http://{listens(pod)}:19001/stats/prometheus" for pod in gateway.envoys()
        }

    gateway.twin.until(scraped, "every Envoy to be a target that is up")


def test_requests_that_fail_raise_the_alert_and_every_rule_and_panel_reads_series_of_envoy(gateway: Gateway) -> None:
    prometheus = gateway.twin
    boards = dashboards(gateway.settings())
    panels = [target["expr"] for board in boards for panel in board["panels"] for target in panel.get("targets", [])]
    rules = [rule["query"] for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
    selectors = {found for text in (*panels, *rules) for found in re.findall(r"envoy_\w+\{[^}]*\}", text)}
    assert len({selector.partition("{")[0] for selector in selectors}) == 5, selectors

    def counted() -> bool:
        series = [*prometheus.query(attempts("5")), *prometheus.query(calls("14"))]
        return len({one["metric"]["envoy_cluster_name"] for one in series if f"/{QUIET}/" in str(one["metric"])}) == 2

    def told() -> bool:
        alerts = [one["labels"] for one in prometheus.ask("alerts")["alerts"]]
        return {(one["route"], one["protocol"]) for one in alerts if one["alertname"] == ALERT} == {
            (QUIET, "http"),
            (QUIET, "grpc"),
        }

    _fail(gateway)
    prometheus.until(counted, "the failures to be scraped")
    _fail(gateway)  # a rate needs a counter that moves
    prometheus.until(told, "the alert about both protocols", 180)
    assert [selector for selector in selectors if not prometheus.query(selector)] == []


def _fail(gateway: Gateway) -> None:
    """Send requests of each kind to servers that hang."""
    pids = [gateway.process(pod, "triton") for pod in gateway.tritons()]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        with load(over_http(gateway.http, reused=True, model=QUIET), over_grpc(gateway.grpc, model=QUIET)) as account:
            until(lambda: account.sent == 2, "one of each to be sent")
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    assert {outcome.partition(":")[0] for outcome in account.outcomes} == {"HTTP 504", "StatusCode.UNAVAILABLE"}
