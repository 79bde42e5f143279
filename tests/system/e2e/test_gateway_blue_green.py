"""Rollouts on two Deployments with the real Envoy: the command changes the stack file, and Envoy's weights follow.

The tests depend on their order: the second accepted release replaces the first.
"""

from __future__ import annotations

import collections
import re
import shutil
import subprocess
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from spec.names import COMPARER, TRITON_NAMESPACE
from spec.settings import load_stack_file
from tests.system.e2e import gateway_twin, pinned
from tests.system.e2e.gateway_load import ANSWERED, Account, Ask, by_version, load, over_grpc, over_http
from tests.system.e2e.gateway_twin import Gateway, age, until, within_chance
from twin.cluster.kube_api import object_path
from twin.engine import stack_files
from twin.host import processes
from twin.host.home import REPOSITORY

# Envoy Gateway may have to be built first.
pytestmark = pytest.mark.timeout(3600)
STACK = "local"
OLD, NEW = by_version("1"), by_version("2")
COPIES = r"(http|grpc)route/triton/classify/rule/\d+-mirror-\d+"
ROLLOUT_SECONDS = 900.0
TOLD_SECONDS = 5.0
"""The longest time between the updates of two Envoys with new weights."""


@dataclass
class Site:
    """A twin whose stack file `modelctl rollout` writes, and clients of its gateway."""

    gateway: Gateway
    stacks: Path
    directory: Path

    @property
    def log(self) -> Path:
        return self.directory / "said"

    @property
    def file(self) -> Path:
        return self.stacks / f"Pulumi.{STACK}.yaml"

    @property
    def options(self) -> str:
        return f"--bucket {self.gateway.twin.servers().engine().outputs(STACK)['modelBucket']} --stacks {self.stacks}"

    def compare_answers(self) -> None:
        """Enable the stack's comparison of answers to mirrored requests from the next `pulumi up` on."""
        document = yaml.safe_load(self.file.read_text())
        document["config"]["triton-eks:triton"]["comparerImage"] = pinned.COMPARER_IMAGE
        self.file.write_text(yaml.safe_dump(document, sort_keys=False))

    def release(self, lines: str = "", *, version: int = 2, like: int = 2) -> str:
        """Release a version of classify with another version's files and these lines first in `execute`. Return its id."""
        models = self.directory / "models"
        shutil.rmtree(models, ignore_errors=True)
        shutil.copytree(REPOSITORY / "models", models, ignore=shutil.ignore_patterns("__pycache__"))
        if like != version:
            shutil.copytree(models / "classify" / f"{like}", models / "classify" / f"{version}", dirs_exist_ok=True)
        (models / "release.yaml").write_text(f"versions: {{classify: {version}}}\n")
        code = models / "classify" / f"{version}" / "model.py"
        head = "    def execute(self, requests):\n"
        text = code.read_text()
        assert text.count(head) == 1
        code.write_text(text.replace(head, head + textwrap.indent(lines, 8 * " ")))
        done = self.gateway.twin.shell(f"python -m modelctl release {models} {self.options}")
        assert done.returncode == 0, done.stderr
        return done.stdout.split()[0]

    @contextmanager
    def rollout(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run `modelctl rollout <arguments>` during the block, at most until it exits."""
        words = " ".join(arguments)
        limits = "--canary-least-seconds 5 --watch-seconds 5 --canary-seconds 300"
        command = f"python -m modelctl rollout {words} --stack {STACK} {limits} {self.options}"
        script = f'eval "$(python3 -m twin env)" && exec {command}'
        twin = self.gateway.twin
        # A new file, so the previous rollout's output is not taken for this one's.
        with self.log.open("wb") as log:
            process = subprocess.Popen(
                ["bash", "-c", script], cwd=twin.checkout, env=twin.environment(), stdout=log, stderr=subprocess.STDOUT
            )
        try:
            yield process
            processes.wait_until(lambda: process.poll() is not None, f"modelctl rollout {words}", ROLLOUT_SECONDS)
        finally:
            process.terminate()
            process.wait()

    @property
    def said(self) -> str:
        """Return the present output of the newest rollout."""
        return self.log.read_text()

    def until_said(self, rollout: subprocess.Popen[bytes], what: str) -> None:
        """Wait for this output while the rollout runs."""

        def said_or_ended() -> bool:
            return what in self.said or rollout.poll() is not None

        until(said_or_ended, f"{what!r} to be said", ROLLOUT_SECONDS)
        assert what in self.said, f"the rollout ended with {rollout.returncode} before it said {what!r}:\n{self.said}"

    def clients(self) -> list[Ask]:
        """Return four clients of each protocol, which report the version that answered."""
        http = [over_http(self.gateway.http, reused=False, versions=True) for _ in range(4)]
        return [*http, *(over_grpc(self.gateway.grpc, versions=True) for _ in range(4))]

    def weights(self) -> dict[str, list[tuple[str, int]]]:
        """Return, by protocol, the Services of classify's route with their weights."""
        path = object_path("gateway.networking.k8s.io/v1", "{}", TRITON_NAMESPACE, "classify")
        found = {kind: self.gateway.kube.get(path.format(f"{kind}routes"))["spec"]["rules"][0] for kind in ("http", "grpc")}
        return {kind: [(one["name"], one.get("weight", 1)) for one in rule["backendRefs"]] for kind, rule in found.items()}

    def deployments(self) -> list[str]:
        items = self.gateway.kube.get(object_path("apps/v1", "deployments", TRITON_NAMESPACE))["items"]
        return sorted({item["metadata"]["name"] for item in items} & {"triton-blue", "triton-green", COMPARER})


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return a site that serves the samples' release on triton-blue."""
    home = tmp_path_factory.mktemp("blue-green")
    with gateway_twin.up(home / "home", pinned.BLUE_GREEN) as gateway:
        # As docs/twin.md says: the command has to write the keys that this twin adds to its stack.
        pins = stack_files.pins_file(gateway.twin.home, STACK)
        pins.write_bytes(stack_files.write_merged(gateway.twin.home, STACK).read_bytes())
        yield Site(gateway, pins.parent, home)


class _NoTwin:
    """A fake twin without running servers; every command fails."""

    def __init__(self, folder: Path) -> None:
        self.checkout = folder

    def environment(self) -> dict[str, str]:
        return {"PATH": "/usr/bin:/bin"}


def test_what_the_rollout_before_has_said_is_not_taken_for_what_this_one_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Site, "options", "")
    none = Gateway(_NoTwin(tmp_path), None, "")  # type: ignore[arg-type]
    site = Site(none, tmp_path, tmp_path)
    site.log.write_text("the candidate gets 50 % of the requests")
    with site.rollout("3f2a9c1b7d04" + 52 * "0"):
        assert "gets 50 %" not in site.said
    assert "python3: " in site.said


