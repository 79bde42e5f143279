"""Read and write a container registry through its standard HTTP API.

The API: https://github.com/opencontainers/distribution-spec/blob/v1.1.1/spec.md. Tokens:
https://distribution.github.io/distribution/spec/auth/token/. NVIDIA's registry issues anonymous tokens, and puts the
scope into the realm's address instead of next to it (https://issues.apache.org/jira/browse/MESOS-10092).
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from console import proxied
from spec import reading
from spec.failure import NOT_TRIED, Failure
from spec.reading import Unreadable

INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
MANIFESTS = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")
PLATFORM = {"os": "linux", "architecture": "amd64"}
"""The platform of all instance types that a stack may have."""
_LARGEST_MANIFEST = 4 * 1024 * 1024
"""Bytes that registries must at least accept (distribution-spec, "Pushing Manifests")."""
_TIMEOUT = httpx.Timeout(60, connect=10)
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
_TOKEN = re.compile(r"[!-~]+")
_INDEX = {"manifests": [{"digest": str, "platform": dict.fromkeys(PLATFORM, str)}]}
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_BLOCK = 1024 * 1024


class RegistryFailed(Failure):
    """A registry does not answer correctly. The text names it and the remedy."""

    exit_code = NOT_TRIED


class NoSuchImage(RegistryFailed):
    """The registry has no image of that name."""


@dataclass(frozen=True)
class Blob:
    """A part of an image: its digest, and its size in bytes."""

    digest: str
    size: int


@dataclass(frozen=True)
class Manifest:
    """An image's manifest with the registry's exact bytes. `digest` is the digest of `content`."""

    digest: str
    media_type: str
    content: bytes

    @property
    def blobs(self) -> list[Blob]:
        """Return the image's parts without repetitions: its configuration and its layers."""
        document = reading.json_object(self.content)
        found = {part["digest"]: Blob(part["digest"], int(part["size"])) for part in _parts(document)}
        return list(found.values())


