"""TensorRT plans of an ONNX model: build Jobs, their commands, and a plan's path into the next release."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from modelctl.plan_builds.command import kinds_of_gpu
from modelctl.plan_builds.job import SCRIPT, Build, job
from modelctl.plan_builds.shapes import WrongArguments, arguments
from modelctl.release.publish import release
from modelctl.repository.textproto import parse
from modelctl.store.bucket import Store
from spec.settings.gpu import GpuPool
from tests import onnx_models
from tests.charts import pod_security
from tests.command import Ended, run
from tests.modelctl.conftest import BUCKET
from tests.modelctl.stacks import wants, write_stack
from tests.spec.stack_config import DIGEST, ECR, settings
from tests.spec.test_fleets import THREE

IMAGE = f"{ECR}/modelctl@{DIGEST}"
PAIR = "data_type: TYPE_FP32 dims: [ 2 ]"
CONFIG = f"""
backend: "onnxruntime" max_batch_size: 8
input [ {{ name: "A" {PAIR} }}, {{ name: "B" {PAIR} }} ]
output [ {{ name: "DIFFERENCE" {PAIR} }}, {{ name: "SUM" {PAIR} }} ]
"""
HEADER = b"ftrt" + struct.pack("<I", 0) + bytes(16) + bytes((11, 1, 0, 5))
PROFILE = ["--minShapes=A:1x2,B:1x2", "--optShapes=A:16x2,B:16x2", "--maxShapes=A:16x2,B:16x2"]


SCHEDULED = """
instance_group [ { kind: KIND_GPU count: 1 } ]
dynamic_batching { default_queue_policy { max_queue_size: 64 default_timeout_microseconds: 1000000 } }
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    model = tmp_path / "models" / "sums"
    (model / "1").mkdir(parents=True)
    (model / "config.pbtxt").write_text(CONFIG + SCHEDULED)
    (model / "1" / "model.onnx").write_bytes(onnx_models.sums().SerializeToString())
    return tmp_path / "models"


@pytest.fixture
def stack(tmp_path: Path) -> Path:
    """Return a stack with one pool, which allows plan builds."""
    serving = {"sums": wants(device="gpu", gpuMemoryMiB=500, maxBatchSize=16)}
    file = write_stack(tmp_path / "stacks", serving)
    document = yaml.safe_load(file.read_text())
    document["config"]["triton-eks:models"]["planBuilder"] = {"image": IMAGE}
    file.write_text(yaml.safe_dump(document))
    return file


def released(repository: Path, store: Store) -> str:
    return release(repository, store, stacks=repository.parent / "stacks").id


def build(release_id: str, file: Path, *more: str, model: str = "sums", bucket: str = BUCKET) -> Ended:
    return run("modelctl", "build-plans", release_id, model, "--bucket", bucket, "--file", file, *more)


