"""Our own chart `triton-worker`: its pods run the worker of this repository (`python -m worker`)."""

from __future__ import annotations

from twin.charts import own_images
from twin.pods.pod_spec import SpecError
from twin.pods.program import Launch, LocalCommand, PodProgram

_COMMAND = ["python", "-m", "worker"]
_CLUSTER_NAME = "dns:///"
TRITON_URLS, AWS_URL = ("WORKER_TRITON_URL", "WORKER_TRITON_FLEETS"), "AWS_ENDPOINT_URL"


def command(launch: Launch) -> LocalCommand:
    """Return the command for a container of the worker, which resolves the cluster's names with the twin's DNS.

    Raises SpecError for another command, and for a worker that would call the real AWS.
    """
    if list(launch.words) != _COMMAND:
        words = " ".join(launch.words)
        raise SpecError("RunContainerError", f"the worker is started by {' '.join(_COMMAND)!r}, not by {words!r}")
    if not own_images.calls_the_twin(launch.env.get(AWS_URL, "")):
        raise SpecError(
            "RunContainerError",
            f"{AWS_URL} is {launch.env.get(AWS_URL, 'not set')}: the worker would call the real AWS, which the twin never "
            "does (setting worker.awsEndpoint)",
        )
    here = f"dns://127.0.0.1:{launch.dns_port}/"
    urls = {name: launch.env[name].replace(_CLUSTER_NAME, here) for name in TRITON_URLS if name in launch.env}
    return own_images.python(_COMMAND[1:], {**launch.env, **urls})


WORKER = PodProgram("worker", "triton-worker", command)
