"""Metrics that a PromQL expression reads."""

import re

_STRING = re.compile(r'"(?:\\.|[^"\\])*"')
_LABELS = re.compile(r"\b(?:by|on|ignoring|without|group_left|group_right)\s*\([^)]*\)")
_MATCHERS = re.compile(r"\{[^}]*\}")
_RANGES = re.compile(r"\[[^\]]*\]|\boffset\s+\w+")
_NAME = re.compile(r"[A-Za-z_:][\w:]*(?!\w|\s*\()")
_NUMBER = re.compile(r"\b\d[\w.]*(?:[eE][+-]?\d+)?")
_WORDS = frozenset({"and", "or", "unless", "bool", "inf", "nan"})


def metrics(expression: str) -> set[str]:
    """Return the names of metrics and recordings in an expression, without functions, labels, durations and numbers."""
    for pattern in (_STRING, _LABELS, _MATCHERS, _RANGES, _NUMBER):
        expression = pattern.sub(" ", expression)
    return {name for name in _NAME.findall(expression) if name.lower() not in _WORDS}
