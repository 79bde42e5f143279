"""renovate.json finds the pin below each `# renovate:` comment, and uses datasources that Renovate has."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from typing import Any

import pytest

from spec import versions
from spec.charts import CHARTS, ENVOY_IMAGE
from tests.paths import ROOT
from twin.host.tools import FAMILIES, MODULES

CONFIG: dict[str, Any] = json.loads((ROOT / "renovate.json").read_text(encoding="utf-8"))
DATASOURCES = {"aws-eks-addon", "docker", "github-releases", "helm"}
"""The datasources in use, of https://docs.renovatebot.com/modules/datasource/."""
VERSIONINGS = {"loose", "semver"}
"""The versionings in use, of https://docs.renovatebot.com/modules/versioning/."""


@dataclass(frozen=True)
class Pin:
    """The values that Renovate reads from one comment and the line below it."""

    datasource: str
    package: str
    name: str
    value: str
    registry: str
    versioning: str
    extract: str


def _pins(text: str) -> list[Pin]:
    """Read a file as Renovate's regex managers do."""
    found = []
    for manager in CONFIG["customManagers"]:
        for pattern in manager["matchStrings"]:
            for match in re.finditer(pattern.replace("(?<", "(?P<"), text):
                group = match.groupdict()
                found.append(
                    Pin(
                        datasource=group.get("datasource") or manager["datasourceTemplate"],
                        package=group.get("packageName") or group["depName"],
                        name=group["depName"],
                        value=group["currentValue"],
                        registry=group.get("registryUrl") or "",
                        versioning=group.get("versioning") or manager.get("versioningTemplate", ""),
                        extract=group.get("extractVersion") or manager.get("extractVersionTemplate", ""),
                    )
                )
    return found


PINS = [pin for name in ("charts", "versions") for pin in _pins((ROOT / "spec" / f"{name}.py").read_text(encoding="utf-8"))]


