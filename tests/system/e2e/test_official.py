"""Pulumi's official Kubernetes provider on the twin (docs/twin.md#the-official-kubernetes-provider).

Helm releases stay the twin's: their charts' repositories cannot be reached here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.system.e2e import account
from tests.system.e2e.conftest import Twin, taken_down
from twin.host import tools
from twin.host.home import TwinHome

VARIABLES = {"TWIN_OFFICIAL_KUBERNETES": "1"}
QUIET = "--yes --skip-preview --non-interactive"


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twin]:
    """A twin without a stack."""
    tools.ensure(["pulumi-kubernetes"], Console(stderr=True))
    with taken_down(Twin(TwinHome(tmp_path_factory.mktemp("official") / "home"))) as twin:
        yield twin


def official(twin: Twin) -> Twin:
    """The same twin, whose engine has the official provider."""
    return replace(twin, variables=VARIABLES)


@dataclass(frozen=True)
class Preview:
    """The operation, parent and inputs of each resource by its URN, and what policies say of them."""

    resources: dict[str, tuple[str, str, Any]]
    policies: set[tuple[str, str, str]]


def preview(twin: Twin, stack: str) -> Preview:
    done = twin.run("preview", stack, "--events")
    assert done.returncode == 0, done.stdout[-4000:]
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    steps = [event["resourcePreEvent"]["metadata"] for event in events if "resourcePreEvent" in event]
    results = [event["policyEvent"] for event in events if "policyEvent" in event]
    return Preview(
        {step["urn"]: (step["op"], step["new"]["parent"], step["new"]["inputs"]) for step in steps},
        {(result["policyName"], result.get("resourceUrn", ""), result["message"]) for result in results},
    )


@pytest.mark.parametrize("stack", ["dev", "local", "prod", "staging"])
def test_a_preview_is_the_same_with_either_provider(twin: Twin, stack: str) -> None:
    own, other = preview(twin, stack), preview(official(twin), stack)
    assert len(own.resources) > 100
    assert other.resources == own.resources
    assert other.policies == own.policies


def test_local_comes_up_stays_as_it_is_changes_and_goes(tmp_path: Path) -> None:
    tools.ensure(["pulumi-kubernetes"], Console(stderr=True))
    with taken_down(Twin(TwinHome(tmp_path / "home"), variables=VARIABLES)) as twin:

        def run(command: str) -> str:
            done = twin.shell(command)
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        twin.up()
        written = objects(json.loads(run("pulumi stack export --stack local")))
        assert len(written) > 5
        assert [urn for urn, outputs in written.items() if "__initialApiVersion" not in outputs] == []

        run(f"pulumi up --stack local {QUIET} --expect-no-changes")
        run(f"pulumi refresh --stack local {QUIET} --expect-no-changes")

        before = run("kubectl get pods -n triton -o name").split()
        twin.pin("triton-eks:triton.memoryGiB", 11)
        changed = json.loads(run("pulumi preview --stack local --json"))
        assert [
            (step["op"], step["urn"].rpartition("::")[2], sorted(step["detailedDiff"]))
            for step in changed["steps"]
            if step["op"] != "same"
        ] == [
            (
                "update",
                "triton-chart:triton/triton",
                [f"spec.template.spec.containers[0].resources.{kind}.memory" for kind in ("limits", "requests")],
            )
        ]
        run(f"pulumi up --stack local {QUIET}")
        # It has waited for the new pod: nothing has to be waited for any more.
        run("kubectl rollout status deployment/triton -n triton --watch=false | grep 'successfully rolled out'")
        assert not set(run("kubectl get pods -n triton -o name").split()) & set(before)

        aws = twin.servers().aws_url
        run(f"{sys.executable} -m stackctl destroy local --confirm local")
        assert account.leftovers(aws) == {}
        assert run("kubectl get namespaces -o name | grep triton || true") == ""


def objects(export: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The outputs of each Kubernetes object of a state, by its URN."""
    return {
        resource["urn"]: resource["outputs"]
        for resource in export["deployment"]["resources"]
        if resource["type"].startswith("kubernetes:") and not resource["type"].startswith("kubernetes:helm.sh/")
    }
