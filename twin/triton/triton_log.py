"""Find why a Triton server did not start, from its log."""

import re
from collections.abc import Iterator
from pathlib import Path

_ERROR = re.compile(
    r'^(?:\S+ E \d+ \S+\] |E\d{4} \S+ \d+ \S+\] )"?(?P<message>.*?)"?$'
    r"|^error: (?P<last>.*)$"
    r"|^\[libprotobuf ERROR [^\]]*\] (?P<syntax>.*)$",
    re.MULTILINE,
)
"""A log line with an error.

It has level error, in `--log-format=ISO8601` or in the default format. Or it is the program's last error message, or an
error of its protobuf library about a config.pbtxt.
"""
_LOADING = re.compile(
    r'\] "loading: (?P<model>\S+):(?P<version>\d+)"$|(?:successfully loaded|failed to load) \'(?P<done>[^\']+)\'',
    re.MULTILINE,
)
_STUB = re.compile(r"pb_stub\.cc:\d+\] +\"?Failed to preinitialize Python stub: (?P<reason>.*?)\"?$", re.MULTILINE)
"""The message of the python backend, only at level info, before a load hangs forever.

See docs/facts/triton-server.md#missing-model-file.
"""
_DOWNLOAD = re.compile(r"[^\s'\"]*/folder\w{6}/")
"""The directory of Triton's downloads, which differs at every start."""
_NOISE = ("CudaDriverHelper has not been initialized",)
"""Errors of every server on a machine without a GPU: docs/facts/triton-server.md#the-wheel."""
_LONGEST_TAIL = 256 * 1024


def causes(log: Path) -> list[str]:
    """Return why the server did not load its models, one sentence each, without duplicates; [] if unknown.

    If the log names models that failed to load, they are the cause and all else follows from them. Python's stack is left
    out, except for the line of the model at which it begins. Without any error, models that hang are named.
    """
    text = _tail(log)
    found = list(dict.fromkeys(_sentence(error) for error in _errors(text) if not error.startswith(_NOISE)))
    return [sentence for sentence in found if sentence.startswith("failed to load '")] or found or _hanging(text)


def _errors(text: str) -> Iterator[str]:
    for match in _ERROR.finditer(text):
        yield match["message"] or match["last"] or match["syntax"] or ""


def _hanging(text: str) -> list[str]:
    """Return the models whose load the python backend has abandoned without ending it."""
    reasons = dict.fromkeys(_sentence(match["reason"]) for match in _STUB.finditer(text))
    if not reasons:
        return []
    loading: dict[str, str] = {}
    for match in _LOADING.finditer(text):
        if match["done"]:
            loading.pop(match["done"], None)
        else:
            loading[match["model"]] = match["version"]
    return [f"'{model}' version {version} hangs in its load: {'; '.join(reasons)}" for model, version in loading.items()]


def _sentence(message: str) -> str:
    """Return one line, without the stack: `what (1/model.py(line): function)`; the folder above differs at each start."""
    what, _, stack = _DOWNLOAD.sub("", message.replace("\\n", "\n")).partition("\n\nAt:\n")
    place = next((line.strip() for line in stack.splitlines() if line.strip()), "")
    return " ".join(what.split()) + (f" ({place})" if place else "")


def _tail(log: Path) -> str:
    """Return the end of the log; empty if there is none."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, log.stat().st_size - _LONGEST_TAIL))
            return stream.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
