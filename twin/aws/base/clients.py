"""boto3 clients of one region of the fake account, with strict parameter checks."""

from __future__ import annotations

import threading
from functools import cache, cached_property
from typing import Any

import boto3
import botocore.session
from botocore.config import Config
from botocore.loaders import Loader, create_loader

from twin.aws.base import strict

_CONFIG = Config(
    connect_timeout=5,
    read_timeout=60,
    retries={"total_max_attempts": 2, "mode": "standard"},
    s3={"addressing_style": "path"},
)

_ENDPOINT_SERVICES: dict[str, frozenset[str]] = {}


@cache
def _service_models() -> Loader:
    """Return the process's shared loader, because reading EC2's model takes half a second."""
    return create_loader()


def session(region: str, core: botocore.session.Session | None = None) -> boto3.Session:
    """Return a session with the fake account's credentials, never the user's own."""
    return boto3.Session(aws_access_key_id="test", aws_secret_access_key="test", region_name=region, botocore_session=core)


class Clients:
    """Return boto3 clients by service name: ``clients("ec2")``.

    ``endpoint_url`` is the moto server's address; None means that an in-process ``moto.mock_aws`` is active. Calls whose
    parameters break the service's own model raise ``strict.StrictError``.
    """

    def __init__(self, region: str, endpoint_url: str | None = None) -> None:
        self.region = region
        self.endpoint_url = endpoint_url
        self._clients: dict[str, Any] = {}
        # Creating clients on one Session is not thread-safe; calling them is.
        self._lock = threading.Lock()
        core = botocore.session.Session()
        core.register_component("data_loader", _service_models())
        self._session = session(region, core)
        strict.install(self._session)

    def __call__(self, service: str) -> Any:
        with self._lock:
            if service not in self._clients:
                self._clients[service] = self._session.client(service, endpoint_url=self.endpoint_url, config=_CONFIG)
            return self._clients[service]

    @cached_property
    def account_id(self) -> str:
        """Return the account of the credentials."""
        account: str = self("sts").get_caller_identity()["Account"]
        return account

    @cached_property
    def partition(self) -> str:
        """``aws``, ``aws-cn``, …"""
        return self._session.get_partition_for_region(self.region)

    @property
    def endpoint_services(self) -> frozenset[str]:
        """Return the names of the region's VPC endpoint services (the list is long and does not change)."""
        if self.region not in _ENDPOINT_SERVICES:
            _ENDPOINT_SERVICES[self.region] = frozenset(self("ec2").describe_vpc_endpoint_services()["ServiceNames"])
        return _ENDPOINT_SERVICES[self.region]

    def arn(self, service: str, resource: str) -> str:
        """Return an ARN of this account and region."""
        return f"arn:{self.partition}:{service}:{self.region}:{self.account_id}:{resource}"
