"""An AWS whose changes take effect late: a step that comes too early fails here too.

IAM and Pod Identity are 15 s late, tags and aliases of KMS keys a minute (on AWS up to five minutes). KMS calls are checked
against the deploy role's policies. test_nodes_late.py runs Karpenter as a process.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from spec.iam_policy import Statement
from tests.bootstrap.roles import deploy
from tests.system.e2e import account
from twin.aws.faults import DELAYS, DEPLOYER
from twin.engine.engine import Engine, EngineError
from twin.host.home import TwinHome
from twin.plugins import awaiting
from twin.services import scratch
from twin.services.servers import Servers

UP = ["up", "--yes", "--skip-preview", "--non-interactive"]
PROGRAM = """\
import pulumi_aws as aws

tags = {"project": "triton-eks", "environment": "late"}
key = aws.kms.Key("key", enable_key_rotation=True, deletion_window_in_days=7, tags=tags)
aws.kms.Alias("alias", name="alias/triton-late-x", target_key_id=key.key_id)
"""


def make_late(servers: Servers, stack: str, without: str = "") -> None:
    """Delay the changes of the twin's AWS, and run Pulumi as the stack's deploy role, without one of its statements."""
    of_kms: list[Statement] = [
        one for one in deploy(stack) if any(action.startswith("kms:") for action in one["Action"]) and one["Sid"] != without
    ]
    ssm = account.client(servers.aws_url, "ssm")
    ssm.put_parameter(Name=DELAYS, Value="iam=15,kms=60,pod-identity=15", Type="String")
    ssm.put_parameter(Name=DEPLOYER, Value=json.dumps(of_kms), Type="String", Tier="Advanced")


@pytest.mark.parametrize("stack", ["local", "dev"])
def test_a_stack_comes_up_at_once(stack: str, tmp_path: Path) -> None:
    with scratch.twin(TwinHome(tmp_path / "twin"), Console(stderr=True)) as servers:
        make_late(servers, stack)
        engine = servers.engine()
        engine.read(stack, UP, awaiting.WITHOUT)
        assert set(engine.last_update(stack).changes) == {"create"}
        assert not [one["urn"] for one in engine.resources(stack) if one.get("initErrors")]


@pytest.fixture
def late(tmp_path: Path) -> Iterator[tuple[Engine, Servers]]:
    """Return a program with one key, only on the twin's AWS."""
    program = tmp_path / "program"
    (program / "stacks").mkdir(parents=True)
    (program / "Pulumi.yaml").write_text("name: triton-eks\nstackConfigDir: stacks\nruntime: python\n")
    (program / "__main__.py").write_text(PROGRAM)
    (program / "stacks/Pulumi.late.yaml").write_text(yaml.safe_dump({"config": {"aws:region": account.REGION}}))
    with scratch.account(TwinHome(tmp_path / "twin"), "123456789012", Console(stderr=True)) as servers:
        yield replace(servers.engine(), program=program), servers


def test_a_key_that_its_tags_alone_let_the_deployer_begin_is_never_rotated(late: tuple[Engine, Servers]) -> None:
    """The state has the key with rotation, so another `up` changes nothing."""
    engine, servers = late
    make_late(servers, "late", without="BeginNewKeys")
    with pytest.raises(EngineError, match="EnableKeyRotation: AccessDeniedException: "):
        engine.read("late", UP)
    account.client(servers.aws_url, "ssm").delete_parameter(Name=DELAYS)
    engine.read("late", UP)
    (key,) = [one["id"] for one in engine.resources("late") if one["type"] == "aws:kms/key:Key"]
    kms = account.client(servers.aws_url, "kms")
    assert kms.get_key_rotation_status(KeyId=key)["KeyRotationEnabled"] is False


def test_a_key_is_whole_after_one_up(late: tuple[Engine, Servers]) -> None:
    engine, servers = late
    make_late(servers, "late")
    engine.read("late", UP)
    (key,) = [one["id"] for one in engine.resources("late") if one["type"] == "aws:kms/key:Key"]
    kms = account.client(servers.aws_url, "kms")
    assert kms.get_key_rotation_status(KeyId=key)["KeyRotationEnabled"] is True
    assert [one["AliasName"] for one in kms.list_aliases(KeyId=key)["Aliases"]] == ["alias/triton-late-x"]
