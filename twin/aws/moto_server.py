"""AWS on this machine: one `moto` server on loopback.

moto keeps everything in memory, so a restarted server is an empty AWS account, while Pulumi's state still names lost
resources. A marker in the server distinguishes a known server from a fresh one.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable

import httpx

from twin.host import ports, processes
from twin.host.home import REPOSITORY, TwinHome
from twin.host.processes import Service

NAME = "moto"
MARKER = "/twin/id"
"""SSM parameter that only a server known to this twin has."""
MARKER_REGION = "us-east-1"
_START_SECONDS = 60.0
_STOP_ORDER = 5
_SSM_AUTHORIZATION = (
    f"AWS4-HMAC-SHA256 Credential=test/20250101/{MARKER_REGION}/ssm/aws4_request, SignedHeaders=host, Signature=0"
)


def ensure(home: TwinHome, progress: Callable[[str], None], account: str | None = None) -> bool:
    """Start the moto server if needed; return whether it is fresh and has lost all resources.

    It stays fresh until `acknowledge`, so a command that is killed before it handles the loss leaves it to the next one.
    Writes the URL into the endpoints. A started server is the AWS of `account`, by default moto's own
    (https://docs.getmoto.org/en/latest/docs/multi_account.html). Raises ProcessFailed or DeadlinePassed.
    """
    port = ports.keep(home, NAME, held=processes.find(home, NAME) is not None)
    url = f"http://127.0.0.1:{port}"
    env = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home.path),
        "TMPDIR": str(home.cache),
        "PYTHONPATH": str(REPOSITORY),
        "TWIN_HOME": str(home.path),
        # `arn:aws:iam::aws:policy/…` exists only with this setting; EKS roles attach these policies.
        "MOTO_IAM_LOAD_MANAGED_POLICIES": "true",
        **({"MOTO_ACCOUNT_ID": account} if account is not None else {}),
    }
    home.cache.mkdir(parents=True, exist_ok=True)
    argv = (sys.executable, "-m", "twin.aws.moto_process", "-H", "127.0.0.1", "-p", str(port))
    service = Service(NAME, argv, env, home.path, stop_order=_STOP_ORDER)
    with httpx.Client(base_url=url, timeout=_START_SECONDS, trust_env=False) as client:
        started = processes.ensure(
            home,
            service,
            ready=lambda: _answers(client),
            what=f"moto to answer on {url}",
            seconds=_START_SECONDS,
        )
        if started:
            progress(f"started {NAME} (AWS) on {url}")
        home.save_endpoints(aws_url=url)
        return MARKER not in {p["Name"] for p in _ssm(client, "GetParameters", {"Names": [MARKER]})["Parameters"]}


def acknowledge(home: TwinHome) -> None:
    """Mark the server as known, after an `up` has created all resources of Pulumi's state, and the models.

    Until then the agent adds nodes but removes none (twin/cluster/nodes.py): an AWS that lost its memory must not drain pods
    that still run.
    """
    with httpx.Client(base_url=home.load_endpoints().aws_url or "", timeout=_START_SECONDS, trust_env=False) as client:
        _ssm(
            client,
            "PutParameter",
            {"Name": MARKER, "Value": str(home.path), "Type": "String", "Overwrite": True},
        )


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/moto-api/", timeout=5.0).status_code == 200
    except httpx.TransportError:
        return False


def _ssm(client: httpx.Client, action: str, body: dict[str, object]) -> dict[str, list[dict[str, str]]]:
    headers = {
        "X-Amz-Target": f"AmazonSSM.{action}",
        "Content-Type": "application/x-amz-json-1.1",
        "Authorization": _SSM_AUTHORIZATION,
    }
    try:
        # The first request to a service loads it, which takes seconds on a busy machine.
        response = client.post("/", content=json.dumps(body), headers=headers).raise_for_status()
    except httpx.HTTPError as error:
        raise processes.ProcessFailed(f"moto on {client.base_url} does not do {action}: {error}; try again") from None
    answer: dict[str, list[dict[str, str]]] = response.json()
    return answer
