"""The commands: output, exit codes, and a message instead of a traceback for every failure."""

import json
import socket
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber

from modelctl.release.publish import release
from modelctl.store.bucket import Store, open_store
from modelctl.store.errors import Place, explain
from tests.command import Ended, run
from tests.modelctl.conftest import BUCKET
from tests.modelctl.stacks import wants, write_stack


def _run(*arguments: str | Path) -> Ended:
    return run("modelctl", *arguments)


def _sentence(result: Ended, code: int) -> str:
    """Return the only line on standard error of a command that failed as expected."""
    assert result.exit_code == code, result.output
    lines = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, result.stderr
    assert "Traceback" not in result.output
    return lines[0].removeprefix("error: ")


def test_release_says_the_id_and_the_served_versions(models: Path, store: Store) -> None:
    result = _run("release", models, "--bucket", BUCKET)

    (entry,) = store.release_ids()
    manifest = store.manifest(entry)
    assert manifest is not None
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        f"{entry} released: 6.1 kB, 9 objects uploaded, 0 found",
        "models: classify 1, normalize 1, pipeline 1",
        f"no configs made for stacks: there is no directory stacks beside {models}; --stacks names another",
    ]
    assert "  uploaded classify/1/model.py (1.1 kB)" in result.stderr.splitlines()


def test_release_says_what_it_left_out(models: Path, store: Store) -> None:
    for name in (".git/HEAD", "normalize/1/__pycache__/model.pyc", "normalize/.DS_Store"):
        (models / name).parent.mkdir(parents=True, exist_ok=True)
        (models / name).write_text("x")

    said = _run("release", models, "--bucket", BUCKET).stdout

    left_out = [f"{models}/{name}" for name in (".git", "normalize/.DS_Store", "normalize/1/__pycache__")]
    assert f"left out: {', '.join(left_out)}\n" in said
    assert not [key for key in _manifest(store, said.split()[0]).objects if ".git" in key or "pyc" in key or "DS_" in key]


def test_release_again_says_already_released(models: Path, store: Store) -> None:
    manifest = release(models, store)

    result = _run("release", models, "--bucket", BUCKET)

    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == (f"{manifest.id} already released on {manifest.created:%Y-%m-%d %H:%M:%S} UTC")


def test_release_with_pin_changes_the_stack_file(models: Path, store: Store, tmp_path: Path) -> None:
    stack = tmp_path / "Pulumi.dev.yaml"
    stack.write_text("config:\n  triton-eks:environment: dev  # why\n")
    first = release(models, store)
    assert _run("pin", first.id, "--bucket", BUCKET, "--file", stack).exit_code == 0
    (models / "release.yaml").write_text("versions: {classify: 2}\n")

    result = _run("release", models, "--bucket", BUCKET, "--pin", stack)

    second = result.stdout.split()[0]
    assert result.stdout.splitlines()[3:] == [
        f"{stack}: release {first.id} → {second}",
        f"{stack}: bytes {first.bytes} → {_manifest(store, second).bytes}",
        f"{stack}: classify 1 → 2",
    ]
    assert "environment: dev  # why" in stack.read_text()
    again = _run("pin", second, "--bucket", BUCKET, "--file", stack)
    assert again.stdout == f"{stack}: pins {second} already\n"


def test_a_stack_of_other_models_gets_no_release_of_these(models: Path, store: Store, tmp_path: Path) -> None:
    stacks = tmp_path / "stacks"
    write_stack(stacks, {"classify": wants()})
    other = write_stack(stacks, {"net": wants()}, stack="staging")
    before = other.read_bytes()
    arguments = ("release", models, "--bucket", BUCKET, "--stacks", stacks)

    refused = _run(*arguments, "--pin", other)
    assert (refused.exit_code, other.read_bytes(), store.release_ids()) == (2, before, [])
    assert f"models.serving names no model of {models}" in refused.stderr

    assert "none made for stacks that serve other models: staging\n" in _run(*arguments).stdout


