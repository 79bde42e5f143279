"""Write YAML that every reader takes for the same: what is text stands in quotes, whatever it would be without."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, _data: Any) -> bool:
        """Return True: nothing is written as a reference to another place."""
        return True


def _quoted(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')


_Dumper.add_representer(str, _quoted)


def dump(document: Mapping[str, Any]) -> bytes:
    """Return a mapping of texts, numbers, truth values, None, lists and mappings, in the order that it has."""
    return yaml.dump(
        dict(document), Dumper=_Dumper, default_flow_style=False, sort_keys=False, allow_unicode=True, width=4096
    ).encode()
