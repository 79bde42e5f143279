"""An apply with ignored changes: the fields that it sends, by their owners."""

from typing import Any

import pytest

from twin.plugins.field_owners import without_ignored

REPLICAS = {"f:spec": {"f:replicas": {}}}


def live(replicas: int, **owners: dict[str, Any]) -> dict[str, Any]:
    managed = [{"manager": name, "fieldsV1": fields} for name, fields in owners.items()]
    return {"metadata": {"name": "triton", "managedFields": managed}, "spec": {"replicas": replicas, "paused": False}}


def inputs(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "triton"}, "spec": {"paused": True, **spec}}


@pytest.mark.parametrize(
    ("there", "sent"),
    [
        (live(7, pulumi={"f:spec": {"f:paused": {}}}, keda=REPLICAS), {}),
        (live(7, pulumi=REPLICAS), {"replicas": 7}),
        (live(7, pulumi=REPLICAS, keda=REPLICAS), {"replicas": 7}),
        (live(7), {"replicas": 7}),
    ],
    ids=["set by another alone", "set by us", "set by both", "set by nobody"],
)
def test_an_ignored_field_is_left_to_others_or_sent_as_it_is(there: dict[str, Any], sent: dict[str, Any]) -> None:
    given = inputs(replicas=4)
    assert without_ignored(given, there, ["spec.replicas"], "pulumi")["spec"] == {"paused": True, **sent}
    assert given == inputs(replicas=4)


def test_a_path_that_neither_has_changes_nothing() -> None:
    there = live(7, pulumi=REPLICAS)
    del there["spec"]
    assert without_ignored(inputs(), there, ["spec.replicas", "status.phase"], "pulumi") == inputs()
