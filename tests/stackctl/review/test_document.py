"""The whole comment: golden files, and rules for any length."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spec.charts import CHARTS
from stackctl.review import consequences, document, markdown, sections
from stackctl.review.plan import ABSENT, WAITING_POLICY, Action, Change, Plan, Step, Violation
from stackctl.review.report import Cost, Figures, Range, Replay, ReplayedFleet, Report
from tests.golden import Golden
from tests.stackctl.review import scenarios
from triton_policies.waiting import Waiting

GOLDEN = Path(__file__).parent / "golden"
SCENARIOS = {
    "a-little-of-everything": [scenarios.much],
    "nothing": [scenarios.nothing],
    "a-network-that-moves": [scenarios.moved],
    "several-stacks": [scenarios.nothing, scenarios.failed, scenarios.much],
    "no-stack": [],
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_comment_is_as_reviewed(name: str, golden: Golden) -> None:
    text = document.render([make() for make in SCENARIOS[name]], title="What this pull request does", name="preview")
    golden.check(GOLDEN / f"{name}.md", text)


def test_the_comment_begins_with_a_verdict_per_stack_and_folds_all_but_the_worst() -> None:
    subnets = [Step("replace", "aws:ec2/subnet:Subnet", f"subnet-{number}") for number in range(2)]
    cluster = Step("replace", "aws:eks/cluster:Cluster", "control-plane")
    violation = Violation("iam-no-wildcard", True, "critical", "reader", "m")
    cost = Cost("us-west-2", "2026-05-01", *(Range(Decimal(usd), Decimal(usd), Decimal(usd)) for usd in (1200, 1901)), ())
    stacks = [
        Report("dev", Plan(())),
        Report("staging", Plan((Step("update", "aws:sqs/queue:Queue", "requests"),))),
        Report("prod", Plan((*subnets, cluster), violations=(violation,), packs={"p": "1"}), cost=cost),
    ]
    text = document.render(stacks, title="t", name="n")
    assert text.splitlines()[3:7] == [
        "- `prod`: **`control-plane` is replaced** (deletes the whole cluster: Triton, gateway, monitoring. No request is "
        "answered meanwhile) and 2 more; **1 mandatory policy violation**; +701 US$ a month at prices of 2026-05-01.",
        "- `staging`: 1 change, no replacement.",
        "- `dev`: no resource changes.",
        "",
    ]
    bodies = text.split("\n### `")[1:]
    assert [(body.partition("`")[0], body.count("<details>"), body.count("</details>")) for body in bodies] == [
        ("prod", 0, 0),
        ("staging", 1, 1),
        ("dev", 1, 1),
    ]


def test_a_load_before_and_after_is_shown_as_bars_of_20_characters_at_most() -> None:
    before, after = Figures(Decimal("0.01"), Decimal(8), None), Figures(Decimal("0.04"), Decimal(6), None)
    replay = Replay("diurnal", (ReplayedFleet("triton", before, after),))
    text = document.render([Report("prod", Plan(()), replays=(replay,))], title="t", name="n")
    assert [line.strip() for line in text.splitlines() if (" before " in line and "█" in line) or " after  " in line] == [
        f"missed SLO before {'█' * 5}{' ' * 15} 1.00%",
        f"missed SLO after  {'█' * 20} 4.00%",
        f"GPU-hours  before {'█' * 20} 8.0",
        f"GPU-hours  after  {'█' * 15}{' ' * 5} 6.0",
    ]


def test_a_replacement_whose_cause_is_not_in_the_report_is_told_by_itself() -> None:
    """Others' code may write reports: a replacement with an invalid cause must still appear."""
    first, second = (Step("replace", "t", name, caused_by=cause) for name, cause in (("a", "t::b"), ("b", "t::a")))
    third = Step("replace", "t", "c", caused_by="t::nowhere")
    text = document.render([Report("prod", Plan((first, second, third)))], title="t", name="n")
    assert re.findall(r"^- \*\*`(\w)` ", text, re.MULTILINE) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("mandatory", "errors", "cell"),
    [
        (False, (), "0 mandatory, 1 advisory"),
        (False, ("no such zone",), "0 mandatory, 1 advisory, not all checked"),
        (True, (), "**1 mandatory, 0 advisory**"),
        (True, ("no such zone",), "**1 mandatory, 0 advisory**, not all checked"),
    ],
)
def test_a_preview_that_failed_has_not_checked_all_whatever_it_found(
    mandatory: bool, errors: tuple[str, ...], cell: str
) -> None:
    found = Plan((), violations=(Violation("p", mandatory, "", "r", "m"),), packs={"p": "1"}, errors=errors)
    text = document.render([Report("prod", found)], title="t", name="n")
    assert f"| 0 | 0 | 0 | 0 | {cell} | not known |" in text


