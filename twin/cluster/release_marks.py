"""Name the marks shared by the installer of a chart (plugins/releases.py) and its runner (releases/runner.py)."""

LABEL = "twin.triton-eks/release"
"""On the ConfigMap of each release."""
INSTALLATION = "twin.triton-eks/installation"
"""Its annotation with a mark that differs at each installation, even with equal values."""
READY = "twin.triton-eks/ready"
"""The agent's annotation: the mark of the installation whose programs answer."""
FAILURE = "twin.triton-eks/failure"
"""The agent's annotation: the mark, a space, and why the programs of the chart do not run."""
FINALIZER = "twin.triton-eks/programs"
"""The agent removes it once the programs of a deleted release have stopped."""
AGENT_PATH = "/api/v1/namespaces/kube-system/configmaps/twin-agent"
"""The ConfigMap in which an agent reports what it runs."""
CHARTS = "charts"
"""Its key with the names of the charts that have programs, separated by spaces."""


def config_map_name(release: str) -> str:
    """Return the name of a release's ConfigMap."""
    return f"twin-release-{release}"


def config_map_path(namespace: str | None, release: str) -> str:
    """Return the API path of a release's ConfigMap."""
    return f"/api/v1/namespaces/{namespace}/configmaps/{config_map_name(release)}"
