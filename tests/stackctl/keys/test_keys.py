"""`stackctl keys`: the life of a client's keys, on moto, and messages if a step would lock it out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws
from moto.backends import get_backend

from infra.platform.client_keys import REFRESH_SECONDS
from spec.names import KEY_SLOTS
from stackctl.keys import command
from stackctl.keys.store import Kept, next_version
from tests.aws_environment import use_none_of_the_developers
from tests.command import Ended, run
from tests.paths import ROOT

SECRET = "triton-staging/clients/team-a"
CLIENTS = """
    clients:
      team-a: {}
      team-b: {}
"""


@pytest.fixture
def aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Yield Secrets Manager of a moto account, with staging's file, whose gateway has two clients."""
    use_none_of_the_developers(monkeypatch, tmp_path)
    folder = tmp_path / "checkout" / "stacks"
    folder.mkdir(parents=True)
    text = (ROOT / "stacks" / "Pulumi.staging.yaml").read_text()
    (folder / "Pulumi.staging.yaml").write_text(text.replace("  triton-eks:gateway:\n", f"  triton-eks:gateway:{CLIENTS}"))
    (folder / "Pulumi.dev.yaml").write_text((ROOT / "stacks" / "Pulumi.dev.yaml").read_text())
    monkeypatch.chdir(tmp_path / "checkout")
    with mock_aws():
        yield boto3.client("secretsmanager", region_name="us-west-2")


def keys(what: str, *arguments: str) -> Ended:
    return run("stackctl", "keys", what, "staging", *arguments)


def kept(aws: Any, secret: str = SECRET) -> dict[str, str]:
    found: dict[str, str] = json.loads(aws.get_secret_value(SecretId=secret)["SecretString"])
    return found