def policies_section(*violations: Violation) -> list[str]:
    text = document.render([Report("prod", Plan((), violations=violations, packs={"p": "1"}))], title="t", name="n")
    return text.partition("#### Policies\n")[2].strip().splitlines()[1:]


def test_all_that_waits_is_named_however_much_it_is() -> None:
    """The policy message about a whole stack is longer than the limit for unshortened messages."""
    waiting = Waiting()
    for number in range(60):
        waiting.add("iam-no-wildcard", f"role-{number:02}.policy")
        waiting.add("s3-tls-only", f'bucket-{number:02}.tags["a/b"]')
    waiting.add("vpc-flow-logs", "")
    said = f"A preview says which checks wait.\n{waiting.take()}"
    told = policies_section(Violation(WAITING_POLICY, False, "low", "", said, deferred=True))
    assert told == [
        "- 121 checks wait for values that are known only while \\`pulumi up\\` runs. The policies run again there, and a "
        "mandatory one still refuses:",
        "  - `iam-no-wildcard`: " + ", ".join(f"`role-{number:02}.policy`" for number in range(60)),
        "  - `s3-tls-only`: " + ", ".join(f'`bucket-{number:02}.tags["a/b"]`' for number in range(60)),
        "  - `vpc-flow-logs`",
    ]


def test_what_other_packs_judge_later_is_told_by_policy() -> None:
    waits = [Violation("a", False, "", f"r{number:02}", "can't run policy", deferred=True) for number in range(30)]
    assert policies_section(*waits, Violation("b", False, "", "q", "can't run policy", deferred=True)) == [
        "- 31 checks are made in the update, when the values are known:",
        "  - `a` on " + ", ".join(f"`r{number:02}`" for number in range(30)),
        "  - `b` on `q`",
    ]


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("", "- Some checks wait for values; which ones is not said"),
        ("2 checks wait", "- 2 checks wait"),
        ("2 checks wait: a (b), and more", "- 2 checks wait: a (b), and more"),
    ],
)
def test_what_does_not_say_what_waits_as_our_pack_does_is_told_as_it_is(message: str, told: str) -> None:
    assert policies_section(Violation(WAITING_POLICY, False, "low", "", message, deferred=True)) == [told]


def test_what_goes_down_with_another_one_is_in_bold_and_named_to_the_last() -> None:
    vpc, subnet, tag = "aws:ec2/vpc:Vpc", "aws:ec2/subnet:Subnet", "aws:autoscaling/tag:Tag"
    steps = [Step("replace", vpc, "vpc")]
    for type_ in (subnet, tag):
        steps += [Step("replace", type_, f"x{number:02}", (), ("y",), caused_by=f"{vpc}::vpc") for number in range(25)]
    text = document.render([Report("prod", Plan(tuple(steps)))], title="t", name="n")
    everyone = ", ".join(f"`x{number:02}`" for number in range(25))
    some = ", ".join(f"`x{number:02}`" for number in range(20))
    assert [line for line in text.splitlines() if line.startswith("    - ")] == [
        f"    - **25 `{subnet}`: {everyone}**, because of `y`. **Effect:** removes its nodes, endpoints and "
        "load balancers; a cluster accepts only subnets of its VPC",
        f"    - 25 `{tag}`, because of `y`: {some} and 5 more",
    ]


