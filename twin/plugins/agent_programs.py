"""Wait for the programs that the twin's agent runs for a chart, like Helm's `--wait` for its pods."""

from __future__ import annotations

import threading
import time

from twin.cluster.kube_api import KubeClient, Object
from twin.cluster.release_marks import AGENT_PATH, CHARTS, FAILURE, FINALIZER, READY, config_map_path
from twin.plugins.errors import PluginError

LONGEST_SECONDS = 180.0
"""Programs answer within seconds. After this time they have failed."""
_POLL_SECONDS = 0.3


class AgentPrograms:
    """The programs that the agent of this cluster runs for charts. `cancelled` stops every wait."""

    def __init__(self, client: KubeClient, cancelled: threading.Event) -> None:
        self._client = client
        self._cancelled = cancelled

    def stand_for(self, chart: str) -> bool:
        """Return whether an agent exists and has programs for the chart. There is no agent in a preview's cluster."""
        said = self._client.find(AGENT_PATH)
        return said is not None and chart in (said.get("data") or {}).get(CHARTS, "").split()

    def wait_ready(self, namespace: str, release: str, installation: str, seconds: float) -> None:
        """Wait until the agent reports that this installation's programs answer. Raises PluginError with its message."""
        deadline = time.monotonic() + seconds
        while True:
            said = self._annotations(namespace, release)
            if said.get(READY) == installation:
                return
            mark, _, why = said.get(FAILURE, "").partition(" ")
            if mark == installation:
                raise PluginError(f"release {namespace}/{release}: {why}")
            if time.monotonic() > deadline:
                raise PluginError(
                    f"release {namespace}/{release}: the twin's agent did not say within {seconds:.0f} s that its programs "
                    "are ready; logs/agent.log of the twin says why, and `make up` starts an agent that does not run"
                )
            self._pause(namespace, release)

    def wait_gone(self, namespace: str, release: str, seconds: float) -> None:
        """Wait until the agent has stopped the programs of a deleted release. Raises PluginError."""
        deadline = time.monotonic() + seconds
        while self._ours(self._client.find(config_map_path(namespace, release))):
            if time.monotonic() > deadline:
                raise PluginError(
                    f"release {namespace}/{release}: the twin's agent did not end its programs within {seconds:.0f} s; "
                    "logs/agent.log of the twin says why, and `make up` starts an agent that does not run"
                )
            self._pause(namespace, release)

    def _annotations(self, namespace: str, release: str) -> dict[str, str]:
        found = self._client.find(config_map_path(namespace, release)) or {}
        annotations: dict[str, str] = (found.get("metadata") or {}).get("annotations") or {}
        return annotations

    @staticmethod
    def _ours(config_map: Object | None) -> bool:
        return config_map is not None and FINALIZER in (config_map["metadata"].get("finalizers") or [])

    def _pause(self, namespace: str, release: str) -> None:
        if self._cancelled.wait(_POLL_SECONDS):
            raise PluginError(f"release {namespace}/{release}: cancelled while its programs were waited for")
