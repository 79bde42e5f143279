"""Signed releases: only releases signed by `models.signers` reach servers, other stacks and stack files.

PyPI's model-signing, which defines the format, verifies our signatures, and we accept its signatures.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from cryptography.x509.oid import NameOID
from model_signing import signing, verifying
from moto.kms.responses import KmsResponse

from modelctl.rollout import command as rollout_command
from modelctl.store.bucket import Store
from modelctl.store.errors import Place
from modelctl.store.journal import Journal
from modelctl.store.live import LiveRepository
from modelctl.store.manifest import Manifest
from modelctl.store.signer import Signer
from spec.release_signature import SignatureError, verify
from tests.command import Ended, run
from tests.modelctl.conftest import BUCKET
from tests.modelctl.rollout.idle_fleet import IdleFleet
from tests.modelctl.rollout.releases import CODE, model, publish
from tests.modelctl.stacks import write_stack

NOW = datetime.now(UTC)
REMEDY = "a signer of models.signers runs `modelctl release MODELS_DIR --bucket BUCKET --sign KEY` on its models"


def private_key(file: Path) -> ec.EllipticCurvePrivateKey:
    key = ec.generate_private_key(ec.SECP256R1())
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file.write_bytes(key.private_bytes(*form))
    return key


def public(key: Any) -> str:
    form = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return str(key.public_bytes(*form).decode())


def certificate(
    subject: str, key: Any, issuer: str, issuer_key: Any, until: datetime, *, ca: bool = False, issues: bool | None = None
) -> str:
    name = {who: x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, who)]) for who in (subject, issuer)}
    issues = ca if issues is None else issues
    usage = x509.KeyUsage(not ca, False, False, False, False, issues, issues, False, False)
    builder = x509.CertificateBuilder().subject_name(name[subject]).issuer_name(name[issuer]).public_key(key)
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(NOW - timedelta(30)).not_valid_after(until)
    builder = builder.add_extension(x509.BasicConstraints(ca, None), critical=True).add_extension(usage, critical=True)
    return builder.sign(issuer_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def signer(key: Path | str, certificates: Path | None = None) -> Signer:
    signer = Signer.of(str(key), certificates)
    assert signer is not None
    return signer


def accepted(store: Store, manifest: Manifest, signers: list[str]) -> None:
    """Raise SignatureError unless one of the signers has signed the release."""
    stored = store.document(manifest.id, "manifest.json")
    assert stored is not None
    verify(manifest.id, stored, store.document(manifest.id, "manifest.sig"), signers)


class Site:
    """A signed release, and stack files that require its signature."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store, self.folder = store, folder
        self.key = folder / "key.pem"
        self.signers = [public(private_key(self.key).public_key())]
        self.signers_of: dict[str, list[str]] = {}
        self.manifest = publish(store, folder / "models", model())
        self.sign(self.manifest)

    def sign(self, manifest: Manifest, key: Path | None = None) -> None:
        signer(key or self.key).sign(self.store, manifest)

    def put(self, name: str, body: bytes | None) -> None:
        """Replace or delete an object of the release, like an attacker that no policy stops."""
        at = {"Bucket": BUCKET, "Key": f"releases/{self.manifest.id}/{name}"}
        s3 = boto3.client("s3")
        _ = s3.delete_object(**at) if body is None else s3.put_object(**at, Body=body)

    def read(self, name: str) -> bytes:
        return bytes(boto3.client("s3").get_object(Bucket=BUCKET, Key=f"releases/{self.manifest.id}/{name}")["Body"].read())

    def stacks(self) -> list[Path]:
        files = [write_stack(self.folder / "stacks", {}, stack=stack) for stack in ("dev", "staging")]
        for file, stack in zip(files, ("dev", "staging"), strict=True):
            models = {
                "access": "local",
                "fetcher": {"image": f"registry.example.com/modelctl@sha256:{hashlib.sha256(b'modelctl').hexdigest()}"},
                "signers": self.signers_of.get(stack, self.signers),
                "release": {"id": self.manifest.id, "bytes": 1, "models": {"adder": 1}},
            }
            lines = "\n    ".join(f"{key}: {json.dumps(value)}" for key, value in models.items())
            file.write_text(file.read_text().replace("oldReleaseDays: 14", f"oldReleaseDays: 14\n    {lines}"))
        return files

    def resign(self, key: Path | str, certificates: Path | None = None) -> None:
        """Sign the release again, like an attacker that may delete the signature."""
        self.put("manifest.sig", None)
        signer(key, certificates).sign(self.store, self.manifest)

    def download(self) -> Path:
        """Return a folder with all objects of the release."""
        prefix = f"releases/{self.manifest.id}/"
        for entry in boto3.client("s3").list_objects_v2(Bucket=BUCKET, Prefix=prefix)["Contents"]:
            file = self.folder / "download" / entry["Key"].removeprefix(prefix)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(self.read(entry["Key"].removeprefix(prefix)))
        return self.folder / "download"

    def run(self, command: str, *more: object) -> Ended:
        dev, _ = self.stacks()
        at = ["--bucket", BUCKET]
        to = ["--to", self.folder / "disk", "--signers", "".join(self.signers)]
        return run(
            "modelctl",
            command,
            *{
                "fetch": [self.manifest.id, *at, *to],
                "follow": [*at, *to, "--once"],
                "pin": [self.manifest.id, *at, "--file", dev],
                "promote": ["staging", "--before", "dev", "--from", BUCKET, "--bucket", "target", "--stacks", dev.parent],
                "rollout": [self.manifest.id, *at, "--stacks", dev.parent, "--stack", "dev"],
                "release": [self.folder / "models", *at],
            }[command],
            *more,
        )

    def served(self) -> int:
        """Return the bytes that a server or another stack gets of it."""
        disk = sum(path.stat().st_size for path in (self.folder / "disk").glob("current/**/*") if path.is_file())
        s3 = boto3.client("s3")
        live = s3.list_objects_v2(Bucket=BUCKET, Prefix="live/adder").get("Contents", [])
        return disk + sum(entry["Size"] for entry in [*live, *s3.list_objects_v2(Bucket="target").get("Contents", [])])


