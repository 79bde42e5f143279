"""A moto account with resources of one stack and of strangers, and a `pulumi` that records its calls."""

from __future__ import annotations

import json
import os
import stat
import sys
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import boto3
import pytest

from spec.ownership import Ownership
from stackctl.account.read_only import Readers
from stackctl.cost.prices import Price, PriceTable
from stackctl.orphans.operations import OPERATIONS
from stackctl.orphans.search import Search

REGION = "us-west-2"
CLUSTER = "triton-dev"

Tags = list[dict[str, str]]


def tags(**values: str) -> Tags:
    """Return tags in AWS's form."""
    return [{"Key": key, "Value": value} for key, value in values.items()]


OURS = tags(project="triton-eks", environment="dev", owner="ml-platform")
STRANGERS: tuple[Tags, ...] = (
    [],
    tags(project="triton-eks", environment="staging"),
    tags(project="other", environment="dev"),
    [{"Key": f"kubernetes.io/cluster/{CLUSTER}", "Value": "shared"}],
    [{"Key": f"kubernetes.io/cluster/{CLUSTER}-2", "Value": "owned"}],
    [{"Key": "elbv2.k8s.aws/cluster", "Value": "triton-prod"}],
)
"""Tags that look like the stack's, but are not."""

PRICES = PriceTable(
    REGION,
    {
        key: Price(Decimal(usd), date(2026, 1, 2))
        for key, usd in {
            "eks.cluster-hour": "0.10",
            "ec2.g5.xlarge": "1.006",
            "public-ipv4.hour": "0.005",
            "nat.hour": "0.045",
            "endpoint.hour": "0.01",
            "nlb.hour": "0.0225",
            "ebs.gp3-gib-month": "0.08",
            "ebs.snapshot-gib-month": "0.05",
            "fsx.lustre-250-gib-month": "0.21",
            "kms.key-month": "1",
            "alarm.month": "0.10",
            "logs.stored-gb-month": "0.03",
        }.items()
    },
)
"""Prices of one day, without m7i.large."""


@pytest.fixture
def search(account: str) -> Search:
    """Return a search for the resources of the stack dev."""
    return new_search()


def new_search() -> Search:
    return Search(Readers(REGION, OPERATIONS), Ownership("dev", CLUSTER), PRICES)


def client(service: str) -> Any:
    """Return a client with all permissions, to create resources."""
    return boto3.client(service, region_name=REGION)


_PULUMI = """#!{python}
import json, os, pathlib, sys
book = pathlib.Path(os.environ["PULUMI_BOOK"])
calls = json.loads((book / "calls.json").read_text()) if (book / "calls.json").exists() else []
calls.append({{"arguments": sys.argv[1:], "unreachable": os.environ.get("PULUMI_K8S_DELETE_UNREACHABLE")}})
(book / "calls.json").write_text(json.dumps(calls))
state = json.loads((book / "state.json").read_text())
if sys.argv[1:3] == ["stack", "export"]:
    if state is None:
        sys.exit("error: no stack named 'dev' found")
    print(json.dumps({{"version": 3, "deployment": {{"resources": state}}}}))
    sys.exit(0)
if (book / "fails").exists():
    sys.exit(255)
targets = [sys.argv[i + 1] for i, word in enumerate(sys.argv) if word == "--target"]
left = [resource for resource in state if targets and resource["urn"] not in targets]
(book / "state.json").write_text(json.dumps(left))
"""


@dataclass(frozen=True)
class Pulumi:
    """The fake `pulumi`: its state and its calls."""

    book: Path

    def holds(self, *resources: dict[str, Any]) -> None:
        (self.book / "state.json").write_text(json.dumps(list(resources)))

    def knows_no_stack(self) -> None:
        (self.book / "state.json").write_text("null")

    def fails(self) -> None:
        (self.book / "fails").touch()

    def state(self) -> list[str]:
        return [resource["urn"] for resource in json.loads((self.book / "state.json").read_text())]

    def destroys(self) -> list[list[str]]:
        """Return the arguments of every `pulumi destroy`."""
        return [call["arguments"] for call in self._calls() if call["arguments"][0] == "destroy"]

    def unreachable(self) -> set[str | None]:
        """Return the values of PULUMI_K8S_DELETE_UNREACHABLE in its runs."""
        return {call["unreachable"] for call in self._calls()}

    def _calls(self) -> list[dict[str, Any]]:
        path = self.book / "calls.json"
        found: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
        return found


@pytest.fixture
def pulumi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pulumi:
    """Put the fake first on PATH. The real engine deletes a stack in tests/system/e2e."""
    program = tmp_path / "bin" / "pulumi"
    program.parent.mkdir()
    program.write_text(_PULUMI.format(python=sys.executable))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PULUMI_BOOK", str(tmp_path))
    monkeypatch.setenv("PULUMI_K8S_DELETE_UNREACHABLE", "true")
    made = Pulumi(tmp_path)
    made.holds()
    return made


def resource(type: str, name: str, **more: Any) -> dict[str, Any]:
    """Return a custom resource as in an export."""
    return {"urn": f"urn:pulumi:dev::triton-eks::{type}::{name}", "type": type, "custom": True, **more}
