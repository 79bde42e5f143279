"""Render a config as text for Triton."""

from __future__ import annotations

from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig


def render(config: ModelConfig, comment: str = "") -> str:
    """Return `config` as protobuf text, the same for equal configs (maps are sorted).

    `comment` is written above it, each line after `# `.
    """
    heading = "".join(f"# {line}".rstrip() + "\n" for line in comment.splitlines())
    return heading + text_format.MessageToString(config, as_utf8=True)
