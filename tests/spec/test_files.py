"""A written file keeps its link, mode, attributes and owner; an unwritable file is refused with a message."""

import os
import resource
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from spec import files
from spec.files import NotWritten
from tests.paths import ROOT


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_link_stays_one_and_what_it_leads_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "file", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(Path("real") / "file")
    files.rewrite(link, b"new")
    assert link.readlink() == Path("real") / "file"
    assert target.read_text() == "new"
    assert names(tmp_path / "real") == ["file"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o755])
def test_the_mode_stays(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "file"
    file.touch()
    file.chmod(mode)
    files.rewrite(file, b"new")
    assert stat.S_IMODE(file.stat().st_mode) == mode


def test_extended_attributes_stay(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    try:
        os.setxattr(file, "user.origin", b"by hand")
    except OSError:
        pytest.skip("this file system keeps no extended attributes")
    files.rewrite(file, b"new")
    assert os.getxattr(file, "user.origin") == b"by hand"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody")
def test_the_owner_stays(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    os.chown(file, 1234, 2345)
    files.rewrite(file, b"new")
    assert (file.stat().st_uid, file.stat().st_gid) == (1234, 2345)


def test_a_new_file_has_the_mode_that_the_umask_says(tmp_path: Path) -> None:
    code = (
        f"import os, pathlib, spec.files; os.umask(0o027); spec.files.rewrite(pathlib.Path({str(tmp_path)!r}, 'a/b'), b'')"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o640


def test_a_file_without_write_permission_is_refused_whoever_runs_this(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    file.chmod(0o444)
    with pytest.raises(NotWritten) as refused:
        files.rewrite(file, b"new")
    assert str(refused.value) == f"{file}: is write-protected; `chmod u+w` it, or write to another file"
    assert file.read_text() == "old"


def test_a_link_to_a_file_without_write_permission_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch(mode=0o444)
    (tmp_path / "link").symlink_to("file")
    with pytest.raises(NotWritten, match="write-protected"):
        files.rewrite(tmp_path / "link", b"new")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: path.mkdir(), "is a directory; name a file"),
        (lambda path: path.symlink_to("gone"), "is a link to gone, where nothing is; make that file, or remove the link"),
        (lambda path: path.symlink_to(path.name), "cannot be written: Too many levels of symbolic links"),
    ],
)
def test_what_no_content_can_be_written_to_is_a_sentence(tmp_path: Path, make: object, said: str) -> None:
    path = tmp_path / "path"
    make(path)  # type: ignore[operator]
    with pytest.raises(NotWritten) as refused:
        files.rewrite(path, b"new")
    assert str(refused.value) == f"{path}: {said}"
    assert names(tmp_path) == ["path"]


def test_below_a_file_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotWritten) as refused:
        files.rewrite(tmp_path / "file" / "below", b"new")
    assert str(refused.value) == f"{tmp_path}/file/below: cannot be written: Not a directory"


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    code = "import pathlib, spec.files; spec.files.rewrite(pathlib.Path('/dev/stdout'), b'content')"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True)
    assert done.stdout == b"content"


@pytest.mark.parametrize("write", [files.rewrite, files.write_whole])
def test_a_disk_that_is_full_leaves_the_old_content_and_nothing_else(tmp_path: Path, write: object) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4, before[1]))
    try:
        with pytest.raises((NotWritten, OSError), match="File too large"):
            write(file, b"longer than four bytes")  # type: ignore[operator]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert file.read_text() == "old"
    assert names(tmp_path) == ["file"]


def test_readers_see_the_old_content_or_the_new(tmp_path: Path) -> None:
    file = tmp_path / "file"
    contents = [bytes([65 + number]) * 100_000 for number in range(4)]
    file.write_bytes(contents[0])
    with ThreadPoolExecutor(4) as threads:
        writes = [threads.submit(files.rewrite, file, content) for content in contents * 10]
        while not all(write.done() for write in writes):
            assert file.read_bytes() in contents
        for write in writes:
            write.result()
    assert names(tmp_path) == ["file"]


def test_processes_that_change_a_file_at_a_time_lose_no_change(tmp_path: Path) -> None:
    """Each process adds its lines to the current content, and retries if another one was faster."""
    file = tmp_path / "file"
    file.touch()
    code = f"""
import pathlib, spec.files
file, added = pathlib.Path({str(file)!r}), 0
while added < 50:
    before = file.read_bytes()
    try:
        spec.files.rewrite(file, before + b"line\\n", made_from=before)
        added += 1
    except spec.files.NotWritten as refused:
        assert "somebody else has changed it meanwhile" in str(refused)
"""
    running = [subprocess.Popen([sys.executable, "-c", code], cwd=ROOT) for _ in range(2)]
    assert [process.wait() for process in running] == [0, 0]
    assert file.read_text() == 100 * "line\n"
    assert names(tmp_path) == ["file"]


def test_a_file_that_has_come_meanwhile_is_not_written_over(tmp_path: Path) -> None:
    files.create(tmp_path / "file", b"mine")
    with pytest.raises(NotWritten) as refused:
        files.create(tmp_path / "file", b"yours")
    assert str(refused.value) == f"{tmp_path}/file: somebody else has made it meanwhile, and it is left as it is"
    assert (tmp_path / "file").read_text() == "mine"
    assert names(tmp_path) == ["file"]


def test_a_file_of_the_programs_own_is_private_and_its_directory_is_made(tmp_path: Path) -> None:
    files.write_whole(tmp_path / "a" / "b", b"content")
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o600
    files.write_whole(tmp_path / "a" / "b", b"content", mode=0o755)
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o755
    assert names(tmp_path / "a") == ["b"]
