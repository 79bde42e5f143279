"""Images that this repository has a Dockerfile for: named as they are, and by digest."""

import re
from collections.abc import Iterator

from spec.settings.problem import Problem


def of_ours(path: str, image: str, name: str, what: str) -> Iterator[Problem]:
    """What is wrong with the image of `what` that the stack gives at `path`; its own path has to end in `name`."""
    valid = f"give <mirror>/{name}@sha256:<64 hex digits> (`crane digest` prints it)"
    match = re.fullmatch(rf"[a-z0-9.-]+(:\d+)?(/[a-z0-9._-]+)*/{name}@(sha256:[0-9a-f]{{64}})", image)
    if match is None:
        yield Problem(path, f"'{image}' is not an image of {what} by its digest: its path has to end in /{name}; {valid}")
    elif len(set(match[3].removeprefix("sha256:"))) == 1:
        yield Problem(path, f"'{match[3][:19]}...' is a placeholder; {valid}")
