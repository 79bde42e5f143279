"""Turn failures of a call into one sentence for the user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer
from tritonclient.utils import InferenceServerException


class CallFailed(Exception):
    """A call failed permanently: `code` is gRPC's name (UNAVAILABLE, NOT_FOUND, …), `attempts` counts its requests."""

    def __init__(self, code: str, message: str, attempts: int = 1) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.attempts = attempts


def code_of(error: InferenceServerException) -> str:
    """Return gRPC's name of the failure; UNKNOWN if the client library has none."""
    return (error.status() or "UNKNOWN").removeprefix("StatusCode.")


def sentence(failure: CallFailed, place: str) -> str:
    """Return a sentence with the failure at `place` and a remedy."""
    # The server's own words, without its appended paragraphs about model configuration.
    said = failure.message.removeprefix("[request id: <id_unknown>] ").partition(" NOTE: ")[0].rstrip(".")
    times = f" (tried {failure.attempts} times)" if failure.attempts > 1 else ""
    match failure.code:
        case "UNAVAILABLE" if "queue" in said or "timeout expired" in said:
            return f"{place} is overloaded: {said}{times}"
        case "UNAVAILABLE" if "restricted" in said:  # a wrong admin key has the same code as an unreachable server
            return f"{place} refused the request: {said}"
        case "UNAVAILABLE":
            return f"{place} cannot be reached{times}: is a server there, and is it ready?"
        case "DEADLINE_EXCEEDED":
            return f"{place} did not answer before the deadline{times}"
        case "UNAUTHENTICATED":
            return f"{place} does not know who asks: {said}; give the client's key or token in TRITON_API_KEY"
        case "PERMISSION_DENIED":
            return f"{place} does not let this client ask that: {said}"
        case "NOT_FOUND":
            return f"{place} does not serve that model or version: {said}"
        case "INVALID_ARGUMENT":
            return f"{place} refused the request: {said}"
        case _:
            return f"{place} failed: {said} ({failure.code})"


@contextmanager
def sentences(place: str) -> Iterator[None]:
    """If a call in the context fails, print a sentence on standard error and exit with code 1."""
    try:
        yield
    except CallFailed as failure:
        stop(sentence(failure, place))


def stop(message: str) -> NoReturn:
    """Exit with a sentence and code 1."""
    typer.echo(message, err=True)
    raise typer.Exit(1) from None
