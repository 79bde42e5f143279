"""A config as the text that Triton reads."""

from __future__ import annotations

from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig


def render(config: ModelConfig, comment: str = "") -> str:
    """`config` as protobuf text, the same for equal configs (maps are sorted); `comment` stands above it, after `# `."""
    heading = "".join(f"# {line}".rstrip() + "\n" for line in comment.splitlines())
    return heading + text_format.MessageToString(config, as_utf8=True)
