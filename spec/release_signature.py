"""Signatures of releases: Sigstore bundles in the format of OpenSSF Model Signing 1.0.

The signed statement has the SHA-256 of the stored manifest and of every object, so `model_signing verify` of PyPI's
model-signing package can also verify a downloaded release. This project does not use that package: with Sigstore's clients
it adds 20 packages to the pods' image, and it has no signer for KMS.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key
from cryptography.x509 import verification

from spec.failure import Failure
from spec.names import RELEASE_MANIFEST, RELEASE_SIGNATURE, RELEASES_PREFIX

SIGN = "modelctl release MODELS_DIR --bucket BUCKET --sign KEY"
REMEDY = f"a signer of models.signers runs `{SIGN}` on its models"

_PAYLOAD_TYPE = "application/vnd.in-toto+json"
_STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
_PREDICATE_TYPE = "https://model_signing/signature/v1.0"
_CERTIFICATE = "-----BEGIN CERTIFICATE-----"
_PEM = re.compile(r"-----BEGIN ([A-Z ]+)-----.*?-----END \1-----\n?", re.DOTALL)


class SignatureError(Failure):
    """A release has no signature by one of the stack's signers, or cannot be signed."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}; {remedy}")
        self.problem, self.remedy = problem, remedy


def digest_for(curve_bits: int) -> hashes.HashAlgorithm:
    """Return the hash for a key on P-256, P-384 or P-521. Raises KeyError for other keys."""
    return {256: hashes.SHA256(), 384: hashes.SHA384(), 521: hashes.SHA512()}[curve_bits]


def bundle(
    release_id: str,
    manifest: bytes,
    sign: Callable[[bytes], bytes],
    key: ec.EllipticCurvePublicKey,
    certificates: Sequence[x509.Certificate] = (),
) -> bytes:
    """Return the signature of a release. `sign` signs with the private half of `key`; `certificates` are its chain."""
    resources = _resources(manifest)
    root = hashlib.sha256(b"".join(bytes.fromhex(one["digest"]) for one in resources)).hexdigest()
    serialization = {"method": "files", "hash_type": "sha256", "allow_symlinks": False, "ignore_paths": [RELEASE_SIGNATURE]}
    statement = {
        "_type": _STATEMENT_TYPE,
        "subject": [{"name": release_id, "digest": {"sha256": root}}],
        "predicateType": _PREDICATE_TYPE,
        "predicate": {"serialization": serialization, "resources": resources},
    }
    payload = json.dumps(statement).encode()
    material: dict[str, Any]
    if certificates:
        chain = [{"rawBytes": _base64(one.public_bytes(Encoding.DER))} for one in certificates]
        material = {"x509CertificateChain": {"certificates": chain}}
    else:
        pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        material = {"publicKey": {"hint": hashlib.sha256(pem).hexdigest()}}
    signature = {"sig": _base64(sign(_authenticated(payload))), "keyid": ""}
    content = {
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": {**material, "tlogEntries": []},
        "dsseEnvelope": {"payload": _base64(payload), "payloadType": _PAYLOAD_TYPE, "signatures": [signature]},
    }
    return json.dumps(content).encode()


def split(signers: str | None) -> tuple[str, ...]:
    """Return the signers in a PEM text. Raises SignatureError for a text without any, which would require no signature."""
    listed = tuple(match[0] for match in _PEM.finditer(signers or ""))
    if signers and not listed:
        raise SignatureError("--signers (MODEL_SIGNERS): has no public key and no certificate in PEM", "give models.signers")
    return listed


def verify(release_id: str, manifest: bytes, signature: bytes | None, signers: Sequence[str]) -> None:
    """Require a signature of the stored manifest by one of the signers, if there are any. Raises SignatureError.

    `signers` are public keys, or certificates of authorities that issue the signers' certificates, all as PEM.
    """
    if not signers:
        return
    if signature is None:
        raise SignatureError(f"release {release_id} has no signature, and models.signers requires one", REMEDY)
    reasons = []
    for signer in signers:
        try:
            _verify(manifest, json.loads(signature), signer)
            if json.loads(manifest)["id"] != release_id:
                raise ValueError("it signs another release")
            return
        except Exception as error:  # the content is untrusted: any error means that this signer has not signed
            reasons.append(str(error).strip().rstrip(".") or type(error).__name__)
    raise SignatureError(
        f"the signature of release {release_id} is by no signer of models.signers ({'; '.join(dict.fromkeys(reasons))})",
        f"delete {RELEASES_PREFIX}{release_id}/{RELEASE_SIGNATURE}, then {REMEDY}",
    )


