"""An in-memory container registry on loopback, with the distribution specification's parts for copying images.

It refuses like real registries: a blob with a wrong digest, a manifest with missing blobs, a request without a token.
https://github.com/opencontainers/distribution-spec/blob/v1.1.1/spec.md
"""

from __future__ import annotations

import hashlib
import http.server
import json
import re
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

OCI = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
TOKEN = "anonymous-token"
_UPLOAD = re.compile(r"/v2/(.+)/blobs/uploads/(\w*)")
_BLOB = re.compile(r"/v2/(.+)/blobs/(sha256:[0-9a-f]{64})")
_MANIFEST = re.compile(r"/v2/(.+)/manifests/([\w.:-]+)")


def digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


class Registry:
    """One registry: its images and requests. `authorization`: an accepted value in addition to its anonymous token.

    `expires_after`: the number of answers after which a token is invalid. `elsewhere`: a store that takes no authorization
    sends the blobs, as for real registries.
    """

    def __init__(self, authorization: str = f"Bearer {TOKEN}", *, elsewhere: bool = False) -> None:
        self.authorization = authorization
        self.elsewhere = elsewhere
        self.expires_after: int | None = None
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, tuple[str, bytes]] = {}
        self.uploads: dict[str, bytes] = {}
        self.requests: list[str] = []
        self.tokens = 0
        self.damaged: set[str] = set()
        self.cut: set[str] = set()
        self.host = ""

    def push(self, tag: str, *layers: bytes, platforms: tuple[str, ...] = ()) -> str:
        """Push an image, with an index if it has platforms; return the amd64 digest."""
        config = b'{"architecture": "amd64"}'
        parts = [{"digest": digest(part), "size": len(part)} for part in (config, *layers)]
        self.blobs.update({digest(part): part for part in (config, *layers)})
        content = json.dumps({"schemaVersion": 2, "config": parts[0], "layers": parts[1:]}).encode()
        self._name(digest(content), OCI, content)
        if not platforms:
            self._name(tag, OCI, content)
            return digest(content)
        entries = []
        for architecture in platforms:
            found = content if architecture == "amd64" else content + b" "
            self._name(digest(found), OCI, found)
            entries.append({"digest": digest(found), "platform": {"os": "linux", "architecture": architecture}})
        self._name(tag, INDEX, json.dumps({"schemaVersion": 2, "manifests": entries}).encode())
        return digest(content)

    def _name(self, reference: str, media_type: str, content: bytes) -> None:
        self.manifests[reference] = (media_type, content)

    def lets_in(self, authorization: str | None) -> bool:
        if self.expires_after is not None:
            self.expires_after -= 1
            if self.expires_after < 0:
                self.expires_after = None
                return False
        return authorization == self.authorization


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    registry: Registry

    def do_GET(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        if url.path == "/token":
            self.registry.tokens += 1
            assert urllib.parse.parse_qs(url.query)["scope"] == ["repository:nvidia/tritonserver:pull,push"]
            return self._answer(200, json.dumps({"token": TOKEN}).encode())
        if url.path.startswith("/store/"):
            if self.headers["authorization"] is not None:
                return self._answer(400, b"only one way to authenticate is allowed")
            return self._send_blob(url.path.removeprefix("/store/"))
        if not self._is_let_in():
            return None
        if match := _MANIFEST.fullmatch(url.path):
            found = self.registry.manifests.get(match[2])
            if found is None:
                return self._answer(404, b'{"errors": [{"code": "MANIFEST_UNKNOWN"}]}')
            headers = {"Content-Type": found[0], "Docker-Content-Digest": digest(found[1])}
            return self._answer(200, found[1], headers)
        if match := _BLOB.fullmatch(url.path):
            if match[2] not in self.registry.blobs:
                return self._answer(404)
            if self.registry.elsewhere and self.command == "GET":
                return self._answer(307, headers={"Location": f"/store/{match[2]}"})
            return self._send_blob(match[2])
        return self._answer(404)

    do_HEAD = do_GET

    def do_POST(self) -> None:
        if self._is_let_in() and _UPLOAD.fullmatch(self.path):
            name = f"u{len(self.registry.uploads)}"
            self.registry.uploads[name] = b""
            self._answer(202, headers={"Location": f"{self.path}{name}"})

    def do_PATCH(self) -> None:
        content = self._content()
        if self._is_let_in() and (match := _UPLOAD.fullmatch(self.path)):
            self.registry.uploads[match[2]] += content
            self._answer(202, headers={"Location": f"{self.path}?state=1"})

    def do_PUT(self) -> None:
        content, url = self._content(), urllib.parse.urlsplit(self.path)
        if not self._is_let_in():
            return
        if match := _UPLOAD.fullmatch(url.path):
            asked = urllib.parse.parse_qs(url.query)
            found = self.registry.uploads.pop(match[2])
            if asked["state"] != ["1"] or digest(found) != asked["digest"][0]:
                return self._answer(400, b'{"errors": [{"code": "DIGEST_INVALID"}]}')
            self.registry.blobs[digest(found)] = found
            self._answer(201)
        elif match := _MANIFEST.fullmatch(url.path):
            document = json.loads(content)
            if any(part["digest"] not in self.registry.blobs for part in (document["config"], *document["layers"])):
                return self._answer(404, b'{"errors": [{"code": "MANIFEST_BLOB_UNKNOWN"}]}')
            self.registry.manifests[match[2]] = self.registry.manifests[digest(content)] = (
                self.headers["content-type"],
                content,
            )
            self._answer(201)

    def _content(self) -> bytes:
        return self.rfile.read(int(self.headers["content-length"] or 0))

    def _is_let_in(self) -> bool:
        self.registry.requests.append(f"{self.command} {urllib.parse.urlsplit(self.path).path}")
        if self.registry.lets_in(self.headers["authorization"]):
            return True
        # As in nvcr.io: the scope is in the realm's own address.
        realm = f"http://{self.registry.host}/token?scope=repository:nvidia/tritonserver:pull,push"
        self._answer(401, headers={"WWW-Authenticate": f'Bearer realm="{realm}"'})
        return False

    def _send_blob(self, name: str) -> None:
        content = self.registry.blobs[name]
        if name in self.registry.damaged:
            content = content[:-1] + b"?"
        if name in self.registry.cut:
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[:-1])
            self.close_connection = True
            return
        self._answer(200, content)

    def _answer(self, status: int, content: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


class _Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_: Any) -> None:
        """Ignore clients that disconnect."""


@contextmanager
def serving(registry: Registry) -> Iterator[Registry]:
    """Serve at `registry.host`."""
    handler = type("Handler", (_Handler,), {"registry": registry})
    with _Server(("127.0.0.1", 0), handler) as server:
        registry.host = f"127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield registry
        server.shutdown()
        thread.join()
