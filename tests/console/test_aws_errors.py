"""console.aws_errors: botocore's exceptions, as a message that repeats no secret."""

from pathlib import Path

import pytest

from console.explanation import explain
from stackctl.account.guard import IDENTITY_OPERATIONS, caller
from stackctl.account.read_only import Readers
from tests import aws_environment

IN_THE_PROFILE = "no AWS credentials are to be had from the profile"
REMEDY = "run its credential_process by hand, or log in again"
EXPIRED = '{"Version":1,"AccessKeyId":"a","SecretAccessKey":"b","SessionToken":"c","Expiration":"2001-01-01T00:00:00Z"}'


def told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, **variables: str) -> tuple[str, int]:
    """Return the message and exit code of a command that calls AWS with these variables."""
    aws_environment.use_none_of_the_developers(monkeypatch, tmp_path)
    for name, value in {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_MAX_ATTEMPTS": "1", **variables}.items():
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name)
    with pytest.raises(Exception) as raised:
        caller(Readers("us-west-2", IDENTITY_OPERATIONS))
    explanation = explain(raised.value, "stackctl")
    return explanation.text, explanation.exit_code


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_STS", "HTTP_PROXY"])
@pytest.mark.parametrize("login", ["user:secret", "user:se cret", "secret"])
def test_a_login_in_an_address_is_not_repeated(
    variable: str, login: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NO_PROXY", "")
    text, code = told(monkeypatch, tmp_path, **{variable: f"http://{login}@127.0.0.1:1"})
    assert (code, text.startswith("AWS cannot be asked: "), "secret" in text, "cret@" in text) == (2, True, False, False)


@pytest.mark.parametrize("variable", ["AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID"])
def test_credentials_that_no_header_may_have_are_told_and_not_repeated(
    variable: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert told(monkeypatch, tmp_path, **{variable: "HUSH\nHUSH"}) == (
        "the AWS credentials cannot be used: one of them has a line break or another character that no header may have; "
        "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN and the profile",
        2,
    )


@pytest.mark.parametrize(
    ("process", "sentence"),
    [
        ("", f"{IN_THE_PROFILE} (IndexError: list index out of range); {REMEDY}"),
        ("echo '[1]'", f"{IN_THE_PROFILE} (AttributeError: 'list' object has no attribute 'get'); {REMEDY}"),
        (
            f"echo '{EXPIRED}'",
            f"{IN_THE_PROFILE} (RuntimeError: Credentials were refreshed, but the refreshed credentials are still "
            f"expired.); {REMEDY}",
        ),
    ],
)
def test_a_credential_process_that_gives_none_is_told(
    process: str, sentence: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config").write_text(f"[profile p]\ncredential_process = {process}\n")
    variables = {"AWS_CONFIG_FILE": str(tmp_path / "config"), "AWS_PROFILE": "p"}
    without = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}
    assert told(monkeypatch, tmp_path, **variables, **without) == (sentence, 2)
