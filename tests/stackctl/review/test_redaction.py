"""Secret-like text is removed from every part of a report; necessary text stays."""

from __future__ import annotations

import json

import pytest

from stackctl.review import preview, redaction
from stackctl.review.plan import Change
from stackctl.review.redaction import redacted
from stackctl.review.report import Report
from tests.stackctl.review.scenarios import Event, diff, step, stream, summary, urn, violation

# Each in two parts, because secret scanners would refuse whole tokens in a repository.
TOKENS = {
    "aws": "AKIA" + "IOSFODNN7EXAMPLE",
    "aws-temporary": "ASIA" + "IOSFODNN7EXAMPLE",
    "github": "ghp_" + "0123456789abcdefghijABCDEFGHIJ012345",
    "github-fine": "github_pat_" + "11ABCDEFG0abcdefghij_0123456789abcdef",
    "gitlab": "glpat-" + "0123456789abcdefghij",
    "slack-bot": "xoxb-" + "123456789012-123456789012-abcdefABCDEF0123456789ab",
    "slack-old": "xoxp-" + "abcdef0123456789",
    "slack-app": "xapp-" + "1-A0123456789-1234567890123-abcdef0123456789",
    "slack-webhook": "https://hooks.slack.com/" + "services/T00000000/B00000000/abcdefghijklmnopqrstuvwx",
    "hugging-face": "hf_" + "abcdefghijklmnopqrstuvwxyzABCDEFGH",
    "nvidia": "nvapi-" + "abcdefghijklmnopqrstuvwxyz-0123456789_ABCDEFGH",
    "google": "AIza" + "SyA0123456789abcdefghijABCDEFGHIJ01",
    "pulumi": "pul-" + "0123456789abcdef0123456789abcdef01234567",
    "npm": "npm_" + "0123456789abcdefghijABCDEFGHIJ012345",
    "pypi": "pypi-" + "AgEIcHlwaS5vcmcCJGFiY2RlZmdoaWprbG1ub3BxcnN0dXZ3eHl6",
    "stripe": "sk_live_" + "0123456789abcdefghijABCDEFGHIJ",
    "stripe-short": "sk_live_" + "0123456789ab",
    "openai": "sk-proj-" + "0123456789abcdefghij",
    "sendgrid": "SG." + "0123456789abcdefghijAB.0123456789abcdefghijABCDEFGHIJ0123456789abc",
    "twilio": "SK" + "0123456789abcdef0123456789abcdef",
    "square": "sq0csp-" + "0123456789abcdefghijABCDEFGHIJ0123456789abc",
    "docker": "dckr_pat_" + "0123456789abcdefghijABCDEFG",
    "shopify": "shpat_" + "0123456789abcdef0123456789abcdef",
    "linear": "lin_api_" + "0123456789abcdefghijABCDEFGHIJ",
    "new-relic": "NRAK-" + "ABCDEFGHIJKLMNOPQRSTUVWXYZ0",
    "sentry": "sntrys_" + "eyJpYXQiOjE2ODczMzY1NDMuNjk4NTksInVybCI6bnVsbH0=",
    "replicate": "r8_" + "abcdefghijklmnopqrstuvwxyzABCDEFGHIJK",
    "tailscale": "tskey-auth-" + "kABC123CNTRL-abcdefghijklmnopqrstuv",
    "atlassian": "ATATT3x" + "FfGF0abcdefghijklmnopqrstuvwxyz0123456789",
    "terraform": "abcdefghij0123" + ".atlasv1.abcdefghijklmnopqrstuvwxyz0123456789",
    "azure": "abc8Q~" + "Aabcdefghijklmnopqrstuvwxyz0123456",
    "bedrock": "ABSK" + "QmVkcm9ja0FQSUtleS1abcdefghijklmnopqrstuvwxyz",
    "mailgun": "key-" + "0123456789abcdef0123456789abcdef",
    "airtable": "patABCDEFGHIJKLMN" + ".0123456789abcdef0123456789abcdef0123456789abcdef",
    "age": "AGE-SECRET-KEY-1" + "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7LQPZRY9X8",
    "jwt": "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiJtZSJ9.c2lnbmF0dXJlLW9mLWl0",
    "key": "-----BEGIN " + "OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA\n-----END OPENSSH PRIVATE KEY-----",
    "of-a-short-word": "tvly-" + "A1b2C3d4E5f6G7h8J9k0L1m2N3p4",
    "of-two-short-words": "phx_prod_" + "a1B2c3D4e5F6g7H8j9K0l1M2n3P4",
    "hex-of-a-short-word": "sk_" + "0123456789abcdef0123456789abcdef0123456789abcdef",
    "hubspot": "pat-na1-" + "01234567-89ab-4cde-8f01-23456789abcd",
    "plaid": "access-production-" + "01234567-89ab-4cde-8f01-23456789abcd",
    "cloudflare-origin": "v1.0-" + "0123456789abcdef01234567-" + "0123456789abcdef" * 9 + "ab",
    "salesforce": "00D5f000000ABCD" + "!AQ4AQFx.abcdefghijklmnopqrstuvwxyz0123456789ABCDEF",
    "okta": "SSWS " + "00abcdefghijklmnopqrstuvwxyz0123456789ABCD",
    "bitbucket": "ATBB" + "abcdefghijklmnopqrstuvwxyz012345",
    "artifactory": "cmVmdGtu" + "OjAxOjE3OTAwMDAwMDA6YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXo",
    "gitea": "token " + "0123456789abcdef0123456789abcdef01234567",
    "kubeconfig": "client-key-data: " + "LS0tLS1CRUdJTiBSU0EgUFJJ" + "VkFURSBLRVktLS0tLQ==",
    "key-cut-off": "-----BEGIN " + "PGP PRIVATE KEY BLOCK-----\nlQOYBF",
}