def test_every_comment_is_followed_by_one_manager() -> None:
    listed = subprocess.run(
        ["git", "grep", "-lIE", r"^\s*# renovate:"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for path in listed.stdout.split():
        patterns = [pattern.strip("/") for manager in CONFIG["customManagers"] for pattern in manager["managerFilePatterns"]]
        assert any(re.search(pattern, path) for pattern in patterns), f"{path}: no manager of renovate.json reads it"
        text = (ROOT / path).read_text(encoding="utf-8")
        assert len(_pins(text)) == text.count("# renovate:"), path


def test_each_datasource_and_versioning_exists() -> None:
    assert {pin.datasource for pin in PINS} == DATASOURCES
    assert {pin.versioning for pin in PINS} - {""} == VERSIONINGS


def test_add_ons_are_asked_for_by_name_and_kubernetes_version() -> None:
    found = [(json.loads(pin.package), pin.name, pin.value) for pin in PINS if pin.datasource == "aws-eks-addon"]
    assert found == [
        ({"kubernetesVersion": kubernetes, "addonName": name}, name, version)
        for kubernetes, pins in versions.KUBERNETES.items()
        for name, version in pins.addons.items()
    ]


def test_amis_are_asked_for_by_the_day_of_their_release() -> None:
    amis = [pin for pin in PINS if pin.package == "awslabs/amazon-eks-ami"]
    assert [pin.value for pin in amis] == [pins.ami_release.partition("-")[2] for pins in versions.KUBERNETES.values()]
    extracted = re.match(amis[0].extract.replace("(?<", "(?P<"), "v20260911")
    assert extracted and extracted["version"] == "20260911"


def test_programs_of_workflows_are_asked_for_by_their_module() -> None:
    action, images = (
        [(pin.package, pin.value) for pin in _pins((ROOT / ".github" / name).read_text(encoding="utf-8"))]
        for name in ("actions/setup/action.yml", "workflows/images.yml")
    )
    assert action == [("pulumi/pulumi", FAMILIES["pulumi"].version().removeprefix("v"))]
    installed = (ROOT / ".github/workflows/images.yml").read_text(encoding="utf-8").count("go install ")
    assert tuple(package for package, _ in images) == ("github.com/anchore/syft", "github.com/sigstore/cosign/v3")
    assert len(images) == installed


def test_each_program_of_the_twin_has_a_rule() -> None:
    """Renovate skips modules that go.mod marks as indirect, and go.mod marks the module of a `tool` line like that."""
    [rule] = [rule for rule in CONFIG["packageRules"] if rule.get("matchDepTypes") == ["indirect"]]
    modules = set()
    for file in MODULES.glob("*/go.mod"):
        text = file.read_text(encoding="utf-8")
        indirect = re.findall(r"^\s+(\S+) v\S+ // indirect$", text, re.MULTILINE)
        [block] = re.findall(r"^tool (?:\((.*?)^\)|(\S+)$)", text, re.MULTILINE | re.DOTALL) or [("", "")]
        for package in "".join(block).split():
            modules.update(sorted((name for name in indirect if f"{package}/".startswith(f"{name}/")), key=len)[-1:])
    assert rule["enabled"] and modules | {"sigs.k8s.io/karpenter"} == set(rule["matchPackageNames"])


MANAGERS = {
    "github-actions": r"(^|/)\.github/(workflows|actions)/.+\.ya?ml$",
    "gomod": r"(^|/)go\.mod$",
    "pep621": r"(^|/)pyproject\.toml$",
    "pip_requirements": CONFIG["pip_requirements"]["managerFilePatterns"][0].strip("/"),
}
"""The files that each of Renovate's managers reads (https://docs.renovatebot.com/modules/manager/)."""
_A_PIN = re.compile(
    r"uses: \S+@[0-9a-f]{40}|^\s+\S+ v\d\S*( // indirect)?$|^\s*\"?[a-z0-9\[\]-]+==\S|@v\d+\.\d+|^FROM [^ ]+[:@]"
    r"|version[\"']?[:=] ?[\"']?v?\d+\.\d+\.\d|ami_release=\"",
    re.MULTILINE,
)


def test_no_file_has_pins_that_no_manager_reads() -> None:
    """Checks only files that say what is installed; documents, tests and recorded responses name versions too."""
    listed = subprocess.run(
        [
            "git",
            "ls-files",
            ".github",
            "pyproject.toml",
            *(f"*{name}*" for name in ("requirements", "go.mod", "Dockerfile")),
            "spec",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(CONFIG["enabledManagers"]) == {*MANAGERS, "custom.regex"}
    own = [pattern.strip("/") for manager in CONFIG["customManagers"] for pattern in manager["managerFilePatterns"]]
    patterns = [*MANAGERS.values(), *own]
    pinned = [path for path in listed.stdout.split() if _A_PIN.search((ROOT / path).read_text(encoding="utf-8"))]
    assert {"spec/charts.py", "twin/tools/keda/go.mod", "requirements/dev.txt"} < set(pinned)
    assert [path for path in pinned if not any(re.search(pattern, path) for pattern in patterns)] == []


def test_charts_are_asked_for_where_they_are_installed_from() -> None:
    found = {(pin.datasource, pin.package, pin.registry, pin.value) for pin in PINS}
    for chart in CHARTS.values():
        if chart.repository.startswith("oci://"):
            expected = ("docker", f"{chart.repository}/{chart.name}".removeprefix("oci://"), "", chart.version)
        else:
            expected = ("helm", chart.name, chart.repository, chart.version)
        assert expected in found


def test_images_are_asked_for_by_their_repository() -> None:
    images = {pin.value: pin.package for pin in PINS if pin.datasource == "docker" and "autoscaling" in pin.package}
    assert images == dict.fromkeys(
        versions.CLUSTER_AUTOSCALER_IMAGES.values(), "registry.k8s.io/autoscaling/cluster-autoscaler"
    )
    [triton] = [pin for pin in PINS if pin.package == versions.TRITON_UPSTREAM_REPOSITORY]
    assert triton.value == versions.DEFAULT_TRITON_VERSION
    extracted = re.match(triton.extract.replace("(?<", "(?P<"), versions.triton_upstream_tag(triton.value).partition(":")[2])
    assert extracted and extracted["version"] == triton.value
    [envoy] = [pin for pin in PINS if pin.package == "docker.io/envoyproxy/envoy"]
    extracted = re.match(envoy.extract.replace("(?<", "(?P<"), ENVOY_IMAGE.partition(":")[2])
    assert extracted and extracted["version"] == envoy.value


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            '# renovate: datasource=helm depname=keda\n    version="1.2.3",\n',
            id="a name misspelt",
        ),
        pytest.param("# renovate: datasource=helm depName=keda\n", id="nothing below it"),
        pytest.param('# renovate: eksAddonsFilter=vpc-cni\n    "vpc-cni": "v1",\n', id="a filter that is not JSON"),
    ],
)
def test_a_comment_that_leads_nowhere_is_seen(text: str) -> None:
    assert _pins(text) == []
