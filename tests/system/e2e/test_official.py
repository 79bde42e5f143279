"""Pulumi's official Kubernetes provider on the twin (docs/twin.md#the-official-kubernetes-provider).

Helm releases stay the twin's: their charts' repositories cannot be reached here.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.system.e2e import account
from tests.system.e2e.conftest import Twin, taken_down
from tests.system.e2e.sockets import listening
from twin.host import processes, tools
from twin.host.home import TwinHome
from twin.plugins.launchers import write_launchers

VARIABLES = {"TWIN_OFFICIAL_KUBERNETES": "1"}
_RANDOM = re.compile(r"-[0-9a-f]{7}(?=\")")
"""The suffix of a name that the AWS provider generates. Each preview generates other names."""
QUIET = "--yes --skip-preview --non-interactive"


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twin]:
    """Return a twin without a stack."""
    tools.ensure(["pulumi-kubernetes"], Console(stderr=True))
    with taken_down(Twin(TwinHome(tmp_path_factory.mktemp("official") / "home"))) as twin:
        yield twin


def official(twin: Twin) -> Twin:
    """Return the same twin, whose engine has the official provider."""
    return replace(twin, variables=VARIABLES)


@dataclass(frozen=True)
class Preview:
    """The resources of a preview by their URNs, and the results of policies."""

    resources: dict[str, tuple[str, str]]
    """The operation and the parent."""

    inputs: dict[str, Any]
    """Of the Kubernetes resources."""

    policies: set[tuple[str, str, str]]


def preview(twin: Twin, stack: str) -> Preview:
    done = twin.run("preview", stack, "--events")
    assert done.returncode == 0, done.stdout[-4000:]
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    steps = [event["resourcePreEvent"]["metadata"] for event in events if "resourcePreEvent" in event]
    results = [event["policyEvent"] for event in events if "policyEvent" in event]
    objects = {step["urn"]: step["new"]["inputs"] for step in steps if step["type"].startswith("kubernetes:")}
    return Preview(
        {step["urn"]: (step["op"], step["new"]["parent"]) for step in steps},
        json.loads(_RANDOM.sub("-random", json.dumps(objects))),
        {(result["policyName"], result.get("resourceUrn", ""), result["message"]) for result in results},
    )


def test_both_processes_listen_on_loopback_and_end_with_the_signal_of_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools.ensure(["pulumi-kubernetes"], Console(stderr=True))
    monkeypatch.setenv("TWIN_OFFICIAL_KUBERNETES", "1")
    write_launchers(tmp_path, Path(sys.executable))
    launcher = [tmp_path / "pulumi-resource-kubernetes", "127.0.0.1:1"]
    with subprocess.Popen(launcher, stdout=subprocess.PIPE, text=True) as proxy:
        try:
            assert proxy.stdout is not None and proxy.stdout.readline().strip().isdigit()
            (provider,) = map(int, Path(f"/proc/{proxy.pid}/task/{proxy.pid}/children").read_text().split())
            addresses = {address.rpartition(":")[0] for pid in (proxy.pid, provider) for address in listening(pid)}
            assert addresses == {"0100007F", "0000000000000000FFFF00000100007F"}, "127.0.0.1, as IPv4 and in IPv6"
        finally:
            proxy.send_signal(signal.SIGINT)
        assert proxy.wait(10) == 128 + signal.SIGINT
    processes.wait_until(lambda: not Path(f"/proc/{provider}").exists(), "the official provider to end", 10)


@pytest.mark.parametrize("stack", ["dev", "local", "prod", "staging"])
def test_a_preview_is_the_same_with_either_provider(twin: Twin, stack: str) -> None:
    own, other = preview(twin, stack), preview(official(twin), stack)
    assert len(own.resources) > 100 and len(own.inputs) > 5
    assert other.resources == own.resources
    assert other.inputs == own.inputs
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
        memory = [f"spec.template.spec.containers[0].resources.{kind}.memory" for kind in ("limits", "requests")]
        steps = json.loads(twin.run("preview", "local", "--json").stdout)["steps"]
        changes = [(step["op"], step["type"], step["changed"]) for step in steps if step["op"] != "same"]
        assert changes == [("update", "kubernetes:apps/v1:Deployment", memory)]
        run(f"pulumi up --stack local {QUIET}")
        # `pulumi up` has waited for the new pod.
        run("kubectl rollout status deployment/triton -n triton --watch=false | grep 'successfully rolled out'")
        assert not set(run("kubectl get pods -n triton -o name").split()) & set(before)

        aws = twin.servers().aws_url
        run(f"{sys.executable} -m stackctl destroy local --confirm local")
        assert account.leftovers(aws) == {}
        assert run("kubectl get namespaces -o name | grep triton || true") == ""


def objects(export: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the outputs of each Kubernetes object in a state, by its URN."""
    return {
        resource["urn"]: resource["outputs"]
        for resource in export["deployment"]["resources"]
        if resource["type"].startswith("kubernetes:") and not resource["type"].startswith("kubernetes:helm.sh/")
    }
