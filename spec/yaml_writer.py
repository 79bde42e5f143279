"""Write YAML that every parser reads the same way: all texts are quoted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, _data: Any) -> bool:
        """Return True, so no value is written as an alias."""
        return True


def _quoted(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')


_Dumper.add_representer(str, _quoted)


def dump(document: Mapping[str, Any]) -> bytes:
    """Return the YAML of a mapping with texts, numbers, truth values, None, lists and mappings, in its order."""
    return yaml.dump(
        dict(document), Dumper=_Dumper, default_flow_style=False, sort_keys=False, allow_unicode=True, width=4096
    ).encode()
