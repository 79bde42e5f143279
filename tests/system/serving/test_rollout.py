"""`modelctl rollout` on three real servers: the view of clients, and the effect of bad releases."""

import asyncio
import json
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.rollout_servers import LocalFleet
from modelctl.loadgen import Result
from modelctl.rollout.controller import Outcome
from modelctl.rollout.controller import Result as Ended
from modelctl.rollout.fleet import Pod, ServedVersion
from modelctl.rollout.limits import Limits
from modelctl.rollout.pod_client import PodClient
from modelctl.rollout.pods import StillAsked
from modelctl.rollout.replay import Replay
from modelctl.store.manifest import Manifest, ModelEntry, ObjectEntry
from tests.system.serving.conftest import BUCKET
from tests.system.serving.rollout_clients import Clients
from tests.system.serving.rollout_driver import LIMITS
from tests.system.serving.rollout_releases import CONFIG, MODEL, code, failing_code, golden
from tests.system.serving.rollout_site import Site, Watchman
from twin.host import processes

UNDER_LOAD = replace(LIMITS, quiet=3.0)
"""`quiet` has to be longer than the longest request, including the time between reading the version and the arrival."""


@pytest.fixture
def site(empty_site: Site) -> Site:
    """Return three servers with version 1."""
    empty_site.serve_first(3)
    return empty_site


class AskingFleet(LocalFleet):
    """Has clients that do not learn of new versions: each list of its pods sends a request to each.

    The requests are for one version. So there is a request between any two looks of a rollout at the pods' counts, whatever
    the speed of either.
    """

    def __init__(self, site: Site, version: int) -> None:
        super().__init__(site.servers.directory)
        self._site, self._version = site, version
        self.answers: list[bool] = []

    def pods(self) -> list[Pod]:
        self.answers += self._site.answers(self._version)
        return super().pods()


class TimedFleet(LocalFleet):
    """Records when a new stable version was published to clients."""

    told: float = 0.0

    def serve(self, versions: Mapping[str, ServedVersion | None]) -> None:
        before = self.served()
        super().serve(versions)
        version = versions.get(MODEL)
        if version is not None and MODEL in before and version.stable != before[MODEL].stable:
            self.told = time.monotonic()


def test_under_load_no_request_fails_and_after_the_flip_none_is_answered_by_the_old_version(site: Site) -> None:
    fleet = TimedFleet(site.servers.directory)
    second = site.release(2)

    async def both() -> tuple[float, Result, Ended]:
        done = asyncio.Event()
        load = asyncio.create_task(Clients(site).load(30, 600, done))
        result = await asyncio.to_thread(site.rollout, second, canary=(50,), fleet=fleet, limits=UNDER_LOAD)
        done.set()
        began, answers = await load
        return began, answers, result

    began, answers, result = asyncio.run(both())

    assert result.outcome is Outcome.DONE, result.reason
    account = answers.account()
    assert (account.answered, account.failed, account.shed) == (account.sent, 0, 0), answers.errors
    assert {o.tag for o in answers.outcomes} == {"1:1:True", "2:2:True"}
    after = [o for o in answers.outcomes if o.sent is not None and began + o.sent > fleet.told]
    assert {o.tag for o in after} == {"2:2:True"}
    canary = [o for o in answers.outcomes if o.tag == "2:2:True" and o.sent is not None and began + o.sent < fleet.told]
    assert len(canary) >= LIMITS.terms.requests
    site.assert_serves(2)


def test_a_model_that_does_not_load_is_undone_and_needs_no_clearing_up(site: Site) -> None:
    broken = site.release(2, {"model.py": "import nothing_of_that_name\n" + code(2)})

    with Watchman(site, 1) as watchman:
        result = site.rollout(broken)

    assert result.outcome is Outcome.UNDONE
    assert result.reason is not None
    assert result.reason.startswith("triton-0: load failed for model 'adder': version 2 is at UNAVAILABLE state")
    assert "No module named 'nothing_of_that_name'" in result.reason
    assert watchman.worst == 2, "only the pod that was restarted may have been away"
    site.assert_serves(1)
    assert site.servers_ready() == [True, True, True]
    assert site.rollout(site.release(3)).outcome is Outcome.DONE


def test_a_wrong_answer_is_undone_without_a_restart(site: Site) -> None:
    wrong = site.release(2, {"model.py": code(2, plus=7)})
    before = {pod.uid for pod in site.fleet.pods()}

    result = site.rollout(wrong)

    assert (result.outcome, result.reason) == (
        Outcome.UNDONE,
        "triton-0: adder version 2 answers wrongly: OUT[0] is 48.0, expected 43.0 (tolerance 1e-05)",
    )
    site.assert_serves(1)
    assert {pod.uid for pod in site.fleet.pods()} == before


