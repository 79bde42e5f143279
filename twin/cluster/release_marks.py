"""Name the marks by which who installs a chart (plugins/releases.py) and who runs it (releases/runner.py) agree."""

LABEL = "twin.triton-eks/release"
"""On the ConfigMap of each release."""
INSTALLATION = "twin.triton-eks/installation"
"""Its annotation with a mark that is another one at each installation, of equal values too."""
READY = "twin.triton-eks/ready"
"""The agent's annotation: the mark of the installation whose programs answer."""
FAILURE = "twin.triton-eks/failure"
"""The agent's annotation: the mark, a space, and why what stands for the chart does not run."""
FINALIZER = "twin.triton-eks/programs"
"""Taken away by the agent once the programs of a deleted release are gone."""
AGENT_PATH = "/api/v1/namespaces/kube-system/configmaps/twin-agent"
"""The ConfigMap in which an agent says what it does."""
CHARTS = "charts"
"""Its key with the names of the charts that have programs, separated by spaces."""


def config_map_name(release: str) -> str:
    """Return the ConfigMap that a release leaves in its namespace."""
    return f"twin-release-{release}"


def config_map_path(namespace: str | None, release: str) -> str:
    """Return its path in the API."""
    return f"/api/v1/namespaces/{namespace}/configmaps/{config_map_name(release)}"