def _parts(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    form = {"digest": str, "size": int}
    checked = reading.checked(dict(document), {"config": form, "layers": [form]}, "the manifest")
    parts = [checked.get("config") or {}, *(checked.get("layers") or [])]
    for part in parts:
        if not _DIGEST.fullmatch(part.get("digest") or "") or part.get("size") is None or part["size"] < 0:
            raise Unreadable("the manifest names a part without a size, or without a sha-256 digest")
    return parts


class Registry:
    """One registry. `authorization`: the header's value from a login; without it, anonymous tokens are used."""

    def __init__(self, host: str, authorization: str | None = None) -> None:
        self.host = host
        self._authorization = authorization
        self._logged_in = authorization is not None
        # Digests are of the uncompressed bytes.
        headers = {"Accept-Encoding": "identity"}
        self._client = proxied.client(timeout=_TIMEOUT, follow_redirects=False, headers=headers)

    @property
    def url(self) -> str:
        """Return its address: plain HTTP on this machine, as other clients do."""
        return f"{'http' if _is_here(self.host) else 'https'}://{self.host}"

    def image(self, repository: str, reference: str) -> Manifest:
        """Return the manifest of a tag or a digest for `PLATFORM`. Raises RegistryFailed, NoSuchImage."""
        found = self._manifest(repository, reference)
        if found.media_type not in INDEXES:
            return found
        document = self._read(lambda: reading.checked(reading.json_object(found.content), _INDEX, "the index"))
        for entry in document.get("manifests") or ():
            platform = entry.get("platform") or {}
            digest = entry.get("digest")
            if digest is not None and {key: platform.get(key) for key in PLATFORM} == PLATFORM:
                return self._manifest(repository, digest)
        raise NoSuchImage(f"{self.host}/{repository} has {reference} for other machines than linux/amd64; choose another")

    def blobs(self, manifest: Manifest) -> list[Blob]:
        """Return the parts of an image. Raises RegistryFailed for an invalid manifest."""
        return self._read(lambda: manifest.blobs)

    def has_blob(self, repository: str, digest: str) -> bool:
        """Return whether the registry has a part of an image. Raises RegistryFailed."""
        answer = self._send("HEAD", f"/v2/{repository}/blobs/{digest}", scope=repository)
        if answer.status_code not in (200, 307, 404):
            raise self._unexpected(answer, f"{repository}@{digest[:19]}")
        return answer.status_code != 404

    @contextmanager
    def blob(self, repository: str, digest: str) -> Iterator[Iterator[bytes]]:
        """Open a part of an image and yield its pieces in order. Raises RegistryFailed."""
        path = f"/v2/{repository}/blobs/{digest}"
        with self._sentences():
            answer = self._client.send(self._request("GET", path, {}), stream=True)
            if answer.status_code == 401:
                answer.close()
                self._log_in(answer, repository)
                answer = self._client.send(self._request("GET", path, {}), stream=True)
            if answer.status_code in (301, 302, 303, 307, 308):  # to a separate store, which must not get the token
                answer.close()
                place = str(httpx.URL(self.url + path).join(answer.headers.get("location", "")))
                answer = self._client.send(self._client.build_request("GET", place), stream=True)
            try:
                if answer.status_code != 200:
                    raise self._unexpected(answer, f"{repository}@{digest[:19]}")
                yield self._pieces(answer)
            finally:
                answer.close()

    def send_blob(self, repository: str, blob: Blob, content: Iterable[bytes]) -> None:
        """Send a part of an image; the registry compares it with its digest.

        It works like go-containerregistry, which ECR accepts: one PATCH for the whole part, then a PUT
        (https://github.com/google/go-containerregistry/blob/main/pkg/v1/remote/write.go). Raises RegistryFailed.
        """
        what = f"{repository}@{blob.digest[:19]}"
        with self._sentences():
            begun = self._send("POST", f"/v2/{repository}/blobs/uploads/", scope=repository)
            place = self._next(begun, what)
            headers = {"Content-Type": "application/octet-stream", "Content-Length": str(blob.size)}
            request = self._request("PATCH", place, headers, content)
            place = self._next(self._client.send(request), what)
            ended = self._send("PUT", str(httpx.URL(place).copy_merge_params({"digest": blob.digest})), scope=repository)
        if ended.status_code != 201:
            raise self._unexpected(ended, what)

    def put_manifest(self, repository: str, tag: str, manifest: Manifest) -> None:
        """Tag an image after all its parts are sent. Raises RegistryFailed."""
        headers = {"Content-Type": manifest.media_type}
        answer = self._send(
            "PUT", f"/v2/{repository}/manifests/{tag}", headers=headers, content=manifest.content, scope=repository
        )
        if answer.status_code != 201:
            raise self._unexpected(answer, f"{repository}:{tag}")

    def _manifest(self, repository: str, reference: str) -> Manifest:
        accepted = {"Accept": ", ".join((*INDEXES, *MANIFESTS))}
        answer = self._send("GET", f"/v2/{repository}/manifests/{reference}", headers=accepted, scope=repository)
        name = f"{repository}{'@' if _DIGEST.fullmatch(reference) else ':'}{reference}"
        if answer.status_code == 404:
            raise NoSuchImage(f"{self.host} has no image {name}; check the version")
        if answer.status_code != 200:
            raise self._unexpected(answer, name)
        digest = "sha256:" + hashlib.sha256(answer.content).hexdigest()
        wanted = reference if _DIGEST.fullmatch(reference) else answer.headers.get("docker-content-digest", digest)
        if digest != wanted or len(answer.content) > _LARGEST_MANIFEST:
            raise RegistryFailed(f"{self.host} answers {name} with what has another digest; is there a proxy in its place?")
        media_type = answer.headers.get("content-type", "").partition(";")[0].strip()
        if media_type not in (*INDEXES, *MANIFESTS):
            raise RegistryFailed(
                f"{self.host} answers for {name} with {media_type or 'no type'}, which is no image's manifest"
            )
        return Manifest(digest, media_type, answer.content)

    def _send(
        self, method: str, path: str, *, scope: str, headers: Mapping[str, str] | None = None, content: bytes = b""
    ) -> httpx.Response:
        """Send a request; if a token is required, get one and send again."""
        with self._sentences():
            answer = self._client.send(self._request(method, path, headers or {}, content))
            if answer.status_code == 401:
                self._log_in(answer, scope)
                answer = self._client.send(self._request(method, path, headers or {}, content))
            return answer

    def _request(
        self, method: str, path: str, headers: Mapping[str, str], content: bytes | Iterable[bytes] = b""
    ) -> httpx.Request:
        own = {"Authorization": self._authorization} if self._authorization is not None else {}
        return self._client.build_request(
            method, httpx.URL(self.url).join(path), headers={**headers, **own}, content=content
        )

    def _log_in(self, refused: httpx.Response, repository: str) -> None:
        """Get an anonymous token from the address in the refusal. Raises RegistryFailed."""
        challenge = refused.headers.get("www-authenticate", "")
        given = dict(_CHALLENGE.findall(challenge))
        if self._logged_in or not challenge.lower().startswith("bearer ") or "realm" not in given:
            raise RegistryFailed(f"{self.host} does not let {repository} be read or written; check the name and the rights")
        realm = httpx.URL(given["realm"])
        own = {} if "scope" in realm.params else {"scope": f"repository:{repository}:pull"}
        service = {"service": given["service"]} if "service" in given else {}
        answer = self._client.get(realm.copy_merge_params({**own, **service}))
        if answer.status_code != 200:
            raise self._unexpected(answer, f"a token for {repository}")
        document = reading.answer(answer.content, str(realm.host))
        token = document.get("token") or document.get("access_token") if isinstance(document, dict) else None
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):  # otherwise the header's error would print it
            raise RegistryFailed(f"{realm.host} gives no token for {repository}; does a proxy answer in its place?")
        self._authorization = f"Bearer {token}"

    def _next(self, answer: httpx.Response, what: str) -> str:
        """Return the next address of an upload."""
        place = answer.headers.get("location")
        if answer.status_code != 202 or not place:
            raise self._unexpected(answer, what)
        return str(httpx.URL(self.url).join(place))

    def _unexpected(self, answer: httpx.Response, what: str) -> RegistryFailed:
        return RegistryFailed(f"{self.host} answers {answer.status_code} for {what}; try again, and look whether it is up")

    @staticmethod
    def _read(read: Any) -> Any:
        try:
            return read()
        except Unreadable as error:
            raise RegistryFailed(f"the registry's answer cannot be used: {error}") from None

    def _pieces(self, answer: httpx.Response) -> Iterator[bytes]:
        # Another registry reads the pieces while it sends them, so an error here is not its own.
        with self._sentences():
            yield from answer.iter_raw(_BLOCK)

    @contextmanager
    def _sentences(self) -> Iterator[None]:
        try:
            yield
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            why = str(error) or type(error).__name__
            raise RegistryFailed(f"{self.host} cannot be asked: {why}; check the network and HTTPS_PROXY") from None


def _is_here(host: str) -> bool:
    name = host.rpartition(":")[0] if ":" in host else host
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
