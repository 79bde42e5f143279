"""Plans read from what the engine prints: both of its forms, replacements, components, failures."""

from __future__ import annotations

import json

import pytest

from stackctl.review import plan
from stackctl.review.changes import Change
from tests.stackctl.review.scenarios import SECRET, UNKNOWN, Event, diff, step, stream, summary, urn, violation
from triton_policies.waiting import NAME

CLUSTER = "aws:eks/cluster:Cluster"


def test_the_three_steps_of_a_replacement_are_one_that_says_why() -> None:
    old, new = {"version": "1", "name": "a"}, {"version": "1", "name": "b"}
    found = plan.read(
        stream(
            step("create-replacement", CLUSTER, "c", old, new, keys=["name"]),
            step("replace", CLUSTER, "c", old, new, keys=["name"], detailedDiff=diff("update-replace", "name")),
            step("delete-replaced", CLUSTER, "c", old),
        )
    )
    (only,) = found.steps
    assert (only.action, only.name, only.type, only.replace_reasons) == ("replace", "c", CLUSTER, ("name",))
    assert only.changed == (Change("name", "a", "b"),)


@pytest.mark.parametrize("op", ["same", "read", "refresh", "refresh-unknown"])
def test_what_changes_nothing_is_not_told(op: str) -> None:
    assert plan.read(stream(step(op, CLUSTER, "c", {}, {}))).steps == ()


def test_a_night_without_drift_is_unchanged_and_what_drifted_is_an_update() -> None:
    """`preview --refresh` begins with a refresh of every resource, whether it differs or not."""
    looked_at = [step("refresh", CLUSTER, name, {"version": "1"}, {"version": "1"}) for name in ("calm", "drifted")]
    same = step("same", CLUSTER, "calm", {"version": "1"}, {"version": "1"})
    back = step("update", CLUSTER, "drifted", {"version": "2"}, {"version": "1"}, diffs=["version"])
    assert plan.read(stream(*looked_at, same)).steps == ()
    (only,) = plan.read(stream(*looked_at, same, back)).steps
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
    found = plan.read(
        stream(
            {"diagnosticEvent": {"severity": "error", "message": said}},
            {"diagnosticEvent": {"severity": "warning", "message": said}},
            violation("advisory", "p", "c", said),
        )
    )
    assert (found.errors, found.warnings, found.violations[0].message) == ((told,), (told,), told)


