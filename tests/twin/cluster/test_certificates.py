import base64
import datetime
import socket
import ssl
import threading
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from twin.cluster import certificates
from twin.cluster.certificates import ADMIN, AGENT, CLIENTS, FRONT_PROXY, SCHEDULER, Pki
from twin.host.home import TwinHome


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return certificates.ensure(TwinHome(tmp_path_factory.mktemp("home")))


def load(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_every_client_is_issued_by_its_authority_for_clients_only(pki: Pki) -> None:
    for client in CLIENTS:
        certificate = load(pki.client(client).certificate)
        certificate.verify_directly_issued_by(load(pki.directory / f"{client.authority}.crt"))
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]


def test_kubernetes_reads_user_and_groups_from_the_subject(pki: Pki) -> None:
    subject = load(pki.client(ADMIN).certificate).subject
    assert [a.value for a in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == ["system:masters"]
    scheduler = load(pki.client(SCHEDULER).certificate).subject
    assert [a.value for a in scheduler.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["system:kube-scheduler"]
    assert scheduler.get_attributes_for_oid(NameOID.ORGANIZATION_NAME) == []


def test_the_front_proxy_has_an_authority_that_no_client_of_the_api_server_has(pki: Pki) -> None:
    certificate = load(pki.client(FRONT_PROXY).certificate)
    with pytest.raises(ValueError, match="Issuer"):
        certificate.verify_directly_issued_by(load(pki.ca))


def test_the_api_server_is_trusted_at_its_address_and_refuses_a_stranger(pki: Pki) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(pki.ca))
    context.load_cert_chain(pki.serving.certificate, pki.serving.key)
    context.verify_mode = ssl.CERT_REQUIRED
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with context.wrap_socket(connection, server_side=True) as server:
                presented = server.getpeercert(binary_form=True)
                assert presented is not None
                server.sendall(presented)

        thread = threading.Thread(target=serve)
        thread.start()
        with (
            socket.create_connection(listener.getsockname(), timeout=10) as raw,
            pki.client_context(AGENT).wrap_socket(raw, server_hostname="127.0.0.1") as client,
        ):
            assert client.recv(10000) == load(pki.client(AGENT).certificate).public_bytes(serialization.Encoding.DER)
        thread.join()


def test_service_account_tokens_are_signed_with_rsa_as_on_eks(pki: Pki) -> None:
    key = serialization.load_pem_private_key(pki.service_account_key.read_bytes(), None)
    assert isinstance(key, rsa.RSAPrivateKey)
    public = serialization.load_pem_public_key(pki.service_account_public_key.read_bytes())
    assert public == key.public_key()


def test_nothing_is_made_twice(tmp_path: Path) -> None:
    certificates.ensure(TwinHome(tmp_path))
    before = {path: path.read_bytes() for path in (tmp_path / "pki").iterdir()}
    certificates.ensure(TwinHome(tmp_path))
    assert {path: path.read_bytes() for path in (tmp_path / "pki").iterdir()} == before


def test_a_lost_leaf_is_made_again_under_the_same_authority(tmp_path: Path) -> None:
    pki = certificates.ensure(TwinHome(tmp_path))
    authority = pki.ca.read_bytes()
    pki.client(SCHEDULER).key.unlink()
    certificates.ensure(TwinHome(tmp_path))
    assert pki.ca.read_bytes() == authority
    load(pki.client(SCHEDULER).certificate).verify_directly_issued_by(load(pki.ca))
    pki.client_context(SCHEDULER)


def test_a_new_authority_renews_everything_below_it(tmp_path: Path) -> None:
    pki = certificates.ensure(TwinHome(tmp_path))
    pki.ca.unlink()
    certificates.ensure(TwinHome(tmp_path))
    for path in (pki.serving.certificate, *(pki.client(c).certificate for c in CLIENTS if c.authority == "ca")):
        load(path).verify_directly_issued_by(load(pki.ca))


def test_a_certificate_that_is_about_to_expire_is_renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "_LIFETIME", datetime.timedelta(days=29))
    pki = certificates.ensure(TwinHome(tmp_path))
    monkeypatch.undo()
    certificates.ensure(TwinHome(tmp_path))
    assert load(pki.serving.certificate).not_valid_after_utc > datetime.datetime.now(datetime.UTC) + datetime.timedelta(
        days=3000
    )


def test_private_keys_are_readable_by_their_owner_only(pki: Pki) -> None:
    assert {path.stat().st_mode & 0o777 for path in pki.directory.glob("*.key")} == {0o600}


def test_the_kubeconfig_carries_everything_in_itself(pki: Pki, tmp_path: Path) -> None:
    certificates.write_kubeconfig(tmp_path / "kubeconfig", pki, ADMIN, "https://127.0.0.1:6443")
    document = yaml.safe_load((tmp_path / "kubeconfig").read_text())
    cluster = document["clusters"][0]["cluster"]
    assert cluster["server"] == "https://127.0.0.1:6443"
    assert base64.b64decode(cluster["certificate-authority-data"]) == pki.ca.read_bytes()
    user = document["users"][0]["user"]
    assert base64.b64decode(user["client-certificate-data"]) == pki.client(ADMIN).certificate.read_bytes()
    assert base64.b64decode(user["client-key-data"]) == pki.client(ADMIN).key.read_bytes()
    assert document["current-context"] == document["contexts"][0]["name"]
