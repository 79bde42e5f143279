"""Releases in a bucket: `releases/<id>/<object>` and `releases/<id>/manifest.json`, which is written last."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

import boto3
from boto3.exceptions import S3UploadFailedError
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import ClientError
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from console.not_aws import refuse_others_answers
from modelctl.documents import LARGEST_BYTES
from modelctl.store.digest import Digest
from modelctl.store.errors import Place, StoreError, sentences
from modelctl.store.manifest import Manifest, ManifestError
from spec import release_signature
from spec.names import RELEASE_MANIFEST, RELEASE_SIGNATURE, RELEASES_PREFIX
from spec.settings.addresses import is_host
from spec.stack_names import region_of_model_bucket

PART_BYTES = 16 * 1024 * 1024
"""The part size of large objects, and the size from which an object is uploaded in parts."""

_SHA256_METADATA = "sha256"
REFUSED = frozenset({"PreconditionFailed", "412"})
"""S3's error codes for a failed write condition: the object exists, or it has changed."""
_CONFLICT = frozenset({"ConditionalRequestConflict", "409"})
_CONFLICTS = 5
_READ_BYTES = 1024 * 1024


@dataclass(frozen=True)
class StoredObject:
    """An object as in a listing: its size, and when it was last written."""

    bytes: int
    modified: datetime


def open_store(
    bucket: str,
    endpoint_url: str | None = None,
    *,
    region: str | None = None,
    part_bytes: int = PART_BYTES,
    connections: int = 10,
) -> Store:
    """Return a store for `bucket` with the credentials of the environment, in botocore's standard retry mode.

    `region` is the bucket's region; without it, the region in a stack's bucket name is used, then the environment's.
    `connections`: the maximum number of concurrent requests. `endpoint_url` is the URL of an S3-compatible store; without
    it, AWS_ENDPOINT_URL(_S3) is used, then AWS. Raises StoreError when there is no region or the AWS configuration cannot be
    read.
    """
    endpoint_url = endpoint_url or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint_url and (wrong := _wrong_with(endpoint_url)):
        raise StoreError(f"{wrong}; write for example http://127.0.0.1:9000")
    place = Place(bucket, endpoint_url)
    with sentences(place):
        region = region or region_of_model_bucket(bucket) or os.environ.get("AWS_REGION") or boto3.Session().region_name
        if region is None:
            if endpoint_url is None:
                raise StoreError("no AWS region: set AWS_REGION to the bucket's region")
            region = "us-east-1"  # signed into requests, but meaningless to stores other than AWS
        config = Config(
            retries={"mode": "standard", "max_attempts": 3},
            connect_timeout=5,
            read_timeout=60,
            max_pool_connections=connections,
            # In another store, a bucket has no host name.
            s3={"addressing_style": "path"} if endpoint_url else {},
        )
        client = boto3.client("s3", region_name=region, endpoint_url=endpoint_url, config=config)
    refuse_others_answers(client)
    for operation in ("PutObject", "CompleteMultipartUpload"):
        client.meta.events.register(f"before-parameter-build.s3.{operation}", _write_once)
    return Store(client, place, part_bytes=part_bytes)


