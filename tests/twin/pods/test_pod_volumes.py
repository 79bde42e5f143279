import asyncio
from pathlib import Path
from typing import Any

import pytest

from twin.pods.pod_spec import Sources, SpecError
from twin.pods.pod_volumes import PathRewriter, follows_sources, materialize, rewriter, update

SOURCES = Sources({"cm": {"a": b"1", "b": b"2"}}, {"tls": {"tls.crt": b"CERT"}})


async def token(audience: str, seconds: int) -> str:
    return f"token for {audience} {seconds}"


def pod(*volumes: dict[str, Any], **mount: Any) -> dict[str, Any]:
    mounts = [{"name": v["name"], "mountPath": f"/{v['name']}", **mount} for v in volumes]
    return {
        "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"app": "t"}},
        "spec": {"containers": [{"name": "c", "volumeMounts": mounts}], "volumes": list(volumes)},
    }


def files(root: Path, *volumes: dict[str, Any]) -> dict[str, bytes]:
    directories = asyncio.run(materialize(pod(*volumes), root, SOURCES, token))
    return {f"{n}/{p.relative_to(d)}": p.read_bytes() for n, d in directories.items() for p in d.rglob("*") if p.is_file()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/models", "/h/models"),
        ("/models/", "/h/models/"),
        ("/models/a/1", "/h/models/a/1"),
        ("--dir=/models/a", "--dir=/h/models/a"),
        ("/models:/tmp/x", "/h/models:/h/tmp/x"),
        ("cat '/models/a' \"/tmp\"", "cat '/h/models/a' \"/h/tmp\""),
        ("/models/cache/x", "/h/cache/x"),
        ("/models2", "/models2"),
        ("/var/models", "/var/models"),
        ("http://127.0.0.1:8000/v2/models/m/ready", "http://127.0.0.1:8000/v2/models/m/ready"),
        ("s3://http://127.0.0.1:5000/bucket/models/r", "s3://http://127.0.0.1:5000/bucket/models/r"),
    ],
)
def test_paths_below_a_mount_are_moved_and_nothing_else(text: str, expected: str) -> None:
    move = PathRewriter({"/models": Path("/h/models"), "/tmp": Path("/h/tmp"), "/models/cache": Path("/h/cache")})
    assert move(text) == expected


def test_a_folder_of_the_node_is_the_same_for_all_of_its_pods(tmp_path: Path) -> None:
    claim = {"name": "cache", "persistentVolumeClaim": {"claimName": "of-the-node"}}
    one = pod()
    one["spec"]["initContainers"] = [{"name": "i", "volumeMounts": [{"name": "cache", "mountPath": "/cache"}]}]
    one["spec"]["volumes"] = [claim]
    sources = Sources(node_folders={"of-the-node": "/var/lib/kubelet/model-cache"})
    for name in ("a", "b"):
        root, node = tmp_path / name, tmp_path / "node"
        for _ in range(2):  # a restarted container
            found = asyncio.run(materialize(one, root, sources, token, node=node))
        (found["cache"] / name).write_text("x")
        assert rewriter(one["spec"]["initContainers"][0], found)("--cache=/cache") == f"--cache={root}/cache"
    assert sorted(path.name for path in (tmp_path / "node/var/lib/kubelet/model-cache").iterdir()) == ["a", "b"]


def test_without_mounts_nothing_moves() -> None:
    assert PathRewriter({})("/models") == "/models"


def test_shared_memory_stays_where_it_is_and_a_sub_path_is_honoured() -> None:
    container = {
        "volumeMounts": [
            {"name": "shm", "mountPath": "/dev/shm"},
            {"name": "data", "mountPath": "/models/", "subPath": "a"},
        ]
    }
    move = rewriter(container, {"shm": Path("/h/shm"), "data": Path("/h/data")})
    assert move("/dev/shm/x /models/y") == "/dev/shm/x /h/data/a/y"


def test_an_empty_directory_is_made_and_kept_over_restarts(tmp_path: Path) -> None:
    volume: dict[str, Any] = {"name": "models", "emptyDir": {}}
    assert files(tmp_path, volume) == {}
    (tmp_path / "models" / "kept").write_bytes(b"x")
    assert files(tmp_path, volume) == {"models/kept": b"x"}


