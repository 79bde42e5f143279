"""A release has a config for each stack with wants for its models; all mistakes stop it, in one report."""

import hashlib
import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tritonclient.grpc.model_config_pb2 import ModelConfig

from modelctl.release import candidate
from modelctl.release.pin import PinError, pin
from modelctl.release.progress import Silent
from modelctl.release.publish import Plan, prepare, release
from modelctl.release.stack_configs import decided
from modelctl.release.stacks import read_stacks
from modelctl.repository.configure import configure
from modelctl.repository.plans import built_with
from modelctl.repository.problems import ValidationFailed
from modelctl.store.bucket import PART_BYTES, Store
from modelctl.store.manifest import Manifest
from spec.settings import load_stack_file, serving_digest
from spec.settings.chart_values import PodValues
from tests.command import run
from tests.modelctl.blue_green_stack import write_blue_green
from tests.modelctl.conftest import BUCKET
from tests.modelctl.stacks import wants, write_stack


@pytest.fixture
def stacks(tmp_path: Path) -> Path:
    """Return the stacks' folder next to the models, as `modelctl release` expects it."""
    return tmp_path / "stacks"


def _plan(models: Path, stacks: Path) -> Plan:
    return prepare(models, PART_BYTES, Silent(), stacks)


def _problems(models: Path, stacks: Path) -> list[str]:
    with pytest.raises(ValidationFailed) as failure:
        _plan(models, stacks)
    return [str(problem).replace(f"{models.parent}/", "") for problem in failure.value.problems]


def _text(plan: Plan, key: str) -> str:
    source = plan.objects[key].source
    assert isinstance(source, bytes)
    return source.decode()


def test_a_stack_of_other_models_decides_nothing_about_these(models: Path, stacks: Path) -> None:
    for stack, names in {"dev": ["classify", "normalize"], "staging": ["classify"], "local": ["elsewhere"]}.items():
        write_stack(stacks, {name: wants() for name in names}, stack=stack)
    read, problems = read_stacks(stacks)
    assert (len(read), problems) == (3, [])
    assert decided(models, read) == {"classify"}
    assert decided(models, [one for one in read if "elsewhere" in one.serving]) == frozenset()


def test_each_stack_gets_the_configs_that_it_wants(models: Path, stacks: Path) -> None:
    dev = write_stack(stacks, {"classify": wants(), "normalize": wants(maxBatchSize=16)})
    write_stack(stacks, {"classify": wants(instances=2)}, stack="staging")
    write_stack(stacks, {}, stack="local")

    plan = _plan(models, stacks)

    generated = sorted(key for key in plan.objects if "/configs/" in key)
    assert generated == ["classify/configs/dev.pbtxt", "classify/configs/staging.pbtxt", "normalize/configs/dev.pbtxt"]
    digest = serving_digest(load_stack_file(dev))
    assert plan.manifest.serving["dev"] == digest
    assert sorted(plan.manifest.serving) == ["dev", "staging"]
    text = _text(plan, "classify/configs/dev.pbtxt")
    assert text.splitlines()[:2] == [
        "# Made by `modelctl release` from config.pbtxt and models.serving.classify of Pulumi.dev.yaml",
        f"# (all its models.serving: {digest}). Change those, not this.",
    ]
    assert "count: 2" in _text(plan, "classify/configs/staging.pbtxt")
    assert "max_batch_size: 16" in _text(plan, "normalize/configs/dev.pbtxt")
    assert plan.objects["classify/configs/dev.pbtxt"].digest.sha256 == hashlib.sha256(text.encode()).hexdigest()


def test_the_id_follows_the_wants_and_not_the_place(models: Path, tmp_path: Path) -> None:
    def release_id(place: str, **more: Any) -> str:
        write_stack(tmp_path / place, {"classify": wants(**more)})
        return _plan(models, tmp_path / place).manifest.id

    first = release_id("here")
    assert release_id("elsewhere") == first
    assert release_id("here", sloP95Ms=60) != first
    # A manifest names its wants; other wants that lead to the same config are another release too.
    assert release_id("here", expectedRate=41) != first
    assert release_id("here", tuned="benchmarks/results/x.json") == first


