"""The AWS endpoint for Karpenter: check each call against the policies of its role, then forward it to moto.

moto allows everything. Calls that IAM would refuse are refused here, with the service's own error, and are in the agent's
log. `aws-calls.json` next to the controller's other files counts the calls by action.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import urllib.parse
import uuid
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import httpx
from aiohttp import web

from spec.catalog import INSTANCE_TYPES
from spec.iam_policy import Statement
from twin.aws.base.clients import Clients
from twin.aws.base.lookup import or_none
from twin.aws.iam.authorization import refusals
from twin.charts.karpenter import calls
from twin.charts.karpenter.calls import Request, UnknownCall
from twin.host.home import write_json

log = logging.getLogger("twin.karpenter")
_SCOPE = re.compile(r"Credential=[^/]+/\d+/[^/]+/([^/]+)/aws4_request")
_HOP = frozenset({"host", "connection", "content-length", "transfer-encoding", "content-encoding"})
_LONGEST_SECONDS = 60.0
"""An SQS receive waits for up to 20 s."""


class Endpoint:
    """An AWS endpoint for the holder of one role. `counted` is the file with the counts of its calls."""

    def __init__(self, aws_url: str, region: str, role_arn: str, counted: Path) -> None:
        self._clients = Clients(region, aws_url)
        self._role = role_arn.rpartition("/")[2]
        self._aws = httpx.AsyncClient(base_url=aws_url, trust_env=False, timeout=_LONGEST_SECONDS)
        self._file = counted
        self._count: dict[str, Counter[str]] = {"allowed": Counter(), "refused": Counter()}

    async def start(self, port: int) -> web.ServerRunner:
        """Listen on 127.0.0.1, until the runner is cleaned up."""
        runner = web.ServerRunner(web.Server(self._serve, access_log=None))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port, reuse_address=True).start()
        return runner

    async def _serve(self, incoming: web.BaseRequest) -> web.StreamResponse:
        body = await incoming.read()
        request = request_of(incoming.headers, incoming.path, body.decode(errors="replace"))
        refused = await asyncio.to_thread(self._refused, request)
        self._count["refused" if refused else "allowed"][request.name] += 1
        write_json(self._file, {outcome: dict(sorted(count.items())) for outcome, count in self._count.items()})
        if refused:
            log.warning("AWS would refuse %s: %s", request.name, refused)
            return _refusal(request, refused)
        if request.name == "ec2:DescribeInstanceTypes":
            body += known_families(request).encode()
        headers = {name: value for name, value in incoming.headers.items() if name.lower() not in _HOP}
        try:
            answer = await self._aws.request(incoming.method, incoming.path_qs, content=body, headers=headers)
        except httpx.HTTPError as error:
            return web.Response(status=503, text=f"{type(error).__name__}: {error}")
        kept = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP}
        return web.Response(status=answer.status_code, headers=kept, body=answer.content)

    def _refused(self, request: Request) -> str:
        """Return why IAM would refuse the call; empty if it would allow it."""
        try:
            return "; ".join(refusals(statements(self._clients, self._role), calls.calls(request, Lookups(self._clients))))
        except UnknownCall as error:
            return str(error)


class Lookups:
    """Looks up the account's facts that a check needs (`calls.Account`)."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self.partition, self.region, self.id = clients.partition, clients.region, clients.account_id

    def tags(self, resource: str) -> dict[str, str]:
        """Return the tags of an instance or a launch template; empty if it does not exist."""
        found = self._clients("ec2").describe_tags(Filters=[{"Name": "resource-id", "Values": [resource]}])["Tags"]
        return {tag["Key"]: tag["Value"] for tag in found}

    def launch_template(self, name: str) -> tuple[str, Mapping[str, Any]]:
        """Return id and newest data of a launch template, given by name or id; empty if it does not exist."""
        which = {"LaunchTemplateId": name} if name.startswith("lt-") else {"LaunchTemplateName": name}
        found = or_none(self._clients("ec2").describe_launch_template_versions, Versions=["$Latest"], **which)
        versions = found["LaunchTemplateVersions"] if found else []
        return (versions[0]["LaunchTemplateId"], versions[0]["LaunchTemplateData"]) if versions else ("", {})

    def role_of(self, instance_profile: str) -> str | None:
        """Return the ARN of the role of instances with this profile."""
        found = or_none(self._clients("iam").get_instance_profile, InstanceProfileName=instance_profile)
        roles = found["InstanceProfile"]["Roles"] if found else []
        return str(roles[0]["Arn"]) if roles else None


def statements(clients: Clients, role: str) -> list[Statement]:
    """Return the statements of a role's policies, inline and attached."""
    iam = clients("iam")
    documents = [
        iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"]
        for name in iam.list_role_policies(RoleName=role)["PolicyNames"]
    ]
    for attached in iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]:
        version = iam.get_policy(PolicyArn=attached["PolicyArn"])["Policy"]["DefaultVersionId"]
        document = iam.get_policy_version(PolicyArn=attached["PolicyArn"], VersionId=version)["PolicyVersion"]["Document"]
        documents.append(document)
    return [statement for document in documents for statement in document["Statement"]]


def request_of(headers: Mapping[str, str], path: str, body: str) -> Request:
    """Return the call in a signed HTTP request."""
    signed = _SCOPE.search(headers.get("Authorization", ""))
    service = signed[1] if signed else "?"
    target = headers.get("X-Amz-Target", "")
    if target:
        return Request(service, target.rpartition(".")[2], json.loads(body or "{}"))
    if service == "eks" and (found := re.fullmatch(r"/clusters/([^/]+)", path)):
        return Request(service, "DescribeCluster", {"name": urllib.parse.unquote(found[1])})
    asked = {name: values[0] for name, values in urllib.parse.parse_qs(body, keep_blank_values=True).items()}
    return Request(service, asked.get("Action", path), asked)


def known_families(request: Request) -> str:
    """Return the end of a query for instance types that restricts it to the families known to this project.

    moto needs 3 s of CPU to describe all 1,377 types, and Karpenter the same to read them. The types of a pool are known
    ones.
    """
    number = 1 + max((int(key.split(".")[1]) for key in request.parameters if key.startswith("Filter.")), default=0)
    families = sorted({name.partition(".")[0] for name in INSTANCE_TYPES})
    wanted = {f"Filter.{number}.Value.{at}": f"{family}.*" for at, family in enumerate(families, 1)}
    return "&" + urllib.parse.urlencode({f"Filter.{number}.Name": "instance-type", **wanted})


def _refusal(request: Request, why: str) -> web.Response:
    """Return the service's response: in EC2's query protocol, in that of IAM, or in JSON."""
    said = escape(f"You are not authorized to perform {request.name}. {why}")
    id = uuid.uuid4()
    if request.service == "ec2":
        error = f"<Error><Code>UnauthorizedOperation</Code><Message>{said}</Message></Error>"
        text = f"<Response><Errors>{error}</Errors><RequestID>{id}</RequestID></Response>"
        return web.Response(status=403, content_type="text/xml", text=text)
    if request.service == "iam":
        error = f"<Error><Type>Sender</Type><Code>AccessDenied</Code><Message>{said}</Message></Error>"
        text = f"<ErrorResponse>{error}<RequestId>{id}</RequestId></ErrorResponse>"
        return web.Response(status=403, content_type="text/xml", text=text)
    body = {"__type": "AccessDeniedException", "message": f"not authorized to perform {request.name}: {why}"}
    return web.json_response(body, status=400, headers={"x-amzn-ErrorType": "AccessDeniedException"})
