"""Keep what the engine says of a stack before it sends its resources, of which the SDK hands on nothing but the tags."""

from __future__ import annotations

from typing import Any

from pulumi_policy import policy as sdk

from triton_policies.run import Run

_SERVICER = sdk._PolicyAnalyzerServicer
"""The pack's side of the engine's calls. There is no public way to the stack's configuration in Python: `PULUMI_CONFIG` is
not set for a pack that a language plugin runs, and the engine gives the configuration to `ConfigureStack` alone.
https://github.com/pulumi/pulumi/blob/v3.257.0/sdk/go/common/resource/plugin/analyzer_plugin.go
"""


def listen(run: Run) -> None:
    """Keep in `run` what a stack is and where: `environment` of its project's configuration, and `aws:region`.

    A project that configures no environment is judged by the stack's name (`Run.environment_of`).
    """
    configure_stack = _SERVICER.ConfigureStack

    def configure(servicer: Any, request: Any, context: Any) -> Any:
        run.environment = request.config.get(f"{request.project}:environment") or None
        run.region = request.config.get("aws:region") or None
        return configure_stack(servicer, request, context)

    _SERVICER.ConfigureStack = configure  # type: ignore[method-assign, assignment]
