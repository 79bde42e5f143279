"""Three times the peak rate fires the page, and a normal load does not: real Envoy counters in the real Prometheus."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.system.e2e import gateway_twin, pinned
from tests.system.e2e.gateway_load import ANSWERED, MODEL, load, over_grpc, over_http

# Envoy Gateway and Prometheus may have to be built first.
pytestmark = pytest.mark.timeout(3600)
PEAK, EXPECTED = 20, 10
BURN, LIMITED = "TritonGatewayAvailabilityBudgetBurn", "TritonRateLimited"
FIRES_SECONDS = 900.0
REQUESTS = "gateway_model:triton_requests:rate5m"


def test_three_times_the_peak_rate_pages_and_the_expected_rate_does_not(tmp_path: Path) -> None:
    with gateway_twin.up(tmp_path / "home", pinned.OVERLOADED) as gateway:
        twin = gateway.twin
        assert len(gateway.envoys()) == 1

        def alerts(*names: str) -> list[dict[str, Any]]:
            found = twin.ask("alerts")["alerts"]
            return [one for one in found if one["labels"]["alertname"] in names or one["labels"]["severity"] == "critical"]

        def requests(model: str) -> float:
            found = twin.query(f'{REQUESTS}{{model="{model}"}}')
            return float(found[0]["value"][1]) if found else 0.0

        normal = [over_http(gateway.http, reused=False), over_grpc(gateway.grpc)]
        with load(*normal, rate=EXPECTED / len(normal)) as usual:
            twin.until(lambda: requests(MODEL) > EXPECTED / 2 or None, "the recorded rate of a usual load", FIRES_SECONDS)
            twin.until(
                lambda: twin.query(f'gateway_model:triton_late_requests:ratio_5m{{model="{MODEL}"}}') or None,
                "the share of late requests, of a bucket at the SLO",
                FIRES_SECONDS,
            )
            assert alerts(BURN, LIMITED) == []
        assert usual.answered == usual.sent, usual.outcomes

        clients = [over_http(gateway.http, reused=True) for _ in range(12)]
        with load(*clients, rate=3 * PEAK / len(clients)) as account:
            firing = twin.until(
                lambda: (
                    [one for one in alerts(LIMITED) if one["state"] == "firing"]
                    and [one for one in alerts() if one["state"] == "firing" and one["labels"]["alertname"] == BURN]
                ),
                f"{BURN} to fire",
                FIRES_SECONDS,
            )
        assert {(one["labels"]["model"], one["labels"]["severity"]) for one in firing} == {("every model", "critical")}
        refused = account.sent - account.answered
        assert {outcome.partition(":")[0] for outcome in account.outcomes} <= {ANSWERED, "HTTP 429"}
        assert refused > account.sent / 10, account.outcomes
        # The requests that Envoy allowed were answered in time: Triton's own metrics show no problem.
        assert twin.query(f'model:triton_request_failures:ratio_5m{{model="{MODEL}"}} > 0') == []