def test_no_secret_is_in_the_comment() -> None:
    text = document.render([scenarios.much()], title="t", name="n")
    for value in ("b2xk", "bmV3", "c2VjcmV0", "plain text of a secret"):
        assert value not in text
    assert text.count("(secret)") == 4


def test_a_comment_that_is_too_long_says_of_each_section_what_is_left_out() -> None:
    many = Plan(tuple(Step("delete", "aws:sqs/queue:Queue", f"queue-{number:04}") for number in range(2000)))
    other = Plan(tuple(Step("update", "aws:ec2/eip:Eip", f"address-{number}") for number in range(3)))
    text = document.render([Report("prod", many), Report("dev", other)], title="t", name="n")
    assert len(text) <= document.MOST_CHARACTERS
    shown = len(re.findall(r"^- `queue-", text, re.MULTILINE))
    assert f"… and {2000 - shown} more resources, left out for want of space." in text
    assert shown > 500
    assert text.count("address-") == 3


def of_many_stacks(count: int) -> list[Report]:
    """Return reports for a large matrix of regions and environments: one preview failed, one loses its VPC."""
    reports, much = [], scenarios.much()
    for number in range(count):
        everywhere = replace(much, stack=f"stack-{number:04}")
        quiet = replace(everywhere, plan=Plan((), packs={"p": "1"}), models=None, release_after=everywhere.release_before)
        reports.append(quiet)
    reports[-2] = replace(reports[-2], plan=Plan((Step("delete", "aws:ec2/vpc:Vpc", "the-vpc"),)))
    reports[-1] = replace(reports[-1], plan=Plan((), errors=("no such zone",)))
    return reports


def test_of_many_stacks_what_matters_least_is_left_out_and_each_says_what() -> None:
    text = document.render(of_many_stacks(100), title="t", name="n")
    assert len(text) <= document.MOST_CHARACTERS
    assert len(re.findall(r"^\| `stack-", text, re.MULTILINE)) == 100
    told = {stack.partition("`\n")[0]: stack for stack in text.split("\n### `")[1:]}
    assert list(told) == ["stack-0099", "stack-0098", *(f"stack-{number:04}" for number in range(98))]
    assert "#### The preview failed\n\n```text\nno such zone\n" in told["stack-0099"]
    assert "#### Deleted\n\n- `the-vpc` (`aws:ec2/vpc:Vpc`)" in told["stack-0098"]
    assert all("#### Policies" in told[f"stack-{number:04}"] for number in range(98))
    assert told["stack-0097"].endswith("\nSections left out for want of space: Cost, Under load, Quotas.\n\n</details>\n")


@pytest.mark.parametrize(("action", "said"), [("create", 1), ("update", 0)])
def test_without_a_cluster_the_comment_says_that_a_first_preview_on_aws_shows_fewer_resources(
    action: Action, said: int
) -> None:
    cluster, deployment = Step(action, "aws:eks/cluster:Cluster", "c"), Step("create", "kubernetes:apps/v1:Deployment", "d")
    text = document.render([Report("prod", Plan((cluster, deployment)))], title="t", name="n")
    assert text.count("before the cluster exists, none of our charts' objects (docs/policies.md)") == said


def test_a_chart_that_was_not_loaded_is_told_with_what_to_do() -> None:
    errors = (
        'looks like "https://kedacore.github.io/charts" is not a valid chart repository or cannot be reached: Get "…": EOF',
        'failed to download "oci://public.ecr.aws/karpenter/karpenter" at version "1.14.1"',
    )
    text = document.render([replace(scenarios.nothing(), plan=Plan((), errors=errors))], title="t", name="n")
    assert (
        "#### The preview failed\n\nThe runner could not load charts from `https://kedacore.github.io/charts`, "
        "`oci://public.ecr.aws/karpenter/karpenter`, which a preview does. Behind a proxy it needs `HTTPS_PROXY`; without a "
        "way out, `charts.registry` names a registry of yours (docs/chart-registry.md). `python3 -m stackctl preflight`, "
        "run there, says why a repository or registry is silent.\n\n```text\nlooks like"
    ) in text