def test_a_half_uploaded_version_hangs_one_load_and_that_pod_is_restarted(site: Site) -> None:
    half = _released_without_its_model_file(site, 2)
    first, *others = [pod.uid for pod in site.fleet.pods()]

    with Watchman(site, 1) as watchman:
        result = site.rollout(half, limits=Limits(**{**vars(LIMITS), "load": 8.0, "settle": 8.0}))

    assert (result.outcome, result.reason) == (
        Outcome.UNDONE,
        "triton-0: loading adder 1 and 2 did not end in 8 s",
    )
    assert watchman.worst == 2
    site.assert_serves(1)
    assert site.servers_ready() == [True, True, True]
    assert first not in {pod.uid for pod in site.fleet.pods()}
    assert {pod.uid for pod in site.fleet.pods()} >= set(others)


def test_an_object_with_other_content_than_released_reaches_no_pod(site: Site) -> None:
    second = site.release(2)
    key = f"releases/{second.id}/{MODEL}/2/model.py"
    site.store.client.delete_object(Bucket=BUCKET, Key=key)  # S3 refuses to overwrite it
    site.store.client.put_object(Bucket=BUCKET, Key=key, Body=b"changed afterwards", ChecksumAlgorithm="SHA256")

    result = site.rollout(second)

    assert result.outcome is Outcome.UNDONE
    assert result.reason is not None
    assert result.reason.startswith(f"adder/2/model.py in releases/{second.id}/ has the sha-256 ")
    assert result.reason.endswith(f"but the manifest says {second.objects['adder/2/model.py'].sha256}")
    assert not [line for line in site.told if "loaded" in line]
    site.assert_serves(1)


@pytest.mark.parametrize("moment", ["triton-0: loaded adder 1 and 2", "clients are told: adder version 2", "settle"])
def test_a_pod_that_dies_in_the_middle_comes_up_with_what_the_rollout_says(site: Site, moment: str) -> None:
    second = site.release(2)
    killed = []

    def kill(line: str) -> None:
        if line.startswith(moment) and not killed:
            site.servers.kill("triton-1")
            killed.append(line)

    result = site.rollout(second, watch=kill)

    assert len(killed) == 1
    assert result.outcome is Outcome.DONE, result.reason
    site.servers.until_ready(MODEL)
    site.assert_serves(2)
    assert len(site.versions()) == 3


def test_a_server_that_ends_while_the_fleet_is_read_is_left_out(tmp_path: Path) -> None:
    running = {"name": "triton-0", "uid": "triton-0-1", "address": "127.0.0.2", "pid": 1}
    (tmp_path / "triton-0.pod.json").write_text(json.dumps(running))
    (tmp_path / "triton-1.pod.json").symlink_to("taken-away")  # listed, but deleted before it is read

    assert [pod.name for pod in LocalFleet(tmp_path).pods()] == ["triton-0"]


def test_a_canary_that_is_too_slow_is_undone(site: Site) -> None:
    slow = site.release(2, {"model.py": code(2, seconds=0.05)})

    async def both() -> tuple[Outcome, str | None, Result]:
        done = asyncio.Event()
        load = asyncio.create_task(Clients(site).load(20, 600, done))
        result = await asyncio.to_thread(site.rollout, slow, canary=(50,), slo_p95_ms=30.0, limits=UNDER_LOAD)
        done.set()
        return result.outcome, result.reason, (await load)[1]

    outcome, reason, answers = asyncio.run(both())

    assert outcome is Outcome.UNDONE
    assert reason is not None
    assert re.search(r"adder version 2: .* ms (in the model, version 1 .* ms|on average, sloP95Ms is 30)$", reason), reason
    assert answers.account().answered == len(answers.outcomes), answers.errors
    site.assert_serves(1)


def test_a_canary_that_fails_one_request_of_fifty_is_undone_and_a_right_one_is_not(site: Site) -> None:
    async def roll_out(release: Manifest, failing: float) -> tuple[Outcome, str | None, Result]:
        limits = replace(UNDER_LOAD, watch=3.0, terms=replace(LIMITS.terms, requests=100, seconds=3.0, failing=failing))
        end = asyncio.Event()
        load = asyncio.create_task(Clients(site).load(60, 600, end))
        result = await asyncio.to_thread(site.rollout, release, canary=(50,), limits=limits)
        end.set()
        return result.outcome, result.reason, (await load)[1]

    outcome, reason, answers = asyncio.run(roll_out(site.release(2, {"model.py": failing_code(2, every=50)}), 0.001))

    assert outcome is Outcome.UNDONE
    assert reason is not None
    assert re.fullmatch(
        r"adder version 2: \d+ of \d+ \(\d+\.\d%\) requests failed, 0\.1% may \(version 1: 0 of \d+\)", reason
    ), reason
    account = answers.account()
    assert (account.sent, account.shed) == (account.answered + account.failed, 0)
    assert all("TritonModelException: the fiftieth" in error for error in answers.errors), answers.errors
    assert 3 <= account.failed <= 30
    site.assert_serves(1)

    outcome, reason, answers = asyncio.run(roll_out(site.release(3), 0.005))  # 149 requests without a failure

    assert (outcome, reason) == (Outcome.DONE, None)
    account = answers.account()
    assert (account.answered, account.failed, account.shed) == (account.sent, 0, 0), answers.errors
    assert [line for line in site.told if line.startswith("adder version 3: 0 of ")]
    site.assert_serves(3)


