"""Export parity as Prometheus metrics, read from the pods at each scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from modelctl.rollout import parity
from modelctl.rollout.fleet import Fleet, FleetError

INFO = "triton_model_config_info"
UNREACHABLE = "triton_model_config_unreachable_pods"
UP = "triton_model_config_fleet_up"


class ParityCollector(Collector):
    """Exports `triton_model_config_info{namespace,fleet,pod,model,version,hash} 1` per pod and ready version.

    `fleets` returns the fleets that exist at a scrape.
    """

    def __init__(self, fleets: Callable[[], Mapping[str, Fleet]], namespace: str) -> None:
        self._fleets = fleets
        self._namespace = namespace

    def collect(self) -> Iterator[GaugeMetricFamily]:
        up = GaugeMetricFamily(UP, "Whether the pods could be listed.", labels=["namespace"])
        try:
            states = parity.states(self._fleets())
        except FleetError:
            # A scrape without series would look like a fleet without models.
            up.add_metric([self._namespace], 0)
            yield up
            return
        up.add_metric([self._namespace], 1)
        yield up
        info = GaugeMetricFamily(
            INFO,
            "Config of a ready model version as a pod serves it.",
            labels=["namespace", "fleet", "pod", "model", "version", "hash"],
        )
        for state in states:
            for served in state.models:
                for version, hash_ in served.hashes.items():
                    info.add_metric([self._namespace, state.fleet, state.pod, served.model, str(version), hash_], 1)
        yield info
        unreachable = GaugeMetricFamily(UNREACHABLE, "Pods that do not say what they serve.", labels=["namespace"])
        unreachable.add_metric([self._namespace], sum(state.problem is not None for state in states))
        yield unreachable