FIRST_LETTERS = (
    *("shpat_", "shpca_", "shppa_", "shpss_", "lin_api_", "sntrys_", "sntryu_", "figd_", "ntn_", "r8_", "gsk_", "pplx-"),
    *("lsv2_pt_", "lsv2_sk_", "sbp_", "pscale_tkn_", "pscale_oauth_", "bkua_", "CCIPAT_", "rubygems_", "nfp_", "sqa_"),
    *("sqp_", "squ_", "duffel_live_", "duffel_test_", "fo1_", "fm1_", "fm2_", "dp.pt.", "dp.audit.", "PMAK-", "NRAK-"),
    *("NRJS-", "HRKU-", "CFPAT-", "xai-", "tskey-auth-", "tskey-api-", "EZAK", "EZTK", "ATATT3x", "ATCTT3x"),
    *("AGE-SECRET-KEY-1", "ABSK", "AKCp", "LTAI", "AKID", "EAAC", "secret_"),
)
"""Each is the prefix of only one service's tokens."""


@pytest.mark.parametrize("first", FIRST_LETTERS)
def test_what_begins_like_a_token_of_a_service_is_one(first: str) -> None:
    assert redacted(f"it says {first}{'abcdef' * 4}, and ends") == "it says (secret), and ends"
    assert redacted(f"it says {first}{'abc'}, and ends") == f"it says {first}abc, and ends"


OTHER_FORMS = {
    "dropbox": "sl." + "Ab-c_" * 14,
    "yandex": "t1." + "9euelZ" + "." + "a_b-c" * 14,
    "e2b": "e2b_" + "0123456789abcdef" * 2,
    "hex of a test": "test_" + "0123456789abcdef" * 2,
    "hex of what is live": "live_" + "0123456789abcdef" * 2,
    "plaid's sandbox": "access-sandbox-" + "01234567-89ab-4cde-8f01-23456789abcd",
    "hubspot in europe": "pat-eu1-" + "01234567-89ab-4cde-8f01-23456789abcd",
    "supertokens": "st." + ".".join(["0123456789abcdef01234567"] * 3),
    "asana": "1/1200000000000001" + ":0123456789abcdef0123456789abcdef",
    "bitwarden": "0.01234567-89ab-4cde-8f01-23456789abcd" + ".ABCDEFGHIJKLMNOPQRSTU:abc+/==",
    "grafana": "prod:us-east-1" + "|QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
    "square's access": "sq0atp-" + "abcdefghijklmnopqrstuv",
    "artifactory's reference": "cmVmdGtu" + "a" * 44,
    "terraform's older": "dG9r" + "a" * 44,
    "cargo": "cio" + "a" * 32,
    "resend": "re_" + "aaaaaaaa_" + "b" * 22,
    "telegram's bot": "7370931710:" + "aB3_-" * 7,
    "discord's bot": "M" + "a" * 23 + "." + "b" * 6 + "." + "c" * 27,
    "nuget": "oy2" + "a1" * 21 + "b",
    "adyen": "AQE" + "aB3+/" * 12,
    "base64 of json": "eyJ" + "aB3+/" * 14,
    "bedrock": "bedrock-api-key-" + "aB3+/" * 14,
    "hash of htpasswd": "$apr1$" + "abcdefgh$" + "aB3./" * 4,
    "hash of bcrypt": "$2b$12$" + "aB3./" * 10,
    "hash of shadow": "$6$" + "abcdefgh$" + "aB3./" * 17,
    "hash of argon2": "$argon2id$v=19$m=65536,t=3,p=4$" + "aB3+/" * 8,
}