def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate the time until the gateways have the change."""
    monkeypatch.setattr(command, "_now", lambda: datetime.now(UTC) + command.GATEWAYS_HAVE_THEM)


def test_a_client_gets_one_key_that_nobody_sees(aws: Any) -> None:
    done = keys("create", "team-a")
    assert done.exit_code == 0, done.stderr
    (key,) = kept(aws).values()
    assert len(key) == 43
    assert key not in done.output
    assert f"--secret-id {SECRET}" in done.stdout
    tags = {tag["Key"]: tag["Value"] for tag in aws.describe_secret(SecretId=SECRET)["Tags"]}
    assert (tags["project"], tags["environment"], tags["client"]) == ("triton-eks", "staging", "team-a")


def test_a_rotation_never_hands_out_a_key_that_a_gateway_may_not_know(aws: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    keys("create", "team-a")
    first = kept(aws)["current"]
    assert keys("rotate", "team-a").exit_code == 0
    both = kept(aws)
    assert (both["current"], set(both)) == (first, {"current", "next"})
    early = keys("rotate", "team-a")
    assert early.exit_code == 1
    assert "the second key of team-a may not be at every gateway yet" in early.stderr
    assert kept(aws) == both
    later(monkeypatch)
    assert keys("rotate", "team-a").exit_code == 0
    assert kept(aws) == {"current": both["next"], "previous": first}
    again = keys("rotate", "team-a")
    assert "the last key of team-a still opens the gateway; end it first" in again.stderr
    assert keys("expire", "team-a").exit_code == 0
    assert kept(aws) == {"current": both["next"]}
    assert "team-a has no key of before a rotation" in keys("expire", "team-a").stderr


def test_the_wait_is_longer_than_the_gateways_take() -> None:
    assert command.GATEWAYS_HAVE_THEM.total_seconds() >= 3 * REFRESH_SECONDS
    assert KEY_SLOTS == ("current", "next", "previous")


def test_a_key_in_wrong_hands_ends_with_all_others_of_the_client(aws: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    keys("create", "team-a")
    keys("create", "team-b")
    others = kept(aws, "triton-staging/clients/team-b")
    keys("rotate", "team-a")
    before = set(kept(aws).values())
    assert keys("revoke", "team-a").exit_code == 0
    assert set(kept(aws)) == {"current"}
    assert not before & set(kept(aws).values())
    assert kept(aws, "triton-staging/clients/team-b") == others


@pytest.mark.parametrize("slower", ["rotate", "revoke"])
def test_a_key_that_somebody_revokes_meanwhile_is_not_brought_back(
    aws: Any, monkeypatch: pytest.MonkeyPatch, slower: str
) -> None:
    keys("create", "team-a")
    read, revoked = command.KeyStore.read, {}

    def read_before_a_colleague_revokes(self: command.KeyStore, client: str) -> Any:
        found = read(self, client)
        if not revoked:
            monkeypatch.setattr(command.KeyStore, "read", read)
            assert keys("revoke", client).exit_code == 0
            revoked.update(kept(aws))
        return found

    monkeypatch.setattr(command.KeyStore, "read", read_before_a_colleague_revokes)
    done = keys(slower, "team-a")
    assert (done.exit_code, done.stderr) == (
        1,
        "error: somebody else has changed the keys of team-a meanwhile, and they are left as they are; look at `stackctl "
        "keys list`, and run the same command again if it is still wanted\n",
    )
    assert kept(aws) == revoked
    assert keys("rotate", "team-a").exit_code == 0
    assert kept(aws)["current"] == revoked["current"]


@pytest.mark.parametrize("what", ["rotate", "expire", "revoke"])
def test_keys_that_somebody_has_brought_back_are_changed_like_others(
    aws: Any, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    keys("create", "team-a")
    if what == "expire":
        keys("rotate", "team-a")
        later(monkeypatch)
        keys("rotate", "team-a")
    first = kept(aws)
    version = current(aws)
    assert keys("revoke", "team-a").exit_code == 0
    bring_back(aws, version)
    done = keys(what, "team-a")
    assert done.exit_code == 0, done.stderr
    changed = kept(aws)
    assert {
        "rotate": set(changed) == {"current", "next"} and changed["current"] == first["current"],
        "expire": changed == {"current": first["current"]},
        "revoke": set(changed) == {"current"} and changed["current"] != first["current"],
    }[what], "the step was taken from the keys that were brought back"


def test_who_reads_the_same_keys_in_another_time_zone_asks_for_the_same_version() -> None:
    here = datetime(2026, 11, 23, 13, 30, 0, 123000, tzinfo=UTC)
    seen = [Kept({"current": "k"}, here, "v1", when) for when in (here, here.astimezone(timezone(timedelta(hours=9))))]
    assert next_version(seen[0]) == next_version(seen[1])


def current(aws: Any) -> str:
    versions = aws.describe_secret(SecretId=SECRET)["VersionIdsToStages"]
    [found] = [version for version, stages in versions.items() if "AWSCURRENT" in stages]
    return str(found)


def bring_back(aws: Any, version: str) -> None:
    """Make a version current, an hour later: moto does not set the time of the last change, unlike AWS."""
    aws.update_secret_version_stage(
        SecretId=SECRET, VersionStage="AWSCURRENT", MoveToVersionId=version, RemoveFromVersionId=current(aws)
    )
    get_backend("secretsmanager")["123456789012"]["us-west-2"].secrets[SECRET].last_changed_date += 3600


def test_keys_are_listed_without_being_read(aws: Any) -> None:
    keys("create", "team-a")
    key = kept(aws)["current"]
    # Another stack's, whose name has the same prefix.
    aws.create_secret(Name="triton-staging-2/clients/team-z", SecretString="{}")
    done = keys("list")
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == ["team-a", "team-b"]
    assert "team-b: no keys" in done.stdout
    assert key not in done.stdout


def test_keys_of_a_client_that_is_still_named_are_not_deleted(aws: Any, tmp_path: Path) -> None:
    keys("create", "team-a")
    refused = keys("delete", "team-a")
    assert refused.exit_code == 2
    assert "stacks/Pulumi.staging.yaml names team-a in gateway.clients" in refused.stderr
    assert kept(aws)
    file = tmp_path / "checkout" / "stacks" / "Pulumi.staging.yaml"
    file.write_text(file.read_text().replace("      team-a: {}\n", ""))
    assert keys("delete", "team-a").exit_code == 0
    assert "DeletedDate" in aws.describe_secret(SecretId=SECRET)


def test_a_secret_that_somebody_else_has_made_is_neither_read_nor_written_nor_deleted(aws: Any, tmp_path: Path) -> None:
    aws.create_secret(Name=SECRET, SecretString='{"current": "theirs"}')
    file = tmp_path / "checkout" / "stacks" / "Pulumi.staging.yaml"
    for what in ("rotate", "expire", "revoke"):
        assert "does not have this stack's tags" in keys(what, "team-a").stderr
    file.write_text(file.read_text().replace("      team-a: {}\n", ""))
    assert "does not have this stack's tags" in keys("delete", "team-a").stderr
    assert kept(aws) == {"current": "theirs"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("create", "team-c"), "gateway.clients does not name team-c; it has team-a or team-b"),
        (("create", ""), "gateway.clients does not name ; it has team-a or team-b"),
        (("rotate", "team-a"), "team-a has no keys; `stackctl keys create` makes the first"),
        (("revoke", "../x"), "'../x' is not the name of a client; `stackctl keys list staging` prints who has keys"),
    ],
)
def test_a_client_that_is_not_there_is_told(aws: Any, arguments: tuple[str, str], said: str) -> None:
    done = keys(*arguments)
    assert done.exit_code in (1, 2)
    assert said in done.stderr
    assert aws.list_secrets()["SecretList"] == []


def test_a_second_creation_leaves_the_key(aws: Any) -> None:
    keys("create", "team-a")
    before = kept(aws)
    assert "team-a has keys already" in keys("create", "team-a").stderr
    assert kept(aws) == before


@pytest.mark.parametrize(
    "secret",
    [
        '{"key": "hidden"}',
        '{"current": "hidden", "current": "hidden2"}',
        '{"current": "hidden\\n"}',
        '{"current": "hidden\\r\\nx-admin: 1"}',
        '{"current": "hid den"}',
        '{"current": "hidden", "next": ""}',
        '{"current": "hidden", "next": null}',
        '["current"]',
        '{"current": ' + "[" * 60_000 + "]" * 60_000 + "}",
    ],
    ids=["slot", "twice", "line end", "header", "blank", "empty", "null", "list", "deep"],
)
@pytest.mark.parametrize("command", ["rotate", "expire", "revoke"])
def test_what_is_no_set_of_keys_is_told_without_being_shown(aws: Any, secret: str, command: str) -> None:
    keys("create", "team-a")
    aws.put_secret_value(SecretId=SECRET, SecretString=secret)
    done = keys(command, "team-a")
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert f"{SECRET} is not what this program writes there" in done.stderr
    assert "hidden" not in done.output


def test_a_stack_without_clients_has_no_keys(aws: Any) -> None:
    done = run("stackctl", "keys", "create", "dev", "team-a")
    assert done.exit_code == 2
    assert "stacks/Pulumi.dev.yaml: has no gateway.clients that are known by keys" in done.stderr
