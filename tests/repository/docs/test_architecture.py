"""Pages with generated blocks agree with the present output of docs/generate.py."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs import generate
from tests import snapshots


@pytest.mark.parametrize("path", generate.PAGES, ids=lambda path: path.name)
def test_a_page_is_as_the_code_is(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    assert page == generate.generated(page), "stale: run `make reference`, and review what has changed"


def test_every_block_is_on_a_page() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in generate.PAGES)
    assert [name for name in generate.BLOCKS if f"<!-- generated: {name} -->" not in pages] == []


def test_every_component_that_a_stack_registers_has_its_file() -> None:
    tokens = {
        resource.type
        for stack in snapshots.STACKS
        for resource in generate.registered(stack).values()
        if resource.type.startswith("triton:")
    }
    assert tokens and tokens <= generate.modules().keys()


@pytest.mark.parametrize("stack", snapshots.STACKS)
def test_a_resources_name_begins_with_that_of_a_component_that_it_belongs_to(stack: str) -> None:
    """The last table of the page therefore leads from a name in a preview to its code."""
    resources = generate.registered(stack)
    components = {one.name for one in resources.values() if one.type.startswith("triton:")}
    lost = []
    for resource in resources.values():
        named = [name for name in components if re.match(rf"{re.escape(name)}(?:[-:]|$)", resource.name)]
        above, key = {resource.name}, resource.parent
        while key in resources:
            above.add(resources[key].name)
            key = resources[key].parent
        if max(named, key=len, default="") not in above:
            lost.append(resource.name)
    # The control plane's role may use that key, and the same module creates it.
    assert lost == ["cluster-secrets-policy"]


def test_a_role_leads_to_the_module_that_makes_it_and_to_that_of_its_class() -> None:
    rows = {line.split(" | ")[0]: line for line in generate.BLOCKS["index"]().splitlines()}
    role = "`triton:identity:WorkloadRole`"
    shape = "class: [infra/aws/identity.py](../infra/aws/identity.py) |"
    made_by_its_parent, made_by_the_program = "infra/platform/keda.py", "infra/serving/triton.py"
    assert (
        rows["| `keda-operator`"] == f"| `keda-operator` | {role} | [{made_by_its_parent}](../{made_by_its_parent}); {shape}"
    )
    assert (
        rows["| `model-reader`"] == f"| `model-reader` | {role} | [{made_by_the_program}](../{made_by_the_program}); {shape}"
    )


def test_a_role_that_no_module_makes_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {path: text.replace('"model-reader"', '"reader"') for path, text in generate.sources().items()}
    monkeypatch.setattr(generate, "sources", lambda: texts)
    with pytest.raises(ValueError, match="model-reader, a triton:identity:WorkloadRole, is made in no module"):
        generate.BLOCKS["index"]()


def test_an_arrow_that_follows_from_others_is_left_out() -> None:
    arrows = {"a": {"b", "c", "d"}, "b": {"c"}, "c": {"d"}, "d": set[str]()}
    assert generate.reduced(arrows) == {"a": {"b"}, "b": {"c"}, "c": {"d"}, "d": set()}


def test_a_component_waits_for_what_its_children_name() -> None:
    def resource(key: str, parent: str = "", depends: tuple[str, ...] = (), **inputs: str) -> generate.Resource:
        return generate.Resource(key, inputs, parent, depends)

    listed = [
        resource("network (triton:network:Network)"),
        resource("network-vpc (aws:ec2/vpc:Vpc)", "network (triton:network:Network)"),
        resource("cluster (triton:cluster:Cluster)"),
        resource("cluster-key (aws:kms/key:Key)", "cluster (triton:cluster:Cluster)", vpc="<network-vpc.id>"),
        resource("addons (triton:addons:Addons)", depends=("cluster-key (aws:kms/key:Key)",)),
    ]
    assert generate.needs({one.key: one for one in listed}) == {
        "network (triton:network:Network)": set(),
        "cluster (triton:cluster:Cluster)": {"network (triton:network:Network)"},
        "addons (triton:addons:Addons)": {"cluster (triton:cluster:Cluster)"},
    }


def test_a_block_that_nothing_draws_is_an_error() -> None:
    with pytest.raises(KeyError):
        generate.generated("<!-- generated: nothing -->\n<!-- end -->")


def test_what_is_not_between_the_two_lines_of_a_block_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(generate.BLOCKS, "packages", lambda: "new")
    page = "before\n<!-- generated: packages -->\n{}\n<!-- end -->\nafter\n"
    assert generate.generated(page.format("old")) == page.format("new")