def test_a_chart_that_ones_own_registry_did_not_give_is_told_apart_from_the_network() -> None:
    own = "oci://123456789012.dkr.ecr.us-west-2.amazonaws.com/charts/keda"
    errors = (f'failed to download "{own}" at version "2.20.1"',)
    text = document.render([replace(scenarios.nothing(), plan=Plan((), errors=errors))], title="t", name="n")
    assert (
        f"#### The preview failed\n\nYour own registry (`charts.registry`) did not give `{own}`: it lacks the chart in that "
        "version (docs/chart-registry.md fills it), or the runner is not logged in to it, or does not reach it. "
        f"`helm pull {own} --version VERSION`, run there, says which.\n\n```text\nfailed to download"
    ) in text
    assert "HTTPS_PROXY" not in text
    public = {f"{pin.repository}/" for pin in CHARTS.values() if pin.repository.startswith("oci://")}
    assert set(sections.PUBLIC_REGISTRIES) == public


def test_a_key_that_a_cluster_keeps_is_told_of_the_cluster_and_of_no_replacement() -> None:
    keys = Change("encryptionConfig.provider.keyArn", "arn:old", "arn:new")
    subnets = Change("vpcConfig.subnetIds[0]", "subnet-1", "subnet-2")
    cluster = Step("update", "aws:eks/cluster:Cluster", "control-plane", changed=(keys, subnets))
    replaced = [Step("replace", type_, "other") for type_ in ("aws:ec2/vpc:Vpc", "kubernetes:core/v1:ConfigMap")]
    text = document.render([Report("prod", Plan((cluster, *replaced)))], title="t", name="n")
    above, _, below = text.partition("#### Changed in place\n")
    assert above.count("the provider does nothing here") == 0
    assert below.count("the provider does nothing here: a cluster keeps the key of its secrets") == 1
    assert above.count("EKS refuses this update, because a cluster cannot change its VPC") == 1


@pytest.mark.parametrize(
    ("path", "replaced"),
    [
        ('spec.template.metadata.annotations["karpenter.sh/do-not-disrupt"]', True),
        ("spec.template", True),
        ("spec.templates", False),
        ("spec.replicas", False),
    ],
)
def test_a_change_of_what_pods_are_made_from_says_that_they_are_replaced(path: str, replaced: bool) -> None:
    step = Step("update", "kubernetes:apps/v1:Deployment", "triton", changed=(Change(path, ABSENT, "true"),))
    text = document.render([Report("prod", Plan((step,)))], title="t", name="n")
    said = "its pods are replaced, because `spec.template` changes"
    assert (f"- `triton` (`kubernetes:apps/v1:Deployment`): {said}\n" in text) is replaced


def test_a_first_key_of_a_cluster_is_carried_out() -> None:
    keys = Change("encryptionConfig.provider.keyArn", ABSENT, "arn:new")
    assert consequences.refusal(Step("update", "aws:eks/cluster:Cluster", "control-plane", changed=(keys,)), ()) is None


def test_of_more_stacks_than_a_comment_has_room_for_the_worst_are_told() -> None:
    text = document.render(of_many_stacks(2000), title="t", name="n")
    assert len(text) <= document.MOST_CHARACTERS
    rows = re.findall(r"^\| `(stack-\d+)`", text, re.MULTILINE)
    told = re.findall(r"^### `(stack-\d+)`", text, re.MULTILINE)
    assert 100 < len(told) < len(rows) < 2000
    assert rows[:3] == told[:3] == ["stack-1999", "stack-1998", "stack-0000"]
    assert "#### The preview failed\n\n```text\nno such zone\n" in text
    assert text.endswith(
        f"\n… and the sections of {len(rows) - len(told)} stacks of the table, left out for want of space. "
        f"… and {2000 - len(rows)} more stacks that are not in the table. "
        "`python3 -m stackctl review render REPORT` gives one stack all of the space.\n"
    )


