"""Answers that no AWS service gives: those of a proxy, of a network's login page, of a test server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from botocore.exceptions import BotoCoreError
from botocore.parsers import ResponseParserError

A_PAGE = "a page of HTML"
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_OF_AWS = "x-amz"
"""The beginning of a header's name that every answer of S3 has, and of each server that speaks like it."""
_XML = frozenset({"rest-xml", "query", "ec2"})
_PAGE = re.compile(r"<!doctype html|<html", re.IGNORECASE)
_TRIED_AGAIN = 500
"""The first status with which AWS itself answers with a page, when it is busy; botocore asks again."""


class NotAws(BotoCoreError):
    """Something between here and AWS answered in its place; the text is one sentence."""

    fmt = (
        "{endpoint} answers {operation} with {answer}: a proxy, a network's login page or a test server answers in place of "
        "the service; check HTTPS_PROXY and AWS_ENDPOINT_URL"
    )


def is_page(text: str) -> bool:
    """Return whether a page of HTML is in the text."""
    return _PAGE.search(text) is not None


def refuse_others_answers(client: Any) -> None:
    """Make a boto3 client raise NotAws, with its endpoint, for an answer that is not the service's.

    botocore's own error for that names no endpoint and is none of its others (ResponseParserError is no BotoCoreError).
    Often there is none: where a service speaks JSON, a page is an answer without content, and elsewhere one that is XML is
    a refusal without a reason. An answer without content is an empty list to it, and a redirect of a login page is one of S3
    to another region, which it follows without an end.
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
        if isinstance(exception, ResponseParserError):
            answer = A_PAGE if is_page(str(exception)) else "what cannot be parsed"
            raise NotAws(endpoint=endpoint, operation=event_name.rpartition(".")[2], answer=answer) from None

    client.meta.events.register("before-parse.*.*", page)
    client.meta.events.register("after-call-error.*.*", not_parsed)


def _is_answered_in_xml(operation_model: Any) -> bool:
    """Return whether the content of an answer is a document of XML, which is never empty."""
    output = operation_model.output_shape
    if output is None or output.serialization.get("payload") or operation_model.service_model.protocol not in _XML:
        return False
    return any("location" not in member.serialization for member in output.members.values())
