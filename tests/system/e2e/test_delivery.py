"""`models.access: local`: pods that copy their release to their own disk before Triton starts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spec.names import MODEL_CACHE_PATH
from tests.system.e2e import account, pinned
from tests.system.e2e.conftest import Twin, taken_down
from twin.engine import stack_files
from twin.host import processes
from twin.host.home import TwinHome

pytestmark = pytest.mark.timeout(1800)
CHANGED = "classify/1/model.py"


class Local(Twin):
    """The `local` stack with `access: local`."""

    def pod(self) -> dict[str, Any]:
        """Return the pod of Triton that is not terminating."""
        found = json.loads(self.shell("kubectl get pods --namespace triton -o json").stdout)["items"]
        (pod,) = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
        return dict(pod)

    def log(self) -> str:
        """Return the log of the init container, over all its starts."""
        name = self.pod()["metadata"]["name"]
        return self.shell(f"kubectl logs --namespace triton {name} --container fetch").stdout

    def disk(self) -> Path:
        """Return the pod's volume of models."""
        return self.home.pods / self.pod()["metadata"]["uid"] / "volumes" / "models"

    def kept(self) -> Path:
        """Return the releases in the folder of the pod's node."""
        return self.home.nodes / self.pod()["spec"]["nodeName"] / MODEL_CACHE_PATH.lstrip("/") / "releases"

    def until(self, condition: Callable[[], bool], what: str) -> None:
        processes.wait_until(condition, what, 120)

    def ready(self) -> bool:
        conditions = self.pod().get("status", {}).get("conditions") or []
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    with taken_down(Local(TwinHome(tmp_path_factory.mktemp("delivery") / "home"))) as twin:
        for key, value in pinned.LOCAL_DISK.items():
            twin.pin(key, value)
        assert "pipeline version 1 answered" in twin.up()
        yield twin


def test_a_pod_serves_from_its_own_disk(local: Local) -> None:
    release = stack_files.pinned_release(local.home, "local")
    assert release is not None
    assert (local.disk() / "current").readlink() == Path("releases", release["id"])
    assert f"{release['id']} fetched and verified: " in local.log()
    status = local.pod()["status"]
    (fetched,) = status["initContainerStatuses"]
    assert (fetched["state"]["terminated"]["exitCode"], fetched["restartCount"]) == (0, 0)
    (server,) = local.pod()["spec"]["containers"]
    assert "--model-repository=/models/current" in server["args"]


def test_the_next_pod_of_the_node_downloads_nothing_and_has_a_copy_of_its_own(local: Local) -> None:
    release = stack_files.pinned_release(local.home, "local")
    assert release is not None
    before = local.pod()["metadata"]["uid"]
    assert local.shell("kubectl delete pods --namespace triton --all").returncode == 0
    local.until(lambda: local.pod()["metadata"]["uid"] != before and local.ready(), "another pod that is ready")

    assert local.log().startswith(f"{release['id']} was here, copied from ")
    kept, own = local.kept() / release["id"] / CHANGED, local.disk() / "current" / CHANGED
    assert own.read_bytes() == kept.read_bytes()
    assert not own.samefile(kept)


def test_a_changed_object_keeps_a_pod_from_starting_until_it_is_right_again(local: Local) -> None:
    release = stack_files.pinned_release(local.home, "local")
    assert release is not None
    bucket = local.servers().engine().outputs("local")["modelBucket"]
    s3 = account.client(local.servers().aws_url, "s3")
    key = f"releases/{release['id']}/{CHANGED}"
    content = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
    s3.put_object(Bucket=bucket, Key=key, Body=content[:-1] + b"#")
    shutil.rmtree(local.kept())  # as on another node
    try:
        assert local.shell("kubectl delete pods --namespace triton --all").returncode == 0
        said = f"error: {CHANGED} in s3://{bucket} at {local.servers().aws_url}/releases/{release['id']}/ is not what"
        local.until(lambda: local.log().count(said) >= 2, "two starts that refuse the file")
        assert not local.ready()
        assert not (local.disk() / "current").exists()
        (status,) = local.pod()["status"]["initContainerStatuses"]
        assert status["restartCount"] >= 1
        assert local.pod()["status"]["phase"] == "Pending"
    finally:
        s3.put_object(Bucket=bucket, Key=key, Body=content)

    local.until(local.ready, "the pod to be ready after all")
    assert f"{release['id']} fetched and verified: " in local.log()
    assert " 0 bytes found here" not in local.log(), "what was right had to be fetched again"
