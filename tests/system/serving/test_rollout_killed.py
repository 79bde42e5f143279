"""Rollouts in processes that are killed at every step, and two rollouts at once."""

import pytest

from modelctl.rollout.controller import Outcome
from tests.system.serving.rollout_releases import MODEL, code
from tests.system.serving.rollout_site import Site

SIGKILLED = -9


@pytest.fixture
def site(empty_site: Site) -> Site:
    """Return two servers with version 1: a killed rollout may have reached one and not the other."""
    empty_site.serve_first(2)
    return empty_site


@pytest.mark.timeout(1800)
def test_killed_after_any_step_the_same_command_finishes_the_rollout(site: Site) -> None:
    version, steps, killed = 1, 1, SIGKILLED
    while killed == SIGKILLED:
        release = site.release(version + 1)
        killed, lines = site.run(release, steps=steps)
        assert killed in {0, SIGKILLED}, lines
        assert all(site.answers(site.fleet.served()[MODEL].stable)), f"killed after {lines}"
        code_, lines = site.run(release)
        assert (code_, lines[-1]) in {(0, f"done: {release.id}"), (0, f"nothing to do: {release.id}")}, lines
        version, steps = version + 1, steps + 1
        site.assert_serves(version)
    assert steps > 12


@pytest.mark.timeout(1800)
def test_killed_after_any_step_of_undoing_the_same_command_undoes_the_rest(site: Site) -> None:
    version, steps, killed = 1, 1, SIGKILLED
    while killed == SIGKILLED:
        version += 1
        release = site.release(version, {"model.py": code(version, plus=1000)})
        killed, lines = site.run(release, steps=steps)
        assert killed in {0, SIGKILLED}, lines
        assert all(site.answers(1)), f"killed after {lines}"
        if killed == SIGKILLED:
            code_, lines = site.run(release)
            assert code_ == 0, lines
        assert lines[-1].startswith(f"undone: triton-0: adder version {version} answers wrongly"), lines
        steps += 1
        site.assert_serves(1)
    assert steps > 8


def test_what_a_killed_rollout_began_can_be_taken_back(site: Site) -> None:
    killed, lines = site.run(site.release(2), steps=6)
    assert killed == SIGKILLED, lines

    code_, lines = site.run("--back")

    assert (code_, lines[-1]) == (0, "undone: asked for (--back)")
    site.assert_serves(1)


def test_another_release_waits_for_the_unfinished_one(site: Site) -> None:
    second = site.release(2)
    killed, lines = site.run(second, steps=6)
    assert killed == SIGKILLED, lines

    code_, lines = site.run(site.release(3))

    assert (code_, lines[-2:]) == (
        1,
        [
            "refused: not rolled out, for 1 reason:",
            f"the rollout of release {second.id} (load) is unfinished: finish it with "
            f"`modelctl rollout {second.id}`, or undo it with `modelctl rollout --back`",
        ],
    )


def test_of_two_at_once_one_is_refused(site: Site) -> None:
    """tests/modelctl/rollout/test_lease.py covers two that start at the same moment: they get the lock in turn."""
    second, third = site.release(2), site.release(3)
    others: list[tuple[int, list[str]]] = []

    def another(step: str) -> None:
        if not others:
            others.append(site.run(third))

    # Its holder renews it every 5 s, so the other process knows that the holder is alive.
    result = site.rollout(second, watch=another, lease_seconds=20)

    ((code_, lines),) = others
    assert (code_, len(lines)) == (1, 1), lines
    assert lines[0].startswith("refused: ")
    assert lines[0].endswith(" works on live/ at this moment: wait until that is done")
    assert result.outcome is Outcome.DONE, result.reason
    site.assert_serves(2)