def _accounted(account: Account, *failures: str) -> None:
    """Check that a version answered each request, except requests whose outcome has one of these words."""
    assert account.sent == account.outcomes.total()
    others = [one for one in account.outcomes if not one.startswith(ANSWERED)]
    assert [one for one in others if not any(word in one for word in failures)] == [], account.outcomes


@pytest.mark.parametrize(
    ("lines", "options", "why", "failures"),
    [
        ("import time; time.sleep(0.03)\n", "--mirror 100% --canary 50%,100%", "ms in the model, release ", ()),
        (
            # Not the first ones: otherwise the golden inference finds it before any client.
            "self.asked = getattr(self, 'asked', 0) + 1\n"
            "if self.asked > 20 and self.asked % 5 == 0: raise pb_utils.TritonModelException('one in five')\n",
            "--canary 50%,100%",
            "requests failed, 0.1% may (release ",
            ("TritonModelException",),
        ),
    ],
    ids=["copies are slower", "requests fail"],
)
def test_a_bad_release_is_taken_back_by_itself(
    site: Site, lines: str, options: str, why: str, failures: tuple[str, ...]
) -> None:
    before = site.file.read_text()
    release = site.release(lines)
    with load(*site.clients(), rate=12) as account, site.rollout(release, options) as rollout:
        pass
    assert rollout.returncode == 1, site.said
    assert why in site.said.splitlines()[-1], site.said
    assert site.file.read_text() == before
    _accounted(account, *failures)
    assert (NEW in account.outcomes) is bool(failures), "an answer of copies is dropped"
    assert account.outcomes[OLD] > 100
    assert site.weights() == {"http": [("triton-blue", 1)], "grpc": [("triton-blue", 1)]}
    assert site.deployments() == ["triton-blue"]
    assert {ask() for ask in site.clients()} == {OLD}


