"""Plans parsed from the engine's output: both forms, replacements, components, failures."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackctl.review import plan, preview
from stackctl.review.plan import Change
from tests.stackctl.review.scenarios import SECRET, UNKNOWN, Event, diff, step, stream, summary, urn, violation
from triton_policies.waiting import NAME

CLUSTER = "aws:eks/cluster:Cluster"


def test_the_three_steps_of_a_replacement_are_one_that_says_why() -> None:
    old, new = {"version": "1", "name": "a"}, {"version": "1", "name": "b"}
    found = preview.read(
        stream(
            step("create-replacement", CLUSTER, "c", old, new, keys=["name"]),
            step("replace", CLUSTER, "c", old, new, keys=["name"], detailedDiff=diff("update-replace", "name")),
            step("delete-replaced", CLUSTER, "c", old),
        )
    )
    (only,) = found.steps
    assert (only.action, only.name, only.type, only.replace_reasons) == ("replace", "c", CLUSTER, ("name",))
    assert only.changed == (Change("name", "a", "b"),)


@pytest.mark.parametrize("op", ["same", "read", "refresh"])
def test_what_changes_nothing_is_not_told(op: str) -> None:
    assert preview.read(stream(step(op, CLUSTER, "c", {}, {}))).steps == ()


def test_a_night_without_drift_is_unchanged_and_what_drifted_is_an_update() -> None:
    """`preview --refresh` begins with a refresh of every resource, with or without a difference."""
    looked_at = [step("refresh", CLUSTER, name, {"version": "1"}, {"version": "1"}) for name in ("calm", "drifted")]
    same = step("same", CLUSTER, "calm", {"version": "1"}, {"version": "1"})
    back = step("update", CLUSTER, "drifted", {"version": "2"}, {"version": "1"}, diffs=["version"])
    assert preview.read(stream(*looked_at, same)).steps == ()
    (only,) = preview.read(stream(*looked_at, same, back)).steps
    assert (only.action, only.name, only.changed) == ("update", "drifted", (Change("version", "2", "1"),))


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("denied to AKIA" + "IOSFODNN7EXAMPLE: no", "denied to (secret): no"),
        ("a key\n-----BEGIN " + "RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nend", "a key\n(secret)\nend"),
        ("cut -----BEGIN " + "RSA PRIVATE KEY-----\nMIIE", "cut (secret)"),
        ("bearer eyJhbGciOiJIUzI1.eyJzdWIi.c2ln was refused", "bearer (secret) was refused"),
        ("cannot reach https://me:" + "hunter2@example.com/x", "cannot reach https://(secret)@example.com/x"),
        ("arn:aws:iam::123456789012:role/x may not", "arn:aws:iam::123456789012:role/x may not"),
    ],
)
def test_messages_are_told_without_what_looks_like_a_secret(said: str, told: str) -> None:
    found = preview.read(
        stream(
            {"diagnosticEvent": {"severity": "error", "message": said}},
            {"diagnosticEvent": {"severity": "warning", "message": said}},
            violation("advisory", "p", "c", said),
        )
    )
    assert (found.errors, found.warnings, found.violations[0].message) == ((told,), (told,), told)


def test_components_the_stack_and_new_providers_are_not_told_and_replaced_providers_are() -> None:
    provider = "pulumi:providers:kubernetes"
    found = preview.read(
        stream(
            step("create", "triton:nodes:Nodes", "nodes", new={}),
            step("update", "pulumi:pulumi:Stack", "stack", {}, {}),
            step("create", provider, "made", new={}),
            step("replace", provider, "replaced", {}, {}, keys=["kubeconfig"]),
        )
    )
    assert [(one.name, one.action) for one in found.steps] == [("replaced", "replace")]


def test_the_document_and_the_stream_tell_the_same_steps() -> None:
    old, new = {"a": {"b": [1, 2]}, "gone": True}, {"a": {"b": [1, 3]}, "key": UNKNOWN}
    paths = ["a.b[1]", "gone", "key"]
    streamed = preview.read(
        stream(step("update", CLUSTER, "c", old, new, detailedDiff=diff("update", *paths)), summary(same=1))
    )
    state = {"custom": True, "outputs": {}}
    digest = {
        "steps": [
            {
                "op": "update",
                "urn": urn(CLUSTER, "c"),
                "oldState": {**state, "inputs": old},
                "newState": {**state, "inputs": new},
                "detailedDiff": {path: {"kind": "update", "inputDiff": True} for path in paths},
            }
        ],
        "changeSummary": {"same": 1},
    }
    documented = preview.read(json.dumps(digest))
    assert documented.steps == streamed.steps
    assert documented.steps[0].changed == (
        Change("a.b[1]", "2", "3"),
        Change("gone", "true", "(none)"),
        Change("key", "(none)", "(known after the update)"),
    )
    assert (documented.packs, streamed.packs) == (None, {})


def test_without_a_detailed_diff_the_leaves_that_differ_are_found() -> None:
    old, new = {"tags": {"a": "1", "b": "2"}}, {"tags": {"a": "1", "b": "3", "kubernetes.io/x": "4"}}
    (only,) = preview.read(stream(step("update", CLUSTER, "c", old, new, diffs=["tags"]))).steps
    assert only.changed == (Change("tags.b", "2", "3"), Change('tags["kubernetes.io/x"]', "(none)", "4"))


def test_json_in_a_text_is_looked_into() -> None:
    texts = [json.dumps({"Statement": [{"Action": ["a", action]}]}) for action in ("b", "c")]
    (only,) = preview.read(
        stream(step("update", CLUSTER, "c", *({"policy": text} for text in texts), diffs=["policy"]))
    ).steps
    assert only.changed == (Change("policy.Statement[0].Action[1]", "b", "c"),)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("anything", SECRET),
        ("anything", "[secret]"),
        ("anything", {"deep": [SECRET]}),
        ("adminPassword", "hunter2"),
        ("values", json.dumps({"grafana": {"adminPassword": "hunter2"}})),
        ("spec.env.clientSecret", "hunter2"),
        ("userData", "aHVudGVyMg=="),
        ("note", "AKIA" + "IOSFODNN7EXAMPLE"),
        ("note", "https://user:" + "hunter2@example.com"),
        ("note", "-----BEGIN " + "PRIVATE KEY-----"),
    ],
)
def test_a_secret_is_never_shown(path: str, value: object) -> None:
    def inputs(leaf: object) -> dict[str, object]:
        nested: object = leaf
        for part in reversed(path.split(".")):
            nested = {part: nested}
        assert isinstance(nested, dict)
        return nested

    for old, new in ((inputs("before"), inputs(value)), (inputs(value), inputs("after")), ({}, inputs(value))):
        found = preview.read(stream(step("update", CLUSTER, "c", old, new, detailedDiff=diff("update", path))))
        assert "hunter2" not in repr(found) and "aHVudGVy" not in repr(found)
        assert any("(secret)" in (change.before, change.after) for change in found.steps[0].changed)


def test_a_property_that_the_provider_keeps_secret_is_not_shown() -> None:
    event = step("update", CLUSTER, "c", {"plain": "old"}, {"plain": "new"}, diffs=["plain"])
    event["resourcePreEvent"]["metadata"]["new"]["additionalSecretOutputs"] = ["plain"]
    assert preview.read(stream(event)).steps[0].changed == (Change("plain", "(secret)", "(secret)"),)


def test_names_of_secrets_are_no_secrets() -> None:
    event = step("update", CLUSTER, "c", {"tlsSecretName": "a"}, {"tlsSecretName": "b"}, diffs=["tlsSecretName"])
    assert preview.read(stream(event)).steps[0].changed == (Change("tlsSecretName", "a", "b"),)


def test_messages_lose_their_colours_and_their_repetitions() -> None:
    said = {
        "diagnosticEvent": {
            "severity": "error",
            "prefix": "<{%fg 1%}>error: <{%reset%}>",
            "message": "\x1b[1mno such zone\n",
        }
    }
    debugging = {"diagnosticEvent": {"severity": "error", "message": "thinking", "ephemeral": True}}
    assert preview.read(stream(said, said, debugging)).errors == ("error: no such zone",)


def test_a_policy_that_has_to_wait_for_a_value_is_no_violation() -> None:
    waiting = violation("advisory", "p", "c", "can't run policy 'p' from policy pack 'q' during preview: x is not known yet")
    (deferred,) = preview.read(stream(waiting)).violations
    assert deferred.deferred
    (of_our_pack,) = preview.read(
        stream(violation("advisory", plan.WAITING_POLICY, "", "2 checks wait for values"))
    ).violations
    assert of_our_pack.deferred
    (judged,) = preview.read(stream(violation("mandatory", "p", "c", "can't run policy backwards"))).violations
    assert not judged.deferred


def test_policies_have_judged_nothing_where_the_preview_failed_at_the_stack_itself() -> None:
    why = {"diagnosticEvent": {"severity": "error", "message": "stacks/Pulumi.dev.yaml: gpu: is missing"}}
    assert preview.read(stream(why, summary({"p": "1"}, create=1))).ended_before_resources
    assert preview.read(stream(why)).ended_before_resources
    assert not preview.read(stream(why, summary({"p": "1"}, create=7))).ended_before_resources
    assert not preview.read(stream(why, step("create", CLUSTER, "c", new={}))).ended_before_resources  # nothing counted
    assert not preview.read(stream(summary({"p": "1"}, same=1))).ended_before_resources


@pytest.mark.parametrize("events", [[step("same", CLUSTER, "c", {}, {})], [violation("mandatory", "p", "c", "m")]])
def test_a_stream_that_ends_before_its_summary_is_a_preview_that_was_cut_off(events: list[Event]) -> None:
    """An engine that runs out of memory is killed: every line is complete, and no line reports the failure."""
    found = preview.read(stream(*events))
    assert found.errors == ("the engine's output ends before its summary: the preview was cut off",)
    assert found.packs is None


def test_what_ended_with_an_error_or_a_summary_was_not_cut_off() -> None:
    why = {"diagnosticEvent": {"severity": "error", "message": "no such zone"}}
    assert preview.read(stream(why)).errors == ("no such zone",)
    whole = preview.read(stream(summary()))
    assert (whole.errors, whole.packs) == ((), {})


def test_the_packs_own_policy_about_what_waits_is_known_by_its_name() -> None:
    assert plan.WAITING_POLICY == NAME


def test_that_the_preview_failed_is_an_error_only_where_nothing_says_why() -> None:
    last = {"diagnosticEvent": {"severity": "error", "message": "preview failed"}}
    why = {"diagnosticEvent": {"severity": "error", "message": "no such zone"}}
    assert preview.read(stream(last)).errors == ("preview failed",)
    assert preview.read(stream(why, last)).errors == ("no such zone",)
    assert preview.read(stream(violation("mandatory", "p", "c", "m"), last)).errors == ()
    assert preview.read(stream(violation("advisory", "p", "c", "m"), last)).errors == ("preview failed",)


def test_that_the_program_ended_is_not_told_beside_why() -> None:
    why = {"diagnosticEvent": {"severity": "error", "prefix": "<{%fg 1%}>error: <{%reset%}>", "message": "2 mistakes\n"}}
    status = {
        "diagnosticEvent": {
            "severity": "error",
            "prefix": "<{%fg 1%}>error: <{%reset%}>",
            "message": "<{%reset%}>an unhandled error occurred: program exited with non-zero exit code: 1<{%reset%}>\n\n",
        }
    }
    traceback = {"diagnosticEvent": {"severity": "info#err", "message": "Traceback …\nKeyboardInterrupt\n"}}
    assert preview.read(stream(why, traceback, status)).errors == ("error: 2 mistakes",)
    assert preview.read(stream(status)).errors == (
        "error: an unhandled error occurred: program exited with non-zero exit code: 1",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("[]", "is a list, where an object is expected"),
        ('{"a"\nPulumi says hello', "line 1, column 5: not valid JSON"),
        ('{"stack": "prod", "steps": []}', "is not a document of `pulumi preview --json`"),
    ],
)
def test_what_the_engine_never_prints_is_refused_with_a_sentence(text: str, message: str) -> None:
    with pytest.raises(preview.UnreadablePlan, match=message):
        preview.read(text)


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ("7", "line 2: is a number, where an object is expected"),
        ('"resourcePreEvent"', "line 2: is text, where an object is expected"),
        ("[" * 5000, "line 2: nested deeper than 200 times"),
        ("hello", "line 2, column 1: not valid JSON: Expecting value"),
        ('{"resourcePreEvent": "text"}', "line 2.resourcePreEvent is text, where an object is expected"),
        ('{"resourcePreEvent": {}}', "a step of the engine's output has no op; was it written by `pulumi preview`?"),
        (
            '{"resourcePreEvent": {"metadata": 7}}',
            "line 2.resourcePreEvent.metadata is a number, where an object is expected",
        ),
        ('{"resourcePreEvent": {"metadata": {"op": "create"}}}', "a step of the engine's output has no urn"),
        ('{"resourcePreEvent": {"metadata": {"op": 7}}}', "line 2.resourcePreEvent.metadata.op is a number, where text"),
        ('{"resourcePreEvent": {"metadata": {"diffs": [null]}}}', "metadata.diffs[0] is null, where text is expected"),
        ('{"resourcePreEvent": {"metadata": {"old": {"inputs": []}}}}', "old.inputs is a list, where an object is expected"),
        ('{"diagnosticEvent": {"message": ["x"]}}', "line 2.diagnosticEvent.message is a list, where text is expected"),
        ('{"policyEvent": []}', "line 2.policyEvent is a list, where an object is expected"),
        ('{"summaryEvent": {"resourceChanges": {"create": "1"}}}', "resourceChanges.create is text, where a number is"),
        (
            json.dumps(step("teleport", CLUSTER, "c")),
            "the op of a step is 'teleport'; known are create, create-replacement,",
        ),
        (json.dumps(step("Delete", CLUSTER, "c")), "the op of a step is 'Delete'; known are create, create-replacement,"),
        ('{"resourcePreEvent": {"metadata": {"op": "create", "urn": "x"}}}', "output has the urn 'x', which is none"),
        (
            '{"resourcePreEvent": {"metadata": {"op": "create", "urn": "urn:pulumi:s::p::t"}}}',
            "output has the urn 'urn:pulumi:s::p::t', which is none",
        ),
        (json.dumps(violation("Mandatory", "p", "c", "m")), "the enforcementLevel of a policy is 'Mandatory'; known are"),
        ('{"policyEvent": {"policyName": "p"}}', "the enforcementLevel of a policy is ''; known are advisory, disabled,"),
        (json.dumps(violation("mandatory", "", "c", "m")), "a violation has no policyName; was it written by"),
        ('{"diagnosticEvent": {"severity": "ERROR"}}', "the severity of a diagnostic is 'ERROR'; known are debug, error,"),
        ('{"diagnosticEvent": {"message": "m"}}', "the severity of a diagnostic is ''; known are debug, error, info,"),
        ('{"summaryEvent": {"PolicyPacks": ["p"]}}', "PolicyPacks is a list, where an object is expected"),
    ],
)
def test_an_event_that_no_engine_prints_is_told_by_its_line(event: str, said: str) -> None:
    with pytest.raises(preview.UnreadablePlan) as refused:
        preview.read(f"{json.dumps({'preludeEvent': {}})}\n{event}\n")
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([summary(), step("create", CLUSTER, "c")], "there is more than one preview in it; give one"),
        ([summary(), summary()], "there is more than one preview in it; give one"),
        (
            [
                step("create", CLUSTER, "c"),
                {"resourcePreEvent": {"metadata": {"op": "create", "urn": "urn:pulumi:dev::triton-eks::t::c"}}},
            ],
            "there are steps of more than one stack in it (dev, prod); give the preview of one",
        ),
    ],
)
def test_more_than_one_preview_is_refused(events: list[Event], said: str) -> None:
    with pytest.raises(preview.UnreadablePlan) as refused:
        preview.read(stream(*events))
    assert said in str(refused.value)


WHOLE = stream(
    step("update", CLUSTER, "c", {"a": {"b": [1]}}, {"a": {"b": [2]}}, detailedDiff=diff("update", "a.b[0]")),
    step("replace", CLUSTER, "d", {"n": "1"}, {"n": "2"}, keys=["n"], diffs=["n"]),
    violation("mandatory", "p", "c", "m"),
    {"diagnosticEvent": {"severity": "error", "prefix": "x", "message": "m"}},
    # An event of an unknown kind, which junk may create, is no error.
    {"diagnosticEvent": {"severity": "error", "prefix": "x", "message": "n"}},
    summary({"p|local|q": "1"}, update=1),
)
_JUNK = st.sampled_from(
    ["", "null", "7", "-1", '"x"', "[]", "{}", "[null]", '{"x": null}', "true", "\x00", "\u2028", "NaN", "1e999"]
)


@given(
    st.tuples(st.sampled_from([found.span() for found in re.finditer(r'"[^"]*"|\d+|[\[{][^\[\]{}]*[\]}]', WHOLE)]), _JUNK)
)
def test_whatever_stands_in_the_place_of_a_value_a_preview_is_read_or_refused(change: tuple[tuple[int, int], str]) -> None:
    (start, end), junk = change
    try:
        found = preview.read(WHOLE[:start] + junk + WHOLE[end:])
    except preview.UnreadablePlan:
        return
    assert found.errors


@given(st.integers(0, len(WHOLE)) | st.text(max_size=40))
def test_a_stream_that_was_cut_or_is_another_text_is_read_or_refused(given_: int | str) -> None:
    try:
        found = preview.read(WHOLE[:given_] if isinstance(given_, int) else given_)
    except preview.UnreadablePlan:
        return
    assert found.errors