def test_a_limit_without_room_for_headings_is_refused() -> None:
    with pytest.raises(ValueError, match="a limit of 100 characters; at least 8000"):
        document.render([], title="t", name="n", limit=100)


NASTY = st.text(alphabet=st.sampled_from("ab`|<>@\n\\*_[]#&~$!-. é…→"), max_size=400)
STEPS = st.builds(
    Step,
    st.sampled_from(["create", "update", "replace", "delete"]),
    NASTY,
    NASTY,
    replace_reasons=st.lists(NASTY, max_size=3).map(tuple),
)
VIOLATIONS = st.builds(Violation, NASTY | st.just(WAITING_POLICY), st.booleans(), NASTY, NASTY, NASTY, st.booleans())
PLANS = st.builds(
    Plan,
    st.lists(STEPS, max_size=60).map(tuple),
    violations=st.lists(VIOLATIONS, max_size=20).map(tuple),
    packs=st.none() | st.dictionaries(NASTY, NASTY, max_size=2),
    errors=st.lists(NASTY.filter(str.strip), max_size=10).map(tuple),
    warnings=st.lists(NASTY, max_size=10).map(tuple),
)
REPORTS = st.lists(st.builds(Report, NASTY, PLANS, base=st.none() | NASTY), max_size=5)
MANY_REPORTS = st.builds(lambda some, times: some * times, REPORTS, st.integers(1, 60))


@settings(suppress_health_check=list(HealthCheck))
@given(reports=REPORTS | MANY_REPORTS, limit=st.integers(document.FEWEST_CHARACTERS, document.MOST_CHARACTERS), title=NASTY)
def test_whatever_is_in_it_the_comment_fits_and_nothing_is_left_out_unsaid(
    reports: list[Report], limit: int, title: str
) -> None:
    text = document.render(reports, title=title, name="n", limit=limit)
    assert len(text) <= limit
    everything = document.render(reports, title=title, name="n", limit=100_000_000)
    assert "left out for want of space" not in everything and "not in the table" not in everything
    if text != everything:
        items = sum(int(count) for count in re.findall(r"^… and (\d+) more [\w ]+, left out", text, re.MULTILINE))
        sections = re.findall(r"^Sections left out for want of space: \w", text, re.MULTILINE)
        stacks = sum(int(count) for count in re.findall(r"… and the sections of (\d+) stacks? of the table", text))
        stacks += sum(int(count) for count in re.findall(r"… and (\d+) more stacks? that (?:is|are) not in the table", text))
        assert items or sections or stacks


@given(name=NASTY, message=NASTY)
def test_text_of_a_pull_request_is_neither_markup_nor_a_mention(name: str, message: str) -> None:
    plan = Plan((), violations=(Violation(name, True, "", name, message),), packs={"p": "1"})
    text = document.render([Report("prod", plan)], title="t", name="n")
    (line,) = [line for line in text.splitlines() if line.startswith("- **mandatory**")]
    outside = re.sub(r"(?<![\\`])(`+)(?!`) ?.*? ?(?<!`)\1(?!`)", "", line.removeprefix("- **mandatory**"))
    outside = re.sub(r"\\[\\`*_\[\]<>#|~@&$]", "", outside)
    assert not re.search(r"[`*\[\]<>|]|@(?!&#8203;)", outside), line


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("see #12", r"see \#&#8203;12"),
        ("by @somebody", "by @&#8203;somebody"),
        ("HTTPS://example.com", "HTTPS&#58;//example.com"),
        ("ftp://www.example.com", "ftp&#58;//www&#46;example.com"),
        ("org/repo#1", r"org/repo\#&#8203;1"),
        ("org/repo@0123abc4", "org/repo@&#8203;0123&#8203;abc4"),
        ("GH-12 and GHSA-jfh8-c2jp-5v3q", "GH-&#8203;12 and GHSA-&#8203;jfh8-c2jp-5v3q"),
        ("as of 0a1b2c3d4e5f60718293a4b5c6d7e8f901234567", "as of 0a1b&#8203;2c3d4e5f60718293a4b5c6d7e8f901234567"),
        ("account 123456789012, defaced", "account 123456789012, defaced"),
        ("mail me@example.com", "mail me@&#8203;example.com"),
        ("- [ ] x", r"\- \[ \] x"),
        ("1. x", r"1\. x"),
        ("=== x", r"\=== x"),
        ("<img src=x>", r"\<img src=x\>"),
        ("role: x", "role: x"),
    ],
)
def test_prose_neither_links_nor_mentions(written: str, shown: str) -> None:
    assert markdown.prose(written) == shown