def test_problems_are_all_printed_and_nothing_is_released(models: Path, store: Store) -> None:
    (models / "normalize" / "1" / "model.py").unlink()
    (models / "classify" / "config.pbtxt").write_text("foo: 1\n")

    result = _run("release", models, "--bucket", BUCKET)

    assert result.exit_code == 1
    lines = result.stderr.splitlines()
    assert lines[0] == f"error: {len(lines) - 1} problems; nothing was released or changed:"
    assert lines[1].startswith(f"{models}/classify/config.pbtxt: input: missing; ")
    assert f"{models}/classify/config.pbtxt:1:1: ModelConfig has no field foo; it has name, platform" in result.stderr
    assert f"{models}/normalize/1/model.py: missing; the python backend loads it, and 1/ holds nothing" in lines
    assert store.release_ids() == []


def test_list_shows_finished_and_unfinished_releases(models: Path, store: Store, s3: Any) -> None:
    manifest = release(models, store)
    s3.put_object(Bucket=BUCKET, Key=f"releases/0123456789ab{52 * '0'}/a/config.pbtxt", Body=b"12345")

    table = _run("list", "--bucket", BUCKET)
    listed = json.loads(_run("list", "--bucket", BUCKET, "--json").stdout)

    rows = [line.split() for line in table.stdout.splitlines()]
    assert rows[0] == ["id", "created", "(UTC)", "size", "objects", "state", "models"]
    by_id = {row[0]: row[3:] for row in rows[1:]}
    assert by_id == {
        manifest.id: ["6.1", "kB", "9", "released", "classify", "1,", "normalize", "1,", "pipeline", "1"],
        "0123456789ab" + 52 * "0": ["5", "bytes", "1", "unfinished"],
    }
    assert {entry["id"]: (entry["state"], entry["bytes"], entry["models"]) for entry in listed} == {
        manifest.id: ("released", manifest.bytes, {"classify": 1, "normalize": 1, "pipeline": 1}),
        "0123456789ab" + 52 * "0": ("unfinished", 5, {}),
    }


def test_list_of_an_empty_bucket(store: Store) -> None:
    assert _run("list", "--bucket", BUCKET).stdout == f"no releases in s3://{BUCKET}\n"
    assert json.loads(_run("list", "--bucket", BUCKET, "--json").stdout) == []


def test_show_prints_models_and_objects(models: Path, store: Store) -> None:
    manifest = release(models, store)

    table = _run("show", manifest.id, "--bucket", BUCKET)
    document = json.loads(_run("show", manifest.id, "--bucket", BUCKET, "--json").stdout)

    rows = [line.split() for line in table.stdout.splitlines()]
    assert ["pipeline", "1", "ensemble"] in rows
    entry = manifest.objects["classify/1/model.py"]
    assert ["classify/1/model.py", str(entry.bytes), entry.sha256] in rows
    assert document == json.loads(manifest.to_json())


def test_verify_exits_with_0_or_1(models: Path, store: Store, s3: Any) -> None:
    manifest = release(models, store)
    sound = _run("verify", manifest.id, "--bucket", BUCKET)
    assert (sound.exit_code, sound.stdout) == (0, f"{manifest.id}: 9 objects, all as released\n")
    s3.put_object(Bucket=BUCKET, Key=f"releases/{manifest.id}/classify/1/model.py", Body=b"x")
    s3.delete_object(Bucket=BUCKET, Key=f"releases/{manifest.id}/pipeline/1/.keep")

    result = _run("verify", manifest.id, "--bucket", BUCKET)
    document = json.loads(_run("verify", manifest.id, "--bucket", BUCKET, "--json").stdout)

    size = manifest.objects["classify/1/model.py"].bytes
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "missing: pipeline/1/.keep",
        f"changed: classify/1/model.py: 1 bytes instead of {size}",
        f"{manifest.id}: 9 objects, 2 differences",
    ]
    assert document == {
        "id": manifest.id,
        "objects": 9,
        "missing": ["pipeline/1/.keep"],
        "extra": [],
        "changed": {"classify/1/model.py": f"1 bytes instead of {size}"},
        "ok": False,
    }


