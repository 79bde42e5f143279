"""The policy pack in the real engine: in `preview`, in the twin's shell, and on a program with defects."""

import json
from pathlib import Path

import pytest

from tests.system.component.engine.stack_run import TODAY
from tests.system.component.policy_defects import DEFECTS
from tests.system.e2e.conftest import Twin, change, clone
from tests.system.e2e.seeded_program import KUBECONFIG


def test_a_preview_runs_the_pack_and_finds_nothing_but_what_is_not_known_yet(twin: Twin) -> None:
    done = twin.run("preview", "prod", "--json", seconds=600)
    assert done.returncode == 0, done.stdout
    results = json.loads(done.stdout)["policies"]
    # A first preview cannot evaluate documents that name resources to be created, and reports this once.
    assert [(one["policy"], one["level"]) for one in results] == [("judged-at-up", "advisory")]
    assert "iam-no-wildcard (" in results[0]["message"]


@pytest.mark.parametrize("stack", ["dev", "staging", "prod"])
def test_a_first_preview_without_a_cluster_is_refused_by_no_policy(twin: Twin, stack: str) -> None:
    """As on AWS, the engine calls no Kubernetes provider, renders no chart, and has no properties of other objects."""
    whole, first = (json.loads(twin.run("preview", stack, "--json", *flags).stdout) for flags in ((), ("--first",)))
    assert {one["level"] for one in first["policies"]} == {"advisory"}
    urns = {step["urn"] for step in first["steps"]}
    absent = {step["urn"] for step in whole["steps"]} - urns
    assert absent
    assert [urn for urn in absent if "$kubernetes:helm.sh/v4:Chart$" not in urn] == []
    assert [urn for urn in urns if "$kubernetes:helm.sh/v4:Chart$" in urn] == []


def test_a_first_preview_of_local_needs_a_twin_that_has_not_created_it(twin: Twin, own_twin: Twin) -> None:
    assert own_twin.run("preview", "local", "--first", "--json").returncode == 0
    done = twin.run("preview", "local", "--first")
    assert done.returncode == 1
    assert "--first: this twin has the cluster of local; leave out --first, or set another TWIN_HOME" in done.stdout


def test_a_comparison_with_a_stack_that_is_up_judges_what_the_program_asks_for(twin: Twin, tmp_path: Path) -> None:
    """Evaluate no field that the API server and the autoscalers add to live objects; `up` with the pack had no violation."""
    done = twin.run("preview", "prod", "--against", "HEAD", "--json", seconds=900)
    assert done.returncode == 0, done.stdout
    assert "scaling-one-owner" not in {one["policy"] for one in json.loads(done.stdout)["policies"]}
    checkout = clone(tmp_path)
    transform = "pulumi.ResourceOptions(transforms=[_replicas_of_an_autoscaler])"
    change(checkout / "infra" / "serving" / "local_chart.py", transform, "pulumi.ResourceOptions()")
    template = checkout / "charts" / "triton" / "templates" / "deployment.yaml"
    change(template, "\nspec:\n", "\nspec:\n  replicas: 2\n")
    changed = Twin(twin.home, checkout).run("preview", "prod", "--against", "HEAD", "--json", seconds=900)
    found = {(one["policy"], one["level"]) for one in json.loads(changed.stdout)["policies"]}
    assert (changed.returncode, ("scaling-one-owner", "mandatory") in found) == (1, True), changed.stdout


def test_the_events_have_the_results_of_policies(twin: Twin) -> None:
    done = twin.run("preview", "dev", "--events", seconds=600)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert done.returncode == 0, done.stdout
    policies = {event["policyEvent"]["policyName"] for event in map(json.loads, lines) if "policyEvent" in event}
    assert policies == {"judged-at-up"}


def test_a_program_with_a_defect_is_refused_and_the_message_says_what_to_do(twin: Twin, tmp_path: Path) -> None:
    checkout = clone(tmp_path)
    change(checkout / "infra" / "aws" / "launch.py", 'http_tokens="required"', 'http_tokens="optional"')
    changed = Twin(twin.home, checkout)
    done = changed.run("preview", "dev", seconds=600)
    assert done.returncode == 1
    assert "[mandatory] [severity: critical]  lt-imdsv2" in done.stdout
    assert (
        "nodes-system-template: metadataOptions.httpTokens: is optional: a request forged by a pod reads the node's "
        "credentials (IMDSv1). Fix: set it to required"
    ) in done.stdout
    assert "Traceback" not in done.stdout
    document = changed.run("preview", "dev", "--json", seconds=600)
    assert document.returncode == 1
    found = json.loads(document.stdout)
    assert {one["policy"] for one in found["policies"] if one["level"] == "mandatory"} == {"lt-imdsv2"}
    assert len(found["steps"]) > 100


def test_each_policy_finds_its_defect_in_the_program(twin: Twin, tmp_path: Path) -> None:
    """`prod` runs with all defects at once, which also proves that no defect hides another."""
    checkout = clone(tmp_path)
    change(checkout / "__main__.py", "\nmain()\n", "\nfrom tests.system.e2e.seeded_program import seed\n\nseed()\nmain()\n")
    # The defect of k8s-explicit-provider is the default provider, which has no cluster on the twin by default.
    stack_file = checkout / "stacks" / "Pulumi.prod.yaml"
    change(stack_file, "\nconfig:\n", f"\nconfig:\n  {KUBECONFIG}: {twin.servers().kubeconfig}\n")
    # A version is ageing only for some weeks.
    day = '"the day to judge by (YYYY-MM-DD); empty: today", {"type": "string"}, '
    change(checkout / "policies" / "triton_policies" / "cluster.py", f'{day}""', f'{day}"{TODAY}"')
    done = Twin(twin.home, checkout).run("preview", "prod", "--json", seconds=600)
    policies = json.loads(done.stdout)["policies"]
    found = {(one["policy"], one["level"], one["urn"].rpartition("::")[2]) for one in policies}
    expected = {policy: (defect.level, defect.at_fault or "triton-eks-prod") for policy, defect in DEFECTS.items()}
    assert {policy: told for policy, told in expected.items() if (policy, *told) not in found} == {}
    assert done.returncode == 1


def test_the_pack_runs_in_the_twins_shell_and_takes_a_configuration(twin: Twin, tmp_path: Path) -> None:
    """The stack `dev` has more than one GPU, which the configuration forbids; without it the stack has no violation."""
    configuration = tmp_path / "policies.json"
    configuration.write_text(json.dumps({"ng-max-size-cap": {"maxGpus": 1}}))
    command = "pulumi preview --stack dev --policy-pack policies"
    done = twin.shell(f"{command} --policy-pack-config {configuration}", seconds=600)
    assert done.returncode != 0
    assert "the stack may start 6 GPUs (nodes-pool-g5-group 4, nodes-pool-shared-group 2), 1 is the most here" in done.stdout
    assert twin.shell(command, seconds=600).returncode == 0
