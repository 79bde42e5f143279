"""Previews of every environment, and of a change against another revision, without credentials."""

import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from tests.system.e2e.conftest import Twin, change, clone
from tests.twin.rehearse.official_state import as_official
from twin.commands import up
from twin.host import processes, tools
from twin.services import leftovers
from twin.services.servers import Servers

DEV = Path("stacks", "Pulumi.dev.yaml")
CHART_KINDS = {
    "kubernetes:apps/v1:Deployment",
    "kubernetes:core/v1:Service",
    "kubernetes:core/v1:ServiceAccount",
    "kubernetes:networking.k8s.io/v1:NetworkPolicy",
}


@pytest.mark.parametrize("stack", ["dev", "staging", "prod"])
def test_a_preview_lists_every_resource_of_the_environment_and_is_the_same_twice(twin: Twin, stack: str) -> None:
    first, second = (twin.run("preview", stack, "--json") for _ in range(2))
    assert first.returncode == 0, first.stdout
    document = json.loads(first.stdout)
    assert document["summary"] == {"create": len(document["steps"])}
    assert len(document["steps"]) > 100
    assert {step["type"] for step in document["steps"]} >= CHART_KINDS
    assert first.stdout == second.stdout


def test_the_first_up_previews_before_there_is_a_cluster(own_twin: Twin, capfd: pytest.CaptureFixture[str]) -> None:
    pulumi = tools.ensure(["pulumi"], Console(stderr=True))
    with own_twin.home.lock("the first up"):
        up.preview(Servers.without_cluster(own_twin.home, pulumi, print), print)
    said = capfd.readouterr().out
    assert re.search(r"^\s+\+ 1\d\d to create$", said, re.M), said
    assert "This preview was not checked by it" in said
    assert [record.name for record in processes.records(own_twin.home)] == ["moto"]


def test_the_preview_of_a_change_is_the_change_alone(twin: Twin, tmp_path: Path) -> None:
    checkout = clone(tmp_path)
    values = checkout / "helm-values" / "triton" / "dev.yaml"
    values.write_text(values.read_text() + "\nshm:\n  size: 1Gi\n")
    changed = Twin(twin.home, checkout)

    done = changed.run("preview", "dev", "--against", "HEAD", "--json", seconds=600)

    assert done.returncode == 0, done.stdout
    steps = [step for step in json.loads(done.stdout)["steps"] if step["op"] != "same"]
    assert [(step["op"], step["type"], step["changed"]) for step in steps] == [
        ("update", "kubernetes:apps/v1:Deployment", ["spec.template.spec.volumes[0].emptyDir.sizeLimit"])
    ]


def test_an_unknown_revision_is_one_sentence(twin: Twin) -> None:
    done = twin.run("preview", "dev", "--against", "no-such-branch")
    assert done.returncode == 2
    assert "no-such-branch" in done.stdout
    assert "Traceback" not in done.stdout


def test_every_mistake_of_a_stack_file_is_told_before_anything_is_registered(twin: Twin, tmp_path: Path) -> None:
    checkout = clone(tmp_path)
    change(checkout / DEV, 'version: "1.35"', 'version: "1.19"')
    change(checkout / DEV, "pool: g5", "pool: g9")
    done = Twin(twin.home, checkout).run("preview", "dev")
    assert done.returncode == 1
    assert "stacks/Pulumi.dev.yaml: cluster.version:" in done.stdout
    assert "stacks/Pulumi.dev.yaml: triton.pool:" in done.stdout
    assert "Traceback" not in done.stdout
    assert "aws:ec2" not in done.stdout


def test_a_warning_of_the_stack_file_is_told_once(twin: Twin) -> None:
    done = twin.run("preview", "staging")
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("triton.image: the digest is the example that this repository ships") == 1
    assert done.stdout.count("worker.image: the digest is the example that this repository ships") == 1


def test_a_typing_error_in_the_name_of_a_section_is_told_with_every_other_mistake(twin: Twin, tmp_path: Path) -> None:
    checkout = clone(tmp_path)
    change(checkout / DEV, "triton-eks:gpu:", "triton-eks:gpus:")
    change(checkout / DEV, "    cidr:", "    cird:")
    done = Twin(twin.home, checkout).run("preview", "dev")
    assert done.returncode == 1
    assert "stacks/Pulumi.dev.yaml: triton-eks:gpus: unknown key; did you mean 'triton-eks:gpu'? " in done.stdout
    assert "stacks/Pulumi.dev.yaml: triton.pool: there is no GPU pool 'g5'; add it to gpu.pools, or use cpu" in done.stdout
    assert "stacks/Pulumi.dev.yaml: network.cird: unknown key; did you mean 'cidr'? " in done.stdout
    assert "missing configuration value" not in done.stdout
    assert done.stdout.rstrip().endswith("The policies have judged nothing, whatever else is said")


def test_a_change_is_rehearsed_on_the_exported_state_of_a_stack(twin: Twin, tmp_path: Path) -> None:
    exported = tmp_path / "local.json"
    export = twin.shell("pulumi stack export --stack local")
    assert export.returncode == 0, export.stderr
    exported.write_text(json.dumps(as_official(json.loads(export.stdout))))
    checkout = clone(tmp_path)
    tracked = checkout / "stacks" / "Pulumi.local.yaml"
    tracked.write_text((twin.home.path / "project" / "stacks" / "Pulumi.local.yaml").read_text())

    def rehearsed() -> tuple[int, list[tuple[str, str, str]]]:
        done = Twin(twin.home, checkout).run("rehearse", "--state", str(exported), "--json")
        document = json.loads(done.stdout)
        assert (document["stack"], document["errors"]) == ("local", [])
        return done.returncode, [
            (found["effect"], found["action"], found["name"]) for found in document["findings"] if found["effect"] != "none"
        ]

    assert rehearsed() == (0, [])
    change(tracked, "g5.xlarge", "g5.2xlarge")
    code, found = rehearsed()
    assert code == 1
    assert ("interrupted", "replace", "nodes-pool-g5-group") in found
    assert leftovers.scratch_twins(twin.home) == []
