"""Compares Prometheus's metrics of the real Envoys with the names in rules and dashboards."""

from __future__ import annotations

import re

from spec.prometheus import gateway as rules
from tests.system.e2e.gateway_load import ANSWERED
from tests.system.e2e.gateway_twin import Gateway, clients, listens

TARGETS = "podMonitor/monitoring/envoy/0"


def test_each_envoy_is_scraped_where_it_exports(gateway: Gateway) -> None:
    def scraped() -> bool:
        up = [target for target in gateway.twin.targets(TARGETS) if target["health"] == "up"]
        return {target["scrapeUrl"] for target in up} == {
            f"http://{listens(pod)}:19001/stats/prometheus" for pod in gateway.envoys()
        }

    gateway.twin.until(scraped, "every Envoy to be a target that is up")


def test_rules_and_dashboards_read_what_envoy_calls_its_metrics(gateway: Gateway) -> None:
    assert [ask() for ask in clients(gateway)] == [ANSWERED] * 5
    scrape = gateway.scrape()
    for selector in (rules.attempts(), rules.calls("total"), rules.of_routes("envoy_cluster_upstream_rq_retry")):
        name, _, matchers = selector.partition("{")
        series = re.findall(rf"^{name}{{(.*)}} ", scrape, re.MULTILINE)
        wanted = re.search(r'envoy_cluster_name=~"([^"]*)"', matchers)
        assert wanted is not None
        clusters = {found for one in series for found in re.findall(r'envoy_cluster_name="([^"]*)"', one)}
        assert any(re.fullmatch(wanted[1], cluster) for cluster in clusters), f"{selector} reads nothing of {clusters}"
    assert re.search(r'^envoy_cluster_upstream_rq_xx{[^}]*envoy_response_code_class="2"', scrape, re.MULTILINE)