def test_the_gpus_of_the_pool_choose_the_plan(models: Path, stacks: Path) -> None:
    _make_a_plan_of(models / "normalize", "model_cc75.plan", "model_cc86.plan")
    gpu = wants(device="gpu", gpuMemoryMiB=500)
    write_stack(stacks, {"normalize": gpu}, instance_types=["g5.xlarge"])
    write_stack(stacks, {"normalize": gpu}, stack="staging", instance_types=["g4dn.xlarge"])

    plan = _plan(models, stacks)

    expected = 'cc_model_filenames {{\n  key: "{}"\n  value: "{}"\n}}\n'
    a10, t4 = expected.format("8.6", "model_cc86.plan"), expected.format("7.5", "model_cc75.plan")
    assert a10 in _text(plan, "normalize/configs/dev.pbtxt")
    assert t4 not in _text(plan, "normalize/configs/dev.pbtxt")
    assert t4 in _text(plan, "normalize/configs/staging.pbtxt")
    own = _text(plan, "normalize/config.pbtxt")
    assert own.endswith(
        "# Added by modelctl: what only the release knows.\n"
        f"version_policy {{\n  specific {{\n    versions: 1\n  }}\n}}\n{t4}{a10}"
    )


def _make_a_plan_of(model: Path, *names: str) -> None:
    config = model / "config.pbtxt"
    config.write_text(config.read_text().replace('backend: "python"', 'backend: "tensorrt"').replace("KIND_CPU", "KIND_GPU"))
    (model / "1" / "model.py").unlink()
    for name in names:
        (model / "1" / name).write_bytes(b"ftrt" + b"\0" * 24)


def test_everything_that_is_wrong_is_said_with_stack_and_model(models: Path, stacks: Path) -> None:
    write_stack(stacks, {"classify": wants(warmup=[9], sequence={"strategy": "direct"}), "clasify": wants()})
    (stacks / "Pulumi.qa.yaml").write_text("config: [\n")
    write_stack(stacks, {"normalize": wants(sloP95Ms="fast")}, stack="staging")

    assert _problems(models, stacks) == [
        "stacks/Pulumi.qa.yaml:2:1: not valid YAML: did not find expected node content",
        "stacks/Pulumi.staging.yaml: models.serving.normalize.sloP95Ms: 'fast' is text; give a whole number",
        "stacks/Pulumi.dev.yaml: models.serving.clasify: there is no such model; models: classify, normalize, pipeline",
        "stacks/Pulumi.dev.yaml: models.serving.classify.sequence: config.pbtxt declares no control inputs, so the model "
        "would not learn where a sequence starts and ends; write sequence_batching { control_input [ … ] } there, with "
        "CONTROL_SEQUENCE_START at least [models/classify/config.pbtxt]",
        "stacks/Pulumi.dev.yaml: models.serving.classify.warmup: a batch of 9, but the largest batch is 8 "
        "[models/classify/config.pbtxt]",
    ]


def test_a_stack_of_other_models_is_left_out_where_another_stack_serves_these(models: Path, stacks: Path) -> None:
    write_stack(stacks, {"net": wants()}, stack="staging")
    missing = "stacks/Pulumi.staging.yaml: models.serving.net: there is no such model; models: classify, normalize, pipeline"
    assert _problems(models, stacks) == [missing]

    write_stack(stacks, {"classify": wants()})
    plan = _plan(models, stacks)
    assert ([*plan.manifest.serving], plan.other_stacks) == (["dev"], ("staging",))
    assert [key for key in plan.objects if "/configs/" in key] == ["classify/configs/dev.pbtxt"]

    write_stack(stacks, {"net": wants(), "normalize": wants()}, stack="staging")
    assert _problems(models, stacks) == [missing]


def test_mistakes_of_models_and_of_stacks_are_said_together(models: Path, stacks: Path) -> None:
    (stacks).mkdir()
    (stacks / "Pulumi.qa.yaml").write_text("config: [\n")
    (models / "normalize" / "1" / "model.py").unlink()

    assert [problem.partition(":")[0] for problem in _problems(models, stacks)] == [
        "models/normalize/1/model.py",
        "stacks/Pulumi.qa.yaml",
    ]


