"""Limits of comparing measured figures with a judged state."""

from __future__ import annotations

import dataclasses

import pytest

from twin.rehearse.compared import Compared, compare, lines
from twin.rehearse.judgement import Effect, Finding, Rehearsal
from twin.rehearse.measured import Measured

IMAGE, ARGS = "spec.template.spec.containers[0].image", "spec.template.spec.containers[0].args[0]"
DEPLOYMENT, GROUP = "kubernetes:apps/v1:Deployment", "aws:eks/nodeGroup:NodeGroup"
SEEN = Measured(9, 9, {}, None, 5.0)
NOTHING = Rehearsal((), (), ())


def found(effect: Effect, type_: str = DEPLOYMENT, *because: str, action: str = "update", name: str = "a") -> Finding:
    return Finding(effect, action, type_, name, because, None, None)


def judged(*findings: Finding, errors: tuple[str, ...] = ()) -> Rehearsal:
    return Rehearsal(findings, errors, ())


NODES = found("interrupted", GROUP, "instanceTypes", action="replace")


@pytest.mark.parametrize(
    ("there", "is_made"),
    [
        (found("rolled", DEPLOYMENT, IMAGE), True),
        (found("rolled", DEPLOYMENT, ARGS, IMAGE), True),
        (found("interrupted", DEPLOYMENT, IMAGE), True),
        (found("rolled", DEPLOYMENT, ARGS), False),
        (found("rolled", DEPLOYMENT, IMAGE, action="replace"), False),
        (found("rolled", DEPLOYMENT, IMAGE, name="b"), False),
        (found("rolled", GROUP, IMAGE), False),
    ],
)
def test_a_step_was_made_where_the_same_properties_of_the_same_resource_changed_the_same_way(
    there: Finding, is_made: bool
) -> None:
    step = found("rolled", DEPLOYMENT, IMAGE)
    compared = compare(judged(NODES, step), NOTHING, judged(there), SEEN)
    assert compared.made == (((step, there),) if is_made else ())
    assert compared.only_judged == ((NODES,) if is_made else (NODES, step))


def test_a_step_of_which_only_some_properties_changed_was_made_in_part() -> None:
    step, there = found("rolled", DEPLOYMENT, ARGS, IMAGE), found("rolled", DEPLOYMENT, IMAGE, "spec.replicas")
    compared = compare(judged(step), NOTHING, judged(there), SEEN)
    assert compared == Compared((), (), (), ((step, (ARGS,)),), ())
    assert compared.document()["in_part"] == {f"{DEPLOYMENT}::a": [ARGS]}
    assert list(lines(compared, "main"))[2:] == [f"  made under load in part: update a ({DEPLOYMENT}), but for {ARGS}"]


@pytest.mark.parametrize(("name", "is_made"), [("triton", True), ("triton-blue", True), ("triton-embed", False)])
def test_a_deployment_of_a_slot_is_compared_with_the_only_one_of_local(name: str, is_made: bool) -> None:
    step = found("rolled", DEPLOYMENT, IMAGE, name="triton-green-chart:triton/triton-green")
    there = found("rolled", DEPLOYMENT, IMAGE, name=f"{name}-chart:triton/{name}")
    compared = compare(judged(step), NOTHING, judged(there), SEEN)
    assert (compared.made, compared.only_judged) == ((((step, there),), ()) if is_made else ((), (step,)))


def test_what_nobody_notices_is_not_compared() -> None:
    assert compare(judged(found("none")), NOTHING, judged(found("none")), SEEN) == Compared((), (), (), (), ())


@pytest.mark.parametrize("seen", [None, dataclasses.replace(SEEN, ended="no room")])
def test_of_a_change_that_was_not_made_or_not_completed_every_step_was_only_judged(seen: Measured | None) -> None:
    compared = compare(judged(NODES), NOTHING, judged(NODES), seen)
    assert (compared.made, compared.only_judged) == ((), (NODES,))


def test_what_the_revision_would_change_in_the_state_differs_but_for_what_is_encrypted() -> None:
    before = judged(found("none"), found("not known", name="b"), NODES, errors=("the program failed",))
    compared = compare(NOTHING, before, NOTHING, SEEN)
    assert (compared.differs, compared.errors) == ((found("none"), NODES), ("the program failed",))


def test_a_person_reads_whether_the_state_is_of_the_revision_and_which_steps_have_figures() -> None:
    rolled, away = found("rolled", DEPLOYMENT, IMAGE), found("interrupted", DEPLOYMENT, IMAGE)
    compared = compare(judged(NODES, rolled), judged(found("none")), judged(away), SEEN)
    heading, *said = lines(compared, "main")
    assert heading == "\nHOW FAR the figures are of the state too:"
    assert said == [
        f"  the state is not as the program of main leaves it, which would update a ({DEPLOYMENT}). What was made is the "
        "change from main, and what was judged is the one from the state",
        f"  made under load: update a ({DEPLOYMENT}) (rolled, and interrupted where it was made)",
        f"  judged, and not made under load: replace a ({GROUP})",
    ]
    assert compared.document() == {
        "differs": [f"{DEPLOYMENT}::a"],
        "errors": [],
        "made": [f"{DEPLOYMENT}::a"],
        "in_part": {},
        "only_judged": [f"{GROUP}::a"],
    }


def test_a_state_that_is_as_the_revision_left_it_and_a_change_without_effect_are_said_to_be_so() -> None:
    assert list(lines(compare(NOTHING, NOTHING, NOTHING, SEEN), "main"))[1:] == [
        "  the state is as the program of main leaves it",
        "  no step on the state is judged to have an effect, so that none needs figures",
    ]


def test_a_program_of_the_revision_that_fails_on_the_state_leaves_it_unknown() -> None:
    compared = compare(NOTHING, judged(found("none"), errors=("a", "b")), NOTHING, SEEN)
    assert list(lines(compared, "main"))[1] == (
        "  nobody knows whether the state is of main, as the engine would not go on with its program: a; b"
    )


def test_a_long_list_is_cut_after_ten_steps() -> None:
    steps = [found("interrupted", GROUP, name=f"n{number}") for number in range(12)]
    (_, _, said) = lines(compare(judged(*steps), NOTHING, NOTHING, SEEN), "main")
    assert said.endswith(f"update n9 ({GROUP}); and 2 more")
