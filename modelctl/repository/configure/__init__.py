"""Generate the config.pbtxt of a model for one stack from its author's config and the stack's settings.

The config is built with Triton's own protobuf, never with string templates, so it cannot have fields that the server does
not know. The same rules validate generated and handwritten configs.
"""

from modelctl.repository.configure.model import ConfigureError, Facts, configure
from modelctl.repository.configure.text import render

__all__ = ["ConfigureError", "Facts", "configure", "render"]
