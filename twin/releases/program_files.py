"""The directory of a chart's programs: a service account token, a kubeconfig that reads it, a TLS certificate."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from twin.cluster import certificates
from twin.cluster.certificates import Pki
from twin.host.processes import Service
from twin.identity.account_tokens import TokenFiles
from twin.identity.irsa import ROLE_ANNOTATION
from twin.releases.chart import ChartContext
from twin.releases.programs import STOP_ORDER


class ProgramFiles:
    """The files of one chart's programs, and how to start programs with them.

    `account` is their service account in the cluster. `tokens` are additional tokens of it: audience by file name.
    """

    def __init__(
        self, context: ChartContext, chart: str, account: str, tokens: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.directory = context.home.path / "charts" / chart
        self.kubeconfig = self.directory / "kubeconfig"
        self.certificate, self.key = self.directory / "tls.crt", self.directory / "tls.key"
        self._context = context
        self._account = account
        self._pki = Pki(context.home.pki)
        self._token = self.directory / "token"
        self._tokens = {self._token: "", **{self.directory / name: audience for name, audience in tokens.items()}}

    @property
    def authority(self) -> Path:
        """Return the certificate of the authority that signed their certificate, and that they trust."""
        return self._pki.ca

    async def role(self, namespace: str) -> str | None:
        """Return the AWS role in the annotation of the service account in `namespace`. Raises KubeError."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{self._account}"
        account = await self._context.api.get(path)
        found: str | None = (account["metadata"].get("annotations") or {}).get(ROLE_ANNOTATION)
        return found

    def in_aws(self, role: str | None = None, token: str = "") -> dict[str, str]:
        """Return the variables with which a program finds the twin's AWS, and assumes `role`, if any, with its `token`."""
        environment = {
            "AWS_ENDPOINT_URL": self._context.aws_url,
            "AWS_ENDPOINT_URL_STS": self._context.sts_url,
            "AWS_REGION": self._context.region,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }
        if role is not None:
            environment |= {"AWS_ROLE_ARN": role, "AWS_WEB_IDENTITY_TOKEN_FILE": str(self.directory / token)}
        return environment

    @contextlib.asynccontextmanager
    async def kept_fresh(self, namespace: str, names: Iterable[str]) -> AsyncIterator[None]:
        """Write all files for a release in `namespace`, and renew the tokens while the block runs.

        The certificate is for 127.0.0.1 and the DNS `names`. Raises KubeError if the service account does not exist.
        """
        tokens = TokenFiles(self._context.api, namespace, self._account, self._tokens)
        await tokens.renew()
        certificates.ensure_mutual(self._pki, self.directory, [*names])
        server = self._context.api_server_url
        certificates.write_token_kubeconfig(self.kubeconfig, self._pki, self._account, self._token, server)
        renewing = asyncio.create_task(tokens.keep_fresh())
        try:
            yield
        finally:
            renewing.cancel()

    def service(
        self,
        name: str,
        argv: Iterable[str],
        env: Mapping[str, str] = MappingProxyType({}),
        files: Iterable[Path] = (),
    ) -> Service:
        """Return a program to run here. A changed certificate, kubeconfig or content of `files` restarts it."""
        own = {"PATH": os.defpath, "HOME": str(self.directory), "TMPDIR": str(self._context.home.temporary)}
        content = b"".join(file.read_bytes() for file in (self.certificate, self.kubeconfig, *files))
        digest = hashlib.sha256(content).hexdigest()
        return Service(name, tuple(argv), {**own, **env}, self.directory, stop_order=STOP_ORDER, depends_on=digest)

    def delegated_flags(self) -> list[str]:
        """Return the flags of an aggregated API server that delegates authentication and authorization to the API server."""
        uses = ("lister", "authentication", "authorization")
        return [
            *(f"--{use}-kubeconfig={self.kubeconfig}" for use in uses),
            "--bind-address=127.0.0.1",
            f"--cert-dir={self.directory}",
            f"--tls-cert-file={self.certificate}",
            f"--tls-private-key-file={self.key}",
        ]

    def proxied(self) -> dict[str, str]:
        """Return the variables with which a program reaches Services by name, and no host outside this machine."""
        # HTTPS uses the proxy too: programs on this machine need no proxy, and the proxy refuses everything else.
        url = self._context.proxy_url
        return {"HTTP_PROXY": url, "HTTPS_PROXY": url, "NO_PROXY": "127.0.0.1,localhost"}

    def trusting(self) -> ssl.SSLContext:
        """Return the TLS settings of these programs' clients."""
        return ssl.create_default_context(cafile=str(self.authority))
