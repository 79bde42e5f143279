"""Loading a stack: valid settings and their sources; all mistakes are reported at once."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from spec import versions
from spec.endpoints import INTERFACE_SERVICES, Profile
from spec.settings import Settings, SettingsError, load, load_stack_file
from spec.settings.model import Document
from spec.settings.section import Absent, Section
from tests.paths import ROOT
from tests.spec.stack_config import ADMIN, DIGEST, ECR, LARGEST_ON_G5_XLARGE, REMOVED, TODAY, complaints, config, settings


def test_a_valid_stack_is_read_into_typed_values() -> None:
    read = settings({"gpu.pools[0].sharing": {"strategy": "mps", "replicas": 4}, "gpu.pools[0].zones": ["us-west-2a"]})
    assert read.cluster_name == "triton-staging"
    assert read.region == "us-west-2"
    assert read.network.cidr == IPv4Network("10.30.0.0/16")
    assert read.network.zones == ("us-west-2a", "us-west-2b", "us-west-2c")
    assert read.network.flow_log_retention_days == 30
    assert read.cluster.admin_role_arns == (ADMIN,)
    assert read.cluster.public_access_cidrs == ()
    assert read.nodes.system.disk_gib == 50
    pool = read.triton_nodes
    assert (pool.name, pool.zones, pool.sharing.strategy, pool.sharing.replicas) == ("g5", ("us-west-2a",), "mps", 4)
    assert pool.reservation_id is None
    assert read.models.s3_endpoint is None
    assert read.models.release is not None
    assert read.models.release.models == {"resnet50": 1}
    assert (read.triton.memory_gib, read.triton.cpu, read.pod_autoscaler, read.node_autoscaler) == (12, "3", "none", "none")
    assert read.warnings == ()


def test_a_pool_without_sharing_is_exclusive_and_may_say_so() -> None:
    silent, said = settings(), settings({"gpu.pools[0].sharing": "exclusive"})
    assert silent.gpu == said.gpu
    assert (silent.gpu.pools[0].sharing.strategy, silent.gpu.pools[0].sharing.replicas) == ("exclusive", 1)


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        settings().network.nat = "none"  # type: ignore[misc]


@pytest.mark.parametrize(
    "changes",
    [
        {"network.zones": 2},
        {"network.nat": "none"},  # endpoints are complete and the image is in the region's ECR
        {"models.release": REMOVED},
        {"models.release": None},
        {"models.s3Endpoint": "http://127.0.0.1:5000"},
        {"models.s3Endpoint": "https://minio.example.com:9000"},
        {"cluster.endpoint": "public", "cluster.publicAccessCidrs": ["198.51.100.0/24"]},
        {"gpu.pools[0].instanceTypes": ["g5.xlarge", "g5.2xlarge", "g5.4xlarge"]},
        {
            "gpu.pools[1].instanceTypes": ["p5.48xlarge"],
            "gpu.pools[1].capacity": "capacity-block",
            "gpu.pools[1].reservationId": "cr-0123456789abcdef0",
            "gpu.pools[1].zones": ["us-west-2a"],
        },
        {"triton.pool": "p4d", "triton.gpus": 8, "triton.cpu": "90", "triton.memoryGiB": 1070, "gpu.pools[1].desired": 2},
        {"triton.memoryGiB": 12, "triton.cpu": "3680m", "triton.replicas": 4, "gpu.pools[0].desired": 4},
        {"models.release.bytes": LARGEST_ON_G5_XLARGE},
        {"triton.image": f"{ECR}:443/nvidia/tritonserver@{DIGEST}"},
        {"aws:defaultTags": {"tags": {"owner": "ml-platform", "cost-center": "inference"}}},
    ],
    ids=str,
)
def test_what_is_valid_is_accepted(changes: dict[str, Any]) -> None:
    assert isinstance(settings(changes), Settings)


def test_all_mistakes_of_a_file_are_said_in_one_run_and_in_its_order() -> None:
    """Structural mistakes (a typo, text for a number, a fraction) do not prevent the check of other relations."""
    assert complaints(
        {
            "triton.gpus": 0.5,
            "triton.image": "nvcr.io/nvidia/tritonserver:latest",
            "triton.pool": "g55",
            "environment": "dev",
            "network.cidr": "10.100.0.0/16",
            "network.zonse": 3,
            "cluster.version": "1.33",
            "cluster.logRetentionDays": "365",
            "gpu.pools[0].desired": 7,
            "gpu.pools[0].instanceTypes": ["p3.2xlarge"],
            "gpu.pools[1].min": "none",
            "gpu.pools[1].name": "g5",
            "models": [],
        }
    ) == [
        "environment: 'dev' is not what the name of the stack 'staging' says; use staging, or another name",
        "network.zonse: unknown key; did you mean 'zones'? the keys here are cidr, zones, nat, endpoints, "
        "flowLogRetentionDays, existing",
        "network.cidr: 10.100.0.0/16 overlaps 10.100.0.0/16, from which EKS may take Kubernetes services; use another range",
        "cluster.logRetentionDays: '365' is text; give a whole number without quotes",
        "cluster.version: EKS ended standard support of it on 2026-07-29, and spec/versions.py has no add-ons and no "
        "AMI for "
        '1.33; use "1.34", "1.35" or "1.36"',
        "gpu.pools[1].min: 'none' is text; give a whole number",
        "gpu.pools[1].name: 'g5' is the name of another pool; give each its own",
        "gpu.pools[0].desired: 7 is more than max 4; give 1 to 4",
        "gpu.pools[0].instanceTypes[0]: 'p3.2xlarge' cannot be used: its V100 has compute capability 7.0 and Triton "
        "needs compute capability 7.5 or more since 24.11; use a type of g4dn, g5, g6, g6e, gr6, p4d, p4de, p5, p5e, "
        "p5en or p6-b200",
        "models: it is a list; give a mapping of keys to values",
        "triton.gpus: 0.5 is a fraction; give a whole number",
        "triton.image: the tag 'latest' can be pushed again, so that a restart would serve something else; "
        "give <mirror>/nvidia/tritonserver@sha256:<64 hex digits> (`stackctl image` writes it)",
        "triton.pool: there is no GPU pool 'g55'; did you mean 'g5'? use g5",
    ]


def test_a_check_whose_inputs_are_invalid_neither_hides_nor_repeats_what_was_said() -> None:
    assert complaints({"gpu.pools[0].max": "many", "nodes.system.min": 6}) == [
        "nodes.system.min: 6 is more than max 3; give min <= desired <= max",
        "gpu.pools[0].max: 'many' is text; give a whole number",
    ]


def test_an_empty_config_names_every_section() -> None:
    with pytest.raises(SettingsError) as caught:
        load({}, "dev", today=TODAY)
    assert [problem.path for problem in caught.value.problems] == [
        "aws:region",
        *("environment", "tags", "network", "cluster", "nodes", "models", "triton"),
    ]


def test_a_check_that_reads_an_absent_value_learns_that_it_is_absent_not_a_default() -> None:
    with pytest.raises(Absent):
        _ = Document.model_construct().network
    with pytest.raises(AttributeError):
        _ = Section.model_construct().no_such_key  # type: ignore[attr-defined]


def _paths(value: Any, at: str = "") -> list[str]:
    inner: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        inner = [(f"{at}.{key}" if at else key, item) for key, item in value.items()]
    if isinstance(value, list):
        inner = [(f"{at}[{index}]", item) for index, item in enumerate(value)]
    return [path for step, item in inner for path in (step, *_paths(item, step))]


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
_ALL_PATHS = _paths({key.removeprefix("triton-eks:"): value for key, value in config({}).items()})


@given(st.sampled_from(_ALL_PATHS), _VALUES)
def test_no_value_anywhere_makes_anything_but_settings_or_a_sentence(path: str, value: Any) -> None:
    try:
        load(config({path: value}), "staging", today=TODAY)
    except SettingsError as error:
        assert error.problems
        assert all(problem.path and problem.message for problem in error.problems)


@pytest.mark.parametrize(
    ("version", "today", "warning"),
    [
        ("1.35", date(2026, 12, 26), None),
        ("1.35", date(2026, 12, 27), "EKS ends standard support of 1.35 on 2027-03-27, in 90 days; "),
        ("1.34", TODAY, "EKS ends standard support of 1.34 on 2026-12-02, in 11 days; "),
        ("1.34", date(2026, 12, 1), "EKS ends standard support of 1.34 on 2026-12-02, in 1 days; "),
        (
            "1.34",
            date(2026, 12, 2),
            "EKS ended standard support of 1.34 on 2026-12-02; extended support costs 0.60 instead of 0.10 US dollars per "
            "cluster hour in most regions (438 instead of 73 a month) and ends on 2027-12-02, when EKS upgrades the cluster "
            "by itself; plan the upgrade",
        ),
        ("1.34", date(2027, 12, 1), "EKS ended standard support of 1.34 on 2026-12-02; "),
    ],
)
def test_a_version_near_the_end_of_its_support_is_warned_about(version: str, today: date, warning: str | None) -> None:
    warnings = settings({"cluster.version": version}, today=today).warnings
    said = [problem.message for problem in warnings if problem.path == "cluster.version"]
    assert len(said) == (warning is not None)
    assert warning is None or said[0].startswith(warning)


def test_a_version_is_refused_from_the_day_its_extended_support_ended() -> None:
    assert complaints({"cluster.version": "1.34"}, today=date(2027, 12, 2)) == [
        "cluster.version: EKS ended extended support of 1.34 on 2027-12-02; use a newer one, after adding it to "
        "spec/versions.py"
    ]


def test_eks_upgrades_a_cluster_by_itself_while_its_version_is_in_standard_support() -> None:
    assert [versions.support_type("1.34", date(2026, 12, day)) for day in (1, 2)] == ["STANDARD", "EXTENDED"]


def test_the_example_digest_is_warned_about_outside_the_local_stack() -> None:
    example = f"{ECR}/nvidia/tritonserver@{versions.example_digest('26.07')}"
    assert [problem.path for problem in settings({"triton.image": example}).warnings] == ["triton.image"]
    local = {"environment": "local", "triton.image": example}
    assert settings(local, stack="local").warnings == ()


def test_a_stack_without_a_release_is_warned_that_triton_is_not_deployed() -> None:
    assert [problem.path for problem in settings({"models.release": REMOVED}).warnings] == ["models.release"]


def test_a_driver_older_than_cuda_needs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    old = replace(versions.KUBERNETES["1.35"], nvidia_driver="570.211.01")
    monkeypatch.setitem(versions.KUBERNETES, "1.35", old)  # type: ignore[arg-type]
    assert complaints({}) == [
        "triton.version: CUDA 13.3 in 26.07 needs driver 580.65.06 and the AMI of Kubernetes 1.35 has 570.211.01; "
        "raise its ami_release"
    ]


def test_gpus_older_than_the_image_was_built_for_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    strict = replace(versions.TRITON_RELEASES["26.07"], minimum_compute_capability=8.0)
    monkeypatch.setitem(versions.TRITON_RELEASES, "26.07", strict)  # type: ignore[arg-type]
    assert complaints({"gpu.pools[0].instanceTypes": ["g4dn.xlarge"]}) == [
        "triton.pool: g4dn.xlarge has compute capability 7.5 and Triton needs 8.0; use a pool with newer GPUs"
    ]


def test_a_key_that_is_there_in_two_spellings_is_refused_wherever_it_comes_from() -> None:
    both = {**config({}), "triton-eks:network": {}, "network": {}}
    with pytest.raises(SettingsError) as refused:
        load(both, "staging", today=TODAY)
    assert (
        "stacks/Pulumi.staging.yaml: network: is there as triton-eks:network and as network, which are one key; keep one "
        in (str(refused.value))
    )


def test_a_key_without_a_value_is_the_same_from_the_engine_and_from_the_file() -> None:
    """The engine converts it to an empty string."""
    found = [complaints({"gpu": value, "monitoring": value, "environment": value}) for value in (None, "")]
    assert found[0] == found[1]
    assert "gpu: it is empty; give a mapping of keys to values" in found[0]
    assert not any("monitoring" in line for line in found[0])


@pytest.fixture
def stack_file(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "Pulumi.staging.yaml"
        path.write_text(text)
        return path

    return write


def test_a_stack_file_may_carry_what_pulumi_writes_into_it(stack_file: Callable[[str], Path]) -> None:
    path = stack_file(json.dumps({"config": config({}), "encryptionsalt": "v1:abc"}))
    assert load_stack_file(path, today=TODAY) == settings()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("config:\n  a: 1\n  a: 2\n", "line 3, column 3: 'a' is there twice, first on line 2; keep one of them"),
        ("config: [\n", "line 2, column 1: not valid YAML: did not find expected node content"),
        ("", "config: is missing; give the mapping of all settings"),
        ("config: 3\n", "line 1: config is not a mapping; give the mapping of all settings"),
        ("config: {}\nconfg: {}\n", "confg: unknown key; did you mean 'config'? settings go under config"),
    ],
)
def test_a_file_that_is_not_a_stack_file_is_refused(stack_file: Callable[[str], Path], text: str, line: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_stack_file(stack_file(text), today=TODAY)
    assert str(caught.value) == f"stacks/Pulumi.staging.yaml: {line}"


def test_a_number_that_yaml_cannot_hold_exactly_is_still_a_sentence() -> None:
    assert complaints({"triton.gpus": math.inf}) == ["triton.gpus: inf is a fraction; give a whole number"]


def test_without_nat_the_device_plugins_image_is_warned_about() -> None:
    assert [problem.path for problem in settings({"network.nat": "none"}).warnings] == ["network.nat"]


def test_without_nat_each_section_that_needs_the_internet_is_named_once() -> None:
    stack = yaml.safe_load((ROOT / "stacks" / "Pulumi.staging.yaml").read_text())["config"]
    stack["triton-eks:network"] |= {"nat": "none", "endpoints": "full"}
    warned = {problem.path: problem.message for problem in load(stack, "staging", today=TODAY).warnings}
    needs = {path: text.partition(";")[0] for path, text in warned.items() if text.startswith("without NAT no pod reaches ")}
    assert needs == {
        "monitoring": "without NAT no pod reaches the images of kube-prometheus-stack and dcgm-exporter, SNS (sns)",
        "logs": "without NAT no pod reaches the images of fluent-bit",
        "gateway": "without NAT no pod reaches the images of aws-load-balancer-controller and gateway-helm",
        "tracing": "without NAT no pod reaches the images of opentelemetry-collector, X-Ray (xray)",
        "triton.autoscaler": "without NAT no pod reaches the images of keda",
        "nodes.autoscaler": "without NAT no pod reaches the images of karpenter and karpenter-crd",
    }


def test_who_reaches_the_api_server_is_told_in_words() -> None:
    inside = {"cidrs": ["10.30.0.0/16", "192.168.0.0/24"], "securityGroups": ["sg-0123456789abcdef0"]}
    assert settings({"cluster.apiAccess": inside}).cluster.reached_by == (
        "the nodes",
        "10.30.0.0/16 inside of the VPC or connected to it",
        "192.168.0.0/24 inside of the VPC or connected to it",
        "sg-0123456789abcdef0 inside of the VPC",
    )
    public = {"endpoint": "public", "publicAccessCidrs": ["198.51.100.0/24"], "apiAccess": REMOVED}
    changed = settings({f"cluster.{key}": value for key, value in public.items()})
    assert changed.cluster.reached_by == ("the nodes", "198.51.100.0/24 over the internet")
    assert changed.warnings == ()


@pytest.mark.parametrize("nat", ["none", "single", "per_az"])
@pytest.mark.parametrize("endpoints", ["none", "minimal", "full"])
def test_nodes_reach_ssm_which_the_tunnel_goes_through_in_every_network_that_is_taken(nat: str, endpoints: Profile) -> None:
    try:
        taken = settings({"network.nat": nat, "network.endpoints": endpoints}).network.nat == nat
    except SettingsError:
        taken = False
    assert taken == (nat != "none" or {"ssm", "ssmmessages"} <= set(INTERFACE_SERVICES[endpoints]))
