"""Which containers are whose."""

from typing import Any

import pytest

from twin.pods.program import LocalCommand, PodProgram, PodPrograms

SERVER = PodProgram("server", "server", lambda launch: LocalCommand((), {}))
WATCHER = PodProgram("watcher", "group/watcher", lambda launch: LocalCommand((), {}))
SIDECAR = PodProgram("sidecar", "server-sidecar", lambda launch: LocalCommand((), {}), sidecar=True)
PROGRAMS = PodPrograms((SERVER, WATCHER, SIDECAR))


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


def test_the_expression_of_images_says_the_same_as_the_claims() -> None:
    assert PROGRAMS.images == "/(server|group/watcher)([:@]|$)"
