"""The content of each file of a release: the one that its name says, and no placeholder, error page or secret.

A download that failed, a checkout without Git LFS and a copy that was cut off leave files of the right name, and the server
tells only when it loads them, minutes after the pod was scheduled.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from modelctl.repository.problems import Problem
from modelctl.repository.rules import formats

MAX_OBJECT_BYTES = 5 * 1024**4
"""S3's limit for one object."""
_HEAD_BYTES = 64 * 1024
_LARGEST_TEXT_BYTES = 4 * 1024**2

_POINTERS = (
    (
        re.compile(rb"version https://(git-lfs\.github\.com/spec|hawser\.github\.com/spec)/"),
        "a pointer of Git LFS, not the file itself; `git lfs pull` gets it",
    ),
    (
        re.compile(rb"(\.git)?/annex/objects/|/annex/objects/"),
        "a pointer of git-annex, not the file itself; `git annex get` and `git annex unlock` it",
    ),
    (re.compile(rb"# xet version "), "a pointer of Xet, not the file itself; download it with git-xet or huggingface-cli"),
)
_PAGE = re.compile(rb"(\xef\xbb\xbf)?\s*(<!doctype\s+html|<html[\s>]|(<\?xml[^>]*\?>\s*)?<error[\s>])", re.IGNORECASE)
_SECRETS = (
    ("a private key", re.compile(rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----|PuTTY-User-Key-File-\d")),
    ("an AWS access key", re.compile(rb"\b(?:AKIA|ASIA)[A-Z2-7]{16}\b")),
    ("an AWS secret key", re.compile(rb"(?i)aws_secret_access_key[\"']?\s*[=:]\s*[\"']?[A-Za-z0-9/+]{40}\b")),
    ("a token of GitHub", re.compile(rb"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{50,})")),
    ("a token of GitLab", re.compile(rb"\bglpat-[A-Za-z0-9_-]{20,}")),
    ("a token of Hugging Face", re.compile(rb"\bhf_[A-Za-z0-9]{30,}\b")),
    ("a key of NVIDIA", re.compile(rb"\bnvapi-[A-Za-z0-9_-]{40,}")),
    ("a token of Slack", re.compile(rb"\bxox[abeoprs]-[A-Za-z0-9-]{10,}|hooks\.slack\.com/services/T\w+/B\w+/\w+")),
    ("a key of Google", re.compile(rb"\bAIza[A-Za-z0-9_-]{35}\b")),
    ("a secret of Google", re.compile(rb"\bGOCSPX-[A-Za-z0-9_-]{20,}")),
    ("a key of SendGrid", re.compile(rb"\bSG\.[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{30,}")),
    ("a token of Vault", re.compile(rb"\bhv[sbr]\.[A-Za-z0-9_-]{24,}")),
    ("a token of Databricks", re.compile(rb"\bdapi[0-9a-f]{32}\b")),
    ("a token of Grafana", re.compile(rb"\bglsa_[A-Za-z0-9]{32}_[0-9a-f]{8}\b")),
    ("a token of Docker", re.compile(rb"\bdckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}")),
    ("a token of DigitalOcean", re.compile(rb"\bdo[opr]_v1_[0-9a-f]{64}\b")),
    ("a token of Pulumi", re.compile(rb"\bpul-[0-9a-f]{40}\b")),
    ("a token of npm", re.compile(rb"\bnpm_[A-Za-z0-9]{36}\b")),
    ("a token of PyPI", re.compile(rb"\bpypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{20,}")),
    ("a key of Stripe", re.compile(rb"\b[sr]k_live_[A-Za-z0-9]{20,}")),
    ("a key of OpenAI or Anthropic", re.compile(rb"\bsk-(?:proj-|ant-)[A-Za-z0-9_-]{20,}")),
)


def check(path: Path) -> Iterator[Problem]:
    """Yield what is wrong with the content of one file of a release."""
    try:
        size = path.stat().st_size
        if size > MAX_OBJECT_BYTES:
            yield Problem(path, f"{size} bytes; an S3 object holds at most {MAX_OBJECT_BYTES} (5 TiB)")
            return
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            if b"\0" not in head:
                head += file.read(_LARGEST_TEXT_BYTES - len(head))
    except OSError as error:
        yield Problem(path, f"cannot be read: {error.strerror or error}")
        return
    placeholder = next((message for pattern, message in _POINTERS if size < _HEAD_BYTES and pattern.match(head)), None)
    if placeholder is not None:
        yield Problem(path, placeholder)
    elif path.suffix.lower() not in {".html", ".htm", ".py", ".txt", ".md"} and _PAGE.match(head):
        yield Problem(path, "a web page or an error message of a server, saved in the place of the file; download it again")
    elif wrong := formats.mistake(path, head, size):
        yield Problem(path, wrong)
    elif b"\0" not in head:
        yield from _secrets(path, head)


def _secrets(path: Path, text: bytes) -> Iterator[Problem]:
    for what, pattern in _SECRETS:
        if found := pattern.search(text):
            line = text.count(b"\n", 0, found.start()) + 1
            message = f"has what looks like {what}, which everybody who reads the bucket would have; remove it"
            yield Problem(path, message, line)
