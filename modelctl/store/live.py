"""The prefix `live/` of the models bucket: the repository for pods in explicit mode, and its journal.

A restarted pod reads it, so it always contains what a pod should serve. S3 itself copies versions from `releases/<id>`; the
copies are checked against the manifest.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from typing import Any

from botocore.exceptions import ClientError

from modelctl.documents import LARGEST_BYTES
from modelctl.store.bucket import REFUSED, Store
from modelctl.store.errors import StoreError, sentences
from modelctl.store.journal import Journal, JournalChanged
from modelctl.store.manifest import ObjectEntry
from spec import reading
from spec.names import LIVE_PREFIX, RELEASES_PREFIX
from spec.reading import Unreadable

JOURNAL_KEY = LIVE_PREFIX + "rollout.json"
COPY_BYTES = 5 * 1024**3
"""The largest object that S3 copies in one request. A larger one is copied in parts."""

_MISSING = {"NoSuchKey", "404"}
_CHANGED = {*REFUSED, *_MISSING}
_READ_BYTES = 1024 * 1024
_DELETE_AT_ONCE = 1000


class WrongContent(Exception):
    """An object differs from the manifest; the text names it."""


class LiveRepository:
    """`live/` of one bucket. Every method raises StoreError when the bucket cannot be used."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._s3: Any = store.client
        self._bucket = store.place.bucket

    def read_journal(self) -> tuple[Journal, str | None]:
        """See `JournalStore`. Raises JournalError too."""
        with sentences(self._store.place):
            try:
                answer = self._s3.get_object(Bucket=self._bucket, Key=JOURNAL_KEY)
            except ClientError as error:
                if error.response["Error"]["Code"] in _MISSING:
                    return Journal(), None
                raise
            content: bytes = answer["Body"].read(LARGEST_BYTES + 1)
        return Journal.parse(content.decode("utf-8", errors="replace")), str(answer["ETag"])

    def write_journal(self, journal: Journal, tag: str | None) -> str:
        """See `JournalStore`."""
        condition = {"IfNoneMatch": "*"} if tag is None else {"IfMatch": tag}
        body = journal.to_json().encode()
        with sentences(self._store.place):
            try:
                answer = self._store.put_on_condition(JOURNAL_KEY, body, ContentType="application/json", **condition)
            except ClientError as error:
                if error.response["Error"]["Code"] in _CHANGED:
                    raise JournalChanged from None
                raise
        return str(answer["ETag"])

    def models(self) -> dict[str, set[int]]:
        """Return the versions that have any object, by model; keys outside models are ignored."""
        found: dict[str, set[int]] = {}
        for key in self._keys(LIVE_PREFIX):
            model, _, rest = key.removeprefix(LIVE_PREFIX).partition("/")
            version, slash, _ = rest.partition("/")
            if rest:
                found.setdefault(model, set())
            if slash and version.isdecimal():
                found[model].add(int(version))
        return found

    def copy(self, release_id: str, key: str, entry: ObjectEntry) -> None:
        """Copy one object of a release, unless it exists. Raises WrongContent when it differs from the manifest."""
        target = {"Bucket": self._bucket, "Key": LIVE_PREFIX + key}
        if self._sha256(key) == entry.sha256:
            return
        source = {"Bucket": self._bucket, "Key": f"{RELEASES_PREFIX}{release_id}/{key}"}
        with sentences(self._store.place):
            try:
                if entry.bytes <= COPY_BYTES:
                    # S3 computes the checksum of the copy, independent of the source's metadata. The tags (retired) belong
                    # to the release, not to the copy.
                    self._s3.copy_object(
                        CopySource=source, **target, ChecksumAlgorithm="SHA256", TaggingDirective="REPLACE", Tagging=""
                    )
                else:
                    self._s3.copy(source, **target, ExtraArgs={"ChecksumAlgorithm": "SHA256"})
            except ClientError as error:
                if error.response["Error"]["Code"] in _MISSING:
                    raise WrongContent(f"{key} is missing in releases/{release_id}/") from None
                raise
        if self._sha256(key) == entry.sha256:
            return
        if (arrived := self._read_sha256(key)) != entry.sha256:
            raise WrongContent(
                f"{key} in releases/{release_id}/ has the sha-256 {arrived}, but the manifest says {entry.sha256}"
            )

    def configs(self) -> dict[str, str]:
        """Return the config.pbtxt of every model that has one."""
        found = {model: self.config(model) for model in self.models()}
        return {model: text for model, text in found.items() if text is not None}

    def config(self, model: str) -> str | None:
        """Return the model's config.pbtxt; None without one. Raises Unreadable if it is not text."""
        with sentences(self._store.place):
            try:
                answer = self._s3.get_object(Bucket=self._bucket, Key=_config(model))
            except ClientError as error:
                if error.response["Error"]["Code"] in _MISSING:
                    return None
                raise
            content: bytes = answer["Body"].read(LARGEST_BYTES + 1)
        try:
            if len(content) > LARGEST_BYTES:
                raise Unreadable(f"longer than {LARGEST_BYTES} bytes, which is the most that is read")
            return reading.text(content)
        except Unreadable as error:
            where = f"{self._store.place}/{_config(model)}"
            raise Unreadable(f"{error.problem}, or restore its earlier object version", source=where) from None

    def write_config(self, model: str, text: str) -> None:
        """Replace the model's config.pbtxt, which pods use that start from now on."""
        with sentences(self._store.place):
            self._s3.put_object(Bucket=self._bucket, Key=_config(model), Body=text.encode(), ChecksumAlgorithm="SHA256")

    def delete_version(self, model: str, version: int) -> None:
        """Delete one version of a model, if it exists."""
        self._delete(self._keys(f"{LIVE_PREFIX}{model}/{version}/"))

    def delete_model(self, model: str) -> None:
        """Delete a model with all its objects, if it exists."""
        # Delete the config first: without it there is no model, so a pod that starts in between ignores the remaining files.
        self._delete([_config(model)])
        self._delete(self._keys(f"{LIVE_PREFIX}{model}/"))

    def _keys(self, prefix: str) -> list[str]:
        with sentences(self._store.place):
            pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix)
            return [entry["Key"] for page in pages for entry in page.get("Contents", [])]

    def _delete(self, keys: Iterable[str]) -> None:
        wanted = list(keys)
        with sentences(self._store.place):
            for start in range(0, len(wanted), _DELETE_AT_ONCE):
                objects = [{"Key": key} for key in wanted[start : start + _DELETE_AT_ONCE]]
                answer = self._s3.delete_objects(Bucket=self._bucket, Delete={"Objects": objects, "Quiet": True})
                for error in answer.get("Errors", []):
                    raise StoreError(f"{self._store.place}: {error['Key']} cannot be deleted: {error['Message']}")

    def _sha256(self, key: str) -> str | None:
        """Return the content's sha-256 from S3's checksum; None without one. For an object in parts, S3 has only a hash of
        the parts."""
        with sentences(self._store.place):
            try:
                head = self._s3.head_object(Bucket=self._bucket, Key=LIVE_PREFIX + key, ChecksumMode="ENABLED")
            except ClientError as error:
                if error.response["Error"]["Code"] in _MISSING:
                    return None
                raise
        checksum = head.get("ChecksumSHA256", "")
        return base64.b64decode(checksum).hex() if checksum and "-" not in checksum else None

    def _read_sha256(self, key: str) -> str:
        digest = hashlib.sha256()
        with sentences(self._store.place):
            for piece in self._s3.get_object(Bucket=self._bucket, Key=LIVE_PREFIX + key)["Body"].iter_chunks(_READ_BYTES):
                digest.update(piece)
        return digest.hexdigest()


def _config(model: str) -> str:
    return f"{LIVE_PREFIX}{model}/config.pbtxt"