def _verify(manifest: bytes, content: Mapping[str, Any], signer: str) -> None:
    envelope = content["dsseEnvelope"]
    payload = base64.b64decode(envelope["payload"])
    key = (
        _certified(content["verificationMaterial"], signer)
        if _CERTIFICATE in signer
        else load_pem_public_key(signer.encode())
    )
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise ValueError("a signer has no EC key")
    try:
        signature = base64.b64decode(envelope["signatures"][0]["sig"])
        key.verify(signature, _authenticated(payload), ec.ECDSA(digest_for(key.key_size)))
    except InvalidSignature:
        raise ValueError("another key made it, or it has been changed") from None
    statement = json.loads(payload)
    signed = sorted(statement["predicate"]["resources"], key=lambda one: str(one["name"]))
    if (statement["_type"], statement["predicateType"], signed) != (_STATEMENT_TYPE, _PREDICATE_TYPE, _resources(manifest)):
        raise ValueError("it signs another release")


def _certified(material: Mapping[str, Any], authority: str) -> Any:
    """Return the key of the signer's certificate. Raises ValueError unless the authority issued it, directly or not."""
    listed = material["x509CertificateChain"]["certificates"]
    leaf, *others = [x509.load_der_x509_certificate(base64.b64decode(one["rawBytes"])) for one in listed]
    trusted = x509.load_pem_x509_certificate(authority.encode())
    for certificate in (leaf, *others, trusted):
        if certificate.not_valid_after_utc < datetime.now(UTC):
            name = certificate.subject.rfc4514_string()
            raise ValueError(f"the certificate {name} was valid until {certificate.not_valid_after_utc:%Y-%m-%d}")
    policy = verification.ExtensionPolicy.permit_all()
    agnostic = verification.Criticality.AGNOSTIC
    authorities = policy.require_present(x509.BasicConstraints, agnostic, None)  # cryptography itself checks cA
    authorities = authorities.may_be_present(x509.KeyUsage, agnostic, _require_issuing)
    users = policy.require_present(x509.KeyUsage, agnostic, _require_signing)
    builder = verification.PolicyBuilder().store(verification.Store([trusted]))
    builder = builder.extension_policies(ca_policy=authorities, ee_policy=users)
    try:
        builder.build_client_verifier().verify(leaf, others)
    except verification.VerificationError as error:
        raise ValueError(f"no certificate of a signer issued its certificate: {error}") from None
    return leaf.public_key()


def _require_issuing(_: verification.Policy, __: x509.Certificate, usage: x509.KeyUsage | None) -> None:
    if usage is not None and not usage.key_cert_sign:
        raise ValueError("a certificate in the chain may issue none")


def _require_signing(_: verification.Policy, __: x509.Certificate, usage: x509.KeyUsage) -> None:
    if not usage.digital_signature:
        raise ValueError("the certificate is not for digital signatures")


def _resources(manifest: bytes) -> list[dict[str, str]]:
    """Return the files that a signature has to cover, in the format's terms: the manifest and every object."""
    objects = json.loads(manifest)["objects"]
    digests = {key: entry["sha256"] for key, entry in objects.items()} | {
        RELEASE_MANIFEST: hashlib.sha256(manifest).hexdigest()
    }
    return [{"name": name, "digest": digests[name], "algorithm": "sha256"} for name in sorted(digests)]


def _authenticated(payload: bytes) -> bytes:
    """Return the bytes that DSSE signs: the payload with its type and sizes."""
    return f"DSSEv1 {len(_PAYLOAD_TYPE)} {_PAYLOAD_TYPE} {len(payload)} ".encode() + payload


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