def test_a_stack_with_wants_of_a_model_decides_what_its_config_leaves_open(models: Path, stacks: Path) -> None:
    """As in NVIDIA's example configs: neither a queue bound nor instances."""
    config = models / "classify" / "config.pbtxt"
    text = config.read_text()
    config.write_text(f"{text[: text.index('# No delay')]}{text[text.index('model_warmup') :]}")
    unbound = (
        "models/classify/config.pbtxt: dynamic_batching: missing, so the queue grows without bound under overload; write "
        "dynamic_batching { default_queue_policy { max_queue_size: 64 default_timeout_microseconds: 1000000 } }, or give "
        "classify an entry in models.serving of each stack"
    )
    unplaced = (
        "models/classify/config.pbtxt: instance_group: missing, so the server starts one instance per GPU it finds, or one "
        "on the CPU; write instance_group [ { kind: KIND_GPU count: 1 } ] or KIND_CPU, or give classify an entry in "
        "models.serving of each stack"
    )
    write_stack(stacks, {"classify": wants()})
    other = write_stack(stacks, {"normalize": wants()}, stack="staging")
    assert _problems(models, stacks) == [unbound, unplaced]

    other.unlink()
    plan = _plan(models, stacks)

    assert "max_queue_size: 18\n" in _text(plan, "classify/configs/dev.pbtxt")
    assert {name: entry.open for name, entry in plan.manifest.models.items()} == {
        "classify": True,
        "normalize": False,
        "pipeline": False,
    }


@pytest.mark.parametrize("write", [pin, lambda file, manifest: candidate.add(file, manifest, None)])
def test_a_stack_without_wants_of_such_a_model_is_refused(
    models: Path, stacks: Path, write: Callable[[Path, Manifest], object]
) -> None:
    config = models / "classify" / "config.pbtxt"
    config.write_text(config.read_text().replace("kind: KIND_CPU count: 1", "count: 1"))
    write_stack(stacks, {"classify": wants()})
    local = write_stack(stacks, {}, stack="local")
    manifest = _plan(models, stacks).manifest
    before = local.read_text()

    with pytest.raises(PinError) as refused:
        write(local, manifest)

    assert str(refused.value) == (
        f"{local}: the config.pbtxt of classify in release {manifest.id} leaves its queue or its instances open, and "
        "config.triton-eks:models.serving has no entry for it; give it one, and make the release again"
    )
    assert local.read_text() == before


def test_the_steps_of_a_pipeline_follow_its_entry_in_the_release_and_in_the_stack_that_pins_it(
    models: Path, stacks: Path
) -> None:
    """Both configs leave their queues to the stack; only normalize has code that its config places on a GPU."""
    for step, kind in (("normalize", "KIND_GPU"), ("classify", "KIND_CPU")):
        config = models / step / "config.pbtxt"
        text = config.read_text().replace("KIND_CPU", kind)
        config.write_text(text[: text.index("# No delay")] + text[text.index("instance_group") :])
    stack = write_stack(stacks, {"pipeline": wants(device="gpu", sloP95Ms=80)}, instance_types=["g5.xlarge"])

    plan = _plan(models, stacks)
    pin(stack, plan.manifest)

    text = _text(plan, "normalize/configs/dev.pbtxt")
    assert "default_timeout_microseconds: 240000\n" in text  # three times the SLO
    assert "kind: KIND_GPU\n" in text
    assert "from config.pbtxt and its pipeline in models.serving of Pulumi.dev.yaml" in text
    assert "kind: KIND_CPU\n" in _text(plan, "classify/configs/dev.pbtxt")
    settings = load_stack_file(stack)
    assert {name: (entry.device, entry.slo_p95_ms) for name, entry in settings.models.serving.items()} == {
        "pipeline": ("cpu", 80),
        "normalize": ("gpu", 80),
        "classify": ("cpu", 80),
    }
    assert settings.models.release is not None
    assert settings.models.release.instances == {"normalize": 2}
    assert settings.models.release.serving == serving_digest(settings) == plan.manifest.serving["dev"]


