"""An empty account, and an API server with an EKS name on loopback."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from moto import mock_aws

from tests import http_server
from tests.aws_environment import use_none_of_the_developers

HOST = "0123456789abcdef0123456789abcdef.gr7.us-west-2.eks.amazonaws.com"
"""A name in EKS's form. It is never looked up: that would fail, and so would the test."""
_VERSION = ("buildDate", "compiler", "gitCommit", "gitTreeState", "goVersion", "major", "minor", "platform")


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """Yield the id of an empty account."""
    use_none_of_the_developers(monkeypatch, tmp_path)
    monkeypatch.setenv("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")
    with mock_aws():
        yield "123456789012"


@dataclass
class ApiServer:
    """`authority`: the PEM of its certificate authority; `asked`: path and Authorization of each request."""

    port: int
    authority: bytes
    asked: list[tuple[str, str | None]] = field(default_factory=list)


def _certificates(folder: Path) -> bytes:
    """Write the server's key and certificate; return the authority's certificate."""
    now = datetime.now(UTC)

    def certificate(name: str, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey, ca: bool) -> bytes:
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])
        made = (
            x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST if not ca else "kubernetes")]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        )
        if ca:
            usage = dict.fromkeys(
                ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only"), False
            )
            made = made.add_extension(
                x509.KeyUsage(digital_signature=True, key_cert_sign=True, crl_sign=True, decipher_only=False, **usage), True
            )
        return made.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    authority_key, server_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    pem = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "server.key").write_bytes(server_key.private_bytes(*pem))
    (folder / "server.pem").write_bytes(certificate("server", server_key, authority_key, ca=False))
    return certificate("kubernetes", authority_key, authority_key, ca=True)


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ApiServer]:
    """Yield a server with a certificate for HOST that answers /version, and /healthz without a login."""
    authority = _certificates(tmp_path)

    class Answers(http_server.Handler):
        def do_GET(self) -> None:
            served.asked.append((self.path, self.headers["Authorization"]))
            body = json.dumps(dict.fromkeys(_VERSION, "") | {"gitVersion": "v1.35.2-eks"}).encode()
            status = 200 if self.path.startswith("/version") else 401
            self.answer(status, body, content_type="application/json")

    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    with http_server.listening(Answers, tls) as server:
        served = ApiServer(server.server_port, authority)
        yield served