@pytest.mark.parametrize("kind", OTHER_FORMS)
def test_a_token_of_another_form_is_taken_out(kind: str) -> None:
    assert redacted(f"it says {OTHER_FORMS[kind]} and ends") == "it says (secret) and ends"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("https://discord.com/api/webhooks/123/abc-DEF", "https://discord.com/api/webhooks/(secret)"),
        ("https://contoso.webhook.office.com/webhookb2/abc@def", "https://contoso.webhook.office.com/(secret)"),
        ("https://outlook.office.com/webhook/abc@def", "https://outlook.office.com/(secret)"),
        ("https://hooks.zapier.com/hooks/catch/12/ab", "https://hooks.zapier.com/hooks/catch/(secret)"),
        ("https://example.ifttt.com/trigger/a/with/key/bcd-ef", "https://example.ifttt.com/trigger/a/with/key/(secret)"),
    ],
)
def test_what_an_address_is_trusted_for_is_taken_out(url: str, told: str) -> None:
    assert redacted(f"see {url} or ask") == f"see {told} or ask"


@pytest.mark.parametrize("kind", TOKENS)
def test_a_secret_is_taken_out_and_the_words_around_it_stay(kind: str) -> None:
    token = TOKENS[kind]
    told = redacted(f"it says {token}" if kind == "key-cut-off" else f"it says {token}, and ends")
    assert told.startswith("it says ") and "(secret)" in told
    assert kind == "key-cut-off" or told.endswith(", and ends")
    assert not any(part in told for part in (token, token[12:28], token[-6:])), told
    assert redacted(told) == told


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("password: hunter2", "password: (secret)"),
        ("DB_PASSWORD=hunter2 and more", "DB_PASSWORD=(secret) and more"),
        ('{"password": "hunter2 and blanks", "user": "me"}', '{"password": "(secret)", "user": "me"}'),
        ("aws_secret_access_key=wJalrXUtnFEMI/K7MDENG", "aws_secret_access_key=(secret)"),
        ("AWS_SESSION_TOKEN: abc/def==", "AWS_SESSION_TOKEN: (secret)"),
        ("Authorization: Bearer abcdef012345.x-y", "Authorization: Bearer (secret)"),
        ("Authorization: Basic bWU6aHVudGVyMg==", "Authorization: Basic (secret)"),
        ("sent Bearer abcdef012345 to it", "sent Bearer (secret) to it"),
        ("x-api-key: 0123abcd", "x-api-key: (secret)"),
        ("run it with --token hunter2 --stack dev", "run it with --token (secret) --stack dev"),
        ("https://me:" + "hunter2@example.com/x", "https://(secret)@example.com/x"),
        ("https://hunter2@example.com/x", "https://(secret)@example.com/x"),
        ("//packages.example.com/:_authToken=hunter2", "//packages.example.com/:_authToken=(secret)"),
        ("s3://b/k?X-Amz-Signature=0123abcd&x=1", "s3://b/k?X-Amz-Signature=(secret)&x=1"),
        ("password: correct horse battery", "password: (secret)"),
        ("Password is: hunter2", "Password is: (secret)"),
        ("the password is set to hunter2 now", "the password is set to (secret) now"),
        ("API key has been changed to 'hunter2'", "API key has been changed to '(secret)'"),
        ("the token is set to expire", "the token is set to expire"),
        ("secrets: {db: hunter2, queue: x} and more", "secrets: (secret) and more"),
        ('{"credentials": {"db": "hunter2"}, "b": 1}', '{"credentials": (secret), "b": 1}'),
        ("the password 'hunter2' is wrong", "the password '(secret)' is wrong"),
        ("curl -u me:hunter2 https://example.com", "curl -u (secret) https://example.com"),
        ("api key: 0123abcd", "api key: (secret)"),
        ('{"auth": "bWU6aHVudGVyMg=="}', '{"auth": "(secret)"}'),
        ("DB_PASS=hunter2 and more", "DB_PASS=(secret) and more"),
        ("GITHUB_PAT=hunter2", "GITHUB_PAT=(secret)"),
        ("MASTER_KEY=hunter2", "MASTER_KEY=(secret)"),
        ("password=xy,hunter2 and more", "password=(secret) and more"),
        ("password=hunter2,user=me", "password=(secret),user=me"),
        ("Cookie: a=b; session=hunter2\nx", "Cookie: (secret)\nx"),
        ("password%3Dhunter2&x=1", "password%3D(secret)"),
        (r"{\"password\": \"hunter2\", \"user\": 1}", r"{\"password\": (secret), \"user\": 1}"),
        ("https://me:" + "p@hunter2@h/x", "https://(secret)@h/x"),
        ("postgres://me:" + "a/hunter2@h/db", "postgres://(secret)@h/db"),
        ("<password>hunter2</password>", "<password>(secret)</password>"),
        (":password => 'hunter2', :user => 'me'", ":password => '(secret)', :user => 'me'"),
        ("sshpass -p hunter2 ssh h", "sshpass -p (secret) ssh h"),
        ("machine h login me password hunter2", "machine h login me password (secret)"),
        ("password: >\n  hunter2\nx: 1", "password: >\n(secret)x: 1"),
        ('"passwords": ["hunter2"]', '"passwords": (secret)'),
        ('password = "old" -> "hunter2"', 'password = "(secret)"'),
        ("x-goog-signature=0123abcd", "x-goog-signature=(secret)"),
        ("AccountKey=" + "a" * 86 + "==;x", "(secret);x"),
        (
            "https://d.example.com/x?Signature=ab-cd~&Key-Pair-Id=K",
            "https://d.example.com/x?Signature=(secret)&Key-Pair-Id=K",
        ),
        ("dd-app-key: 0123abcd", "dd-app-key: (secret)"),
        ("ENCRYPTION_KEY=ab/cd== and more", "ENCRYPTION_KEY=(secret) and more"),
        ("FERNET_KEY=abcd=", "FERNET_KEY=(secret)"),
        ("secret_key_base: 0123abcd", "secret_key_base: (secret)"),
        ("X-JFrog-Art-Api: abcd", "X-JFrog-Art-Api: (secret)"),
        ("docker login -u AWS -p hunter2 registry", "docker login -u AWS -p (secret) registry"),
        ("bindpw hunter2", "bindpw (secret)"),
        ("sent GenieKey 01234567-89ab to it", "sent GenieKey (secret) to it"),
    ],
)
def test_what_is_given_as_a_secret_is_taken_out_whatever_it_looks_like(said: str, told: str) -> None:
    assert redacted(said) == told


