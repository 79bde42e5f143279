"""`modelctl rollout` on real servers that read their own disks, each filled by a real `modelctl follow` next to it."""

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flask import has_request_context
from flask import request as flask_request
from moto.s3.models import S3Backend

from modelctl.loadgen import Result
from modelctl.rollout.controller import Outcome
from modelctl.rollout.controller import Result as Ended
from modelctl.store.bucket import open_store
from tests.modelctl.servers import wait_until
from tests.system.serving.conftest import BUCKET
from tests.system.serving.following_servers import FollowingServers, following_servers
from tests.system.serving.rollout_clients import Clients
from tests.system.serving.rollout_driver import LIMITS
from tests.system.serving.rollout_releases import CONFIG, MODEL
from tests.system.serving.rollout_site import Site

WEIGHTS = "w" * 3_000_000


@pytest.fixture
def servers(moto: str, tmp_path: Path, triton_cache: Path) -> Iterator[FollowingServers]:
    with following_servers(tmp_path / "fleet", triton_cache, open_store(BUCKET, moto), moto) as servers:
        yield servers


@pytest.fixture
def site(moto: str, tmp_path: Path, servers: FollowingServers) -> Site:
    """Return two servers with version 1."""
    site = Site(open_store(BUCKET, moto), moto, servers, tmp_path)
    site.serve_first(2)
    return site


def on_disk(servers: FollowingServers) -> list[list[str]]:
    """Return the releases on each disk, complete or not."""
    return [
        sorted(
            str(path.relative_to(servers.disk(pod.name)))
            for folder in ("releases", ".fetching", ".verified")
            for path in (servers.disk(pod.name) / folder).glob("*")
        )
        for pod in servers.fleet.pods()
    ]


def test_under_load_the_next_release_is_fetched_beside_the_one_that_serves_and_no_request_fails(
    site: Site, servers: FollowingServers
) -> None:
    first, second = site.live.read_journal()[0].serving, site.release(2)
    repositories = {servers.disk(pod.name) / "current" for pod in servers.fleet.pods()}
    before = {pod.uid for pod in site.fleet.pods()}

    async def both() -> tuple[Result, Ended]:
        done = asyncio.Event()
        load = asyncio.create_task(Clients(site).load(30, 600, done))
        limits = replace(LIMITS, quiet=3.0)
        result = await asyncio.to_thread(site.rollout, second, canary=(50,), limits=limits)
        done.set()
        _, answers = await load
        return answers, result

    answers, result = asyncio.run(both())

    assert result.outcome is Outcome.DONE, result.reason
    account = answers.account()
    assert (account.answered, account.failed, account.shed) == (account.sent, 0, 0), answers.errors
    assert {o.tag for o in answers.outcomes} == {"1:1:True", "2:2:True"}
    site.assert_serves(2)
    assert {pod.uid for pod in site.fleet.pods()} == before, "no pod was restarted"
    fetched = [line for line in site.told if line.endswith(": has fetched adder 1 and 2")]
    loaded = [line for line in site.told if "loaded adder 1 and 2" in line]
    assert len(fetched) == len(loaded) == 2
    assert max(map(site.told.index, fetched)) < min(map(site.told.index, loaded)), "every pod has the files, then one loads"
    whole = [f".verified/{second.id}", f"releases/{second.id}"]
    wait_until(lambda: on_disk(servers) == [whole, whole], f"{first} to go from the disks", 20, servers.log("triton-0"))
    assert [sorted(path.name for path in (r / MODEL).iterdir()) for r in repositories] == [["2", "config.pbtxt"]] * 2


def test_a_server_that_crashes_comes_up_with_what_the_rollout_says(site: Site, servers: FollowingServers) -> None:
    assert site.rollout(site.release(2)).outcome is Outcome.DONE
    servers.kill("triton-0")
    servers.until_ready(MODEL)
    site.assert_serves(2)


def test_a_follower_killed_half_way_goes_on_and_the_rollout_waits_for_it(
    site: Site, servers: FollowingServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = site.release(2, {"weights.txt": WEIGHTS})
    get_object, arrive = S3Backend.get_object, threading.Event()

    def held(self: S3Backend, bucket: str, key: str, *arguments: Any, **named: Any) -> Any:
        # A follower requests parts of objects; a rollout copies whole objects, and requests their tags.
        if key.endswith("weights.txt") and has_request_context() and "Range" in flask_request.headers:
            assert arrive.wait(120), "nobody let the file through"
        return get_object(self, bucket, key, *arguments, **named)

    monkeypatch.setattr(S3Backend, "get_object", held)
    results = []
    rollout = threading.Thread(target=lambda: results.append(site.rollout(second)), daemon=True)
    rollout.start()
    half = servers.disk("triton-0") / ".fetching" / second.id / "files/adder/2/weights.txt"
    wait_until(half.is_file, "the second release to arrive in part", 60, servers.log("triton-0"))
    address = next(pod.http for pod in servers.fleet.pods() if pod.name == "triton-0").split("/")[2].partition(":")[0]
    servers.end_follower("triton-0")
    assert half.is_file()
    assert not any("loaded" in line for line in site.told), "no pod loads before all have it"
    arrive.set()
    servers.follow("triton-0", address)
    rollout.join(120)

    assert [result.outcome for result in results] == [Outcome.DONE]
    site.assert_serves(2)
    assert (servers.disk("triton-0") / "current/adder/2/weights.txt").read_text() == WEIGHTS


def test_a_file_that_is_not_as_released_is_undone_before_any_pod_loads(site: Site, servers: FollowingServers) -> None:
    second = site.release(2, config=CONFIG + "# second\n")
    key = f"releases/{second.id}/adder/config.pbtxt"
    site.store.client.delete_object(Bucket=BUCKET, Key=key)  # S3 refuses to overwrite it
    site.store.client.put_object(Bucket=BUCKET, Key=key, Body=CONFIG.encode() + b"# secon!\n")
    before = {pod.uid for pod in site.fleet.pods()}

    result = site.rollout(second)

    assert result.outcome is Outcome.UNDONE
    assert result.reason is not None
    assert result.reason.startswith("triton-0: does not fetch adder 1 and 2: ")
    assert "adder/config.pbtxt" in result.reason
    assert not any("loaded" in line for line in site.told)
    assert {pod.uid for pod in site.fleet.pods()} == before, "no pod was restarted"
    site.assert_serves(1)
    assert site.rollout(site.release(3)).outcome is Outcome.DONE


def test_a_pod_whose_follower_is_gone_is_told_and_the_rollout_undone(site: Site, servers: FollowingServers) -> None:
    servers.end_follower("triton-0")

    result = site.rollout(site.release(2), limits=replace(LIMITS, load=6.0))

    assert result.outcome is Outcome.UNDONE
    assert result.reason is not None
    assert result.reason.startswith("triton-0: has not fetched adder 1 and 2 after ")
    site.assert_serves(1)


def test_the_last_rollout_is_taken_back(site: Site) -> None:
    assert site.rollout(site.release(2)).outcome is Outcome.DONE
    assert site.rollout(None).outcome is Outcome.DONE
    site.assert_serves(1)
