"""`modelctl watch` after a rolling update, on real servers and with a stack file that pins the release."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from modelctl.release import catalog
from modelctl.release.pin import pin, pinned
from modelctl.rollout import command
from modelctl.rollout.fleet import Fleet
from modelctl.rollout.limits import Limits, Terms
from modelctl.rollout.plan import StackRelease
from modelctl.rollout.watch import NotServed, Seen, Watched, watch
from spec.failure import Failure
from tests.modelctl.stacks import write_stack
from tests.system.serving.conftest import BUCKET
from tests.system.serving.rollout_releases import MODEL, code, failing_code
from tests.system.serving.rollout_site import Site
from tests.system.serving.test_rollout import Clients

LIMITS = Limits(watch=4.0, poll=0.2, terms=Terms(requests=20, seconds=0, failing=0.02))

Served = Callable[[dict[str, str]], Site]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_stack(tmp_path / "stacks", {})


@pytest.fixture
def served(empty_site: Site, file: Path, monkeypatch: pytest.MonkeyPatch) -> Served:
    """Serve version 2 of the model with these files on two servers; the stack pins it, and version 1 before."""
    site = empty_site

    def fleet(*_: object) -> Fleet:
        return site.fleet

    def serve(files: dict[str, str]) -> Site:
        releases = [site.release(1), site.release(2, files)]
        for release in releases:
            pin(file, release)
        site.rollout(releases[1])  # fills live/
        site.servers.start(2)
        site.servers.until_ready(MODEL)
        return site

    monkeypatch.setattr(command, "_fleet", fleet)
    return serve


def _watch(site: Site, file: Path, *, take_back: bool = False) -> None:
    command.watch(file, BUCKET, site.endpoint, "triton", LIMITS, take_back=take_back)


def _under_load(site: Site, release: str) -> Seen:
    async def both() -> Seen:
        end = asyncio.Event()
        load = asyncio.create_task(Clients(site).load(40, 120, end))
        stack_release = StackRelease(catalog.finished(site.store, release), "dev", site.store)
        fleets = [Watched(site.fleet, stack_release.manifest.versions, [MODEL])]
        try:
            return await asyncio.to_thread(watch, stack_release, fleets, {MODEL: 500.0}, LIMITS, lambda _: None)
        finally:
            end.set()
            (await load)[1].account()

    return asyncio.run(both())


def test_a_wrong_answer_takes_the_release_back(served: Served, file: Path) -> None:
    site = served({"model.py": code(2, plus=7)})
    earlier, now = pinned_releases(file)

    with pytest.raises(Failure) as failure:
        _watch(site, file, take_back=True)

    assert str(failure.value) == (
        f"release {now} is bad: triton-0: adder version 2 answers wrongly: OUT[0] is 48.0, expected 43.0 (tolerance 1e-05); "
        f"triton-1: adder version 2 answers wrongly: OUT[0] is 48.0, expected 43.0 (tolerance 1e-05); {file} pins {earlier} "
        "again, and `pulumi up` rolls it out"
    )
    assert failure.value.exit_code == 1
    assert pinned_releases(file) == (now, earlier)


def test_a_release_without_requests_is_not_judged_and_stays(served: Served, file: Path) -> None:
    site = served({})
    before = file.read_text()
    _, now = pinned_releases(file)

    with pytest.raises(Failure) as failure:
        _watch(site, file, take_back=True)

    assert (failure.value.exit_code, str(failure.value)) == (
        3,
        f"release {now} is not judged in 4 s: adder version 2 got 0 of 20 requests; it stays",
    )
    assert file.read_text() == before


def test_requests_tell_a_failing_release_from_a_right_one(served: Served, file: Path) -> None:
    site = served({"model.py": failing_code(2, every=5)})
    _, now = pinned_releases(file)

    failing = _under_load(site, now)

    assert len(failing.wrong) == 1
    assert re.fullmatch(r"adder version 2: \d+ of \d+ \(\d+\.\d%\) requests failed, 2% may", failing.wrong[0])

    site.rollout(site.release(3))
    right = _under_load(site, site.live.read_journal()[0].serving or "")

    assert (right.wrong, right.open) == ([], [])
    assert right.figures[0].startswith("adder version 3: 0 of ")


def test_pods_of_another_release_are_not_judged(served: Served, file: Path) -> None:
    site = served({})
    pin(file, site.release(3))

    with pytest.raises(
        NotServed, match=r"triton-0 does not serve adder version 3 of release .*; run this after `pulumi up`"
    ):
        _watch(site, file, take_back=True)


def pinned_releases(file: Path) -> tuple[str, str]:
    """Return the previous release and the pinned one."""
    now = pinned(file)
    assert now is not None and now.previous is not None
    return now.previous, now.id
