"""Read the key of a pod's control APIs. The pod generates it at its start and holds it in memory (charts/triton)."""

from __future__ import annotations

from kubernetes import client
from kubernetes.client.exceptions import ApiException
from kubernetes.stream import stream
from urllib3.exceptions import HTTPError
from websocket import WebSocketException

from console.port_forward import PROTOCOL
from spec.failure import NOT_TRIED, Failure
from spec.names import ADMIN_KEY_FILE, TRITON_CONTAINER

_SECONDS = 10


class KeyUnreadable(Failure):
    """The pod does not return its key; it may be starting or gone."""

    exit_code = NOT_TRIED


class KeyDenied(Failure):
    """The API server does not allow this identity to run a command in the pod."""

    exit_code = NOT_TRIED


def admin_key(configuration: client.Configuration, namespace: str, pod: str) -> str:
    """Read the key by `exec` in the pod. Raises KeyUnreadable and KeyDenied."""
    # A separate client, because `stream` changes how its client sends requests.
    own = client.ApiClient(configuration)
    own.set_default_header("sec-websocket-protocol", PROTOCOL)
    try:
        session = stream(
            client.CoreV1Api(own).connect_get_namespaced_pod_exec,
            pod,
            namespace,
            container=TRITON_CONTAINER,
            command=["cat", ADMIN_KEY_FILE],
            stdout=True,
            stderr=True,
            _preload_content=False,
        )
        try:
            session.run_forever(timeout=_SECONDS)
            key, said = session.read_stdout(timeout=0), session.read_stderr(timeout=0)
        finally:
            session.close()
    except ApiException as error:
        # Keep status and reason of the handshake; the headers and the body of the response follow them.
        why = str(error.reason).partition(" -+-+-")[0]
        if "status 403" in why or "status 401" in why:
            raise KeyDenied(
                f"pod {pod}: {configuration.host} does not let this identity read the admin key ({why}); use one that has "
                "get and create of pods/exec, such as a role in cluster.rolloutRoleArns"
            ) from None
        raise KeyUnreadable(f"pod {pod}: its admin key cannot be read: {why}") from None
    except (HTTPError, WebSocketException, OSError, ValueError) as error:
        raise KeyUnreadable(f"pod {pod}: its admin key cannot be read: {error}") from None
    if not key.isalnum():
        reason = " ".join(said.split()) or "it is empty"
        raise KeyUnreadable(f"pod {pod}: {ADMIN_KEY_FILE} has no key: {reason}")
    return str(key)
