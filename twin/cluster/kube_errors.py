"""Define how requests to the Kubernetes API fail. Apart from the client: naming them loads no HTTP."""

from spec.failure import Failure


class KubeError(Failure):
    """A request to the Kubernetes API came to nothing; the text says why."""


class Unreachable(KubeError):
    """The API server does not answer."""


class ApiError(KubeError):
    """The API server refused a request; `status` is HTTP's, `reason` Kubernetes' own (NotFound, Conflict …)."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
