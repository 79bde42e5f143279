"""Fixtures of tests on real servers: pods of the rendered chart, a model repository, a bucket. See `pods`."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from benchmarks.rollout_servers import local_servers
from modelctl.store.bucket import open_store
from tests import aws_environment
from tests.modelctl.servers import moto_bucket
from tests.system.serving.pods import Kubelet, running_kubelet
from tests.system.serving.rollout_site import Site
from twin.cluster import control_plane
from twin.cluster.kube_api import KubeClient
from twin.host import processes, tools
from twin.host.home import TwinHome
from twin.plugins import kubeconfig

BUCKET = "triton-test-models"


@pytest.fixture(autouse=True)
def _no_aws_configuration_of_the_developer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    aws_environment.use_none_of_the_developers(monkeypatch, tmp_path)


@pytest.fixture(scope="session")
def triton_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which the twin prepares the server's backend directory, once for each run."""
    return tmp_path_factory.mktemp("triton-backends")


@pytest.fixture
def kubelet(tmp_path: Path, triton_cache: Path) -> Iterator[Kubelet]:
    """Start pods: `kubelet.pod({"echo": 1}, repository).start().until_ready()`; they stop at the end of the test."""
    with running_kubelet(tmp_path / "node", triton_cache) as running:
        yield running


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return an empty model repository directory; `tests.system.serving.models.write` fills it."""
    path = tmp_path / "repository"
    path.mkdir()
    return path


@pytest.fixture
def moto() -> Iterator[str]:
    """Return the URL of a moto with the bucket `BUCKET`."""
    with moto_bucket(BUCKET) as url:
        yield url


@pytest.fixture
def empty_site(moto: str, tmp_path: Path, triton_cache: Path) -> Iterator[Site]:
    """Return a bucket, and servers that load from its `live/`, none of them started."""
    with local_servers(tmp_path / "fleet", triton_cache, f"s3://{moto}/{BUCKET}/live") as servers:
        yield Site(open_store(BUCKET, moto), moto, servers, tmp_path)


@pytest.fixture(scope="module")
def api_server_kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the kubeconfig of a separate API server for the module, with etcd and controllers and without nodes."""
    home = TwinHome(tmp_path_factory.mktemp("cluster") / "home")
    console = Console(stderr=True)
    try:
        control_plane.ensure(home, tools.ensure(["control-plane"], console), console.print)
        yield str(home.kubeconfig)
    finally:
        processes.stop_all(home, seconds=20)


@pytest.fixture(scope="module")
def api_server(api_server_kubeconfig: str) -> KubeClient:
    """Return the twin's client of that API server."""
    return kubeconfig.connect(yaml.safe_load(Path(api_server_kubeconfig).read_text()))
