"""Client keys from Secrets Manager through the real External Secrets Operator to the real Envoys."""

from __future__ import annotations

import base64
import json
import shlex
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from infra.platform.client_keys import REFRESH_SECONDS
from spec.names import CLIENT_KEYS, EXTERNAL_SECRETS, client_secret, cluster_name
from tests.system.e2e import account, gateway_clients, gateway_twin, pinned
from tests.system.e2e.conftest import UP_SECONDS
from tests.system.e2e.gateway_load import ANSWERED, load, over_grpc, over_http
from tests.system.e2e.gateway_twin import Gateway, listens, until
from tests.system.e2e.sockets import listening
from twin.cluster.kube_api import object_path
from twin.engine import stack_files
from twin.host import processes
from twin.host.home import REPOSITORY

# Envoy Gateway and the operator may have to be built first.
pytestmark = pytest.mark.timeout(3600)
STACK = "local"
CLIENTS = "triton-eks:gateway.clients"
READ_SECONDS = 3.0 * REFRESH_SECONDS
"""The time in which the operator reads a key by itself and every Envoy gets it, on a busy machine."""
Keys = dict[str, str]


@dataclass(frozen=True)
class Site:
    """A twin whose gateway allows only clients with keys."""

    gateway: Gateway

    @property
    def _secrets(self) -> Any:
        return account.client(self.gateway.twin.servers().aws_url, "secretsmanager")

    def stackctl(self, command: str) -> None:
        """Run `stackctl keys <command>` on the twin's own stack file."""
        folder, checkout = shlex.quote(str(self.gateway.twin.home.path / "project")), shlex.quote(str(REPOSITORY))
        done = self.gateway.twin.shell(f"cd {folder} && PYTHONPATH={checkout} python -m stackctl keys {command}")
        assert done.returncode == 0, done.stdout + done.stderr

    def key(self, client: str) -> str:
        """Return a client's key, as the client reads it."""
        found: Keys = json.loads(self._secrets.get_secret_value(SecretId=_secret(client))["SecretString"])
        return found["current"]

    def write(self, client: str, keys: Keys) -> None:
        """Write the same as `stackctl keys`, without its wait of five minutes between two steps."""
        self._secrets.put_secret_value(SecretId=_secret(client), SecretString=json.dumps(keys))

    def lose(self, client: str) -> None:
        """Delete a client's secret permanently."""
        self._secrets.delete_secret(SecretId=_secret(client), ForceDeleteWithoutRecovery=True)

    def read_now(self) -> None:
        """Make the operator read the secrets at once (https://external-secrets.io/latest/introduction/faq/)."""
        at = f"--namespace {EXTERNAL_SECRETS.namespace} externalsecret {CLIENT_KEYS}"
        self.gateway.twin.kubectl(f"annotate --overwrite {at} force-sync={uuid.uuid4()}")

    def in_cluster(self) -> Keys:
        """Return the operator's output from the secrets of all clients."""
        secret = self.gateway.kube.find(object_path("v1", "secrets", EXTERNAL_SECRETS.namespace, CLIENT_KEYS))
        return {name: base64.b64decode(key).decode() for name, key in ((secret or {}).get("data") or {}).items()}

    def ready(self) -> tuple[str, str]:
        """Return whether the operator could read all secrets, and the reason."""
        path = object_path("external-secrets.io/v1", "externalsecrets", EXTERNAL_SECRETS.namespace, CLIENT_KEYS)
        (found,) = [one for one in self.gateway.kube.get(path)["status"]["conditions"] if one["type"] == "Ready"]
        return found["status"], found["reason"]


def _secret(client: str) -> str:
    return client_secret(cluster_name(STACK), client)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return a site that got its first clients while it was up, in the order of docs/access.md."""
    with gateway_twin.up(tmp_path_factory.mktemp("keys") / "home", pinned.PROMPT) as gateway:
        found, twin = Site(gateway), gateway.twin
        twin.pin(CLIENTS, pinned.KEYS[CLIENTS])
        stack_files.write_merged(twin.home, STACK)
        for client in pinned.KEYS[CLIENTS]:
            found.stackctl(f"create {STACK} {client}")
        done = twin.run("up", "--gateway", seconds=UP_SECONDS)
        assert done.returncode == 0, done.stdout[-4000:]
        yield found


def test_a_key_that_stackctl_made_opens_the_gateway_for_its_client_alone(site: Site) -> None:
    every, ours, theirs = (site.key(client) for client in pinned.KEYS[CLIENTS])
    until(lambda: gateway_clients.http(site.gateway.http, ours) == 200, "the key to be known", READ_SECONDS)
    until(lambda: gateway_clients.grpc(site.gateway.grpc, every) == ANSWERED, "the key to be known over gRPC")
    assert site.ready() == ("True", "SecretSynced")
    assert site.in_cluster() == {"everything.current": every, "team-a.current": ours, "team-b.current": theirs}
    for pod in site.gateway.envoys():
        http = partial(gateway_clients.http, f"{listens(pod)}:8000")
        assert (http(every), http(ours), http(theirs), http(), http("wrong")) == (200, 200, 403, 401, 401)


def test_the_operator_listens_on_loopback_alone(site: Site) -> None:
    record = processes.find(site.gateway.twin.home, "external-secrets")
    assert record is not None
    found = listening(record.pid)
    assert len(found) == 2, found
    assert {address.partition(":")[0] for address in found} == {"0100007F"}


def test_a_key_is_rotated_in_secrets_manager_under_load_and_no_request_is_lost(site: Site) -> None:
    old, new = site.key("everything"), gateway_clients.new_key()
    sent = {"authorization": f"Bearer {old}"}
    asks = [over_http(site.gateway.http, reused=reused, named=sent) for reused in (True, False)]
    with load(*asks, over_grpc(site.gateway.grpc, named=sent)) as account:
        with site.gateway.told():
            site.write("everything", {"current": old, "next": new})
            # By itself, within its interval.
            until(lambda: site.in_cluster().get("everything.next") == new, "the operator to read it", READ_SECONDS)
        account.grow(30)
        with site.gateway.told():
            site.write("everything", {"current": new, "previous": old})
            site.read_now()
        sent["authorization"] = f"Bearer {site.key('everything')}"
        account.grow(30)
        with site.gateway.told():
            site.write("everything", {"current": new})
            site.read_now()
        account.grow(30)
    assert account.answered == account.sent, account.outcomes
    assert (gateway_clients.http(site.gateway.http, old), gateway_clients.http(site.gateway.http, new)) == (401, 200)


def test_a_secret_that_is_gone_leaves_the_keys_of_the_others_as_they_are(site: Site) -> None:
    before = site.in_cluster()
    site.lose("team-b")
    site.read_now()
    until(lambda: site.ready() == ("False", "SecretSyncedError"), "the operator to miss it")
    assert site.in_cluster() == before
    assert gateway_clients.http(site.gateway.http, site.key("team-a")) == 200
