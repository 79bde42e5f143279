"""Create the twin's certificates and keys.

These are an authority, the API server's certificate, a client certificate for each component, and the key that signs
service account tokens. The aggregation layer has a small separate authority. Keys are elliptic (P-256), because these are
created quickly. The service account key is RSA, because EKS signs its tokens with RS256.
"""

from __future__ import annotations

import base64
import datetime
import ipaddress
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from spec.files import write_whole
from twin.host.home import TwinHome

_LIFETIME = datetime.timedelta(days=3650)
_RENEW_BEFORE = datetime.timedelta(days=30)
SERVING_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
SERVING_ADDRESSES = ("127.0.0.1", "10.96.0.1")


@dataclass(frozen=True)
class Pair:
    """A certificate and its private key, as PEM files."""

    certificate: Path
    key: Path


@dataclass(frozen=True)
class Client:
    """A client certificate: its user, groups and authority."""

    name: str
    user: str
    groups: tuple[str, ...] = ()
    authority: str = "ca"


ADMIN = Client("admin", "twin-admin", ("system:masters",))
CONTROLLER_MANAGER = Client("controller-manager", "system:kube-controller-manager")
SCHEDULER = Client("scheduler", "system:kube-scheduler")
NODE_SIMULATOR = Client("kwok", "twin-kwok", ("system:masters",))
AGENT = Client("agent", "twin-agent", ("system:masters",))
FRONT_PROXY = Client("front-proxy-client", "front-proxy-client", authority="front-proxy-ca")
KUBELET_CLIENT = Client("apiserver-kubelet-client", "kube-apiserver-kubelet-client", ("system:masters",))
PROMETHEUS_OPERATOR = Client("prometheus-operator", "twin-prometheus-operator")
ENVOY_GATEWAY = Client("envoy-gateway", "twin-envoy-gateway", ("system:masters",))
CLIENTS = (
    ADMIN,
    CONTROLLER_MANAGER,
    SCHEDULER,
    NODE_SIMULATOR,
    AGENT,
    FRONT_PROXY,
    KUBELET_CLIENT,
    PROMETHEUS_OPERATOR,
    ENVOY_GATEWAY,
)
KUBECONFIGS = (CONTROLLER_MANAGER, SCHEDULER, NODE_SIMULATOR, AGENT)


@dataclass(frozen=True)
class Pki:
    """The files below `TwinHome.pki`."""

    directory: Path

    @property
    def ca(self) -> Path:
        """Return the certificate of the authority that the API server and its clients trust."""
        return self.directory / "ca.crt"

    @property
    def front_proxy_ca(self) -> Path:
        """Return the certificate of the authority that aggregated API servers trust."""
        return self.directory / "front-proxy-ca.crt"

    @property
    def serving(self) -> Pair:
        """Return the API server's own certificate; the agent's kubelet endpoint shares it."""
        return self._pair("apiserver")

    @property
    def service_account_key(self) -> Path:
        """Return the private key that signs service account tokens."""
        return self.directory / "service-account.key"

    @property
    def service_account_public_key(self) -> Path:
        """Return the public key that verifies those tokens."""
        return self.directory / "service-account.pub"

    def client(self, client: Client) -> Pair:
        """Return a component's client certificate."""
        return self._pair(client.name)

    def kubeconfig(self, client: Client) -> Path:
        """Return a component's kubeconfig."""
        return self.directory / f"{client.name}.kubeconfig"

    def client_context(self, client: Client) -> ssl.SSLContext:
        """Return the TLS settings of an HTTP client that authenticates as `client` and trusts only this twin's servers."""
        context = ssl.create_default_context(cafile=str(self.ca))
        pair = self.client(client)
        context.load_cert_chain(pair.certificate, pair.key)
        return context

    def _pair(self, name: str) -> Pair:
        return Pair(self.directory / f"{name}.crt", self.directory / f"{name}.key")


def ensure(home: TwinHome) -> Pki:
    """Create missing certificates and renew those about to expire. A new authority renews everything that it signs."""
    pki = Pki(home.pki)
    now = datetime.datetime.now(datetime.UTC)
    fresh: dict[str, bool] = {}
    for authority in ("ca", "front-proxy-ca"):
        pair = pki._pair(authority)
        fresh[authority] = not _valid(pair, now)
        if fresh[authority]:
            _write_authority(pair, f"twin {authority}", now)
    if fresh["ca"] or not _valid(pki.serving, now):
        names: list[x509.GeneralName] = [x509.DNSName(n) for n in SERVING_NAMES]
        names += [x509.IPAddress(ipaddress.ip_address(a)) for a in SERVING_ADDRESSES]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
        _write_leaf(pki.serving, pki._pair("ca"), subject, now, usages=[ExtendedKeyUsageOID.SERVER_AUTH], names=names)
    for client in CLIENTS:
        if fresh[client.authority] or not _valid(pki.client(client), now):
            groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in client.groups]
            subject = x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, client.user)])
            issuer = pki._pair(client.authority)
            _write_leaf(pki.client(client), issuer, subject, now, usages=[ExtendedKeyUsageOID.CLIENT_AUTH])
    if not (pki.service_account_key.exists() and pki.service_account_public_key.exists()):
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        write_whole(pki.service_account_public_key, public)
        write_whole(pki.service_account_key, _pem(key))
    return pki


