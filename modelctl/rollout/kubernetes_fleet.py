"""The pods of a Triton in Kubernetes, and the ConfigMap that its clients watch."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Self

from kubernetes import client
from kubernetes.client.exceptions import ApiException
from tenacity import retry, retry_if_exception, stop_after_attempt, wait_fixed
from urllib3.exceptions import HTTPError, ProtocolError

from console import kubernetes_status
from console.port_forward import PortForwards
from modelctl import cluster
from modelctl.cluster.admin_key import KeyUnreadable, admin_key
from modelctl.rollout.fleet import FleetAbsent, FleetError, Pod, ServedVersion
from spec import reading
from spec.names import (
    FOLLOWER_PORT,
    POD_RELEASE,
    SERVED_VERSIONS,
    TRITON_CHART,
    TRITON_HEADLESS_COMPONENT,
    TRITON_METRICS_PORT,
    TRITON_RELEASE,
    headless_service,
)

_HTTP_PORT_NAME = "http"
_SERVICE_LABEL = "kubernetes.io/service-name"
_OF_EVERY_FLEET = f"app.kubernetes.io/name={TRITON_CHART},app.kubernetes.io/component={TRITON_HEADLESS_COMPONENT}"
"""Kubernetes copies the labels of a Service to its EndpointSlices
(https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/endpointslice/utils.go)."""
_TIMEOUT = (5.0, 30.0)
_LEAVE_SECONDS = 60.0
_POLL_SECONDS = 0.5


def _is_of_the_moment(error: BaseException) -> bool:
    """Return whether the error is temporary. The response broke off, or another writer changed the object after it
    was read."""
    cause = error.__cause__
    return (
        isinstance(error, KeyUnreadable)
        or isinstance(cause, ProtocolError)
        or (isinstance(cause, ApiException) and cause.status == 409)
    )


_tried_again = retry(
    retry=retry_if_exception(_is_of_the_moment), stop=stop_after_attempt(5), wait=wait_fixed(0.2), reraise=True
)
"""Retries calls that may run twice. urllib3 itself retries connections that fail or break before the response."""


class KubernetesFleet:
    """The pods behind the headless Service of a fleet, including pods that are not ready.

    They are reached by the API server's port forward; with `direct`, at their own addresses, as from a pod in the cluster.
    `follows`: each pod has `live/` on its own disk. `tell` gets a line for each request that was lost with its forward.
    """

    def __init__(
        self,
        namespace: str,
        release: str = TRITON_RELEASE,
        *,
        follows: bool = False,
        direct: bool = False,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Select the fleet of a Helm release in the cluster of `cluster.connect`. Raises the errors of `connect`."""
        self._namespace = namespace
        self._follows = follows
        self._service = headless_service(release)
        api = cluster.connect()
        self._configuration = api.configuration
        self._host: str = api.configuration.host
        self._keys: dict[str, str] = {}
        self._core = client.CoreV1Api(api)
        self._discovery = client.DiscoveryV1Api(api)
        self._forwards = None if direct else PortForwards(api, namespace, tell)

    def all_fleets(self) -> dict[str, Self]:
        """Return all fleets of the namespace, including this one, by Helm release. Raises FleetError."""
        services = {part.metadata.labels[_SERVICE_LABEL] for part in self._slices(_OF_EVERY_FLEET)}
        return {service.removesuffix(headless_service("")): self.behind(service) for service in sorted(services)}

    def pods(self) -> list[Pod]:
        """See `Fleet`."""
        found: dict[str, Pod] = {}
        for part in self._slices(f"{_SERVICE_LABEL}={self._service}"):
            port = next((port.port for port in part.ports or [] if port.name == _HTTP_PORT_NAME), None)
            for endpoint in part.endpoints or []:
                target = endpoint.target_ref
                terminating = endpoint.conditions is not None and endpoint.conditions.terminating
                if port is None or target is None or target.kind != "Pod" or terminating:
                    continue
                uid = str(target.uid)
                found[uid] = self._pod(str(target.name), uid, endpoint.addresses[0], port)
        return sorted(found.values(), key=lambda pod: pod.name)

    def release(self, pod: Pod) -> str | None:
        """See `Fleet`."""
        found = self._found(self._core.read_namespaced_pod, pod.name)
        if found is None or found.metadata.uid != pod.uid:
            return None
        release: str | None = (found.metadata.annotations or {}).get(POD_RELEASE)
        return release

    def restart(self, pod: Pod) -> None:
        """Delete the pod and wait until it is no longer an endpoint. Its shutdown may take longer. Raises FleetError."""
        body = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid=pod.uid))
        with self._sentences():
            try:
                self._core.delete_namespaced_pod(pod.name, self._namespace, body=body, _request_timeout=_TIMEOUT)
            except ApiException as error:
                if error.status not in {404, 409}:  # already gone, or another pod with that name
                    raise
        deadline = time.monotonic() + _LEAVE_SECONDS
        while any(other.uid == pod.uid for other in self.pods()):
            if time.monotonic() > deadline:
                raise FleetError(f"pod {pod.name} was deleted, and is still an endpoint after {_LEAVE_SECONDS:g} s")
            time.sleep(_POLL_SECONDS)

    def served(self) -> dict[str, ServedVersion]:
        """See `Fleet`. Raises FleetError for an invalid value too."""
        found = self._config_map()
        try:
            return {model: ServedVersion.parse(model, text) for model, text in ((found and found.data) or {}).items()}
        except ValueError as error:
            raise FleetError(f"namespace {self._namespace}: {error}") from None

    @_tried_again  # if another writer changes the ConfigMap in between, this puts the versions into its new content
    def serve(self, versions: Mapping[str, ServedVersion | None]) -> None:
        """See `Fleet`. The API server refuses the update if the ConfigMap changed after it was read."""
        found = self._config_map()
        before = dict((found and found.data) or {})
        data = {model: text for model, text in before.items() if versions.get(model, text) is not None}
        data |= {model: version.to_json() for model, version in versions.items() if version is not None}
        if found is not None and data == before:
            return
        with self._sentences():
            if found is not None:
                found.data = data
                self._core.replace_namespaced_config_map(SERVED_VERSIONS, self._namespace, found, _request_timeout=_TIMEOUT)
                return
            new = client.V1ConfigMap(metadata=client.V1ObjectMeta(name=SERVED_VERSIONS), data=data)
            try:
                self._core.create_namespaced_config_map(self._namespace, new, _request_timeout=_TIMEOUT)
            except ApiException as error:
                if error.status == 404:
                    raise FleetAbsent(f"there is no namespace {self._namespace} yet") from None
                raise

    def behind(self, service: str) -> Self:
        """Return the pods behind another Service of the namespace, which listen on the ports of Triton."""
        other = copy.copy(self)
        other._service = service
        return other

    @_tried_again
    def _slices(self, selector: str) -> list[Any]:
        with self._sentences():
            found: list[Any] = self._discovery.list_namespaced_endpoint_slice(
                self._namespace, label_selector=selector, _request_timeout=_TIMEOUT
            ).items
        return found

    def _config_map(self) -> Any:
        return self._found(self._core.read_namespaced_config_map, SERVED_VERSIONS)

    @_tried_again
    def _found(self, read: Callable[..., Any], name: str) -> Any:
        """Return an object of the namespace; None if it does not exist."""
        with self._sentences():
            try:
                found = read(name, self._namespace, _request_timeout=_TIMEOUT)
                if getattr(found, "metadata", None) is None:
                    raise ValueError("no object of Kubernetes")
                return found
            except ApiException as error:
                if error.status == 404:
                    return None
                raise

    def _pod(self, name: str, uid: str, address: str, port: int) -> Pod:
        reached = address if self._forwards is None else name
        host = f"[{reached}]" if ":" in reached else reached
        return Pod(
            name,
            uid,
            http=f"http://{host}:{port}",
            metrics=f"http://{host}:{TRITON_METRICS_PORT}",
            admin_key=partial(self._admin_key, name, uid),
            follower=f"http://{host}:{FOLLOWER_PORT}" if self._follows else None,
            forwards=self._forwards,
        )

    @_tried_again
    def _admin_key(self, name: str, uid: str) -> str:
        if uid not in self._keys:
            self._keys[uid] = admin_key(self._configuration, self._namespace, name)
        return self._keys[uid]

    @contextmanager
    def _sentences(self) -> Iterator[None]:
        try:
            yield
        except ApiException as error:
            words = (error.body or error.reason or "").strip()
            raise FleetError(
                f"the cluster at {self._host} answers {error.status}: {kubernetes_status.message(words, words)}"
            ) from error
        except (HTTPError, OSError) as error:
            raise FleetError(f"the cluster at {self._host} cannot be reached: {error}") from error
        # The library builds its objects from any response, valid or not.
        except (ValueError, AttributeError, TypeError, RecursionError) as error:
            raise FleetError(
                f"the cluster at {self._host} answers with something else than Kubernetes does; {reading.IN_BETWEEN}"
            ) from error