def test_each_kind_of_gpu_gets_a_job_on_a_node_of_its_pool(repository: Path, stack: Path, store: Store) -> None:
    release_id = released(repository, store)
    said = build(release_id, stack)
    (job,) = yaml.safe_load_all(said.stdout)
    pod = job["spec"]["template"]["spec"]
    fetch, trtexec = pod["initContainers"]
    (write,) = pod["containers"]
    settings = yaml.safe_load(stack.read_text())["config"]["triton-eks:triton"]
    key = f"plans/{release_id}/{settings['version']}/sums/1/model_cc86.plan"
    assert said.stderr == (f"sums 1 on a node of pool {settings['pool']} (compute capability 8.6) to s3://{BUCKET}/{key}\n")
    assert job["metadata"]["namespace"] == "triton"
    assert job["metadata"]["name"].startswith("plan-sums-1-cc8-6-")
    assert pod["nodeSelector"] == {"triton-eks/pool": settings["pool"]}
    assert pod["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"}]
    assert pod["serviceAccountName"] == "plan-builder"
    assert (fetch["image"], trtexec["image"], write["image"]) == (IMAGE, settings["image"], IMAGE)
    assert fetch["args"] == ["fetch", release_id, f"--bucket={BUCKET}", "--to=/models"]
    assert trtexec["args"] == ["8.6", "/models/current/sums/1/model.onnx", "/built/model_cc86.plan", *PROFILE]
    assert trtexec["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert "nvidia.com/gpu" not in {**fetch["resources"]["limits"], **write["resources"]["limits"]}
    assert write["args"] == ["put-plan", "/built/model_cc86.plan", key, f"--bucket={BUCKET}"]
    assert pod_security.violations(pod) == []


def test_fleets_on_two_kinds_of_gpu_get_a_job_each_which_asks_for_the_part_of_one_gpu() -> None:
    found = kinds_of_gpu(settings({**THREE, "models.planBuilder": {"image": IMAGE}}), Path("Pulumi.staging.yaml"))
    asked = {}
    for capability, (fleet, pool) in found.items():
        build = Build("3f2a9c1b7d04" + 52 * "0", "rank", 1, "rank/1/model.onnx", pool, capability, fleet, 10**9, 10**8, ())
        pod = job(build, BUCKET)["spec"]["template"]["spec"]
        asked[build.file] = (pod["nodeSelector"]["triton-eks/pool"], pod["initContainers"][1]["resources"]["limits"])
    disk = {"ephemeral-storage": "5241Mi", "nvidia.com/gpu": "1"}
    assert asked == {
        "model_cc80.plan": ("p4d", {"cpu": "10000m", "memory": "102400Mi", **disk}),
        "model_cc86.plan": ("g5", {"cpu": "3000m", "memory": "12288Mi", **disk}),
    }


@pytest.mark.parametrize("models", [("A" * 128, "a" * 128), ("text_v1.2", "text-v1-2")])
def test_each_model_has_jobs_of_its_own_names(models: tuple[str, str]) -> None:
    fleet = settings({"models.planBuilder": {"image": IMAGE}})
    pool = fleet.triton_nodes
    assert isinstance(pool, GpuPool)
    builds = [
        Build("3f2a9c1b7d04" + 52 * "0", model, 1, f"{model}/1/model.onnx", pool, "8.6", fleet, 1, 1, ()) for model in models
    ]
    names = [job(build, BUCKET)["metadata"]["name"] for build in builds]
    assert len(set(names)) == 2
    assert [re.fullmatch("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", name) is not None for name in names] == [True, True]


def test_other_arguments_make_another_job(repository: Path, stack: Path, store: Store) -> None:
    release_id = released(repository, store)
    first, again, other = (
        yaml.safe_load(build(release_id, stack, *more).stdout)
        for more in ((), (), ("--", "--minShapes=A:1x2,B:1x2", "--builderOptimizationLevel=5"))
    )
    assert first == again
    assert first["metadata"]["name"] != other["metadata"]["name"]
    args = other["spec"]["template"]["spec"]["initContainers"][1]["args"]
    assert args[3:] == ["--minShapes=A:1x2,B:1x2", "--builderOptimizationLevel=5"]


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Return fake programs: a recorder as trtexec, and an nvidia-smi with two equal GPUs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "nvidia-smi").write_text("#!/bin/sh\nprintf '8.6\\n8.6\\n'\n")
    (tmp_path / "plan").write_bytes(HEADER)
    (folder / "trtexec").write_text(
        f"#!/bin/sh\nprintf '%s\\n' \"$@\" > {tmp_path}/asked\n"
        f'for one in "$@"; do case $one in --saveEngine=*) cp {tmp_path}/plan "${{one#*=}}" ;; esac; done\n'
        f"test ! -e {tmp_path}/fails\n"
    )
    for program in folder.iterdir():
        program.chmod(0o755)
    return folder


def script(programs: Path, job: Any, capability: str, plan: Path) -> subprocess.CompletedProcess[str]:
    container = job["spec"]["template"]["spec"]["initContainers"][1]
    args = [capability, container["args"][1], str(plan), *container["args"][3:]]
    environment = {"PATH": f"{programs}:/usr/bin:/bin"}
    return subprocess.run(
        [*container["command"], *args], env=environment, capture_output=True, text=True, timeout=30, check=False
    )


