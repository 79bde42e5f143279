"""The preview as a document for programs."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from twin.commands import preview
from twin.engine.engine import Engine, EngineError
from twin.host.home import TwinHome
from twin.plugins.eks import FIRST_PREVIEW

DIGEST = {
    "changeSummary": {"update": 1, "delete": 1, "same": 110, "replace": 1},
    "steps": [
        {
            "op": "update",
            "urn": "urn:b",
            "oldState": {"type": "kubernetes:apps/v1:Deployment"},
            "newState": {"type": "kubernetes:apps/v1:Deployment"},
            "diffReasons": ["spec"],
            "detailedDiff": {"spec.template.spec.containers[0].image": {"kind": "UPDATE"}},
        },
        {"op": "delete", "urn": "urn:c", "oldState": {"type": "aws:sqs/queue:Queue"}},
        {
            "op": "replace",
            "urn": "urn:a",
            "newState": {"type": "aws:ec2/vpc:Vpc"},
            "diffReasons": ["cidrBlock"],
            "replaceReasons": ["cidrBlock"],
        },
    ],
}


class RecordedEngine(Engine):
    """An engine whose preview is `DIGEST`; tests/system/e2e runs the real one."""

    def read(self, stack: str, arguments: Sequence[str], variables: object = None) -> str:
        return json.dumps(DIGEST)


def read(tmp_path: Path) -> preview.Preview:
    return preview.read(RecordedEngine(TwinHome(tmp_path), Path("pulumi"), {}), "prod")


def steps(tmp_path: Path) -> list[preview.Step]:
    return read(tmp_path).steps


class EngineWithState(Engine):
    """An engine whose stack has the cluster; tests/system/e2e runs the real one."""

    def read(self, stack: str, arguments: Sequence[str], variables: object = None) -> str:
        assert list(arguments) == ["stack", "export"]
        return json.dumps({"deployment": {"resources": [{"urn": "urn:c", "type": "aws:eks/cluster:Cluster"}]}})


def test_a_first_preview_is_of_a_stack_without_a_cluster(tmp_path: Path) -> None:
    home, pulumi = TwinHome(tmp_path), Path("pulumi")
    engine = preview.without_a_cluster(RecordedEngine(home, pulumi, {"AWS_REGION": "us-west-2"}), "prod")
    assert engine.environment == {"AWS_REGION": "us-west-2", **FIRST_PREVIEW}
    with pytest.raises(
        EngineError, match=r"^--first: this twin has the cluster of local; leave out --first, or set another"
    ):
        preview.without_a_cluster(EngineWithState(home, pulumi, {}), "local")


def test_steps_come_in_the_order_of_their_urns(tmp_path: Path) -> None:
    assert [step.urn for step in steps(tmp_path)] == ["urn:a", "urn:b", "urn:c"]


def test_a_step_names_the_changed_paths_and_why_it_replaces(tmp_path: Path) -> None:
    replaced, updated, deleted = steps(tmp_path)
    assert updated == preview.Step(
        "update", "urn:b", "kubernetes:apps/v1:Deployment", ["spec.template.spec.containers[0].image"], []
    )
    assert (replaced.changed, replaced.replace_reasons) == (["cidrBlock"], ["cidrBlock"])
    assert (deleted.type, deleted.changed) == ("aws:sqs/queue:Queue", [])


def test_the_document_counts_by_operation_as_the_engine_does_what_stays_the_same_too(tmp_path: Path) -> None:
    document = dataclasses.asdict(read(tmp_path))
    assert document["stack"] == "prod"
    assert document["summary"] == {"delete": 1, "replace": 1, "same": 110, "update": 1}
    assert len(document["steps"]) == 3


class RefusedEngine(Engine):
    """An engine whose preview fails like the real one: the document, then the exit code."""

    def read(self, stack: str, arguments: Sequence[str], variables: object = None) -> str:
        diagnostics = [{"severity": "warning", "message": "w"}, {"severity": "error", "message": "error: no such pool\n"}]
        raise EngineError("`pulumi preview --json` ended with 1: {…}", json.dumps({"diagnostics": diagnostics}))


EVENTS = [
    {"preludeEvent": {"config": {}}},
    {"policyEvent": {"policyName": "b", "enforcementLevel": "advisory", "message": "might be better\n"}},
    {
        "policyEvent": {
            "policyName": "a",
            "enforcementLevel": "mandatory",
            "severity": "high",
            "resourceUrn": "urn:a",
            "message": "is wrong",
        }
    },
]
RESULTS = [
    preview.PolicyResult("a", "mandatory", "high", "urn:a", "is wrong"),
    preview.PolicyResult("b", "advisory", "", "", "might be better"),
]


def _log(arguments: Sequence[str], events: list[object]) -> None:
    log = Path(arguments[arguments.index("--event-log") + 1])
    log.write_text("".join(f"{json.dumps(event)}\n" for event in events))


class ViolatingEngine(Engine):
    """An engine whose preview a policy refuses: the document is complete, the exit code is not 0."""

    def read(self, stack: str, arguments: Sequence[str], variables: object = None) -> str:
        _log(arguments, [*EVENTS])
        said = [{"severity": "error", "message": "error: preview failed\n"}]
        raise EngineError("`pulumi preview --json` ended with 1", json.dumps({**DIGEST, "diagnostics": said}))


def test_what_policies_say_stands_in_the_document_also_where_they_refuse(tmp_path: Path) -> None:
    found = preview.read(ViolatingEngine(TwinHome(tmp_path), Path("pulumi"), {}), "prod")
    assert found.policies == RESULTS
    assert found.refused
    assert len(found.steps) == 3


class BrokenAndViolatingEngine(Engine):
    """An engine whose preview a policy refuses, and which also fails."""

    def read(self, stack: str, arguments: Sequence[str], variables: object = None) -> str:
        _log(arguments, [*EVENTS])
        said = [{"severity": "error", "message": f"error: {what}"} for what in ("no such pool", "preview failed")]
        raise EngineError("`pulumi preview --json` ended with 1", json.dumps({"diagnostics": said}))


def test_a_refusal_hides_no_other_failure(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="error: no such pool"):
        preview.read(BrokenAndViolatingEngine(TwinHome(tmp_path), Path("pulumi"), {}), "prod")


class KilledEngine(Engine):
    """An engine that is killed while it writes its events."""

    def read(self, stack: str, arguments: Sequence[str], variables: object = None) -> str:
        _log(arguments, [*EVENTS])
        log = Path(arguments[arguments.index("--event-log") + 1])
        log.write_text(log.read_text()[:-20])
        raise EngineError("`pulumi preview --json` ended with -9", "")


def test_a_log_that_ends_within_a_line_hides_no_failure(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="the preview of prod failed:\n`pulumi preview --json` ended with -9"):
        preview.read(KilledEngine(TwinHome(tmp_path), Path("pulumi"), {}), "prod")


class AdvisedEngine(Engine):
    """An engine with only advisory policies, whose preview fails for another reason."""

    def read(self, stack: str, arguments: Sequence[str], variables: object = None) -> str:
        _log(arguments, [*EVENTS[:2]])
        raise EngineError("`pulumi preview --json` ended with 255", "")


def test_advice_explains_no_failure(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="the preview of prod failed:\n`pulumi preview --json` ended with 255"):
        preview.read(AdvisedEngine(TwinHome(tmp_path), Path("pulumi"), {}), "prod")


def test_the_pack_of_the_previewed_checkout_judges_it(tmp_path: Path) -> None:
    engine = Engine(TwinHome(tmp_path), Path("pulumi"), {}, program=tmp_path)
    assert preview.arguments(engine) == ["preview"]
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "PulumiPolicy.yaml").touch()
    judged = ["preview", "--policy-pack", str(tmp_path / "policies")]
    assert preview.arguments(engine) == judged
    (tmp_path / "policies" / "config.json").touch()
    assert preview.arguments(engine) == [*judged, "--policy-pack-config", str(tmp_path / "policies" / "config.json")]


def test_a_failed_preview_says_its_errors_and_nothing_else(tmp_path: Path) -> None:
    with pytest.raises(EngineError) as failure:
        preview.read(RefusedEngine(TwinHome(tmp_path), Path("pulumi"), {}), "prod")
    assert str(failure.value) == "the preview of prod failed:\nerror: no such pool"


STACK_STEP = {"resourcePreEvent": {"metadata": {"op": "create", "type": "pulumi:pulumi:Stack"}}}
BUCKET_STEP = {"resourcePreEvent": {"metadata": {"op": "create", "type": "aws:s3/bucket:Bucket"}}}


PROVIDER_STEP = {"resourcePreEvent": {"metadata": {"op": "create", "type": "pulumi:providers:aws"}}}


def error(message: str) -> dict[str, object]:
    said = f"<{{%reset%}}><{{%fg 1%}}>error: <{{%reset%}}>{message}\n<{{%reset%}}>"
    return {"diagnosticEvent": {"severity": "error", "message": said}}


LAST_WORD = error("preview failed")


def shown(tmp_path: Path, code: int, events: list[object]) -> None:
    """Show the preview of `prod` on this terminal, from an engine with this exit code and these logged events."""

    class ShowingEngine(Engine):
        def run(self, stack: str, arguments: Sequence[str], variables: object = None) -> int:
            _log(arguments, events)
            return code

    preview.show(ShowingEngine(TwinHome(tmp_path), Path("pulumi"), {}), "prod", [])


def test_a_preview_that_ends_at_the_stack_file_says_that_the_policies_have_judged_nothing(tmp_path: Path) -> None:
    with pytest.raises(EngineError) as failure:
        shown(tmp_path, 1, [STACK_STEP, PROVIDER_STEP, error("no such pool"), LAST_WORD])
    assert str(failure.value) == (
        "the preview of prod ended with 1; what it says above is the cause. The policies have judged nothing, whatever "
        "else is said"
    )


def test_a_preview_that_ends_at_a_resource_says_that_the_policies_have_not_judged_everything(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"The policies have not judged everything, whatever else is said$"):
        shown(tmp_path, 1, [STACK_STEP, BUCKET_STEP, EVENTS[1]])


def test_a_violation_is_the_cause_where_there_is_one(tmp_path: Path) -> None:
    with pytest.raises(EngineError) as failure:
        shown(tmp_path, 1, [STACK_STEP, BUCKET_STEP, *EVENTS, LAST_WORD])
    assert str(failure.value) == "prod violates mandatory policies, which stand above"


@pytest.mark.parametrize("other", [error("no such pool"), {"errorEvent": {"error": "no such pool"}}])
def test_a_violation_hides_no_other_failure(tmp_path: Path, other: dict[str, object]) -> None:
    with pytest.raises(EngineError) as failure:
        shown(tmp_path, 1, [STACK_STEP, BUCKET_STEP, *EVENTS, other, LAST_WORD])
    assert str(failure.value) == (
        "the preview of prod ended with 1; what it says above is the cause, and mandatory policies are violated, too. The "
        "policies have not judged everything, whatever else is said"
    )


def test_a_preview_that_succeeds_adds_nothing(tmp_path: Path) -> None:
    shown(tmp_path, 0, [STACK_STEP, BUCKET_STEP, EVENTS[1]])
