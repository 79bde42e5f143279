"""Images that this repository builds (docs/images.md), and the keys that name them by digest."""

import hashlib
import re
from collections.abc import Iterator

from spec.problem import Problem
from spec.settings.addresses import is_host, is_port
from spec.settings.rule import Place

OWN_IMAGES = {
    "worker.image": "triton-worker",
    "models.fetcher.image": "modelctl",
    "models.planBuilder.image": "modelctl",
    "monitoring.parityImage": "modelctl",
    "triton.comparerImage": "modelctl",
}
"""The image that each key of the stack file names."""
_LONGEST = 255
"""Maximum length of a name without tag and digest:
https://github.com/distribution/reference/blob/main/reference.go
"""
_PATH = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*")


def example_digest(name: str) -> str:
    """Return the placeholder digest of an image of `OWN_IMAGES` in the shipped stack files. It exists in no registry.

    It is the SHA-256 of the name. `stackctl push-images` replaces it.
    """
    return "sha256:" + hashlib.sha256(name.encode()).hexdigest()


def is_repository(text: str) -> bool:
    """Return whether a text is a registry host, an optional port and a path, as OCI distribution defines them."""
    registry, *parts = text.split("/")
    host, colon, port = registry.partition(":")
    named = is_host(host) and host == host.lower() and (not colon or is_port(port))
    return len(text) <= _LONGEST and named and bool(parts) and all(_PATH.fullmatch(part) for part in parts)


def wrong_with_registry(address: str) -> str | None:
    """Return what is wrong with the host or port of a registry address, which may have a path; None if valid."""
    host, colon, port = address.partition("/")[0].partition(":")
    if not is_host(host):
        return f"'{host}' is no name of a host; give one like registry.example.com"
    if colon and not is_port(port):
        return f"'{port}' is no port, which is 1 to 65535; give one like 5000, or none"
    return None


def of_ours(at: Place, key: str, image: str, name: str, owner: str) -> Iterator[Problem]:
    """Refuse an image of `owner` that has no digest, or whose path does not end in `name`."""
    valid = f"give <mirror>/{name}@sha256:<64 hex digits> (`crane digest` prints it)"
    match = re.fullmatch(rf"((?:[^@]*/)?{name})@(sha256:[0-9a-f]{{64}})", image)
    if match is not None and "/" in match[1] and not is_repository(match[1]):
        yield at.problem(key, f"'{match[1]}' is not an image repository; {valid}")
    elif match is None or "/" not in match[1]:
        yield at.problem(key, f"'{image}' is not an image of {owner} by its digest: its path has to end in /{name}; {valid}")
    elif len(set(match[2].removeprefix("sha256:"))) == 1:
        yield at.problem(key, f"'{match[2][:19]}...' is a placeholder; {valid}")
