"""Images that this repository has a Dockerfile for: named as they are, and by digest."""

import re
from collections.abc import Iterator

from spec.settings.problem import Problem
from spec.settings.rule import Place


def of_ours(at: Place, key: str, image: str, name: str, owner: str) -> Iterator[Problem]:
    """Refuse an image of `owner` that is not named by its digest, or whose path does not end in `name`."""
    valid = f"give <mirror>/{name}@sha256:<64 hex digits> (`crane digest` prints it)"
    match = re.fullmatch(rf"[a-z0-9.-]+(:[0-9]+)?(/[a-z0-9._-]+)*/{name}@(sha256:[0-9a-f]{{64}})", image)
    if match is None:
        yield at.problem(key, f"'{image}' is not an image of {owner} by its digest: its path has to end in /{name}; {valid}")
    elif len(set(match[3].removeprefix("sha256:"))) == 1:
        yield at.problem(key, f"'{match[3][:19]}...' is a placeholder; {valid}")
