"""Check the content of each file of a release. It must match its name and be no placeholder, error page or secret.

Failed downloads, checkouts without Git LFS and truncated copies leave files with the right name. The server reports them
only when it loads them, minutes after the pod was scheduled.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from pathlib import Path

from modelctl.repository.problems import Problem
from modelctl.repository.rules import environments, formats
from spec.names import MAX_OBJECT_BYTES
from spec.token_forms import TOKEN_FORMS

_HEAD_BYTES = 64 * 1024
_LARGEST_TEXT_BYTES = 4 * 1024**2
_SAMPLE_BYTES = 256

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
_DVC = re.compile(rb"^outs:[ \t]*\r?\n-[ \t]+\w+:", re.MULTILINE)
"""DVC stores this in place of a file: https://dvc.org/doc/user-guide/project-structure/dvc-files."""
_MARKS = (
    (codecs.BOM_UTF8, None),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Byte order marks, longer ones first, with the encoding if characters are wider than a byte."""
_PAGE = re.compile(rb"(\xef\xbb\xbf)?\s*(<!doctype\s+html|<html[\s>]|(<\?xml[^>]*\?>\s*)?<error[\s>])", re.IGNORECASE)
_SECRETS = (
    ("an AWS secret key", re.compile(rb"(?i)aws_secret_access_key[\"']?\s*[=:]\s*[\"']?[A-Za-z0-9/+]{40}\b")),
    *((form.kind, re.compile(form.certain.encode())) for form in TOKEN_FORMS),
)


def check(path: Path, *, environment: bool = False) -> Iterator[Problem]:
    """Yield the mistakes in one file of a release. `environment`: the file is the archive in which a Python model runs."""
    try:
        size = path.stat().st_size
        if size > MAX_OBJECT_BYTES:
            yield Problem(path, f"{size} bytes; an S3 object holds at most {MAX_OBJECT_BYTES} (5 TiB)")
            return
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            encoding = _wide_encoding(head)
            if encoding is not None or b"\0" not in head:
                head += file.read(_LARGEST_TEXT_BYTES - len(head))
    except OSError as error:
        yield Problem(path, f"cannot be read: {error.strerror or error}")
        return
    placeholder = next((message for pattern, message in _POINTERS if size < _HEAD_BYTES and pattern.match(head)), None)
    if placeholder is not None:
        yield Problem(path, placeholder)
    elif path.suffix == ".dvc" and not path.with_suffix("").exists() and _DVC.search(head):
        yield Problem(path, f"a pointer of DVC to {path.stem}, which is not here; `dvc pull` gets it")
    elif path.suffix.lower() not in {".html", ".htm", ".py", ".txt", ".md"} and _PAGE.match(head):
        yield Problem(path, "a web page or an error message of a server, saved in the place of the file; download it again")
    elif wrong := (environments if environment else formats).mistake(path, head, size):
        yield Problem(path, wrong)
    elif encoding is not None:
        yield from _secrets(path, head.decode(encoding, errors="replace").encode(errors="replace"))
    elif b"\0" not in head:
        yield from _secrets(path, head)


def _wide_encoding(head: bytes) -> str | None:
    """Return the encoding of a UTF-16 or UTF-32 text, as Windows editors and shells write it. None for other files."""
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return encoding
    # In text without a mark, mostly ASCII, every other byte is NUL.
    some = head[:_SAMPLE_BYTES]
    if len(some) > 1 and b"\0" in some:
        for first, encoding in ((0, "utf-16-be"), (1, "utf-16-le")):
            if not some[first::2].strip(b"\0") and b"\0" not in some[1 - first :: 2]:
                return encoding
    return None


def _secrets(path: Path, text: bytes) -> Iterator[Problem]:
    for what, pattern in _SECRETS:
        if found := pattern.search(text):
            line = text.count(b"\n", 0, found.start()) + 1
            message = f"has what looks like {what}, which everybody who reads the bucket would have; remove it"
            yield Problem(path, message, line)
