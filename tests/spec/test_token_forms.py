"""Every token form that a release refuses is also hidden in a pull request."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec.token_forms import TOKEN_FORMS, TokenForm


@pytest.mark.parametrize("form", [form for form in TOKEN_FORMS if form.kind != "a private key"], ids=lambda form: form.kind)
@given(data=st.data())
def test_what_is_certain_is_likely(form: TokenForm, data: st.DataObject) -> None:
    token = data.draw(st.from_regex(re.compile(form.certain, re.ASCII), fullmatch=True))
    assert re.search(form.likely, token, re.DOTALL)


def test_each_kind_is_there_once() -> None:
    assert len({form.kind for form in TOKEN_FORMS}) == len(TOKEN_FORMS)
