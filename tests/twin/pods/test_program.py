"""The owner of each container."""

import re
from typing import Any

import pytest

from twin.pods.program import LocalCommand, PodProgram, PodPrograms

SERVER = PodProgram("server", "server", lambda launch: LocalCommand((), {}))
WATCHER = PodProgram("watcher", "group/watcher", lambda launch: LocalCommand((), {}))
SIDECAR = PodProgram("sidecar", "server-sidecar", lambda launch: LocalCommand((), {}), sidecar=True)
NAMED = PodProgram("named", "tool", lambda launch: LocalCommand((), {}), container="c2")
PROGRAMS = PodPrograms((SERVER, WATCHER, NAMED, SIDECAR))


def pod(*images: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", "image": image} for image in images]}}


@pytest.mark.parametrize(
    ("image", "program"),
    [
        ("registry.example/a/server@sha256:00", SERVER),
        ("registry.example/server:1.2", SERVER),
        ("registry.example/server", SERVER),
        ("registry.example/group/watcher:1", WATCHER),
        ("registry.example/server-sidecar:1", SIDECAR),
        ("registry.example/watcher:1", None),
        ("registry.example/servers:1", None),
        ("registry.example/server/beside:1", None),
        ("server:1", None),
    ],
)
def test_a_program_is_known_by_the_end_of_its_image_whatever_the_registry(image: str, program: PodProgram | None) -> None:
    assert PROGRAMS.of({"image": image}) is program


def test_a_sidecar_makes_no_pod_one_that_runs_as_processes() -> None:
    assert PROGRAMS.claim(pod("r/beside:1", "r/server:1"))
    assert PROGRAMS.claim(pod("r/server:1", "r/server-sidecar:1"))
    assert not PROGRAMS.claim(pod("r/beside:1", "r/server-sidecar:1"))
    assert not PROGRAMS.claim(pod("r/beside:1"))


def test_the_expression_of_containers_says_the_same_as_the_claims() -> None:
    assert PROGRAMS.containers == "/server([:@]|$)|/group/watcher([:@]|$)|^c2 .*/tool([:@]|$)"


def test_a_program_of_some_containers_of_an_image_leaves_the_others_alone() -> None:
    image = "r/tool@sha256:00"
    assert PROGRAMS.of({"name": "c2", "image": image}) is NAMED
    assert PROGRAMS.of({"name": "c", "image": image}) is None
    for name, claimed in (("c2", True), ("c", False), ("xc2", False)):
        assert PROGRAMS.claim({"spec": {"containers": [{"name": name, "image": image}]}}) is claimed
        assert bool(re.search(PROGRAMS.containers, f"{name} {image}")) is claimed
