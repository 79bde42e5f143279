"""Which stacks a checkout has, and the one sentence about a name that is none of them. Nothing heavy: tools use it too."""

from __future__ import annotations

from pathlib import Path

from spec.failure import NOT_TRIED, Failure

_FOLDER, _PREFIX, _SUFFIX = "stacks", "Pulumi.", ".yaml"


class NoSuchStack(Failure):
    """A name that is no stack's, or none at all; the text says which stacks there are."""

    exit_code = NOT_TRIED


def stack_file(stack: str) -> str:
    """How messages call the file of a stack: its path in the checkout."""
    return f"{_FOLDER}/{_PREFIX}{stack}{_SUFFIX}"


def names(checkout: Path) -> list[str]:
    """The stacks that have a file, sorted."""
    found = (checkout / _FOLDER).glob(f"{_PREFIX}*{_SUFFIX}")
    return sorted(file.name.removeprefix(_PREFIX).removesuffix(_SUFFIX) for file in found)


def file_of(stack: str, checkout: Path) -> Path:
    """The file of a stack. Raises NoSuchStack."""
    known = names(checkout)
    if stack in known:
        return checkout / stack_file(stack)
    there_are = f"there are: {', '.join(known)}" if known else "run this from the root of the checkout"
    raise NoSuchStack(f"no stack file {stack_file(stack)}; {there_are}" if stack else f"no stack is named; {there_are}")
