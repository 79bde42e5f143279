"""The image of modelctl in pods that run as processes: containers that fetch releases, and one that compares responses."""

from __future__ import annotations

from twin.charts import own_images
from twin.pods.pod_spec import SpecError
from twin.pods.program import Launch, LocalCommand, PodProgram

_COMMAND = ["python", "-m", "modelctl"]
_FETCHING = ("fetch", "follow")
_ENDPOINT = "--endpoint-url="
_CLUSTER_NAME = "dns:///"
_EVERYWHERE = "=0.0.0.0:"


def command(launch: Launch) -> LocalCommand:
    """Return the command for a container that fetches releases: modelctl of this checkout.

    Raises SpecError for another command, and for a command that would call the real AWS.
    """
    words = _words(launch, *_FETCHING)
    endpoint = next((word.removeprefix(_ENDPOINT) for word in words if word.startswith(_ENDPOINT)), "")
    if not own_images.calls_the_twin(endpoint):
        raise SpecError(
            "RunContainerError",
            f"{_ENDPOINT}{endpoint} is not the twin's S3: modelctl would call the real AWS, which the twin never does "
            "(setting models.s3Endpoint)",
        )
    return own_images.python(words[1:], launch.env)


def compare(launch: Launch) -> LocalCommand:
    """Return the command for the container that compares responses; it resolves the cluster's names with the twin's DNS.

    Raises SpecError for another command.
    """
    here = f"dns://127.0.0.1:{launch.dns_port}/"
    words = [word.replace(_CLUSTER_NAME, here) for word in _words(launch, "compare")]
    return own_images.python([*words[1:], f"--http-proxy=http://127.0.0.1:{launch.proxy_port}"], launch.env)


def _words(launch: Launch, *commands: str) -> list[str]:
    """Return the words of a container that runs one of these commands, changed to listen only at its pod's address.

    Raises SpecError for another command.
    """
    words = [word.replace(_EVERYWHERE, f"={launch.address}:") for word in launch.words]
    if words[: len(_COMMAND)] != _COMMAND or words[len(_COMMAND) :][:1] not in [[name] for name in commands]:
        known = " or ".join(repr(" ".join([*_COMMAND, name])) for name in commands)
        raise SpecError("RunContainerError", f"modelctl runs here as {known} …, not as {' '.join(words)!r}")
    return words


MODELCTL = PodProgram("modelctl", "modelctl", command, sidecar=True)
COMPARER = PodProgram("comparer", "modelctl", compare, container="compare")
