"""Sign releases with a key in a file or in KMS."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import boto3
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_der_public_key, load_pem_private_key

from modelctl.store.bucket import Store
from modelctl.store.manifest import Manifest
from spec.names import RELEASE_MANIFEST, RELEASE_SIGNATURE, RELEASES_PREFIX
from spec.release_signature import SignatureError, bundle, digest_for, verify

KMS = "awskms:"


@dataclass(frozen=True)
class Signer:
    """A private EC key that signs bytes, and the certificate chain of its public key, leaf first."""

    name: str
    public: ec.EllipticCurvePublicKey
    sign_bytes: Callable[[bytes], bytes]
    chain: Sequence[x509.Certificate]

    @classmethod
    def of(cls, key: str | None, certificates: Path | None = None) -> Signer | None:
        """Return the signer for `key`. It is a PEM file with a private key, or `awskms:` and a key ARN. None without a key.

        Raises SignatureError.
        """
        if key is None:
            if certificates is not None:
                raise SignatureError(
                    "--certificates: is used only with --sign", "give the private key of the first certificate"
                )
            return None
        try:
            public, sign_bytes = _kms(key.removeprefix(KMS)) if key.startswith(KMS) else _file(Path(key))
            chain = x509.load_pem_x509_certificates(certificates.read_bytes()) if certificates else []
            if chain and chain[0].public_key() != public:
                raise ValueError(f"the first certificate of {certificates} is of another key")
        except Exception as error:  # errors of cryptography, KMS or files
            raise SignatureError(
                f"{key}: cannot sign: {str(error).strip().rstrip('.')}",
                f"give an EC key (P-256, P-384 or P-521), unencrypted in a PEM file, or {KMS}ARN of one for SIGN_VERIFY",
            ) from error
        return cls(key, public, sign_bytes, chain)

    def sign(self, store: Store, manifest: Manifest) -> None:
        """Write the signature of a finished release.

        Raises SignatureError if the stored manifest is not this one, or if another key has signed it.
        """
        signature = self._bundle(store, manifest)
        if store.write_document(manifest.id, RELEASE_SIGNATURE, signature):
            return
        if _key_of(store.document(manifest.id, RELEASE_SIGNATURE) or b"") != _key_of(signature):
            key = f"{RELEASES_PREFIX}{manifest.id}/{RELEASE_SIGNATURE}"
            raise SignatureError(
                f"release {manifest.id} in {store.place} has a signature of another key",
                f"delete {key}, then run the same command again",
            )

    def require_one_of(self, signers: Sequence[str], store: Store, manifest: Manifest) -> None:
        """Check that a signature by this key satisfies `signers`, for the release in `store`. Raises SignatureError."""
        try:
            verify(manifest.id, _stored(store, manifest), self._bundle(store, manifest), signers)
        except SignatureError:
            raise SignatureError(
                f"{self.name}: models.signers does not have this key", "sign with one that it has"
            ) from None

    def _bundle(self, store: Store, manifest: Manifest) -> bytes:
        return bundle(manifest.id, _stored(store, manifest), self.sign_bytes, self.public, self.chain)


def _stored(store: Store, manifest: Manifest) -> bytes:
    content = store.document(manifest.id, RELEASE_MANIFEST) or b""
    if Manifest.parse(content.decode("utf-8", errors="replace")) != manifest:
        raise SignatureError(
            f"{RELEASES_PREFIX}{manifest.id}/{RELEASE_MANIFEST} in {store.place} differs from the release to sign",
            "restore its earlier object version, or delete it and release the same models again",
        )
    return content


def _key_of(signature: bytes) -> object:
    try:
        return json.loads(signature)["verificationMaterial"]
    except (ValueError, LookupError, TypeError):
        return None


def _file(file: Path) -> tuple[ec.EllipticCurvePublicKey, Callable[[bytes], bytes]]:
    private = load_pem_private_key(file.read_bytes(), None)
    if not isinstance(private, ec.EllipticCurvePrivateKey):
        raise ValueError("it is no EC key")
    algorithm = ec.ECDSA(digest_for(private.key_size))
    return private.public_key(), lambda data: private.sign(data, algorithm)


def _kms(key_id: str) -> tuple[ec.EllipticCurvePublicKey, Callable[[bytes], bytes]]:
    client = boto3.client("kms", key_id.split(":")[3] if key_id.startswith("arn:") else None)
    public = load_der_public_key(client.get_public_key(KeyId=key_id)["PublicKey"])
    if not isinstance(public, ec.EllipticCurvePublicKey):
        raise ValueError("it is no EC key")
    algorithm = digest_for(public.key_size)

    def sign(data: bytes) -> bytes:
        digest = hashes.Hash(algorithm)
        digest.update(data)
        answer = client.sign(
            KeyId=key_id,
            Message=digest.finalize(),
            MessageType="DIGEST",
            SigningAlgorithm=f"ECDSA_SHA_{algorithm.digest_size * 8}",
        )
        return bytes(answer["Signature"])

    return public, sign
