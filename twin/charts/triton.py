"""Our own chart `triton`: its pods run the real tritonserver."""

from __future__ import annotations

import re
import urllib.parse

from spec.names import TRITON_GRPC_PORT, TRITON_HTTP_PORT, TRITON_METRICS_PORT
from twin.pods.pod_spec import SpecError
from twin.pods.program import Launch, LocalCommand, PodProgram
from twin.triton import tritonserver

_S3_ENDPOINT = re.compile(r"s3://(?:https?://)?(127(?:\.\d+){3}|localhost):\d+/")


def command(launch: Launch) -> LocalCommand:
    """Return the command for a container of Triton's image. Raises SpecError, also for models in the real S3."""
    # A warm pod (infra/serving/warm_pods.py) has Triton's image and only sleeps.
    if launch.words[0] == "sleep":
        return LocalCommand(tuple(launch.words), launch.env)
    for word in launch.words:
        _refuse_real_s3(word)
        if word.endswith("/openai_frontend/main.py"):
            raise SpecError(
                "RunContainerError",
                "the OpenAI-compatible front end is in NVIDIA's image alone, and no package has it: remove triton.openai",
            )
    try:
        server = tritonserver.tritonserver_command(launch.words, launch.address, launch.cache, launch.env)
    except (tritonserver.TritonArgumentError, tritonserver.TritonUnavailable) as error:
        raise SpecError("RunContainerError", str(error)) from error
    argv = (*server.argv, f"--backend-config=python,shm-region-prefix-name={launch.shared_memory}")
    left_out = ", ".join(server.dropped_flags)
    notes = [("FlagsLeftOut", f"this machine's older tritonserver has no {left_out}")] if left_out else []
    return LocalCommand(argv, server.env, notes)


def _refuse_real_s3(word: str) -> None:
    """Raise SpecError for a URL of the real S3; Triton takes an S3 endpoint only in the URL."""
    found = re.search(r"s3://\S*", word)
    if found and not _S3_ENDPOINT.match(urllib.parse.unquote(found[0])):
        raise SpecError(
            "RunContainerError",
            f"{found[0]} is in the real AWS, which the twin never calls: it must name the twin's S3 "
            "(s3://http://127.0.0.1:<port>/<bucket>/…; setting models.s3Endpoint)",
        )


TRITON = PodProgram("triton", "tritonserver", command, ports=(TRITON_HTTP_PORT, TRITON_GRPC_PORT, TRITON_METRICS_PORT))
