"""S3 buckets."""

from __future__ import annotations

from typing import ClassVar

from twin.aws.base import tags
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError
from twin.aws.base.handler import Handler, Values
from twin.aws.base.lookup import gone_is_fine, or_none


def require_bucket(clients: Clients, bucket: str, wanted_by: str) -> None:
    """Raise HandlerError if the bucket does not exist."""
    if or_none(clients("s3").head_bucket, Bucket=bucket) is None:
        raise HandlerError(f"{wanted_by}: bucket {bucket} does not exist")


class Bucket(Handler):
    token = "aws:s3/bucket:Bucket"
    inputs = frozenset({"bucket", "forceDestroy", "tags"})
    defaults: ClassVar[Values] = {"forceDestroy": False}
    computed = frozenset({"arn", "bucketDomainName", "bucketRegion", "bucketRegionalDomainName"})
    replace_on = frozenset({"bucket"})
    name_input = "bucket"

    def physical_name(self, autoname: str) -> str:
        return autoname.lower()

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        s3, name = clients("s3"), inputs["bucket"]
        place = {} if clients.region == "us-east-1" else {"LocationConstraint": clients.region}
        if or_none(s3.head_bucket, Bucket=name) is not None:
            raise HandlerError(f"bucket {name} already exists")
        s3.create_bucket(Bucket=name, **({"CreateBucketConfiguration": place} if place else {}))
        self._tag(clients, name, inputs)
        computed = {
            "arn": f"arn:{clients.partition}:s3:::{name}",
            "bucketDomainName": f"{name}.s3.amazonaws.com",
            "bucketRegion": clients.region,
            "bucketRegionalDomainName": f"{name}.s3.{clients.region}.amazonaws.com",
        }
        return name, self.outputs(inputs, computed)

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        s3 = clients("s3")
        if or_none(s3.head_bucket, Bucket=id) is None:
            return None
        try:
            seen = tags.from_list(s3.get_bucket_tagging(Bucket=id)["TagSet"])
        except s3.exceptions.ClientError:  # NoSuchTagSet
            seen = {}
        return {**state, "bucket": id, **tags.observed(state, seen)}

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        self._tag(clients, id, new)
        return self.kept(new, old)

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        s3 = clients("s3")
        if or_none(s3.head_bucket, Bucket=id) is None:
            return
        if state.get("forceDestroy"):
            self._empty(clients, id)
        with gone_is_fine():
            s3.delete_bucket(Bucket=id)

    @staticmethod
    def _tag(clients: Clients, name: str, inputs: Values) -> None:
        pairs = tags.to_list(inputs.get("tags"))
        if pairs:
            clients("s3").put_bucket_tagging(Bucket=name, Tagging={"TagSet": pairs})
        else:
            clients("s3").delete_bucket_tagging(Bucket=name)

    @staticmethod
    def _empty(clients: Clients, name: str) -> None:
        """Delete all versions and delete markers, a page (at most 1000) at a time."""
        s3 = clients("s3")
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=name):
            entries = [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
            objects = [{"Key": entry["Key"], "VersionId": entry["VersionId"]} for entry in entries]
            if objects:
                s3.delete_objects(Bucket=name, Delete={"Objects": objects, "Quiet": True})
