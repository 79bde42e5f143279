"""The stack and its tags."""

from collections.abc import Iterator, Mapping

from spec.settings.checks.subject import Check, Subject
from spec.settings.model import PROTECTED_ENVIRONMENTS
from spec.settings.problem import Problem

REQUIRED_TAGS = ("owner", "cost-center")


def _environment_is_stack(subject: Subject) -> Iterator[Problem]:
    environment = subject.document.environment
    if environment != subject.stack:
        yield Problem(
            "environment",
            f"'{environment}' is not the stack '{subject.stack}'; a stack is named after its environment",
        )


def _tags_say_who_pays(subject: Subject) -> Iterator[Problem]:
    tags = subject.document.tags
    for key in REQUIRED_TAGS:
        if key not in tags:
            yield Problem("tags", f"'{key}' is missing; every resource is tagged with {' and '.join(REQUIRED_TAGS)}")


def _tags_differ_by_more_than_case(subject: Subject) -> Iterator[Problem]:
    yield from _alike("tags", subject.document.tags)


def _default_tags_differ_by_more_than_case(subject: Subject) -> Iterator[Problem]:
    if subject.document.default_tags is not None:
        yield from _alike("aws:defaultTags.tags", subject.document.default_tags.tags)


def _alike(path: str, tags: Mapping[str, str]) -> Iterator[Problem]:
    """IAM refuses two keys that differ in case alone, and Cost Explorer has one column for each."""
    found: dict[str, list[str]] = {}
    for key in tags:
        found.setdefault(key.casefold(), []).append(key)
    for keys in found.values():
        if len(keys) > 1:
            yield Problem(path, f"{' and '.join(keys)} differ in case alone, which IAM refuses; keep one of them")


def _default_tags_are_the_tags(subject: Subject) -> Iterator[Problem]:
    tags, default_tags = subject.document.tags, subject.document.default_tags
    if default_tags is None or default_tags.tags == tags:
        return
    differing = sorted(key for key in tags.keys() | default_tags.tags.keys() if tags.get(key) != default_tags.tags.get(key))
    yield Problem(
        "aws:defaultTags.tags",
        f"{', '.join(differing)} differ from triton-eks:tags; give the same tags in both",
    )


def _only_what_is_protected_may_be_let_go(subject: Subject) -> Iterator[Problem]:
    document = subject.document
    if document.allow_destroy and document.environment not in PROTECTED_ENVIRONMENTS:
        yield Problem("allowDestroy", f"nothing in '{document.environment}' is protected; leave the key out")


def _protection_is_off(subject: Subject) -> Iterator[Problem]:
    document = subject.document
    if document.allow_destroy and document.environment in PROTECTED_ENVIRONMENTS:
        yield Problem(
            "allowDestroy",
            f"cluster, VPC, KMS keys and model bucket of '{document.environment}' are not protected; "
            "remove the key as soon as what had to be deleted or replaced is",
        )


CHECKS: tuple[Check, ...] = (
    _environment_is_stack,
    _tags_say_who_pays,
    _tags_differ_by_more_than_case,
    _default_tags_differ_by_more_than_case,
    _default_tags_are_the_tags,
    _only_what_is_protected_may_be_let_go,
)
WARNINGS: tuple[Check, ...] = (_protection_is_off,)