@pytest.fixture
def site(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    boto3.client("s3").create_bucket(Bucket="target", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    monkeypatch.setattr(rollout_command, "_fleet", lambda *_, **__: IdleFleet([]))
    site = Site(store, tmp_path)
    LiveRepository(store).write_journal(Journal(serving=site.manifest.id), None)
    return site


def flip(site: Site) -> str:
    content = json.loads(site.read("manifest.sig"))
    signed = content["dsseEnvelope"]["signatures"][0]
    signed["sig"] = signed["sig"][:20] + ("A" if signed["sig"][20] != "A" else "B") + signed["sig"][21:]
    site.put("manifest.sig", json.dumps(content).encode())
    return "another key made it, or it has been changed"


def unsigned(site: Site) -> str:
    site.put("manifest.sig", None)
    return f"release {site.manifest.id} has no signature, and models.signers requires one; {REMEDY}"


def swapped_version(site: Site) -> str:
    site.put("manifest.json", site.read("manifest.json").replace(b'"backend": "python"', b'"backend": "custom"'))
    return "it signs another release"


def replayed(site: Site) -> str:
    earlier = publish(site.store, site.folder / "models", model(code=f"{CODE}# earlier\n"))
    site.sign(earlier)
    for name in ("manifest.json", "manifest.sig"):
        key = f"releases/{earlier.id}/{name}"
        site.put(name, boto3.client("s3").get_object(Bucket=BUCKET, Key=key)["Body"].read())
    return f"manifest.json belongs to release {earlier.id}"


def replayed_signature(site: Site) -> str:
    earlier = publish(site.store, site.folder / "models", model(code=f"{CODE}# earlier\n"))
    site.sign(earlier)
    site.put("manifest.sig", site.store.document(earlier.id, "manifest.sig"))
    return "it signs another release"


def unknown_signer(site: Site) -> str:
    private_key(site.folder / "other.pem")
    site.resign(site.folder / "other.pem")
    return "another key made it"


def revoked_signer(site: Site) -> str:
    site.signers = [public(private_key(site.folder / "next.pem").public_key())]  # the entry of the key has been replaced
    return "another key made it"


def expired_signer(site: Site) -> str:
    authority = private_key(site.folder / "authority.pem")
    key = serialization.load_pem_private_key(site.key.read_bytes(), None).public_key()
    file = site.folder / "certificate.pem"
    file.write_text(certificate("team", key, "authority", authority, NOW - timedelta(1)))
    site.signers = [certificate("authority", authority.public_key(), "authority", authority, NOW + timedelta(9), ca=True)]
    site.resign(site.key, file)
    return f"the certificate CN=team was valid until {NOW - timedelta(1):%Y-%m-%d}"


ATTACKS = [
    flip, unsigned, swapped_version, replayed, replayed_signature, unknown_signer, revoked_signer, expired_signer,
]  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("command", ["fetch", "follow", "pin", "promote", "rollout"])
def test_a_release_that_no_signer_has_signed_serves_no_byte(command: str, attack: Callable[[Site], str], site: Site) -> None:
    reason = attack(site)
    before = {file: file.read_bytes() for file in site.stacks()}
    ended = site.run(command)
    (error,) = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
    assert (ended.exit_code, reason in error) == (1, True), ended.output
    assert attack is replayed or error.endswith(REMEDY)
    assert site.served() == 0
    assert {file: file.read_bytes() for file in site.stacks()} == before


@pytest.mark.parametrize("command", ["fetch", "follow", "promote"])
@pytest.mark.parametrize("tampering", ["removed", "flipped"])
def test_a_removed_or_changed_file_of_a_signed_release_serves_no_byte(command: str, tampering: str, site: Site) -> None:
    content = site.read("adder/1/model.py")
    site.put("adder/1/model.py", None if tampering == "removed" else bytes([content[0] ^ 1]) + content[1:])
    ended = site.run(command)
    assert ended.exit_code != 0
    assert "adder/1/model.py" in ended.output or "NoSuchKey" in ended.output
    assert not (site.folder / "disk" / "current").exists()
    assert site.store.manifest(site.manifest.id) is not None
    target = boto3.client("s3").list_objects_v2(Bucket="target").get("Contents", [])
    assert [entry["Key"] for entry in target if "manifest" in entry["Key"]] == []


@pytest.mark.parametrize("command", ["fetch", "promote"])
def test_an_additional_file_is_left_out(command: str, site: Site) -> None:
    site.put("adder/1/extra.py", b"evil")
    assert site.run(command).exit_code == 0
    assert not list((site.folder / "disk").rglob("extra.py"))
    listed = boto3.client("s3").list_objects_v2(Bucket="target").get("Contents", [])
    assert not [entry for entry in listed if "extra" in entry["Key"]]


@pytest.mark.parametrize("command", ["fetch", "pin", "promote"])
def test_a_signed_release_is_taken(command: str, site: Site) -> None:
    ended = site.run(command)
    assert (ended.exit_code, ended.stderr.count("error")) == (0, 0), ended.output


def test_a_promoted_release_brings_its_signature(site: Site) -> None:
    assert site.run("promote").exit_code == 0
    copied = boto3.client("s3").get_object(Bucket="target", Key=f"releases/{site.manifest.id}/manifest.sig")["Body"].read()
    assert copied == site.read("manifest.sig")


def test_a_stack_with_other_signers_refuses_the_signature_and_promote_signs_for_it(site: Site) -> None:
    site.signers_of["staging"] = [public(private_key(site.folder / "staging.pem").public_key())]
    refused = site.run("promote")
    assert (refused.exit_code, refused.stderr.count("another key made it"), site.served()) == (1, 1, 0), refused.output
    foreign = site.run("promote", "--sign", site.key)
    assert (foreign.exit_code, site.served()) == (1, 0)
    assert foreign.stderr == f"error: {site.key}: models.signers does not have this key; sign with one that it has\n"
    assert site.run("promote", "--sign", site.folder / "staging.pem").exit_code == 0
    target = Store(boto3.client("s3"), Place("target", None))
    accepted(target, site.manifest, site.signers_of["staging"])
    with pytest.raises(SignatureError, match="another key made it"):
        accepted(target, site.manifest, site.signers)


def test_release_signs_and_repeats_for_one_that_is_released(site: Site) -> None:
    site.put("manifest.sig", None)
    for _ in range(2):
        ended = site.run("release", "--sign", site.key)
        assert ended.exit_code == 0, ended.output
        accepted(site.store, site.manifest, site.signers)


def test_release_signs_no_manifest_that_differs_from_the_models(site: Site) -> None:
    swapped_version(site)
    site.put("manifest.sig", None)
    ended = site.run("release", "--sign", site.key)
    assert ended.exit_code == 1
    assert f"releases/{site.manifest.id}/manifest.json in s3://{BUCKET} differs from the release to sign" in ended.stderr
    assert site.store.document(site.manifest.id, "manifest.sig") is None


def test_a_signature_of_another_key_is_never_replaced(site: Site) -> None:
    private_key(site.folder / "other.pem")
    ended = site.run("release", "--sign", site.folder / "other.pem")
    assert ended.exit_code == 1
    assert ended.stderr.endswith(
        f"error: release {site.manifest.id} in s3://{BUCKET} has a signature of another key; delete "
        f"releases/{site.manifest.id}/manifest.sig, then run the same command again\n"
    )
    accepted(site.store, site.manifest, site.signers)


@pytest.fixture
def kms_signs_digests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sign as AWS documents `Sign`: a DIGEST has the algorithm's size and is signed unchanged. moto hashes it again."""

    def sign(self: KmsResponse) -> str:
        algorithm, message = str(self._get_param("SigningAlgorithm")), self._get_param("Message")
        hashed = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}[
            algorithm.removeprefix("ECDSA_SHA_")
        ]
        assert (self._get_param("MessageType"), len(message)) == ("DIGEST", hashed.digest_size)
        key = self.kms_backend.describe_key(self._get_param("KeyId"))
        signed = key.private_key.private_key.sign(message, ec.ECDSA(Prehashed(hashed)))
        return json.dumps({"KeyId": key.arn, "Signature": b64encode(signed).decode(), "SigningAlgorithm": algorithm})

    monkeypatch.setattr(KmsResponse, "sign", sign)


@pytest.mark.usefixtures("kms_signs_digests")
@pytest.mark.parametrize("spec", ["ECC_NIST_P256", "ECC_NIST_P384", "ECC_NIST_P521"])
def test_a_key_in_kms_signs_and_never_leaves_it(spec: str, site: Site) -> None:
    kms = boto3.client("kms", "us-west-2")
    key = kms.create_key(KeyUsage="SIGN_VERIFY", KeySpec=spec)["KeyMetadata"]["Arn"]
    site.resign(f"awskms:{key}")
    der = serialization.load_der_public_key(kms.get_public_key(KeyId=key)["PublicKey"])
    accepted(site.store, site.manifest, [public(der)])
    with pytest.raises(SignatureError, match="another key made it"):
        accepted(site.store, site.manifest, site.signers)


class Issued:
    """The site's key with a certificate from an intermediate authority, its root, and a foreign root of the same name."""

    def __init__(self, site: Site, *, ca: bool = True, issues: bool = True, may_sign: bool = True) -> None:
        authority, between, stranger = (private_key(site.folder / f"{n}.pem") for n in ("authority", "between", "stranger"))
        key = serialization.load_pem_private_key(site.key.read_bytes(), None).public_key()
        later = NOW + timedelta(9)
        self.chain = site.folder / "chain.pem"
        self.chain.write_text(
            certificate("team", key, "between", between, NOW + timedelta(5), ca=not may_sign)
            + certificate("between", between.public_key(), "authority", authority, later, ca=ca, issues=issues)
        )
        self.trusted = certificate("authority", authority.public_key(), "authority", authority, later, ca=True)
        self.foreign = certificate("authority", stranger.public_key(), "authority", stranger, later, ca=True)


def test_a_certificate_that_an_authority_issued_signs(site: Site) -> None:
    issued = Issued(site)
    site.resign(site.key, issued.chain)
    accepted(site.store, site.manifest, [issued.trusted])
    with pytest.raises(SignatureError, match="no certificate of a signer issued its certificate"):
        accepted(site.store, site.manifest, [issued.foreign])


@pytest.mark.parametrize("rights", [{"ca": False}, {"issues": False}, {"may_sign": False}])
def test_a_certificate_without_the_right_signs_nothing(rights: dict[str, bool], site: Site) -> None:
    issued = Issued(site, **rights)
    site.resign(site.key, issued.chain)
    with pytest.raises(SignatureError, match="no certificate of a signer issued its certificate"):
        accepted(site.store, site.manifest, [issued.trusted])


def test_the_reference_implementation_verifies_a_downloaded_release(site: Site) -> None:
    folder = site.download()
    (site.folder / "public.pem").write_text(site.signers[0])
    by_key = verifying.Config().use_elliptic_key_verifier(public_key=site.folder / "public.pem")
    by_key.verify(folder, folder / "manifest.sig")
    issued = Issued(site)
    site.resign(site.key, issued.chain)
    (site.folder / "trusted.pem").write_text(issued.trusted)
    site.download()
    by_certificate = verifying.Config().use_certificate_verifier(certificate_chain=[site.folder / "trusted.pem"])
    by_certificate.verify(folder, folder / "manifest.sig")
    (folder / "adder" / "extra.py").write_text("evil")
    with pytest.raises(ValueError, match=r"Extra files.*extra\.py"):
        by_certificate.verify(folder, folder / "manifest.sig")


def test_a_signature_of_the_reference_implementation_is_accepted(site: Site) -> None:
    site.put("manifest.sig", None)
    folder = site.download()
    signing.Config().use_elliptic_key_signer(private_key=site.key).sign(folder, site.folder / "manifest.sig")
    site.put("manifest.sig", (site.folder / "manifest.sig").read_bytes())
    accepted(site.store, site.manifest, site.signers)


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"[" * 100_000, b'{"dsseEnvelope": {"payload": 1}}'])
def test_a_file_that_is_no_signature_is_refused(content: bytes, site: Site) -> None:
    site.put("manifest.sig", content)
    with pytest.raises(SignatureError, match=r"is by no signer of models\.signers"):
        accepted(site.store, site.manifest, site.signers)