@pytest.mark.parametrize(
    "hidden",
    ["\u202e", "\u2066", "\u200b", "\x1b", "\x00", "\ud800", "\ufeff", "\u3164", "\ufe0f", "\u2800", "\u180b", "\U000e0101"],
)
def test_what_cannot_be_seen_or_written_is_shown_as_such(hidden: str) -> None:
    """A reversed direction makes a line look different; half a character cannot be written at all."""
    text = f"a{hidden}b"
    assert markdown.prose(text) == "a\ufffdb"
    assert markdown.code(text) == "`a\ufffdb`"
    assert markdown.block(f"{text}\n\tc") == "```text\na\ufffdb\n\tc\n```"


def test_accents_that_would_grow_over_other_lines_are_cut_off() -> None:
    """A letter of Vietnamese or Hebrew has two or three."""
    right = "x" + "\u0301\u0302\u0303\u0323"
    for shown in (markdown.prose, markdown.code, markdown.block):
        assert right in shown(f"{right} y")
        assert shown("x" + "\u0301" * 300).count("\u0301") == 4


@given(deleted=st.integers(0, 120), updated=st.integers(0, 120), limit=st.integers(document.FEWEST_CHARACTERS, 14_000))
def test_what_is_shown_and_what_is_said_to_be_left_out_are_all(deleted: int, updated: int, limit: int) -> None:
    steps = [Step("delete", "t", f"deleted-{number:03}" + "x" * 50) for number in range(deleted)]
    steps += [Step("update", "t", f"updated-{number:03}" + "x" * 50) for number in range(updated)]
    text = document.render([Report("prod", Plan(tuple(steps)))], title="t", name="n", limit=limit)
    for title, word, count in (("Deleted", "deleted", deleted), ("Changed in place", "updated", updated)):
        if count:
            section = text.partition(f"#### {title}\n")[2].partition("\n#### ")[0]
            shown = re.findall(rf"- `{word}-(\d+)", section)
            said = re.search(r"… and (\d+) more resources", section)
            assert [int(number) for number in shown] == list(range(len(shown)))
            assert len(shown) + (int(said[1]) if said else 0) == count


@pytest.mark.parametrize("text", ["<!-- triton-eks: preview -->", "a\n<!-- triton-eks: preview -->\nb"])
def test_nothing_that_is_told_of_a_change_can_be_the_marker(text: str) -> None:
    violation = Violation("p", True, "", text, text)
    found = Plan((Step("delete", text, text),), errors=(text,), violations=(violation,), packs={"p": "1"})
    comment = document.render([Report(text, found, base=text)], title=text, name="preview")
    assert comment.startswith("<!-- triton-eks: preview -->\n")
    assert "<!-- triton-eks" not in comment[1:].replace("\\<!", "")
    assert "<!--" not in markdown.code(text) + markdown.block(text)


@pytest.mark.parametrize("name", ["", "a -->", "a\nb", "a b", "x" * 61])
def test_a_name_that_would_end_the_marker_is_refused(name: str) -> None:
    with pytest.raises(document.WrongName, match="is no name of a comment"):
        document.marker(name)