@pytest.mark.parametrize(
    "said",
    [
        "stacks/Pulumi.dev.yaml: gateway.password: is missing",
        "the token has expired; log in again",
        "image-0123456789abcdef0123456789abcdef01234567 and main-0123456789abcdef0123456789abcdef01234567",
        "triton-models-prod-123456789012-us-west-2 and triton_requests_prod_0123456789abcdef",
        "vpc-0123456789abcdef0 and subnet-0123456789abcdef0 and sha256-" + "0123456789abcdef" * 4,
        "AWSReservedSSO_PlatformAdministrators_0123456789abcdef",
        "the password is too short",
        'secrets "grafana" not found',
        "hf_transfer and npm_config_registry are set",
        "password: must not be empty",
        "automountServiceAccountToken: false",
        "arn:aws:secretsmanager:us-west-2:123456789012:secret:prod/db-AbCdEf is not there",
        "arn:aws:sqs:us-west-2:123456789012:triton-eks-prod-requests-dead-letter-queue",
        "urn:pulumi:dev::triton-eks::kubernetes:core/v1:Secret::grafana",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "ssh://git@github.com/org/repo",
        "no Secret grafana in namespace monitoring",
        "nvcr.io/nvidia/tritonserver:26.01-py3 on 10.30.0.0/16",
        "oci://registry:5000/charts/triton@sha256:9f86d081884c7d659a2feaa0c55ad015",
        "sort key = created_at, key-0123456789abcdef0 and 3 tests pass: none fail",
        "tokenizer: bpe, max_tokens: 512, secretName: tls",
        "it costs $5 and $6 a day, at 1700000000:00 of an-ordinary-internal-name.of-the.house-of-an-example-company",
        "docker login 123456789012.dkr.ecr.us-west-2.amazonaws.com and bind to it",
    ],
)
def test_what_is_no_secret_stays(said: str) -> None:
    assert redacted(said) == said


TOKEN = TOKENS["hugging-face"]
BUCKET = "aws:s3/bucket:Bucket"


def pair(value: str) -> dict[str, str]:
    return {"name": "DB_PASSWORD", "value": value}


def told(*events: Event) -> str:
    return redaction.everywhere(Report("dev", preview.read(stream(*events)))).to_json()