def ensure_mutual(pki: Pki, directory: Path, names: Sequence[str]) -> None:
    """Create `ca.crt`, `tls.crt` and `tls.key` in `directory`, for programs that are each other's servers and clients.

    The certificate is for 127.0.0.1 and the DNS `names`; the first name is its subject. It is renewed before it expires,
    and if its names or the authority change.
    """
    pair, authority = Pair(directory / "tls.crt", directory / "tls.key"), directory / "ca.crt"
    wanted: list[x509.GeneralName] = [x509.DNSName(name) for name in names]
    wanted.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    now = datetime.datetime.now(datetime.UTC)
    known = authority.exists() and authority.read_bytes() == pki.ca.read_bytes()
    if known and _valid(pair, now) and _names(pair) == wanted:
        return
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    _write_leaf(pair, pki._pair("ca"), subject, now, usages=usages, names=wanted)
    write_whole(authority, pki.ca.read_bytes())


def write_kubeconfig(path: Path, pki: Pki, client: Client, server: str) -> None:
    """Write a kubeconfig for `client` with everything embedded, so that the file can be copied and used anywhere here."""
    pair = pki.client(client)
    user = {"client-certificate-data": embedded(pair.certificate), "client-key-data": embedded(pair.key)}
    _write_kubeconfig(path, pki, client.user, user, server)


def write_token_kubeconfig(path: Path, pki: Pki, name: str, token_file: Path, server: str) -> None:
    """Write a kubeconfig with the path of a token file, which clients read again when it changes."""
    _write_kubeconfig(path, pki, name, {"tokenFile": str(token_file)}, server)


def _write_kubeconfig(path: Path, pki: Pki, name: str, user: Mapping[str, str], server: str) -> None:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "twin", "cluster": {"server": server, "certificate-authority-data": embedded(pki.ca)}}],
        "users": [{"name": name, "user": dict(user)}],
        "contexts": [{"name": "twin", "context": {"cluster": "twin", "user": name}}],
        "current-context": "twin",
    }
    content = yaml.safe_dump(document, sort_keys=False).encode()
    if not path.exists() or path.read_bytes() != content:
        write_whole(path, content)


def embedded(path: Path) -> str:
    """Return a file in base64, as in kubeconfigs and API objects."""
    return base64.b64encode(path.read_bytes()).decode()


def _valid(pair: Pair, now: datetime.datetime) -> bool:
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
        key = serialization.load_pem_private_key(pair.key.read_bytes(), password=None)
    except (FileNotFoundError, ValueError):
        return False
    if certificate.not_valid_after_utc - now < _RENEW_BEFORE:
        return False
    return isinstance(key, ec.EllipticCurvePrivateKey) and key.public_key() == certificate.public_key()


def _names(pair: Pair) -> list[x509.GeneralName]:
    certificate = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
    return list(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)


def _write_authority(pair: Pair, name: str, now: datetime.datetime) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        _builder(subject, subject, key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(certificate_signing=True), critical=True)
    )
    _write_pair(pair, key, builder.sign(key, hashes.SHA256()))


def _write_leaf(
    pair: Pair,
    issuer: Pair,
    subject: x509.Name,
    now: datetime.datetime,
    *,
    usages: list[x509.ObjectIdentifier],
    names: list[x509.GeneralName] | None = None,
) -> None:
    authority = x509.load_pem_x509_certificate(issuer.certificate.read_bytes())
    signer = serialization.load_pem_private_key(issuer.key.read_bytes(), password=None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _builder(subject, authority.subject, key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(certificate_signing=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    _write_pair(pair, key, builder.sign(signer, hashes.SHA256()))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + _LIFETIME)
    )


def _key_usage(*, certificate_signing: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not certificate_signing,
        key_cert_sign=certificate_signing,
        crl_sign=certificate_signing,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _write_pair(pair: Pair, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
    write_whole(pair.key, _pem(key))
    write_whole(pair.certificate, certificate.public_bytes(serialization.Encoding.PEM))


def _pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