def test_a_step_that_cannot_follow_its_pipeline_is_told_with_both_remedies(models: Path, stacks: Path) -> None:
    _make_a_plan_of(models / "normalize", "model.plan")
    write_stack(stacks, {"pipeline": wants()})
    assert _problems(models, stacks) == [
        "stacks/Pulumi.dev.yaml: models.serving.normalize.device: cpu, but the tensorrt backend runs on GPUs only; write "
        "gpu in the entry of its pipeline, or give normalize an entry of its own [models/normalize/config.pbtxt]"
    ]


def test_an_ensemble_must_not_send_larger_batches_than_its_steps_take(models: Path, stacks: Path) -> None:
    write_stack(stacks, {"classify": wants(maxBatchSize=4)})

    # classify's golden.json has a batch of 3, which still fits.
    assert _problems(models, stacks) == [
        "stacks/Pulumi.dev.yaml: models.serving.pipeline.max_batch_size: 8 is more than the 4 of step classify "
        "(in this stack) [models/pipeline/config.pbtxt]"
    ]
    write_stack(stacks, {"classify": wants(maxBatchSize=4), "pipeline": wants(maxBatchSize=4)})
    assert "max_batch_size: 4\n" in _text(_plan(models, stacks), "pipeline/configs/dev.pbtxt")