def test_a_version_that_fails_once_it_has_all_requests_is_undone_in_the_watch(site: Site) -> None:
    late = site.release(2, {"model.py": failing_code(2, every=1, after=60)})
    limits = replace(UNDER_LOAD, watch=120.0)

    async def both() -> tuple[Outcome, str | None]:
        end = asyncio.Event()
        load = asyncio.create_task(Clients(site).load(40, 600, end))
        result = await asyncio.to_thread(site.rollout, late, limits=limits)
        end.set()
        (await load)[1].account()
        return result.outcome, result.reason

    outcome, reason = asyncio.run(both())

    assert outcome is Outcome.UNDONE
    assert reason is not None
    assert reason.startswith("adder version 2: "), reason
    assert " requests failed, 2% may (version 1 before: 0 of " in reason
    assert "watch" in site.told
    site.assert_serves(1)


def test_replayed_requests_are_answered_as_before_or_the_rollout_is_undone(site: Site, tmp_path: Path) -> None:
    def line(value: float, shape: tuple[int, ...] = (1, 1)) -> str:
        return json.dumps({"model": MODEL, "inputs": {"IN": {"datatype": "FP32", "shape": shape, "data": [value]}}})

    file = tmp_path / "requests.jsonl"
    file.write_text("\n".join([line(1), line(2), line(3, (1,)), line(4)]))
    replay = Replay.read(file, 0.0)

    result = site.rollout(site.release(2), replay=replay)

    assert (result.outcome, result.reason) == (
        Outcome.UNDONE,
        "adder version 2 answers 3 of 3 replayed requests otherwise than version 1, 0% may; the first: line 1: OUT[0] is "
        "3.0, expected 2.0 (tolerance 1e-05)",
    )
    site.assert_serves(1)

    alike = site.release(3, {"model.py": code(3, plus=1), "golden.json": golden(1)})
    assert site.rollout(alike, replay=replay).outcome is Outcome.DONE
    (told,) = [said for said in site.told if "replayed" in said and said.startswith("adder version 3")]
    assert re.fullmatch(
        r"adder version 3 answers 0 of 3 replayed requests otherwise than version 1, 0% may; median [0-9.]+ ms, "
        r"version 1 [0-9.]+ ms; 1 more are left out: version 1 refused them, or the pods had no time",
        told,
    ), told


def test_a_canary_without_requests_is_undone_as_such(site: Site) -> None:
    result = site.rollout(site.release(2), canary=(5,), limits=Limits(**{**vars(LIMITS), "canary": 1.0}))

    assert (result.outcome, result.reason) == (
        Outcome.NO_TRAFFIC,
        "not enough requests to judge by in 1 s at 5 %: adder version 2 got 0 of 20 requests",
    )
    site.assert_serves(1)


def test_a_version_that_clients_still_ask_for_stays_until_they_do_not(site: Site) -> None:
    second = site.release(2)
    stubborn = AskingFleet(site, 1)

    with pytest.raises(StillAsked) as refusal:
        site.rollout(second, fleet=stubborn, limits=Limits(**{**vars(LIMITS), "drain": 5.0, "quiet": 1.0}))

    assert str(refusal.value) == "after 5 s clients still ask for adder version 1"
    assert all(stubborn.answers)
    assert site.rollout(second).outcome is Outcome.DONE
    site.assert_serves(2)


def test_the_last_rollout_is_taken_back(site: Site) -> None:
    assert site.rollout(site.release(2)).outcome is Outcome.DONE
    assert site.rollout(None).outcome is Outcome.DONE
    site.assert_serves(1)


def test_a_config_that_one_pod_has_otherwise_is_told(site: Site) -> None:
    first = site.fleet.pods()[0]
    with PodClient(first) as client:
        client.unload(MODEL)
        processes.wait_until(lambda: client.ready_versions() == {}, "the model to be unloaded", 60)

    (difference,) = site.differences()

    assert difference.startswith("adder: not served on triton-0; version 1 with config ")
    assert difference.endswith(" on triton-1, triton-2")


def _released_without_its_model_file(site: Site, version: int) -> Manifest:
    """Return a finished release of a version without its model.py, which `modelctl release` would refuse."""
    complete = site.release(version, {"golden.json": golden(version, expected=0)})  # another id than the healthy one
    objects = {key: entry for key, entry in complete.objects.items() if not key.endswith("model.py")}
    assert isinstance(next(iter(objects.values())), ObjectEntry)
    half = Manifest.of(objects, {MODEL: ModelEntry(version=version, backend="python")}, complete.created)
    for key in half.objects:
        source = {"Bucket": BUCKET, "Key": f"releases/{complete.id}/{key}"}
        site.store.client.copy_object(Bucket=BUCKET, Key=f"releases/{half.id}/{key}", CopySource=source)
    assert site.store.write_manifest(half)
    assert CONFIG
    return half
