"""Every command that calls AWS reports another server that answers in its place; here a real one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from console.not_aws import NotAws
from stackctl.account.guard import Caller, caller
from stackctl.account.read_only import AwsUnusable, Readers
from stackctl.preflight.checks.check import Check, Subject, findings
from stackctl.preflight.operations import OPERATIONS
from tests import http_server
from tests.aws_environment import use_none_of_the_developers
from tests.command import run
from tests.paths import ROOT
from tests.spec.stack_config import settings

REGION = "us-west-2"
PAGE = "\n<!DOCTYPE html>\n<html><title>Log in</title><p>This network asks who you are.</html>"
PROXYS = "<html><body><h1>Blocked</h1></body></html>"
WHY = (
    "a proxy, a network's login page or a test server answers in place of the service; check HTTPS_PROXY and "
    "AWS_ENDPOINT_URL"
)


@contextmanager
def answering(status: int, body: str, headers: Mapping[str, str] | None = None) -> Iterator[str]:
    """Yield the address of a server with one answer for everything."""

    class Answers(http_server.Handler):
        def _answer(self) -> None:
            self.body()
            self.answer(status, body.encode(), content_type="text/html", **(headers or {}))

        do_GET = do_POST = do_HEAD = _answer

    with http_server.listening(Answers) as server:
        yield server.url


@pytest.fixture
def instead_of_aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[int, str], str]]:
    """Yield `instead_of_aws(status, body)`, which redirects every service to this answer and returns the address."""
    use_none_of_the_developers(monkeypatch, tmp_path)
    monkeypatch.chdir(ROOT)
    servers = []

    def begin(status: int, body: str) -> str:
        server = answering(status, body)
        address = server.__enter__()
        servers.append(server)
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        return address

    yield begin
    for server in servers:
        server.__exit__(None, None, None)


@pytest.mark.parametrize(
    ("status", "body", "answer"),
    [
        (200, PAGE, "a page of HTML"),
        (200, PROXYS, "a page of HTML"),
        (302, PAGE, "a page of HTML"),
        (403, PAGE, "a page of HTML"),
        (407, PROXYS, "a page of HTML"),
        (200, "welcome", "what cannot be parsed"),
        (403, "no", "what cannot be parsed"),
    ],
)
def test_who_answers_in_place_of_sts_is_named(
    instead_of_aws: Callable[[int, str], str], status: int, body: str, answer: str
) -> None:
    address = instead_of_aws(status, body)
    with pytest.raises(AwsUnusable) as refused:
        caller(Readers(REGION, OPERATIONS))
    assert str(refused.value) == f"AWS cannot be asked: {address} answers GetCallerIdentity with {answer}: {WHY}"


def test_where_a_service_speaks_json_a_page_is_no_answer_either(instead_of_aws: Callable[[int, str], str]) -> None:
    address = instead_of_aws(200, PAGE)
    readers = Readers(REGION, OPERATIONS)
    with pytest.raises(NotAws, match=f"^{address} answers DescribeAddon"):
        readers("eks").describe_addon_versions()
    subject = Subject(settings(), readers, Caller("123456789012", "arn:aws:iam::123456789012:user/me"))
    found = findings(Check("x", lambda one: one.readers("eks").describe_addon_versions()["addons"]), subject)
    assert [finding.message for finding in found] == [
        f"AWS does not answer: {address} answers DescribeAddonVersions with a page of HTML: {WHY}"
    ]


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        ("{}", "what that operation does not answer"),
        ('{"message": "hello"}', "what that operation does not answer"),
        ('{"addons": [{"addonNa', "what that operation does not answer"),
        ('{"addons": [{}]}', "what that operation does not answer"),
        ('{"addons": [{"addonName": 5}]}', "what that operation does not answer"),
        ('{"addons": "x"}', "what cannot be parsed"),
        ('{"addons": ["x"]}', "what cannot be parsed"),
        ("[]", "what cannot be parsed"),
        ("null", "what cannot be parsed"),
        ('"x"', "what cannot be parsed"),
        ("5", "what cannot be parsed"),
        pytest.param("[" * 100_000, "what cannot be parsed", id="deep"),
    ],
)
def test_json_that_is_not_of_the_services_model_is_no_answer(
    instead_of_aws: Callable[[int, str], str], body: str, answer: str
) -> None:
    address = instead_of_aws(200, body)
    with pytest.raises(NotAws) as refused:
        Readers(REGION, OPERATIONS)("eks").describe_addon_versions()
    assert str(refused.value) == f"{address} answers DescribeAddonVersions with {answer}: {WHY}"


@pytest.mark.parametrize(
    "body", ["<a/>", "<ListBucketResult/>", "<Envelope><Body/></Envelope>", "<a><MaxKeys>many</MaxKeys></a>"]
)
def test_xml_that_is_no_list_is_no_empty_bucket(instead_of_aws: Callable[[int, str], str], body: str) -> None:
    address = instead_of_aws(200, body)
    done = run("modelctl", "list", "--bucket", "models")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: s3://models at {address}: {address} answers ListObjectsV2 with what ")


@pytest.mark.parametrize("command", ["preflight", "orphans", "destroy"])
def test_a_command_about_a_stack_ends_with_that_sentence(instead_of_aws: Callable[[int, str], str], command: str) -> None:
    address = instead_of_aws(200, PAGE)
    done = run("stackctl", command, "dev")
    assert (done.exit_code, done.stdout, done.stderr) == (
        2,
        "",
        f"error: AWS cannot be asked: {address} answers GetCallerIdentity with a page of HTML: {WHY}\n",
    )


def test_refreshing_prices_ends_with_that_sentence(instead_of_aws: Callable[[int, str], str]) -> None:
    address = instead_of_aws(200, PAGE)
    done = run("stackctl", "cost", "refresh", "us-west-2")
    assert (done.exit_code, done.stderr) == (
        2,
        f"error: AWS cannot be asked: {address} answers GetProducts with a page of HTML: {WHY}\n",
    )


def test_the_bucket_of_models_is_told_from_a_page(instead_of_aws: Callable[[int, str], str]) -> None:
    address = instead_of_aws(200, PAGE)
    done = run("modelctl", "list", "--bucket", "models")
    assert (done.exit_code, done.stderr) == (
        2,
        f"error: s3://models at {address}: {address} answers ListObjectsV2 with a page of HTML: {WHY}\n",
    )


@pytest.mark.parametrize(
    ("status", "headers", "answer"),
    [
        (302, {"Location": "http://login.invalid/"}, "a redirect"),
        (301, {"Location": "/"}, "a redirect"),
        (307, {"Location": "https://127.0.0.1:1/"}, "a redirect"),
        (200, {}, "nothing"),
        (204, {}, "nothing"),
    ],
)
@pytest.mark.parametrize(("command", "operation"), [("list", "ListObjectsV2"), ("show 0123456789ab", "GetObject")])
def test_a_redirect_to_a_login_page_and_an_empty_answer_are_no_answers_of_a_bucket(
    status: int,
    headers: dict[str, str],
    answer: str,
    command: str,
    operation: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    use_none_of_the_developers(monkeypatch, tmp_path)
    with answering(status, "", headers) as address:
        done = run("modelctl", *command.split(), "--bucket", "triton-models", "--endpoint-url", address)
    assert done.exit_code in (1, 2)
    if (answer, operation) == ("nothing", "GetObject"):
        return  # an object may be empty; a manifest may not, and its reader reports it
    assert f"{address} answers {operation} with {answer}: a proxy, a network's login page" in done.stderr
