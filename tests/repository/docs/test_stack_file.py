"""docs/stack-file.md is the reference of every key, as the code is now; and every key is read by something."""

from __future__ import annotations

from docs import key_uses, stack_file
from docs.key_uses import sections
from spec.settings.gpu import GpuPool
from spec.settings.model import Document
from spec.settings.network import Network
from spec.settings.serving import ModelServing
from spec.settings.triton import Triton


def test_the_page_is_as_the_code_is() -> None:
    assert stack_file.PAGE.read_text(encoding="utf-8") == stack_file.page(), "stale: run `make reference`, and read the diff"


def test_every_key_is_on_the_page() -> None:
    page = stack_file.page()
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    keys = [(section, name) for section in sections() for name in vars(section).get("__annotations__", {})]
    keys = [(section, name) for section, name in keys if name in section.model_fields and name != "warnings"]
    assert len(keys) == len(rows) == 164


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
                "        print(args.wanted.nat)\n"
            ),
            "spec/settings/model.py": (
                "class Settings:\n    @property\n    def triton_pool(self) -> GpuPool:\n        return self.triton.pool\n"
            ),
            "stackctl/c.py": "def of(settings: Settings) -> str:\n    return settings.triton_pool.capacity\n",
            "twin/d.py": "def of(other: Other) -> str:\n    return other.capacity\n",
        }
    )
    assert found[GpuPool, "max"] == found[GpuPool, "name"] == found[GpuPool, "disk_gib"] == ["infra/a.py"]
    assert found[Network, "nat"] == ["infra/b.py"]
    assert found[Document, "triton"] == found[Triton, "pool"] == found[GpuPool, "capacity"] == ["stackctl/c.py"]
    assert (ModelServing, "device") not in found and (GpuPool, "min") not in found
