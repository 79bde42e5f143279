"""A small release in moto, in parts of 1000 bytes."""

from collections.abc import Iterator

import pytest

from modelctl.fetch import download, partial_file
from modelctl.store.bucket import Store
from tests.modelctl.fetch.releases import CONTENT, put


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partial_file, "PART_BYTES", 1000)
    monkeypatch.setattr(download, "_FIRST_PAUSE_SECONDS", 0)


@pytest.fixture
def release(store: Store) -> str:
    return put(store, CONTENT)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """Return the key, first byte and end of every requested part."""
    seen: list[tuple[str, int, int]] = []
    pieces = Store.pieces

    def recorded(self: Store, release_id: str, key: str, first: int, end: int) -> Iterator[bytes]:
        seen.append((key.rpartition("/")[2], first, end))
        yield from pieces(self, release_id, key, first, end)

    monkeypatch.setattr(Store, "pieces", recorded)
    return seen
