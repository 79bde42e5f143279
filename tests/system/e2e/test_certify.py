"""`stackctl certify` on the twin: brings a stack up, checks it, destroys it, and reports its observations."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.system.e2e import account
from tests.system.e2e.newcomer import prepare_models, servers_alone

STACK = "trial"
IMAGE = f"nvcr.io/nvidia/tritonserver@sha256:{'0123456789abcdef' * 4}"
TRIED = {
    "AWS resources are created, read, updated and deleted",
    "nodes join with the declared labels, taints and GPUs",
    "every pod fits its nodes; in staging and prod with one zone lost",
    "Triton starts with the rendered arguments and becomes ready",
    "Triton reads one release from S3",
    "preflight reports what an account lacks, and only reads",
    "teardown follows the right order; `orphans` lists everything left, and nothing of others",
    "the commands of [going to AWS](aws.md) lead from an empty account to an answer, and back",
}
"""The claims that the twin can prove: moto has no add-ons, and no answers of Access Analyzer and the IAM simulator."""


def test_a_trial_comes_and_goes_and_says_what_agreed(tmp_path: Path) -> None:
    with servers_alone(tmp_path) as twin:
        made = twin.shell(
            f"{sys.executable} -m stackctl init {STACK} --api-from 198.51.100.7/32 --cost-center trials --image {IMAGE}"
        )
        assert made.returncode == 0, made.stderr
        prepare_models(twin, STACK)
        file = twin.checkout / "stacks" / f"Pulumi.{STACK}.yaml"
        before = file.read_bytes()

        done = twin.shell(f"{sys.executable} -m stackctl certify {STACK} --confirm {STACK}")
        [page] = (twin.checkout / ".certify").glob("*.md")
        report = json.loads(page.with_suffix(".json").read_text())
        verdicts = {one["claim"]: (one["verdict"], one["evidence"]) for one in report["claims"]}
        assert {claim: verdicts[claim][0] for claim in TRIED} == dict.fromkeys(TRIED, "agree"), (verdicts, done.stderr)
        differ = {claim for claim, (verdict, _) in verdicts.items() if verdict == "differ"}
        assert (differ, done.returncode) == (set(), 0), verdicts
        assert page.read_text().startswith("# What an account showed: ")
        assert file.read_bytes() == before
        assert account.leftovers(twin.servers().aws_url) == {}
