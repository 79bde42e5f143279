"""The image of modelctl in pods that run as processes: the containers that fetch releases."""

from __future__ import annotations

from twin.charts import own_images
from twin.pods.pod_spec import SpecError
from twin.pods.program import Launch, LocalCommand, PodProgram

_COMMAND = ["python", "-m", "modelctl"]
_FETCHING = ("fetch", "follow")
_ENDPOINT = "--endpoint-url="


def command(launch: Launch) -> LocalCommand:
    """Return what to start for a container that fetches releases: modelctl of this checkout.

    Raises SpecError for another command, and for one that would call the real AWS.
    """
    words = list(launch.words)
    if words[: len(_COMMAND)] != _COMMAND or words[len(_COMMAND) :][:1] not in [[name] for name in _FETCHING]:
        known = " or ".join(repr(" ".join([*_COMMAND, name])) for name in _FETCHING)
        raise SpecError("RunContainerError", f"modelctl runs here as {known} …, not as {' '.join(words)!r}")
    endpoint = next((word.removeprefix(_ENDPOINT) for word in words if word.startswith(_ENDPOINT)), "")
    if not own_images.calls_the_twin(endpoint):
        raise SpecError(
            "RunContainerError",
            f"{_ENDPOINT}{endpoint} is not the twin's S3: modelctl would call the real AWS, which the twin never does "
            "(setting models.s3Endpoint)",
        )
    return own_images.python(words[1:], launch.env)


MODELCTL = PodProgram("modelctl", "modelctl", command, sidecar=True)