def test_a_generated_config_keeps_the_rules_for_written_ones(
    models: Path, stacks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_instances(*arguments: Any) -> ModelConfig:
        made = configure(*arguments)
        del made.instance_group[:]
        return made

    monkeypatch.setattr("modelctl.release.stack_configs.configure", without_instances)
    write_stack(stacks, {"classify": wants()})

    assert _problems(models, stacks) == [
        "stacks/Pulumi.dev.yaml: models.serving.classify.instance_group: missing, so the server starts one instance per GPU "
        "it finds, or one on the CPU; write instance_group [ { kind: KIND_GPU count: 1 } ] or KIND_CPU "
        "[models/classify/config.pbtxt]"
    ]


def test_the_golden_inference_must_fit_the_stacks_batch(models: Path, stacks: Path) -> None:
    small = wants(maxBatchSize=2)
    write_stack(stacks, {"classify": small, "normalize": small, "pipeline": small})

    assert _problems(models, stacks) == [
        f"stacks/Pulumi.dev.yaml: models.serving.{model}.1/golden.json: {tensor}.shape: a batch of 3 is not between 1 and "
        f"max_batch_size 2 [models/{model}/config.pbtxt]"
        for model, tensors in (
            ("classify", ("inputs.NORMALIZED", "outputs.CLASS", "outputs.SCORES")),
            ("normalize", ("inputs.FEATURES", "outputs.NORMALIZED")),
        )
        for tensor in tensors
    ]


def test_a_pinned_release_that_does_not_fit_the_wants_is_no_obstacle(models: Path, stacks: Path, store: Store) -> None:
    file = write_stack(stacks, {"classify": wants()})
    pin(file, release(models, store, stacks=stacks))
    file.write_text(file.read_text().replace("sloP95Ms: 50", "sloP95Ms: 60"))

    assert release(models, store, stacks=stacks).serving["dev"] != "none"


def test_a_candidate_is_no_obstacle_to_another_release(models: Path, stacks: Path, store: Store) -> None:
    file = write_blue_green(stacks, {"classify": wants()})
    pin(file, release(models, store, stacks=stacks))
    (models / "release.yaml").write_text("versions: {classify: 2}\n")
    candidate.add(file, release(models, store, stacks=stacks), None)
    file.write_text(file.read_text().replace("sloP95Ms: 50", "sloP95Ms: 60"))

    assert release(models, store, stacks=stacks).serving["dev"] != "none"


def test_configs_in_the_repository_are_refused(models: Path) -> None:
    (models / "classify" / "configs").mkdir()
    (models / "classify" / "configs" / "dev.pbtxt").write_text("")

    assert _problems(models, models.parent / "none") == [
        "models/classify/configs: is made by modelctl, a config per stack from its models.serving; remove this directory"
    ]


def _run(*arguments: str | Path) -> list[str]:
    result = run("modelctl", *arguments, "--bucket", BUCKET)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def test_release_finds_the_stacks_beside_the_models_and_pins_the_digest(models: Path, stacks: Path, store: Store) -> None:
    file = write_stack(stacks, {"classify": wants()})

    lines = _run("release", models, "--pin", file)

    (release_id,) = store.release_ids()
    manifest = store.manifest(release_id)
    assert manifest is not None
    assert lines[2] == "configs made for the stacks: dev"
    assert f"{file}: serving none → {manifest.serving['dev']}" in lines
    settings = load_stack_file(file)
    assert settings.models.release is not None
    assert settings.models.release.serving == serving_digest(settings)


def test_release_takes_another_directory_of_stacks(models: Path, stacks: Path, tmp_path: Path, store: Store) -> None:
    write_stack(stacks, {"classify": wants()})
    write_stack(tmp_path / "more", {"normalize": wants()}, stack="staging")

    _run("release", models, "--stacks", tmp_path / "more")

    (release_id,) = store.release_ids()
    assert list(store.manifest(release_id).serving) == ["staging"]  # type: ignore[union-attr]


def test_a_directory_without_stacks_that_somebody_named_is_refused(models: Path, tmp_path: Path, store: Store) -> None:
    result = run("modelctl", "release", models, "--stacks", tmp_path / "x", "--bucket", BUCKET)

    assert (result.exit_code, result.stderr) == (
        2,
        f"error: {tmp_path}/x: holds no stack file Pulumi.<stack>.yaml; name the stacks' directory with --stacks\n",
    )
    assert store.release_ids() == []


def test_a_manifest_of_before_has_no_wants(models: Path, tmp_path: Path) -> None:
    manifest = prepare(models, PART_BYTES, Silent()).manifest
    old = manifest.model_dump_json(by_alias=True, exclude={"serving"})

    assert Manifest.parse(old) == manifest
    assert manifest.serving == {}


def test_a_file_that_is_not_named_after_its_stack_cannot_be_pinned_by_stack(
    models: Path, stacks: Path, tmp_path: Path
) -> None:
    write_stack(stacks, {"classify": wants()})
    file = tmp_path / "stack.yaml"
    file.write_text("config: {}\n")

    with pytest.raises(PinError) as failure:
        pin(file, _plan(models, stacks).manifest)

    assert str(failure.value) == (
        f"{file}: is not named Pulumi.<stack>.yaml, so it cannot be told which stack's configs the release has for it"
    )
    assert pin(file, prepare(models, PART_BYTES, Silent()).manifest)[0].startswith("release none")


def test_a_release_without_stack_files_says_so(models: Path, store: Store) -> None:
    said = f"no configs made for stacks: there is no directory stacks beside {models}; --stacks names another"
    assert _run("release", models)[2:] == [said]


def test_files_of_the_release_are_named_where_the_pods_of_a_stack_have_them(models: Path, stacks: Path) -> None:
    config = models / "normalize" / "config.pbtxt"
    path = "/models/current/normalize/1/model.py"
    config.write_text(f'{config.read_text()}parameters {{ key: "code_dir" value {{ string_value: "{path}" }} }}\n')
    write_stack(stacks, {"classify": wants()})
    assert _problems(models, stacks) == [
        "stacks/Pulumi.dev.yaml: models.access: s3, but normalize names files of the release at /models/current, where pods "
        "have them with access: local; use that [models/normalize/config.pbtxt]"
    ]


def _plan_file(*version: int, form: int = 0) -> bytes:
    """Return a plan's header as TensorRT writes it, and a few bytes after it."""
    return b"ftrt" + form.to_bytes(4, "little") + bytes(16) + bytes(version) + b"engine"


def test_the_manifest_says_which_tensorrt_built_a_plan_and_another_server_refuses_it(models: Path, stacks: Path) -> None:
    config = models / "normalize" / "config.pbtxt"
    config.write_text(config.read_text().replace('backend: "python"', 'backend: "tensorrt"'))
    (models / "normalize" / "1" / "model.plan").write_bytes(_plan_file(10, 16, 1, 11))
    write_stack(stacks, {"classify": wants()}, stack="dev", triton={"version": "26.07", "tensorrt": "10.16.1"})

    made = _plan(models, stacks).manifest

    assert (made.tensorrt, made.models["normalize"].tensorrt) == ({"normalize": ["10.16.1.11"]}, ("10.16.1.11",))
    write_stack(stacks, {"classify": wants()}, stack="staging", triton={"version": "26.07"})
    assert _problems(models, stacks) == [
        "stacks/Pulumi.staging.yaml: triton.version: a plan of normalize was built by TensorRT 10.16.1.11 and the server "
        "has 11, which loads plans of its own version alone; build it in the image of this version "
        "[models/normalize/config.pbtxt]"
    ]


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ((8, 6, 1, 6), "8.6.1.6"),
        ((9, 3, 0, 1), "9.3.0.1"),
        ((10, 16, 1, 11), "10.16.1.11"),
        ((11, 1, 0, 106), "11.1.0.106"),
    ],
)
def test_each_tensorrt_says_its_version_in_the_same_place(tmp_path: Path, version: tuple[int, ...], said: str) -> None:
    file = tmp_path / "model.plan"
    file.write_bytes(_plan_file(*version))
    assert built_with(file) == said


