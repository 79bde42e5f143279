"""Failed requests at the gateway fire its alert in the real Prometheus, from the counters of all Envoys together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.system.e2e import gateway_twin, pinned
from tests.system.e2e.conftest import UP_SECONDS, change, clone, taken_down
from tests.system.e2e.gateway_load import ANSWERED, BODY, MODEL, Ask, infer_path, load, over_http
from tests.system.e2e.monitored import Monitored
from twin.host.home import TwinHome

# Envoy Gateway and Prometheus may have to be built first.
pytestmark = pytest.mark.timeout(3600)
ALERT = "TritonGatewayFailures"
BAD = [-777.0, 0.0, 0.0, 0.0]
FIRES_SECONDS = 900.0
"""The alert needs five minutes of failures, after scrapes, the rule's rate and its evaluation."""


def failing(address: str) -> Ask:
    """Send requests that the model answers with an error."""
    request = {"inputs": [{**BODY["inputs"][0], "data": BAD}]}

    def ask() -> str:
        url = f"http://{address}{infer_path()}"
        return f"HTTP {httpx.post(url, json=request, trust_env=False, timeout=10).status_code}"

    return ask


def test_requests_that_fail_raise_the_alert_about_their_route_alone(tmp_path: Path) -> None:
    checkout = clone(tmp_path)
    loop = "        scores = np.concatenate(batches)"
    refusal = "if any(batch[0, 0] == -777 for batch in batches): raise pb_utils.TritonModelException('a bad request')"
    change(checkout / "models" / MODEL / "1" / "model.py", loop, f"        {refusal}\n{loop}")
    with taken_down(Monitored(TwinHome(tmp_path / "home"), checkout)) as twin:
        for key, value in pinned.GATEWAY.items():
            twin.pin(key, value)
        done = twin.run("up", "--gateway", seconds=UP_SECONDS)
        assert done.returncode == 0, done.stdout[-4000:]
        gateway = gateway_twin.ready(twin)
        assert len(gateway.envoys()) == 2

        def alerts() -> list[dict[str, Any]]:
            return [one for one in twin.ask("alerts")["alerts"] if one["labels"]["alertname"] == ALERT]

        good = [over_http(gateway.http, reused=False) for _ in range(2)]
        with load(*good, rate=4) as account:
            twin.until(lambda: twin.query("envoy_cluster_upstream_rq_xx"), "Prometheus to have Envoy's counters", 300)
            assert alerts() == []
            with load(*[failing(gateway.http)] * 4, rate=2) as failures:
                firing = twin.until(
                    lambda: [one for one in alerts() if one["state"] == "firing"], f"{ALERT} to fire", FIRES_SECONDS
                )
        assert set(failures.outcomes) == {"HTTP 500"}
        assert failures.sent == failures.outcomes.total() > 300
        # One such request in a batch makes the whole batch fail.
        assert {outcome.partition(":")[0] for outcome in account.outcomes} <= {ANSWERED, "HTTP 500"}
        assert {(one["labels"]["route"], one["labels"]["protocol"]) for one in firing} == {(MODEL, "http")}
        codes = twin.query('sum by (pod) (envoy_cluster_upstream_rq_xx{envoy_response_code_class="5"})')
        assert len({one["metric"]["pod"] for one in codes}) == 2, "each Envoy has its part of them"
