"""Define the errors of requests to the Kubernetes API, without importing the HTTP client."""

from spec.failure import Failure


class KubeError(Failure):
    """A request to the Kubernetes API failed; the text says why."""


class Unreachable(KubeError):
    """The API server does not answer."""


class ApiError(KubeError):
    """The API server refused a request; `status` is the HTTP status, `reason` Kubernetes' own (NotFound, Conflict …)."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