def test_a_release_whose_answers_differ_from_live_ones_is_taken_back_before_a_client_has_one(site: Site) -> None:
    """Its golden inferences are right, because the release brings them."""
    before = site.file.read_text()
    release = site.release()
    site.compare_answers()
    with load(*site.clients(), rate=4) as account, site.rollout(release, "--mirror 100% --canary 50%,100%") as rollout:
        site.until_said(rollout, "gets copies of 100 % of the requests")
        until(lambda: COMPARER in site.deployments() or rollout.poll() is not None, "what compares answers", ROLLOUT_SECONDS)
    assert rollout.returncode == 1, site.said
    last = site.said.splitlines()[-1]
    told = re.search(
        r"classify version 2: (\d+) of (\d+) copies \(.*%\) answered otherwise than by release [0-9a-f]{64}, 0% may", last
    )
    assert told is not None, site.said
    assert 0 < int(told[1]) <= int(told[2])
    _accounted(account)
    assert set(account.outcomes) == {OLD}
    assert site.weights() == {kind: [("triton-blue", 1)] for kind in ("http", "grpc")}
    until(lambda: site.deployments() == ["triton-blue"], "what compared the answers to be gone", 120)
    site.file.write_text(before)


def test_a_right_release_gets_copies_then_half_of_the_requests_then_all_and_none_fails(site: Site) -> None:
    release = site.release()
    with load(*site.clients(), rate=12) as account, site.rollout(release, "--mirror 100% --canary 50%,100%") as rollout:
        site.until_said(rollout, "gets 50 % of the requests")
        assert set(account.outcomes) == {OLD}, "an answer of copies is dropped"
        copied = site.gateway.counted("envoy_cluster_upstream_rq_total", COPIES)
        until(lambda: account.outcomes[NEW] > 0, "a request of a client to reach the new release", ROLLOUT_SECONDS)
        age(TOLD_SECONDS)
        half = collections.Counter(account.outcomes)
        site.until_said(rollout, "gets 100 % of the requests")
        half = collections.Counter(account.outcomes) - half
        assert site.weights() == {kind: [("triton-blue", 50), ("triton-green", 50)] for kind in ("http", "grpc")}
    assert rollout.returncode == 0, site.said
    _accounted(account)
    assert copied >= 747, "as many copies as it takes to tell"
    assert within_chance(half[NEW], half.total(), 0.5), half
    assert site.weights() == {"http": [("triton-green", 1)], "grpc": [("triton-green", 1)]}
    until(lambda: site.deployments() == ["triton-green"], "the old pods to be gone", 120)
    assert {ask() for ask in site.clients()} == {NEW}
    models = load_stack_file(site.file).models
    assert models.release is not None
    assert (models.slot, models.release.id, models.candidate) == ("green", release, None)


def test_a_release_that_answers_live_requests_as_before_is_taken_after_its_answers_were_compared(site: Site) -> None:
    release = site.release(version=3, like=2)
    site.compare_answers()
    old, new = NEW, by_version("3")
    with load(*site.clients(), rate=4) as account, site.rollout(release, "--mirror 100% --slower-percent 100") as rollout:
        site.until_said(rollout, "gets 100 % of the requests")
        assert set(account.outcomes) == {old}, "an answer of copies is dropped"
        copied = {
            kind: site.gateway.counted("envoy_cluster_upstream_rq_total", COPIES.replace("http|grpc", kind))
            for kind in ("http", "grpc")
        }
    assert rollout.returncode == 0, site.said
    _accounted(account)
    told = re.search(
        r"classify version 3: 0 of (\d+) copies answered otherwise than by release [0-9a-f]{64}, 0% may", site.said
    )
    assert told is not None, site.said
    # All of them came through the gateway, over both protocols.
    assert 299 <= int(told[1]) <= sum(copied.values())
    assert min(copied.values()) > 100, copied
    until(lambda: site.deployments() == ["triton-blue"], "all but the release to be gone", 120)
    assert {ask() for ask in site.clients()} == {new}
    models = load_stack_file(site.file).models
    assert models.release is not None
    assert (models.slot, models.release.id, models.candidate) == ("blue", release, None)