@pytest.mark.parametrize("command", ["show", "verify", "pin"])
def test_unknown_and_unfinished_releases_are_named(command: str, store: Store, s3: Any, tmp_path: Path) -> None:
    s3.put_object(Bucket=BUCKET, Key=f"releases/0123456789ab{52 * '0'}/a/config.pbtxt", Body=b"12345")
    stack = tmp_path / "Pulumi.dev.yaml"
    stack.write_text("config: {}\n")
    more = ["--bucket", BUCKET, *(["--file", str(stack)] if command == "pin" else [])]

    assert _sentence(_run(command, "ffffffffffff" + 52 * "0", *more), 1) == (
        f"there is no release ffffffffffff{52 * '0'} in s3://{BUCKET}; releases: 0123456789ab{52 * '0'}"
    )
    assert _sentence(_run(command, "0123456789ab" + 52 * "0", *more), 1) == (
        f"release 0123456789ab{52 * '0'} in s3://{BUCKET} is unfinished (it has no manifest): "
        "run `modelctl release` on the same models again, it continues"
    )
    assert stack.read_text() == "config: {}\n"


def test_pin_into_a_missing_file(models: Path, store: Store, tmp_path: Path) -> None:
    manifest = release(models, store)

    assert _sentence(_run("pin", manifest.id, "--bucket", BUCKET, "--file", tmp_path / "x.yaml"), 2) == (
        f"{tmp_path}/x.yaml: there is no such file; check the path; a stack's file is stacks/Pulumi.<stack>.yaml"
    )


def test_no_such_bucket(s3: Any, models: Path) -> None:
    assert _sentence(_run("release", models, "--bucket", "another-bucket"), 2) == (
        "there is no bucket s3://another-bucket; `pulumi stack output` names the stack's models bucket"
    )


def test_no_region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_REGION")

    assert _sentence(_run("list", "--bucket", BUCKET), 2) == "no AWS region: set AWS_REGION to the bucket's region"


