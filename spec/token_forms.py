"""Forms of keys and tokens, with their documentation. Release checks and the redaction of output use this table.

A release refuses files that contain a token, so a match must be certain (`certain`). Text in pull requests stays public, so
possible tokens are hidden too (`likely`), whole or truncated.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TokenForm:
    """One kind, with an article. The patterns are for `re`; `.` also matches line ends."""

    kind: str
    likely: str
    certain: str


TOKEN_FORMS = (
    # PEM and related formats, to the end of the key, or of a truncated text: https://www.rfc-editor.org/rfc/rfc7468
    TokenForm(
        "a private key",
        r"-----BEGIN .*?(?:-----END [^-]*-----|\Z)",
        r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----|PuTTY-User-Key-File-\d",
    ),
    # https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html#identifiers-unique-ids
    TokenForm("an AWS access key", r"\b(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}\b", r"\b(?:AKIA|ASIA)[A-Z2-7]{16}\b"),
    # https://github.blog/2021-04-05-behind-githubs-new-authentication-token-formats/
    TokenForm(
        "a token of GitHub",
        r"\b(?:gh[pousr]|github_pat)_\w{10,}",
        r"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{50,})",
    ),
    # https://docs.gitlab.com/security/tokens/#token-prefixes
    TokenForm(
        "a token of GitLab",
        r"\bgl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|imt|oas|ffct)-[\w.-]{16,}",
        r"\bglpat-[A-Za-z0-9_-]{20,}",
    ),
    # https://docs.slack.dev/authentication/tokens, https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
    TokenForm(
        "a token of Slack",
        r"\bx(?:ox[a-z]|app|oxe\.xox[bp])-[\w.-]{8,}|(?<=hooks\.slack\.com/)(?:services|workflows|triggers)/[\w/]+",
        r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}|hooks\.slack\.com/services/T\w+/B\w+/\w+",
    ),
    # https://huggingface.co/docs/hub/security-tokens
    TokenForm("a token of Hugging Face", r"\b(?:hf|api_org)_[A-Za-z0-9]{10,}", r"\bhf_[A-Za-z0-9]{30,}\b"),
    # https://docs.nvidia.com/ngc/latest/ngc-user-guide.html#ngc-api-keys
    TokenForm("a key of NVIDIA", r"\bnvapi-[\w-]{6,}", r"\bnvapi-[A-Za-z0-9_-]{40,}"),
    # https://www.pulumi.com/docs/administration/access-identity/access-tokens/
    TokenForm("a token of Pulumi", r"\bpul-[0-9a-f]{8,}", r"\bpul-[0-9a-f]{40}\b"),
    # https://docs.cloud.google.com/docs/authentication/api-keys, https://docs.cloud.google.com/docs/authentication/token-types
    TokenForm("a key of Google", r"\bAIza[\w-]{10,}|\bya29\.[\w.-]{16,}", r"\bAIza[A-Za-z0-9_-]{35}\b"),
    TokenForm("a secret of Google", r"\bGOCSPX-[\w-]{16,}", r"\bGOCSPX-[A-Za-z0-9_-]{20,}"),
    # https://docs.npmjs.com/about-access-tokens
    TokenForm(
        "a token of npm", r"\bnpm_[A-Za-z0-9]{10,}|(?<=:_authToken=)\S+|(?<=:_password=)\S+", r"\bnpm_[A-Za-z0-9]{36}\b"
    ),
    # https://github.com/pypi/warehouse/tree/main/warehouse/macaroons
    TokenForm("a token of PyPI", r"\bpypi-[\w-]{16,}", r"\bpypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{20,}"),
    # https://docs.stripe.com/keys
    TokenForm("a key of Stripe", r"\b(?:sk|rk|pk|whsec)_(?:live_|test_)[A-Za-z0-9]{6,}", r"\b[sr]k_live_[A-Za-z0-9]{20,}"),
    # https://platform.openai.com/docs/api-reference/authentication, https://platform.claude.com/docs/en/api/overview
    TokenForm(
        "a key of OpenAI or Anthropic",
        r"\bsk-(?:(?:proj|ant)-[\w-]{16,}|(?=[\w-]*\d)[\w-]{16,})",
        r"\bsk-(?:proj-|ant-)[A-Za-z0-9_-]{20,}",
    ),
    # https://grafana.com/docs/grafana/latest/administration/service-accounts/
    TokenForm("a token of Grafana", r"\bgl(?:sa|c)_[\w=+/-]{16,}", r"\bglsa_[A-Za-z0-9]{32}_[0-9a-f]{8}\b"),
    # https://docs.docker.com/security/access-tokens/
    TokenForm("a token of Docker", r"\bdckr_(?:pat|oat)_[\w-]{16,}", r"\bdckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}"),
    # https://developer.hashicorp.com/vault/docs/concepts/tokens
    TokenForm("a token of Vault", r"\bhv[sbr]\.[\w-]{16,}", r"\bhv[sbr]\.[A-Za-z0-9_-]{24,}"),
    # https://docs.databricks.com/aws/en/dev-tools/auth/pat
    TokenForm("a token of Databricks", r"\bdapi[0-9a-f]{16,}", r"\bdapi[0-9a-f]{32}\b"),
    # https://docs.digitalocean.com/reference/api/create-personal-access-token/
    TokenForm("a token of DigitalOcean", r"\bdo[opr]_v1_[0-9a-f]{16,}", r"\bdo[opr]_v1_[0-9a-f]{64}\b"),
    # https://docs.sendgrid.com/ui/account-and-settings/api-keys
    TokenForm("a key of SendGrid", r"\bSG\.[\w-]{10,}\.[\w-]{10,}", r"\bSG\.[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{30,}"),
)
