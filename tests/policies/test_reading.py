"""Values of resources as policies read them."""

import pytest

from triton_policies.reading import Property


@pytest.mark.parametrize("text", ["", "{", "hello", "[" * 100_000, '{"a": 1' * 50_000])
def test_a_text_that_is_no_json_is_a_document_of_nothing(text: str) -> None:
    assert Property("policy", text).document().entries == {}
