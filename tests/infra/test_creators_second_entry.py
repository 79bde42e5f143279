"""The administrator that EKS would refuse: the role that creates the cluster already has an access entry."""

import pulumi
import pytest

from infra import app
from infra.aws.account import Account
from infra.aws.cluster import creators_second_entry
from tests.spec.stack_config import settings

DEPLOYER = "arn:aws:iam::123456789012:role/deployer"
OTHER = "arn:aws:iam::123456789012:role/platform-admin"
SESSION = "arn:aws:sts::123456789012:assumed-role/deployer/pulumi"


def test_the_role_of_the_callers_session_is_found_among_the_administrators() -> None:
    assert creators_second_entry(SESSION, [OTHER, DEPLOYER]) == DEPLOYER


@pytest.mark.parametrize("path", ["teams/ml/", "aws-reserved/sso.amazonaws.com/us-west-2/"])
def test_a_session_does_not_tell_the_path_of_its_role(path: str) -> None:
    role = f"arn:aws:iam::123456789012:role/{path}deployer"
    assert creators_second_entry(SESSION, [OTHER, role]) == role


def test_the_name_of_a_session_may_look_like_anything() -> None:
    session = "arn:aws:sts::123456789012:assumed-role/deployer/jane@example.com"
    assert creators_second_entry(session, [DEPLOYER]) == DEPLOYER


@pytest.mark.parametrize(
    "role",
    [
        OTHER,
        "arn:aws:iam::123456789012:role/deployer-2",
        "arn:aws:iam::123456789012:role/deployer/admin",
        "arn:aws:iam::210987654321:role/deployer",
        "arn:aws-us-gov:iam::123456789012:role/deployer",
    ],
)
def test_another_role_is_no_second_entry(role: str) -> None:
    assert creators_second_entry(SESSION, [role]) is None


@pytest.mark.parametrize(
    "caller",
    [
        "arn:aws:iam::123456789012:user/deployer",
        "arn:aws:iam::123456789012:root",
        "arn:aws:sts::123456789012:federated-user/deployer",
    ],
)
def test_a_caller_without_a_role_is_no_administrator_of_the_list(caller: str) -> None:
    assert creators_second_entry(caller, [DEPLOYER]) is None


class _Stopped(Exception):
    """The program continued after the warning."""


@pytest.mark.parametrize("role", ["deployer", "platform-admin"])
def test_the_program_warns_before_it_does_anything(role: str, monkeypatch: pytest.MonkeyPatch) -> None:
    caller = f"arn:aws:sts::123456789012:assumed-role/{role}/pulumi"
    account = Account(id="123456789012", partition="aws", region="us-west-2", caller_arn=caller)
    warnings: list[str] = []

    def stop(*_: object) -> None:
        raise _Stopped

    monkeypatch.setattr(app.aws_account, "current", lambda region: account)
    monkeypatch.setattr(app, "choose_zones", stop)
    monkeypatch.setattr(pulumi, "get_stack", lambda: "staging")
    monkeypatch.setattr(pulumi.log, "warn", warnings.append)
    with pytest.raises(_Stopped):
        app.deploy(settings())
    expected = (
        f"stacks/Pulumi.staging.yaml: 1 warning\n  cluster.adminRoleArns: {OTHER} runs this program; "
        "EKS makes the role that creates the cluster an administrator by itself and refuses a second access entry for it "
        "(pulumi/pulumi-eks#2373); before the first `pulumi up`, remove it from the list or run as another role"
    )
    assert warnings == ([expected] if role == "platform-admin" else [])