def test_a_plan_gets_into_the_bucket_and_from_there_into_a_release(
    repository: Path, stack: Path, store: Store, programs: Path, tmp_path: Path
) -> None:
    release_id = released(repository, store)
    job = yaml.safe_load(build(release_id, stack).stdout)
    plan = tmp_path / "model_cc86.plan"
    done = script(programs, job, "8.6", plan)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "asked").read_text().splitlines() == [
        "--onnx=/models/current/sums/1/model.onnx",
        f"--saveEngine={plan}.part",
        "--skipInference",
        *PROFILE,
    ]
    key = job["spec"]["template"]["spec"]["containers"][0]["args"][2]
    put = run("modelctl", "put-plan", plan, key, "--bucket", BUCKET)
    assert (put.exit_code, put.stdout) == (0, f"s3://{BUCKET}/{key}: 28 bytes, built by TensorRT 11.1.0.5\n")

    model = repository / "sums"
    (model / "1" / "model.onnx").unlink()
    (model / "config.pbtxt").write_text((CONFIG + SCHEDULED).replace("onnxruntime", "tensorrt"))
    body = store.client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    (model / "1" / Path(key).name).write_bytes(body)
    made = release(repository, store, stacks=stack.parent)
    assert made.tensorrt == {"sums": ["11.1.0.5"]}


def test_a_plan_that_is_there_stays(store: Store, tmp_path: Path) -> None:
    key = "plans/3f2a9c1b7d04/26.07/sums/1/model_cc86.plan"
    store.client.put_object(Bucket=BUCKET, Key=key, Body=b"another's")
    (tmp_path / "new.plan").write_bytes(HEADER)
    put = run("modelctl", "put-plan", tmp_path / "new.plan", key, "--bucket", BUCKET)
    assert (put.exit_code, put.stdout) == (0, f"s3://{BUCKET}/{key}: was there, and stays\n")
    assert store.client.get_object(Bucket=BUCKET, Key=key)["Body"].read() == b"another's"


@pytest.mark.parametrize(
    ("content", "key", "said"),
    [
        (HEADER, "releases/3f2a9c1b7d04/x.plan", "'releases/3f2a9c1b7d04/x.plan' is not the key of a plan, which is plans/"),
        (HEADER, "plans/../releases/x.plan", "'plans/../releases/x.plan' is not the key of a plan, which is plans/"),
        (HEADER, "plans/3f2a9c1b7d04/", "'plans/3f2a9c1b7d04/' is not the key of a plan, which is plans/"),
        (b"ftrt", "plans/x.plan", "new.plan: is cut off after 4 bytes; build the plan again"),
        (b"<html>", "plans/x.plan", "new.plan: is no plan, its first bytes are not those of TensorRT"),
        (None, "plans/x.plan", "new.plan: No such file or directory; trtexec writes it"),
    ],
)
def test_what_is_no_plan_is_not_written(store: Store, tmp_path: Path, content: bytes | None, key: str, said: str) -> None:
    if content is not None:
        (tmp_path / "new.plan").write_bytes(content)
    put = run("modelctl", "put-plan", tmp_path / "new.plan", key, "--bucket", BUCKET)
    assert put.exit_code == 2
    assert put.stderr.replace(f"{tmp_path}/", "").startswith(f"error: {said}")
    assert store.client.list_objects_v2(Bucket=BUCKET)["KeyCount"] == 0


def test_another_gpu_builds_nothing(repository: Path, stack: Path, store: Store, programs: Path, tmp_path: Path) -> None:
    job = yaml.safe_load(build(released(repository, store), stack).stdout)
    done = script(programs, job, "8.0", tmp_path / "model_cc80.plan")
    assert (done.returncode, done.stderr) == (1, "error: the GPU has compute capability 8.6, and the plan is for 8.0\n")
    assert not (tmp_path / "asked").exists()


def test_a_trtexec_that_fails_leaves_no_plan(
    repository: Path, stack: Path, store: Store, programs: Path, tmp_path: Path
) -> None:
    (tmp_path / "fails").touch()
    job = yaml.safe_load(build(released(repository, store), stack).stdout)
    assert script(programs, job, "8.6", tmp_path / "model_cc86.plan").returncode == 1
    assert not (tmp_path / "model_cc86.plan").exists()


