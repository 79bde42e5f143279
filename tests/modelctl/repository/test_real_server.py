"""The released samples on a real tritonserver, which loads them from the bucket and answers over gRPC."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as grpc
from tritonclient.utils import InferenceServerException

from modelctl.release.publish import release
from modelctl.store.bucket import open_store
from modelctl.store.manifest import Manifest
from tests import waiting
from tests.modelctl.conftest import BUCKET, SAMPLES
from tests.modelctl.golden_inference import golden_difference
from tests.modelctl.servers import loopback_address, moto_bucket, process, wait_until
from twin.triton.tritonserver import tritonserver_command

FEATURES = np.array([[5.75, 3.0, 3.75, 1.25], [6.25, 3.5, 7.75, 0.25], [5.25, 2.0, 1.75, 4.25]], dtype=np.float32)
"""Three requests in one batch. Normalized they are 0 0 0 0, 1 1 2 -1 and -1 -2 -1 3."""

SCORES_OF_VERSION = {
    1: [[-0.5, 0.0, 0.5], [-0.25, 0.75, 1.75], [-2.25, 1.0, -2.75]],
    2: [[0.0, 0.0, 0.0], [0.125, 0.375, 0.625], [-0.875, 0.5, -1.625]],
}
CLASSES_OF_VERSION = {1: [[2], [2], [1]], 2: [[0], [2], [1]]}


@pytest.fixture
def moto() -> Iterator[str]:
    with moto_bucket(BUCKET) as url:
        yield url


@pytest.fixture
def client(moto: str, released: Manifest, tmp_path: Path) -> Iterator[grpc.InferenceServerClient]:
    """Yield a client of a server that has loaded the release from the bucket."""
    address, log, models = loopback_address(), tmp_path / "tritonserver.log", tmp_path / "volume"
    models.mkdir()
    command = tritonserver_command(
        [
            "tritonserver",
            f"--model-repository=s3://{moto}/{BUCKET}/releases/{released.id}",
            "--disable-auto-complete-config",
            "--exit-on-error=true",
            "--http-max-input-size=67108864",
        ],
        address,
        tmp_path / "cache",
        {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-west-2",
            "TRITON_AWS_MOUNT_DIRECTORY": str(models),
        },
    )
    assert command.dropped_flags == ["--http-max-input-size"]
    with process(command.argv, command.env, log) as server, grpc.InferenceServerClient(f"{address}:8001") as client:

        def ready() -> bool:
            assert server.poll() is None, log.read_text(errors="replace")
            try:
                return bool(client.is_model_ready("pipeline"))
            except InferenceServerException:  # the port is closed while models load
                return False

        wait_until(ready, "pipeline to be ready", 150, log)
        yield client


@pytest.fixture(params=[1, 2])
def version(request: pytest.FixtureRequest) -> int | list[int]:
    """Return the served version of classify, or several."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def released(moto: str, models: Path, version: int | list[int]) -> Manifest:
    (models / "release.yaml").write_text(f"versions: {{classify: {version}}}\n")
    return release(models, open_store(BUCKET, moto))


def test_the_released_ensemble_answers_exactly(
    client: grpc.InferenceServerClient, version: int, models: Path, released: Manifest
) -> None:
    features = grpc.InferInput("FEATURES", list(FEATURES.shape), "FP32")
    features.set_data_from_numpy(FEATURES)

    answer = waiting.answer(client, "pipeline", [features])

    assert answer.as_numpy("SCORES").tolist() == SCORES_OF_VERSION[version]
    assert answer.as_numpy("CLASS").tolist() == CLASSES_OF_VERSION[version]
    index = {(m.name, m.version, m.state) for m in client.get_model_repository_index().models}
    assert index == {("classify", str(version), "READY"), ("normalize", "1", "READY"), ("pipeline", "1", "READY")}
    answers = {name: golden_difference(client, name, models / name / str(v)) for name, v in released.versions.items()}
    assert answers == {"classify": None, "normalize": None, "pipeline": None}
    config = client.get_model_config("classify").config
    assert list(config.version_policy.specific.versions) == [version]


def test_the_samples_source_tree_holds_no_compiled_leftovers() -> None:
    assert [path for path in SAMPLES.rglob("*.pyc") if "__pycache__" not in path.parts] == []


@pytest.mark.parametrize("version", [[1, 2]])
def test_versions_of_one_release_answer_side_by_side_and_the_highest_by_default(
    client: grpc.InferenceServerClient, version: list[int], released: Manifest
) -> None:
    normalized = np.array([[0, 0, 0, 0], [1, 1, 2, -1], [-1, -2, -1, 3]], dtype=np.float32)
    request = grpc.InferInput("NORMALIZED", list(normalized.shape), "FP32")
    request.set_data_from_numpy(normalized)

    answers = {asked: waiting.answer(client, "classify", [request], asked) for asked in ("1", "2", "")}

    scores = {asked: answer.as_numpy("SCORES").tolist() for asked, answer in answers.items()}
    assert scores == {"1": SCORES_OF_VERSION[1], "2": SCORES_OF_VERSION[2], "": SCORES_OF_VERSION[2]}
    assert client.get_model_config("classify").config.version_policy.specific.versions == version
    assert (released.versions["classify"], released.others) == (2, {"classify": [1]})
