"""JSON documents as inputs of resources: read, or refused with a message."""

import pytest

from twin.aws.base import documents


@pytest.mark.parametrize(
    ("text", "said"), [("[" * 100_000, "nested too deep"), ("[]", "not a JSON object"), ("{", "Expecting property name")]
)
def test_what_is_no_document_is_told(text: str, said: str) -> None:
    (problem,) = documents.problems({"policy": text}, "policy", limit=100_000)
    assert said in str(problem)
