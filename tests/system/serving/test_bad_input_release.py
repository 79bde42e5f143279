"""A release whose objects differ from the released ones: modelctl's report, and the behaviour of pods."""

from __future__ import annotations

import shutil
from pathlib import Path

import boto3
import httpx
import pytest

from modelctl.release.publish import release
from modelctl.repository.golden import Golden
from modelctl.store.bucket import open_store
from modelctl.store.manifest import Manifest
from tests.command import Ended, run
from tests.modelctl.conftest import SAMPLES
from tests.system.serving.conftest import BUCKET
from tests.system.serving.pods import Bucket, Kubelet, Pod


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    """Return a copy of the sample models that a test may break."""
    return Path(shutil.copytree(SAMPLES, tmp_path / "models", ignore=shutil.ignore_patterns("__pycache__")))


@pytest.fixture
def released(moto: str, samples: Path) -> Manifest:
    """Return the sample models as a finished release."""
    return release(samples, open_store(BUCKET, moto))


def start(kubelet: Kubelet, moto: str, released: Manifest) -> Pod:
    return kubelet.pod(released.versions, Bucket(moto, BUCKET, released.id)).start()


def verify(moto: str, released: Manifest) -> Ended:
    return run("modelctl", "verify", released.id, "--bucket", BUCKET, "--endpoint-url", moto)


def golden_difference(pod: Pod, samples: Path) -> str | None:
    """Return the difference between classify's golden answer and the released one; None if there is none."""
    golden = Golden.parse("golden.json", (samples / "classify" / "1" / "golden.json").read_text())
    url = f"{pod.http}/v2/models/classify/versions/1/infer"
    answer = httpx.post(url, json=golden.request(), headers={"Connection": "close"}, timeout=60, trust_env=False)
    return golden.difference(answer.json())


def test_a_replaced_object_is_told_by_verify_and_by_the_golden_inference_of_a_pod(
    kubelet: Kubelet, moto: str, released: Manifest, samples: Path
) -> None:
    """A pod cannot detect it: Triton does not check checksums of downloads from S3, and the model loads."""
    before = start(kubelet, moto, released).until_ready()
    s3 = boto3.client("s3", region_name="us-west-2", endpoint_url=moto)
    text = (samples / "classify" / "1" / "model.py").read_text()
    assert text.count(" / 4)") == 1
    s3.put_object(
        Bucket=BUCKET, Key=f"releases/{released.id}/classify/1/model.py", Body=text.replace(" / 4)", " / 8)").encode()
    )

    said = verify(moto, released)
    after = start(kubelet, moto, released).until_ready()

    assert said.exit_code == 1
    changed, verdict = said.stdout.splitlines()
    assert changed.startswith("changed: classify/1/model.py: sha-256 ")
    assert verdict == f"{released.id}: {len(released.objects)} objects, 1 differences"
    assert golden_difference(before, samples) is None, "a pod that runs goes on serving what it has loaded"
    assert str(golden_difference(after, samples)).startswith("SCORES[")


def test_a_missing_object_is_named_by_verify(moto: str, released: Manifest) -> None:
    s3 = boto3.client("s3", region_name="us-west-2", endpoint_url=moto)
    s3.delete_object(Bucket=BUCKET, Key=f"releases/{released.id}/normalize/1/model.py")

    said = verify(moto, released)

    assert said.exit_code == 1
    assert said.stdout.splitlines()[0] == "missing: normalize/1/model.py"


def test_a_config_with_an_unknown_field_is_refused_before_anything_is_sent(moto: str, samples: Path) -> None:
    config = samples / "classify" / "config.pbtxt"
    config.write_text(f"{config.read_text()}dynamicBatching {{ }}\n")

    said = run("modelctl", "release", samples, "--bucket", BUCKET, "--endpoint-url", moto)

    assert said.exit_code == 1
    assert f"classify/config.pbtxt:{len(config.read_text().splitlines())}" in said.stderr
    assert "dynamicBatching" in said.stderr
    s3 = boto3.client("s3", region_name="us-west-2", endpoint_url=moto)
    assert "Contents" not in s3.list_objects_v2(Bucket=BUCKET)
