"""The config.pbtxt of a model in one stack: the shape that its author wrote, and what the stack wants of it.

Everything goes through Triton's own protobuf, never through string templates, so that a field that the server does not
have cannot be written. What comes out is validated by the same rules as what people write.
"""

from modelctl.repository.configure.model import ConfigureError, Facts, configure
from modelctl.repository.configure.text import render

__all__ = ["ConfigureError", "Facts", "configure", "render"]