def test_components_the_stack_and_new_providers_are_not_told_and_replaced_providers_are() -> None:
    provider = "pulumi:providers:kubernetes"
    found = plan.read(
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
    streamed = plan.read(
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
    documented = plan.read(json.dumps(digest))
    assert documented.steps == streamed.steps
    assert documented.steps[0].changed == (
        Change("a.b[1]", "2", "3"),
        Change("gone", "true", "(none)"),
        Change("key", "(none)", "(known after the update)"),
    )
    assert (documented.packs, streamed.packs) == (None, {})


def test_without_a_detailed_diff_the_leaves_that_differ_are_found() -> None:
    old, new = {"tags": {"a": "1", "b": "2"}}, {"tags": {"a": "1", "b": "3", "kubernetes.io/x": "4"}}
    (only,) = plan.read(stream(step("update", CLUSTER, "c", old, new, diffs=["tags"]))).steps
    assert only.changed == (Change("tags.b", "2", "3"), Change('tags["kubernetes.io/x"]', "(none)", "4"))


def test_json_in_a_text_is_looked_into() -> None:
    texts = [json.dumps({"Statement": [{"Action": ["a", action]}]}) for action in ("b", "c")]
    (only,) = plan.read(stream(step("update", CLUSTER, "c", *({"policy": text} for text in texts), diffs=["policy"]))).steps
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
        found = plan.read(stream(step("update", CLUSTER, "c", old, new, detailedDiff=diff("update", path))))
        assert "hunter2" not in repr(found) and "aHVudGVy" not in repr(found)
        assert any("(secret)" in (change.before, change.after) for change in found.steps[0].changed)


def test_a_property_that_the_provider_keeps_secret_is_not_shown() -> None:
    event = step("update", CLUSTER, "c", {"plain": "old"}, {"plain": "new"}, diffs=["plain"])
    event["resourcePreEvent"]["metadata"]["new"]["additionalSecretOutputs"] = ["plain"]
    assert plan.read(stream(event)).steps[0].changed == (Change("plain", "(secret)", "(secret)"),)


def test_names_of_secrets_are_no_secrets() -> None:
    event = step("update", CLUSTER, "c", {"tlsSecretName": "a"}, {"tlsSecretName": "b"}, diffs=["tlsSecretName"])
    assert plan.read(stream(event)).steps[0].changed == (Change("tlsSecretName", "a", "b"),)


def test_messages_lose_their_colours_and_their_repetitions() -> None:
    said = {
        "diagnosticEvent": {
            "severity": "error",
            "prefix": "<{%fg 1%}>error: <{%reset%}>",
            "message": "\x1b[1mno such zone\n",
        }
    }
    debugging = {"diagnosticEvent": {"severity": "error", "message": "thinking", "ephemeral": True}}
    assert plan.read(stream(said, said, debugging)).errors == ("error: no such zone",)


def test_a_policy_that_has_to_wait_for_a_value_is_no_violation() -> None:
    waiting = violation("advisory", "p", "c", "can't run policy 'p' from policy pack 'q' during preview: x is not known yet")
    (deferred,) = plan.read(stream(waiting)).violations
    assert deferred.deferred
    (of_our_pack,) = plan.read(stream(violation("advisory", plan.WAITING_POLICY, "", "2 checks wait for values"))).violations
    assert of_our_pack.deferred
    (judged,) = plan.read(stream(violation("mandatory", "p", "c", "can't run policy backwards"))).violations
    assert not judged.deferred


def test_policies_have_judged_nothing_where_the_preview_failed_at_the_stack_itself() -> None:
    why = {"diagnosticEvent": {"severity": "error", "message": "stacks/Pulumi.dev.yaml: gpu: is missing"}}
    assert plan.read(stream(why, summary({"p": "1"}, create=1))).ended_before_resources
    assert plan.read(stream(why)).ended_before_resources
    assert not plan.read(stream(why, summary({"p": "1"}, create=7))).ended_before_resources
    assert not plan.read(stream(why, step("create", CLUSTER, "c", new={}))).ended_before_resources  # nothing is counted
    assert not plan.read(stream(summary({"p": "1"}, same=1))).ended_before_resources


@pytest.mark.parametrize("events", [[step("same", CLUSTER, "c", {}, {})], [violation("mandatory", "p", "c", "m")]])
def test_a_stream_that_ends_before_its_summary_is_a_preview_that_was_cut_off(events: list[Event]) -> None:
    """The engine is killed, for want of memory: every line is whole, and none says that it failed."""
    found = plan.read(stream(*events))
    assert found.errors == ("the engine's output ends before its summary: the preview was cut off",)
    assert found.packs is None


def test_what_ended_with_an_error_or_a_summary_was_not_cut_off() -> None:
    why = {"diagnosticEvent": {"severity": "error", "message": "no such zone"}}
    assert plan.read(stream(why)).errors == ("no such zone",)
    whole = plan.read(stream(summary()))
    assert (whole.errors, whole.packs) == ((), {})


def test_the_packs_own_policy_about_what_waits_is_known_by_its_name() -> None:
    assert plan.WAITING_POLICY == NAME


def test_that_the_preview_failed_is_an_error_only_where_nothing_says_why() -> None:
    last = {"diagnosticEvent": {"severity": "error", "message": "preview failed"}}
    why = {"diagnosticEvent": {"severity": "error", "message": "no such zone"}}
    assert plan.read(stream(last)).errors == ("preview failed",)
    assert plan.read(stream(why, last)).errors == ("no such zone",)
    assert plan.read(stream(violation("mandatory", "p", "c", "m"), last)).errors == ()
    assert plan.read(stream(violation("advisory", "p", "c", "m"), last)).errors == ("preview failed",)


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
    assert plan.read(stream(why, traceback, status)).errors == ("error: 2 mistakes",)
    assert plan.read(stream(status)).errors == (
        "error: an unhandled error occurred: program exited with non-zero exit code: 1",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("[]", "is not an object"),
        ('{"a"\nPulumi says hello', "line 1 .* is not JSON"),
        ('{"stack": "prod", "steps": []}', "is not a document of `pulumi preview --json`"),
    ],
)
def test_what_the_engine_never_prints_is_refused_with_a_sentence(text: str, message: str) -> None:
    with pytest.raises(plan.UnreadablePlan, match=message):
        plan.read(text)