def test_what_cannot_be_built_is_told(repository: Path, stack: Path, store: Store) -> None:
    shutil.copytree(Path("models/normalize"), repository / "normalize", ignore=shutil.ignore_patterns("__pycache__"))
    release_id = released(repository, store)
    without = write_stack(stack.parent / "other", {"sums": wants()})

    def told(ended: Ended) -> str:
        assert (ended.exit_code, ended.stdout) == (2, "")
        return ended.stderr.removeprefix("error: ").replace(f"{stack.parent}/", "").rstrip("\n")

    assert told(build(release_id, stack, model="sum")) == (
        f"release {release_id} has no model 'sum'; did you mean 'sums'? it has normalize or sums"
    )
    assert told(build(release_id, stack, model="normalize")) == (
        f"normalize of release {release_id} is of python, and plans are built of ONNX models; release it with "
        'backend: "onnxruntime" first'
    )
    assert told(build(release_id, without)) == (
        "other/Pulumi.dev.yaml: models.planBuilder is missing, so nothing may write plans into the bucket; add it, like "
        "{image: <mirror>/modelctl@sha256:<64 hex digits>}, and run pulumi up"
    )
    others = "triton-models-prod-123456789012-us-west-2"
    assert told(build(release_id, stack, bucket=others)) == (
        f"{others} is the bucket of stack prod, and not of dev; give that of dev"
    )


def test_no_plan_is_built_of_a_release_that_no_signer_has_signed(repository: Path, stack: Path, store: Store) -> None:
    release_id = released(repository, store)
    document = yaml.safe_load(stack.read_text())
    key = "-----BEGIN PUBLIC KEY-----\nMFkw\n-----END PUBLIC KEY-----\n"
    document["config"]["triton-eks:models"] |= {"access": "local", "fetcher": {"image": IMAGE}, "signers": [key]}
    stack.write_text(yaml.safe_dump(document))
    ended = build(release_id, stack)
    assert (ended.exit_code, ended.stdout) == (1, "")
    assert ended.stderr.startswith(f"error: release {release_id} has no signature, and models.signers requires one; ")


VARIES = CONFIG.replace("dims: [ 2 ] },", "dims: [ -1, 4 ] },", 1)


@pytest.mark.parametrize(
    ("config", "given", "said"),
    [
        (CONFIG.replace("max_batch_size: 8", ""), (), ()),
        (CONFIG.replace("max_batch_size: 8", ""), ("--fp16",), ("--fp16",)),
        (
            CONFIG + "dynamic_batching { preferred_batch_size: [ 2, 4 ] }",
            (),
            ("--minShapes=A:1x2,B:1x2", "--optShapes=A:4x2,B:4x2", "--maxShapes=A:8x2,B:8x2"),
        ),
        (
            CONFIG.replace("dims: [ 2 ] }", "dims: [ 1 ] reshape { shape: [ ] } }", 1),
            ("--fp16",),
            ("--minShapes=A:1,B:1x2", "--optShapes=A:8,B:8x2", "--maxShapes=A:8,B:8x2", "--fp16"),
        ),
        (VARIES, ("--shapes=A:1x9x4,B:1x2",), ("--shapes=A:1x9x4,B:1x2",)),
        (VARIES, (), "the sizes of A [-1, 4] of sums vary; say for which the plan is, like -- --minShapes="),
        (VARIES, ("--shapes=A:1x9x4,C:1x2",), "--shapes=A:1x9x4,C:1x2: 'C:1x2' is not the shape of an input of sums; write"),
        (VARIES, ("--minShapes=A:1x9x",), "--minShapes=A:1x9x: 'A:1x9x' is not the shape of an input of sums; write"),
        (VARIES, ("--optShapes",), "--optShapes: '' is not the shape of an input of sums; write INPUT:1x3, for A or B"),
        (CONFIG, ("--onnx=x",), "--onnx of trtexec is given by the Job itself; leave it out"),
        (CONFIG, ("fp16",), "'fp16' is no argument of trtexec; after -- they begin with --, like --minShapes=IN:1x3"),
    ],
)
def test_a_plan_takes_the_batches_of_the_config(config: str, given: tuple[str, ...], said: Any) -> None:
    parsed, problems = parse(Path("config.pbtxt"), config)
    assert parsed is not None
    assert problems == []
    if isinstance(said, tuple):
        assert arguments("sums", parsed, given) == said
        return
    with pytest.raises(WrongArguments) as wrong:
        arguments("sums", parsed, given)
    assert str(wrong.value).startswith(said)


def test_the_script_is_one_that_bash_takes() -> None:
    done = subprocess.run(["bash", "-n", SCRIPT], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, "")