def test_a_plan_whose_header_says_no_version_is_released_and_told(models: Path, stacks: Path, store: Store) -> None:
    config = models / "normalize" / "config.pbtxt"
    config.write_text(config.read_text().replace('backend: "python"', 'backend: "tensorrt"'))
    plan = models / "normalize" / "1" / "model.plan"
    plan.write_bytes(_plan_file(12, 0, 0, 1, form=1))
    write_stack(stacks, {"classify": wants()})

    made = _plan(models, stacks)
    assert (made.manifest.tensorrt, made.plans_of_unknown_versions) == ({}, (plan,))

    assert (
        f"headers of another form, which do not say the TensorRT that built them, so that nothing compares it: {plan}"
        in _run("release", models)
    )


@pytest.mark.parametrize(
    "header", [_plan_file(10, 16, 1, 11, form=1), _plan_file(0, 0, 0, 0), b"ftrt", b"", b"x" + _plan_file(10, 1, 1, 1)]
)
def test_a_header_that_is_none_says_no_version(tmp_path: Path, header: bytes) -> None:
    file = tmp_path / "model.plan"
    file.write_bytes(header)
    assert built_with(file) is None


@pytest.mark.parametrize(("tmp", "fits"), [(4, True), (3, False)])
def test_the_packages_of_models_have_to_fit_the_tmp_of_a_stack(
    models: Path, stacks: Path, monkeypatch: pytest.MonkeyPatch, tmp: int, fits: bool
) -> None:
    monkeypatch.setattr("modelctl.release.stacks.pod_values", lambda environment: PodValues(tmp=tmp))
    write_stack(stacks, {"normalize": wants()})
    with tarfile.open(models / "normalize" / "env.tar.gz", "w:gz") as packed:
        for name, size in (("bin/activate", 1), ("lib/libtorch.so", 3 * 1024**2)):
            member = tarfile.TarInfo(name)
            member.size = size
            packed.addfile(member, io.BytesIO(bytes(size)))
    with (models / "normalize" / "config.pbtxt").open("a") as config:
        config.write(
            'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "$$TRITON_MODEL_DIRECTORY/env.tar.gz" } }\n'
        )
    opened: list[Any] = []
    monkeypatch.setattr(
        tarfile,
        "open",
        lambda name=None, mode="r", real=tarfile.open, **how: opened.append(name or mode) or real(name, mode, **how),
    )
    if fits:
        assert "normalize/env.tar.gz" in _plan(models, stacks).objects
        assert opened == [models / "normalize" / "env.tar.gz"], "it may have gigabytes"
    else:
        assert _problems(models, stacks) == [
            "stacks/Pulumi.dev.yaml: models: the packages of Python models are unpacked below /tmp, 4 MiB (normalize 4), "
            "and pods have 3 MiB there; give tmp.size 8Mi in helm-values/triton, for a container that was killed leaves its "
            "copy behind"
        ]