def test_config_maps_and_secrets_become_files(tmp_path: Path) -> None:
    all_keys = {"name": "v", "configMap": {"name": "cm"}}
    picked = {"name": "w", "configMap": {"name": "cm", "items": [{"key": "a", "path": "sub/renamed"}]}}
    secret = {"name": "s", "secret": {"secretName": "tls"}}
    assert files(tmp_path, all_keys, picked, secret) == {
        "v/a": b"1",
        "v/b": b"2",
        "w/sub/renamed": b"1",
        "s/tls.crt": b"CERT",
    }


def test_a_projected_token_is_asked_for_with_its_audience(tmp_path: Path) -> None:
    sources = [
        {"serviceAccountToken": {"audience": "sts.amazonaws.com", "expirationSeconds": 600, "path": "token"}},
        {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
    ]
    assert files(tmp_path, {"name": "p", "projected": {"sources": sources}}) == {
        "p/token": b"token for sts.amazonaws.com 600",
        "p/labels": b'app="t"',
    }


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        ({"name": "v", "configMap": {"name": "gone"}}, "volume 'v': configMap 'gone' not found"),
        ({"name": "v", "secret": {"secretName": "tls", "items": [{"key": "k", "path": "p"}]}}, "has no key 'k'"),
        ({"name": "v", "persistentVolumeClaim": {"claimName": "x"}}, "cannot have persistentVolumeClaim"),
        ({"name": "v", "hostPath": {"path": "/"}}, "cannot have hostPath"),
    ],
)
def test_a_volume_that_cannot_be_mounted_says_why(tmp_path: Path, volume: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message) as error:
        files(tmp_path, volume)
    assert error.value.reason == "FailedMount"


def test_an_optional_source_may_be_absent(tmp_path: Path) -> None:
    assert files(tmp_path, {"name": "v", "configMap": {"name": "gone", "optional": True}}) == {}


def test_volumes_follow_their_sources_and_only_files_that_changed_are_written(tmp_path: Path) -> None:
    volumes = [
        {"name": "c", "configMap": {"name": "cm"}},
        {"name": "s", "projected": {"sources": [{"secret": {"name": "tls"}}]}},
    ]
    files(tmp_path, *volumes)
    unchanged = (tmp_path / "c" / "a").stat()
    later = Sources({"cm": {"a": b"1", "c": b"3"}}, {"tls": {"tls.crt": b"NEW"}})
    asyncio.run(update(pod(*volumes), tmp_path, later))
    found = {str(p.relative_to(tmp_path)): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert found == {"c/a": b"1", "c/c": b"3", "s/tls.crt": b"NEW"}
    assert (tmp_path / "c" / "a").stat().st_ino == unchanged.st_ino


def test_a_source_that_went_away_leaves_its_files(tmp_path: Path) -> None:
    volume = {"name": "c", "configMap": {"name": "cm"}}
    files(tmp_path, volume)
    asyncio.run(update(pod(volume), tmp_path, Sources()))
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == ["a", "b"]


def test_tokens_and_what_a_process_wrote_stay(tmp_path: Path) -> None:
    sources = [{"serviceAccountToken": {"path": "token"}}, {"configMap": {"name": "cm"}}]
    volumes: list[dict[str, Any]] = [{"name": "p", "projected": {"sources": sources}}, {"name": "e", "emptyDir": {}}]
    files(tmp_path, *volumes)
    (tmp_path / "e" / "own").write_bytes(b"x")
    assert not follows_sources(pod(*volumes))
    asyncio.run(update(pod(*volumes), tmp_path, Sources()))
    assert (tmp_path / "p" / "token").read_bytes() == b"token for  3600"
    assert (tmp_path / "e" / "own").read_bytes() == b"x"


def test_files_are_made_to_fit_this_machine_at_the_start_and_later(tmp_path: Path) -> None:
    def localize(name: str, content: bytes) -> bytes:
        return content + name.encode()

    volume = {"name": "c", "configMap": {"name": "cm", "items": [{"key": "a", "path": "x"}]}}
    asyncio.run(materialize(pod(volume), tmp_path, SOURCES, token, localize))
    assert (tmp_path / "c" / "x").read_bytes() == b"1x"
    asyncio.run(update(pod(volume), tmp_path, Sources({"cm": {"a": b"2"}}), localize))
    assert (tmp_path / "c" / "x").read_bytes() == b"2x"
