"""Detect responses from a proxy, a network's login page or a test server instead of AWS."""

from __future__ import annotations

import re
import traceback
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from botocore import endpoint as botocore_endpoint
from botocore import parsers
from botocore.exceptions import BotoCoreError

A_PAGE = "a page of HTML"
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_OF_AWS = "x-amz"
"""The prefix of a header that every response of S3 and of compatible servers has."""
_XML = frozenset({"rest-xml", "query", "ec2"})
_PAGE = re.compile(r"<!doctype html|<html", re.IGNORECASE)
_CANNOT_BE_PARSED = "what cannot be parsed"
_EMPTY_WHEN_DONE = "Delete"
"""The prefix of operations whose response may be empty, because a deletion returns no data."""
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "structure": dict,
    "map": dict,
    "list": list,
    "string": str,
    "integer": int,
    "long": int,
    "boolean": bool,
    "float": (float, int),
    "double": (float, int),
}
"""Python types of botocore's model types; its parsers do not check them for JSON services."""
_TRIED_AGAIN = 500
"""The first status for which AWS itself may return a page, when it is busy. botocore retries."""


class NotAws(BotoCoreError):
    """Another server responded instead of AWS; the text is one sentence."""

    fmt = (
        "{endpoint} answers {operation} with {answer}: a proxy, a network's login page or a test server answers in place of "
        "the service; check HTTPS_PROXY and AWS_ENDPOINT_URL"
    )


def is_page(text: str) -> bool:
    """Return whether the text contains an HTML page."""
    return _PAGE.search(text) is not None


def refuse_others_answers(client: Any) -> None:
    """Make a boto3 client raise NotAws, with its endpoint, for a response that is not the service's.

    botocore's own error for that names no endpoint and is not derived from its other errors (ResponseParserError is no
    BotoCoreError). Often botocore raises no error. For a JSON service, it reads a page as a response without content, which
    is an empty list. For other services, a page that is XML counts as a refusal without a reason. A login page's redirect
    counts as S3's redirect to another region, and is followed without end. Missing members and members of a wrong type are
    found with the service's own model.
    """
    endpoint = client.meta.endpoint_url

    def page(operation_model: Any, response_dict: Mapping[str, Any], **_: Any) -> None:
        body = response_dict["body"]  # bytes, or a stream that is not read yet
        if response_dict["status_code"] >= _TRIED_AGAIN or not isinstance(body, bytes):
            return
        if _PAGE.match(body.decode("latin-1").lstrip()):
            raise NotAws(endpoint=endpoint, operation=operation_model.name, answer=A_PAGE)
        status, headers = response_dict["status_code"], response_dict["headers"]
        if status in _REDIRECTS and not any(name.lower().startswith(_OF_AWS) for name in headers):
            raise NotAws(endpoint=endpoint, operation=operation_model.name, answer="a redirect")
        if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES and not body and _is_answered_in_xml(operation_model):
            raise NotAws(endpoint=endpoint, operation=operation_model.name, answer="nothing")

    def not_parsed(exception: Exception, event_name: str, **_: Any) -> None:
        # A response of another form makes a parser, or its caller, fail with one of Python's own errors.
        files = [frame.filename for frame in traceback.extract_tb(exception.__traceback__)]
        if parsers.__file__ in files or files[-1:] == [botocore_endpoint.__file__]:
            answer = A_PAGE if is_page(str(exception)) else _CANNOT_BE_PARSED
            raise NotAws(endpoint=endpoint, operation=event_name.rpartition(".")[2], answer=answer) from None

    def unlike(http_response: Any, parsed: Mapping[str, Any], model: Any, **_: Any) -> None:
        if http_response.status_code < HTTPStatus.MULTIPLE_CHOICES and not _is_of(model, parsed):
            raise NotAws(endpoint=endpoint, operation=model.name, answer="what that operation does not answer")

    client.meta.events.register("before-parse.*.*", page)
    client.meta.events.register("after-call-error.*.*", not_parsed)
    client.meta.events.register("after-call.*.*", unlike)


def _is_answered_in_xml(operation_model: Any) -> bool:
    """Return whether the response's content is an XML document, which is never empty."""
    output = operation_model.output_shape
    if output is None or output.serialization.get("payload") or operation_model.service_model.protocol not in _XML:
        return False
    return any("location" not in member.serialization for member in output.members.values())


def _is_of(operation_model: Any, parsed: Mapping[str, Any]) -> bool:
    """Return whether a response has any of the operation's members, and its members have the right types."""
    output = operation_model.output_shape
    if output is None or output.serialization.get("payload"):
        return True
    inside = [name for name, member in output.members.items() if "location" not in member.serialization]
    empty = inside and not any(name in parsed for name in inside)
    if empty and not operation_model.name.startswith(_EMPTY_WHEN_DONE):
        return False
    return all(_has_kind(parsed[name], output.members[name]) for name in inside if name in parsed)


def _has_kind(value: Any, shape: Any) -> bool:
    """Return whether a parsed value has the right type. An object in a list must have a member, because an empty one says
    nothing."""
    if value is None:
        return True
    kind = _TYPES.get(shape.type_name)
    if kind is not None and not isinstance(value, kind):
        return False
    if shape.type_name == "list":
        item = shape.member
        named = item.members if item.type_name == "structure" else None
        return all(_has_kind(one, item) and (not named or bool(one)) for one in value)
    if shape.type_name == "map":
        return all(_has_kind(one, shape.value) for one in value.values())
    if shape.type_name == "structure":
        return all(_has_kind(one, shape.members[name]) for name, one in value.items() if name in shape.members)
    return True