def test_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")

    assert _sentence(_run("list", "--bucket", BUCKET), 2) == (
        f"no AWS credentials to reach s3://{BUCKET}: "
        "set AWS_PROFILE (after `aws login` or `aws sso login`), or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    )


def test_an_unknown_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")

    assert _sentence(_run("list", "--bucket", BUCKET), 2) == (
        "the AWS configuration cannot be used: The config profile (nobody) could not be found; "
        "check AWS_PROFILE and ~/.aws/config"
    )


def test_an_unreachable_endpoint() -> None:
    with socket.socket() as closed:  # bound, but not listening
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"

        result = _run("list", "--bucket", BUCKET, "--endpoint-url", url)

    assert _sentence(result, 2) == (
        f"cannot reach s3://{BUCKET} at {url}: nothing answers at {url}; check the address and the network"
    )


@pytest.mark.parametrize(
    ("endpoint", "said"),
    [
        ("localhost", "'localhost' is no endpoint: it does not begin with http:// or https://"),
        ("ftp://127.0.0.1", "'ftp://127.0.0.1' is no endpoint: it does not begin with http:// or https://"),
        ("http://", "'http://' is no endpoint: it has no name of a host, or no port from 1 to 65535"),
        ("http://127.0.0.1:99999", "'http://127.0.0.1:99999' is no endpoint: Port out of range 0-65535"),
        ("http://[::1", "'http://[::1' is no endpoint: Invalid IPv6 URL"),
        ("http://127.0.0.1/a b", "'http://127.0.0.1/a b' is no endpoint: it has more than host, port and path"),
        (
            "http://me:" + "hunter2@127.0.0.1:9000",
            "the endpoint has a name or a password in its address, which nothing sends; leave them out",
        ),
    ],
)
def test_an_endpoint_that_is_no_url(endpoint: str, said: str) -> None:
    assert _sentence(_run("list", "--bucket", BUCKET, "--endpoint-url", endpoint), 2) == (
        f"{said}; write for example http://127.0.0.1:9000"
    )


@pytest.mark.parametrize(
    ("profile", "said"),
    [
        ("credential_process = echo no-json", "Expecting value: line 1 column 1 (char 0)"),
        ("s3 = x", "'str' object has no attribute 'get'"),
    ],
)
def test_a_profile_that_cannot_be_used_is_no_mistake_of_the_endpoint(
    profile: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = "" if "process" in profile else "\naws_access_key_id = a\naws_secret_access_key = b"
    (tmp_path / "config").write_text(f"[default]\n{profile}{keys}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    assert _sentence(_run("list", "--bucket", BUCKET, "--endpoint-url", "http://127.0.0.1:9"), 2) == (
        f"the AWS configuration cannot be used: {said}; check the variables AWS_… and ~/.aws/config"
    )


def test_a_bucket_name_that_cannot_be() -> None:
    assert _sentence(_run("list", "--bucket", "Not A Bucket"), 2) == (
        "'Not A Bucket' is no bucket name: 3 to 63 lower-case letters, digits, dots and hyphens"
    )


@pytest.mark.parametrize(
    ("operation", "code", "sentence"),
    [
        ("list_objects_v2", "AccessDenied", f"access to s3://{BUCKET} is denied: these credentials need s3:ListBucket"),
        ("get_object", "AccessDenied", f"access to s3://{BUCKET} is denied: these credentials need s3:GetObject"),
        (
            "put_object",
            "AccessDenied",
            f"access to s3://{BUCKET} is denied: these credentials need s3:PutObject "
            "(and to kms:GenerateDataKey and kms:Decrypt on the bucket's key)",
        ),
        (
            "list_objects_v2",
            "ExpiredToken",
            "the AWS credentials have expired: log in again (`aws login` or `aws sso login`)",
        ),
        (
            "list_objects_v2",
            "InvalidAccessKeyId",
            "the AWS credentials are not accepted (InvalidAccessKeyId): "
            "set AWS_PROFILE (after `aws login` or `aws sso login`), or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        ),
        *(
            (
                "list_objects_v2",
                code,
                f"the AWS credentials are not accepted ({code}): "
                "set AWS_PROFILE (after `aws login` or `aws sso login`), or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            )
            for code in ("SignatureDoesNotMatch", "InvalidToken", "AuthorizationHeaderMalformed")
        ),
        ("list_objects_v2", "PermanentRedirect", f"bucket {BUCKET} lies in another region: set AWS_REGION to it"),
        ("list_objects_v2", "SlowDown", f"s3://{BUCKET} answered ListObjectsV2 with SlowDown: because"),
    ],
)
def test_answers_of_s3_become_sentences(operation: str, code: str, sentence: str) -> None:
    client = boto3.client("s3", region_name="us-west-2")
    parameters = {"Bucket": BUCKET, **({} if operation.startswith("list") else {"Key": "k"})}
    with Stubber(client) as stubber:
        stubber.add_client_error(operation, code, "because")
        with pytest.raises(ClientError) as failure:
            getattr(client, operation)(**parameters)

    assert explain(failure.value, Place(BUCKET, None)) == sentence


def test_a_denied_listing_reaches_the_user_as_that_sentence(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(bucket: str, endpoint_url: str | None) -> Store:
        store = open_store(bucket, endpoint_url)
        stubber = Stubber(store._client)
        stubber.add_client_error("list_objects_v2", "AccessDenied", "no")
        stubber.activate()
        return store

    monkeypatch.setattr("modelctl.release.command.open_store", denied)

    assert _sentence(_run("list", "--bucket", BUCKET), 2) == (
        f"access to s3://{BUCKET} is denied: these credentials need s3:ListBucket"
    )


def test_an_unreadable_model_file(models: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise PermissionError(13, "Permission denied", str(models / "classify" / "1" / "model.py"))

    monkeypatch.setattr("modelctl.release.publish.digest", fail)

    assert _sentence(_run("release", models, "--bucket", BUCKET), 2) == (f"{models}/classify/1/model.py: Permission denied")


def _manifest(store: Store, release_id: str) -> Any:
    manifest = store.manifest(release_id)
    assert manifest is not None
    return manifest