def _wrong_with(endpoint_url: str) -> str | None:
    """Return why a text is not the address of a server. None if it is one."""
    if "@" in endpoint_url:
        return "the endpoint has a name or a password in its address, which nothing sends; leave them out"
    try:
        parts = urlsplit(endpoint_url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        return f"{endpoint_url!r} is no endpoint: {error}"
    if parts.scheme not in ("http", "https"):
        return f"{endpoint_url!r} is no endpoint: it does not begin with http:// or https://"
    if not (is_host(host) or ":" in host) or port == 0:  # an IPv6 address in brackets, which urlsplit has parsed
        return f"{endpoint_url!r} is no endpoint: it has no name of a host, or no port from 1 to 65535"
    if not endpoint_url.isprintable() or " " in endpoint_url or parts.query or parts.fragment:
        return f"{endpoint_url!r} is no endpoint: it has more than host, port and path"
    return None


class Store:
    """The releases in one bucket. Every method raises StoreError, in one sentence, when the bucket cannot be used."""

    def __init__(self, client: Any, place: Place, *, part_bytes: int = PART_BYTES) -> None:
        self._client = client
        self.place = place
        self.part_bytes = part_bytes

    @property
    def client(self) -> Any:
        """Return the S3 client, for objects outside the releases (`live/`)."""
        return self._client

    def release_ids(self) -> list[str]:
        """Return all ids that have any object, finished or not, sorted."""
        ids: list[str] = []
        with sentences(self.place):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self.place.bucket, Prefix=RELEASES_PREFIX, Delimiter="/"
            )
            for page in pages:
                ids += [p["Prefix"].removeprefix(RELEASES_PREFIX).rstrip("/") for p in page.get("CommonPrefixes", [])]
        return sorted(ids)

    def manifest(self, release_id: str, signers: Sequence[str] = ()) -> Manifest | None:
        """Return the manifest; None without one, since then the release is unfinished or unknown.

        Raises ManifestError, also for the manifest of another release, and SignatureError if none of `signers` signed it.
        """
        content = self.document(release_id, RELEASE_MANIFEST)
        if content is None:
            return None
        manifest = Manifest.parse(content.decode("utf-8", errors="replace"))
        if manifest.id != release_id:
            raise ManifestError(
                f"id: {RELEASES_PREFIX}{release_id}/manifest.json belongs to release {manifest.id}; restore its "
                "earlier object version"
            )
        if signers:
            release_signature.verify(release_id, content, self.document(release_id, RELEASE_SIGNATURE), signers)
        return manifest

    def document(self, release_id: str, name: str) -> bytes | None:
        """Return the bytes of the manifest or its signature; None if it does not exist."""
        with sentences(self.place):
            try:
                answer = self._client.get_object(Bucket=self.place.bucket, Key=_key(release_id, name))
            except ClientError as error:
                if error.response["Error"]["Code"] in {"NoSuchKey", "404"}:
                    return None
                raise
            content: bytes = answer["Body"].read(LARGEST_BYTES + 1)  # with one byte too many, the parser refuses it
        return content

    def write_manifest(self, manifest: Manifest) -> bool:
        """Finish a release; return False if it already has a manifest, which then stays unchanged."""
        return self.write_document(manifest.id, RELEASE_MANIFEST, manifest.to_json().encode())

    def write_document(self, release_id: str, name: str, content: bytes) -> bool:
        """Write a manifest or its signature. Return False if it already exists, and leave it unchanged."""
        with sentences(self.place):
            try:
                self.put_on_condition(_key(release_id, name), content, ContentType="application/json")
            except ClientError as error:
                if error.response["Error"]["Code"] in REFUSED:
                    return False
                raise
        return True

    def objects(self, release_id: str) -> dict[str, StoredObject]:
        """Return the objects of the release, by key relative to it, without the manifest and its signature."""
        found: dict[str, StoredObject] = {}
        prefix = _key(release_id, "")
        with sentences(self.place):
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self.place.bucket, Prefix=prefix)
            for page in pages:
                for entry in page.get("Contents", []):
                    found[entry["Key"].removeprefix(prefix)] = StoredObject(entry["Size"], entry["LastModified"])
        for own in (RELEASE_MANIFEST, RELEASE_SIGNATURE):
            found.pop(own, None)
        return found

    def holds(self, release_id: str, key: str, digest: Digest) -> bool:
        """Return whether the object exists with this content. It compares size, S3's checksum and the hash in the
        metadata."""
        with sentences(self.place):
            try:
                head = self._client.head_object(Bucket=self.place.bucket, Key=_key(release_id, key), ChecksumMode="ENABLED")
            except ClientError as error:
                if error.response["Error"]["Code"] in {"404", "NoSuchKey"}:
                    return False
                raise
        if head["ContentLength"] != digest.bytes or head["Metadata"].get(_SHA256_METADATA) != digest.sha256:
            return False
        checksums = {name: value for name, value in head.items() if name.startswith("Checksum")}
        if not checksums:  # some stores keep no checksum; AWS always does
            return True
        # AWS writes "<checksum>-<parts>" for an object in parts.
        return str(checksums.get("ChecksumSHA256", "")).partition("-")[0] == digest.s3_checksum

    def upload(
        self, release_id: str, key: str, source: Path | bytes, digest: Digest, on_bytes: Callable[[int], None]
    ) -> None:
        """Upload one object, in parts if it is large, unless it exists. Several threads call `on_bytes`.

        Raises StoreError also for an existing object with other content, which is never replaced.
        """
        target = {"Bucket": self.place.bucket, "Key": _key(release_id, key)}
        extra = {"Metadata": {_SHA256_METADATA: digest.sha256}, "ChecksumAlgorithm": "SHA256"}
        with sentences(self.place):
            try:
                if isinstance(source, bytes):
                    self._client.put_object(Body=source, **target, **extra)
                    on_bytes(len(source))
                else:
                    transfer = TransferConfig(multipart_threshold=digest.part_bytes, multipart_chunksize=digest.part_bytes)
                    self._client.upload_file(
                        Filename=str(source), **target, ExtraArgs=extra, Config=transfer, Callback=on_bytes
                    )
            except (ClientError, S3UploadFailedError) as error:
                cause = error.__context__ if isinstance(error, S3UploadFailedError) else error
                if not isinstance(cause, ClientError) or cause.response["Error"]["Code"] not in REFUSED:
                    raise
        if not self.holds(release_id, key, digest):
            raise StoreError(
                f"{self.place}/{_key(release_id, key)} has other content than "
                f"{source if isinstance(source, Path) else key}, and an object of a release is never replaced; delete it, "
                "then run the same command again"
            )

    def write_once(self, key: str, file: Path) -> bool:
        """Write a file of up to 5 GiB next to the releases. Return False if the key exists, and leave it unchanged."""
        with sentences(self.place), file.open("rb") as body:
            try:
                self.put_on_condition(key, body, IfNoneMatch="*")
            except ClientError as error:
                if error.response["Error"]["Code"] in REFUSED:
                    return False
                raise
        return True

    def put_on_condition(self, key: str, body: bytes | BinaryIO, **condition: str) -> Any:
        """Write an object if a condition holds, and return S3's response. Retry while another request for the object runs.

        Such a conflict says nothing about the condition, because the other request may fail, or be a deletion:
        https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html. Raises ClientError.
        """

        def put() -> Any:
            if not isinstance(body, bytes):
                body.seek(0)  # an earlier, refused request has read it
            return self._client.put_object(
                Bucket=self.place.bucket, Key=key, Body=body, ChecksumAlgorithm="SHA256", **condition
            )

        again = Retrying(
            retry=retry_if_exception(_is_conflict),
            stop=stop_after_attempt(_CONFLICTS),
            wait=wait_random_exponential(multiplier=0.2, max=3),
            reraise=True,
        )
        return again(put)

    def tags(self, release_id: str, key: str) -> dict[str, str] | None:
        """Return the object's tags; None if it does not exist."""
        with sentences(self.place):
            try:
                answer = self._client.get_object_tagging(Bucket=self.place.bucket, Key=_key(release_id, key))
            except ClientError as error:
                code = error.response["Error"]["Code"]
                if code in {"404", "NoSuchKey", "MethodNotAllowed"}:  # MethodNotAllowed: a delete marker is current
                    return None
                if code == "NotImplemented":  # a compatible store without tags
                    return {}
                raise
        return {tag["Key"]: tag["Value"] for tag in answer["TagSet"]}

    def write_tags(self, release_id: str, key: str, tags: Mapping[str, str]) -> None:
        """Make `tags` the only tags of the object; its content and date stay unchanged."""
        target = {"Bucket": self.place.bucket, "Key": _key(release_id, key)}
        with sentences(self.place):
            if tags:
                tag_set = [{"Key": name, "Value": value} for name, value in tags.items()]
                self._client.put_object_tagging(**target, Tagging={"TagSet": tag_set})
            else:
                self._client.delete_object_tagging(**target)

    def pieces(self, release_id: str, key: str, first: int, end: int) -> Iterator[bytes]:
        """Yield the object's bytes from `first` to `end`, without the byte at `end`. Fewer if it is shorter.

        Raises boto3's errors, for callers that continue where a connection broke, and StoreError.
        """
        answer = self._client.get_object(
            Bucket=self.place.bucket, Key=_key(release_id, key), Range=f"bytes={first}-{end - 1}"
        )
        if not answer.get("ContentRange", "").startswith(f"bytes {first}-"):
            raise StoreError(f"{self.place} was asked for a part of {key} and sent all of it; use a store that knows ranges")
        yield from answer["Body"].iter_chunks(_READ_BYTES)

    def chunks(self, release_id: str, key: str) -> Iterator[bytes]:
        """Yield the object's content, piece by piece."""
        with sentences(self.place):
            body = self._client.get_object(Bucket=self.place.bucket, Key=_key(release_id, key))["Body"]
            yield from body.iter_chunks(_READ_BYTES)


def _write_once(params: dict[str, Any], **_: object) -> None:
    """Make S3 refuse to replace an object of a release, as the bucket's policy requires. `upload_file` takes no
    condition."""
    if params["Key"].startswith(RELEASES_PREFIX):
        params["IfNoneMatch"] = "*"


def _is_conflict(error: BaseException) -> bool:
    return isinstance(error, ClientError) and error.response["Error"]["Code"] in _CONFLICT


def _key(release_id: str, key: str) -> str:
    return f"{RELEASES_PREFIX}{release_id}/{key}"