def test_a_retired_release_goes_with_its_signature(site: Site) -> None:
    others = write_stack(site.folder / "others", {}, stack="dev").parent
    for entry in boto3.client("s3").list_objects_v2(Bucket=BUCKET, Prefix="live/")["Contents"]:
        boto3.client("s3").delete_object(Bucket=BUCKET, Key=entry["Key"])
    for undo, tags in ((), {"retired": "true"}), (("--undo",), {}):
        assert run("modelctl", "retire", site.manifest.id, "--bucket", BUCKET, "--stacks", others, *undo).exit_code == 0
        assert site.store.tags(site.manifest.id, "manifest.sig") == tags


def test_signers_without_a_key_require_one(site: Site) -> None:
    ended = run("modelctl", "fetch", site.manifest.id, "--bucket", BUCKET, "--to", site.folder / "d", "--signers", "none")
    said = "error: --signers (MODEL_SIGNERS): has no public key and no certificate in PEM; give models.signers\n"
    assert (ended.exit_code, ended.stderr) == (1, said)


def test_a_key_that_cannot_sign_is_named(tmp_path: Path) -> None:
    with pytest.raises(SignatureError, match=r"nowhere\.pem: cannot sign: .*; give an EC key"):
        Signer.of(str(tmp_path / "nowhere.pem"))
    with pytest.raises(SignatureError, match="--certificates: is used only with --sign"):
        Signer.of(None, tmp_path / "certificate.pem")