def test_a_secret_is_nowhere_in_a_report() -> None:
    """In a resource's name, a key, a value, a tag, a policy's message, a diagnostic, a pack."""
    before, after = {"tags": {TOKEN: "a", "b": "x"}}, {"tags": {TOKEN: "c", "b": TOKEN}}
    said = told(
        step("update", BUCKET, TOKEN, before, after, detailedDiff=diff("update", f'tags["{TOKEN}"]', "tags.b")),
        step("replace", BUCKET, "b", {"x": 1}, {"x": 2}, keys=[TOKEN]),
        violation("mandatory", TOKEN, TOKEN, f"uses {TOKEN}"),
        {"diagnosticEvent": {"severity": "error", "message": f"no such {TOKEN}"}},
        {"diagnosticEvent": {"severity": "warning", "prefix": TOKEN, "message": "x"}},
        summary({TOKEN: TOKEN}),
    )
    assert said.count("(secret)") >= 9
    assert TOKEN not in said and TOKEN[8:20] not in said


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("kind", ["github", "hugging-face", "aws"])
def test_a_secret_that_was_utf_16_is_taken_out(kind: str, encoding: str) -> None:
    """Code that reads it as single bytes reports it with a NUL after each letter, still readable."""
    wide = f"no such {TOKENS[kind]}".encode(encoding).decode("latin-1")
    said = told({"diagnosticEvent": {"severity": "error", "message": wide}})
    assert "no such (secret)" in said
    assert TOKENS[kind][8:14] not in said.replace("\\u0000", "").replace("\N{REPLACEMENT CHARACTER}", "")
    assert redaction.has_secret(wide)
    assert not redaction.has_secret("no\0thing")


def test_a_secret_that_is_cut_short_is_none_less() -> None:
    """A value is cut at 80 characters, which could leave half of a key."""
    long = "x" * 60 + " " + TOKENS["stripe"]
    event = step("update", BUCKET, "b", {"n": "a"}, {"n": long}, diffs=["n"])
    assert preview.read(stream(event)).steps[0].changed == (Change("n", "(secret)", "(secret)"),)


@pytest.mark.parametrize(
    ("before", "after", "path"),
    [
        (
            {"env": [{"name": "DB_PASSWORD", "value": "a"}]},
            {"env": [{"name": "DB_PASSWORD", "value": "hunter2"}]},
            "env[0].value",
        ),
        ({"env": [{"name": "HF_TOKEN", "value": "hunter2"}]}, {"env": []}, "env"),
        ({"tags": [{"Key": "api-key", "Value": "a"}]}, {"tags": [{"Key": "api-key", "Value": "hunter2"}]}, "tags"),
        ({"p": {"parameterKey": "secret", "parameterValue": "hunter2"}}, {"p": None}, "p"),
        (
            {"v": json.dumps([{"name": "PASSWORD", "value": "a"}])},
            {"v": json.dumps([{"name": "PASSWORD", "value": "hunter2"}])},
            "v",
        ),
        ({"data": {"a.yaml": "user: me"}}, {"data": {"a.yaml": "user: me\npassword: hunter2\n"}}, "data"),
        ({"hub_token": "a"}, {"hub_token": "hunter2"}, "hub_token"),
    ],
)
def test_a_value_whose_name_stands_beside_it_is_hidden(
    before: dict[str, object], after: dict[str, object], path: str
) -> None:
    event = step("update", "kubernetes:apps/v1:Deployment", "d", before, after, diffs=[path])
    (found,) = preview.read(stream(event)).steps
    assert "hunter2" not in repr(found)
    assert any("(secret)" in (change.before, change.after) for change in found.changed)


def test_what_is_true_or_false_is_no_secret() -> None:
    event = step("update", "kubernetes:core/v1:Pod", "p", {"cookie": True}, {"cookie": False}, diffs=["cookie"])
    assert preview.read(stream(event)).steps[0].changed == (Change("cookie", "true", "false"),)


def test_a_document_of_a_preview_is_redacted_alike() -> None:
    state = {"custom": True, "outputs": {}}
    document = {
        "steps": [
            {
                "op": "update",
                "urn": urn(BUCKET, TOKEN),
                "oldState": {**state, "inputs": {"a": TOKEN}},
                "newState": {**state, "inputs": {"a": "b"}},
                "diffReasons": ["a"],
            }
        ],
        "diagnostics": [{"severity": "error", "message": TOKEN}],
    }
    said = redaction.everywhere(Report("dev", preview.read(json.dumps(document)))).to_json()
    assert TOKEN not in said and said.count("(secret)") == 4
