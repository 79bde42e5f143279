"""docs/stack-file.md is the reference of every key, as the code is now; and every key is read by something."""

from __future__ import annotations

import re

import pytest

from docs import key_uses, stack_file
from docs.key_uses import sections
from spec.settings import relations
from spec.settings.cluster import Cluster
from spec.settings.gpu import GpuPool
from spec.settings.model import Document
from spec.settings.network import Network
from spec.settings.rule import marked
from spec.settings.serving import ModelServing
from spec.settings.triton import Triton
from tests.paths import ROOT


@pytest.fixture(scope="module")
def page() -> str:
    """The page of the code as it is, which follows the keys through all of it: that takes seconds."""
    return stack_file.page()


def test_the_page_is_as_the_code_is(page: str) -> None:
    assert stack_file.PAGE.read_text(encoding="utf-8") == page, "stale: run `make reference`, and read the diff"


def test_every_key_is_on_the_page(page: str) -> None:
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    keys = [(section, name) for section in sections() for name in vars(section).get("__annotations__", {})]
    own = ("stack", "today", "warnings")
    keys = [(section, name) for section, name in keys if name in section.model_fields and name not in own]
    assert len(keys) == len(rows) > 170


def test_every_key_is_read_by_something(page: str) -> None:
    rows = [line for line in page.splitlines() if line.endswith(f"| {stack_file.NOTHING} |")]
    assert rows == [], "a key that nothing reads; or it is read in a way that docs/key_uses.py does not follow"


def test_no_page_gives_a_key_that_is_gone() -> None:
    """The name alone may be a word, or a key elsewhere: here it is one with its value."""
    of_today = {field.alias for section in sections() for field in section.model_fields.values()}
    gone = {name for section in sections() for name in section.gone} - of_today
    assert {"efa", "scaler"} <= gone
    given = re.compile(rf"(?<!\w)({'|'.join(sorted(gone))}): ")
    pages = [ROOT / "README.md", *(page for folder in ("docs", "examples") for page in (ROOT / folder).rglob("*.md"))]
    found = {str(page.relative_to(ROOT)): given.findall(page.read_text(encoding="utf-8")) for page in pages}
    assert {page: keys for page, keys in found.items() if keys} == {}


def test_every_section_leads_to_a_page_that_says_how_it_is_used_and_to_its_module(page: str) -> None:
    sections = [section for part in page.split("\n## ")[1:] for section in part.split("\n### ") if "| key |" in section]
    heads = [" ".join(section.partition("| key |")[0].split()) for section in sections]
    assert [head for head in heads if "How to: [" not in head or "Keys and rules: [" not in head] == []
    assert len(heads) > 40


def test_every_rule_has_its_sentence_on_the_page(page: str) -> None:
    homes = [*(vars(section) for section in sections()), *(vars(module) for module in relations.modules())]
    rules = [check for home in homes for told_as in ("problem", "warning") for check in marked(home, told_as)]
    sentences = [stack_file.first_paragraph(check) for check in rules]
    assert [sentence for sentence in sentences if not sentence.startswith(("Require ", "Refuse ", "Warn "))] == []
    assert len(rules) > 100
    assert page.count("\n- Re") + page.count("\n- Warn") == len(rules)


def test_a_key_leads_to_the_modules_that_read_it_and_to_the_rules_that_relate_it_to_others(page: str) -> None:
    section = page.partition("## triton-eks:worker\n")[2].partition("\n## ")[0]
    assert "Keys and rules: [spec/settings/worker.py](../spec/settings/worker.py)" in " ".join(section.split())
    row = next(line for line in section.splitlines() if line.startswith("| `longestRequestSeconds` |"))
    assert "[infra/serving/worker.py](../infra/serving/worker.py)" in row
    assert row.endswith("; rules: [worker](#rules-worker) |")
    rules = page.partition("### Rules: worker\n")[2].partition("\n### ")[0]
    assert "In [spec/settings/relations/worker.py](../spec/settings/relations/worker.py):" in rules
    assert "- Require a longest request of workers that is no shorter" in rules


def test_a_key_is_read_where_an_attribute_of_its_section_is() -> None:
    found = key_uses.uses_in(
        {
            "infra/a.py": (
                "def largest(settings: Settings) -> int:\n"
                "    sizes = {pool.name: pool for pool in settings.gpu.pools if pool.max}\n"
                "    return max(pool.disk_gib for name, pool in sizes.items())\n"
            ),
            "infra/b.py": (
                "from spec.settings.network import Network as Wanted\n\n"
                "class Args:\n    wanted: Wanted | None\n\n"
                "class Network:\n"
                "    def __init__(self, args: Args) -> None:\n"
                "        self._args = args\n"
                "    def make(self) -> None:\n"
                "        name, wanted = '', self._args.wanted\n"
                "        print(wanted.nat)\n"
            ),
            "spec/settings/model.py": (
                "class Settings:\n    @property\n    def triton_nodes(self) -> GpuPool:\n        return self.triton.pool\n"
            ),
            "stackctl/c.py": "def of(settings: Settings) -> str:\n    return settings.triton_nodes.capacity\n",
            "infra/e.py": "def of(group: SystemGroup | GpuPool) -> bool:\n    return group.zones\n",
            "modelctl/f.py": (
                "class _Draft:\n    wants: ModelServing\n\n"
                "def of(draft: _Draft) -> bool:\n    return draft.wants.cuda_graphs\n"
            ),
            "modelctl/g.py": "class _Draft:\n    wants: str\n",
            "spec/settings/relations/subject.py": "class Subject:\n    document: Document\n",
            "spec/settings/relations/h.py": (
                "from spec.settings.relations.subject import Subject\n\n"
                "def rule(subject: Subject) -> bool:\n    return subject.document.cluster.version\n"
            ),
            "stackctl/i.py": "class Subject:\n    document: str\n",
            "twin/d.py": "def of(other: Other) -> str:\n    return other.capacity\n",
        }
    )
    assert found[GpuPool, "max"] == found[GpuPool, "name"] == found[GpuPool, "disk_gib"] == ["infra/a.py"]
    assert found[Network, "nat"] == ["infra/b.py"]
    assert found[GpuPool, "zones"] == ["infra/e.py"]
    assert found[Cluster, "version"] == ["spec/settings/relations/h.py"]
    assert found[ModelServing, "cuda_graphs"] == ["modelctl/f.py"]
    assert found[Document, "triton"] == found[Triton, "pool"] == found[GpuPool, "capacity"] == ["stackctl/c.py"]
    assert (ModelServing, "device") not in found and (GpuPool, "min") not in found
