"""Patterns of secrets in any text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

PATTERNS: Mapping[str, re.Pattern[str]] = {
    "AWS access key": re.compile(r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b"),
    "private key": re.compile(r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----"),
    "private key in base64": re.compile(r"LS0tLS1CRUdJTi[A-Za-z0-9+/=]*(?:UFJJVkFURSBLRVk|BSSVZBVEUgS0VZ|QUklWQVRFIEtFW)"),
    "JSON Web Token": re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
    "GitHub token": re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{50,})\b"),
    "Pulumi token": re.compile(r"\bpul-[0-9a-f]{40}\b"),
    "Slack webhook": re.compile(r"https://hooks\.slack\.com/services/T[A-Z0-9]+/B[A-Z0-9]+/[A-Za-z0-9]+"),
    "password in a URL": re.compile(r"[a-z][a-z0-9+.-]*://[^/\s:@\"'{}]+:[^/\s:@\"'{}]+@"),
    "signed URL": re.compile(r"X-Amz-Signature=[0-9a-f]{64}"),
}
_SECRET_NAME = re.compile(
    r"(?i)(?:^|[_.-]|(?<=[a-z]))(?:password|passwd|passphrase|token|secretkey|privatekey|apikey|accesskey)$"
)


def secrets_in(text: str) -> list[str]:
    """Return possible secrets in the text: the kind and the first characters of each, never the whole secret."""
    return [f"{kind}: {match[0][:16]}…" for kind, pattern in PATTERNS.items() for match in pattern.finditer(text)]


def secret_values(value: Any, path: str = "") -> Iterator[str]:
    """Yield paths of texts below `value` with a secret-like name, if they are neither empty nor a reference."""
    if isinstance(value, Mapping):
        for key, member in value.items():
            inner = f"{path}.{key}" if path else str(key)
            if isinstance(member, str) and member and _SECRET_NAME.search(str(key)) and not member.startswith(("<", "$")):
                yield inner
            else:
                yield from secret_values(member, inner)
        # An environment variable of a container.
        name, given = value.get("name"), value.get("value")
        if isinstance(name, str) and isinstance(given, str) and given and _SECRET_NAME.search(name):
            yield f"{path} ({name})"
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield from secret_values(member, f"{path}[{index}]")
