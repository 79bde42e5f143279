"""Read the files of a model repository, and divide them into released, left out and refused ones.

All files of a model are served to every pod and stored in the bucket. So only regular files of the repository are released,
with names that S3, Triton and every checkout support. Files of editors, version control and caches are left out and
reported; possible secrets are refused.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from modelctl.repository.problems import Problem
from spec.names import RELEASES_PREFIX

LONGEST_KEY_BYTES = 1024
"""The longest key of an S3 object: https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html"""
_PREFIX_BYTES = len(f"{RELEASES_PREFIX}{'0' * 12}/")

_KEPT = frozenset({".keep", ".gitkeep", ".tmp"})
"""Dot names that are released: they keep an otherwise empty directory; NVIDIA's TensorRT-LLM has `.tmp`."""
_LEFT_OUT = re.compile(
    r"\..*|__pycache__|.*\.py[co]|.*~|#.*#|.*\.(sw[op]|bak|orig|rej|tmp|part|crdownload|incomplete)|thumbs\.db|desktop\.ini"
    r"|__macosx|cvs|events\.out\.tfevents\..*|core\.\d{2,}",
    re.IGNORECASE,
)
_SECRET = re.compile(
    r"\.env(\.(?!example$|sample$|template$).*)?|[._]netrc|\.pgpass|\.git-credentials|\.npmrc|\.pypirc|\.htpasswd|\.vault-token"
    r"|\.docker(cfg|configjson)?|\.(aws|ssh|gnupg|kube|azure|gcloud)|credentials(\.(csv|json|toml|ini|ya?ml))?|kubeconfig"
    r"|id_(rsa|dsa|ecdsa|ed25519)(_sk)?|secrets?\.(json|toml|ini|env|ya?ml)|service[-_]?account.*\.json"
    r"|client_secret.*\.json|kaggle\.json|passwords?\.(txt|csv)|.*\.tfvars(\.json)?|.*\.tfstate\.backup|application_default_credentials\.json|.*accesskeys\.csv|.*\.(env|key|p12|pfx|jks|keystore|kdbx|ppk|tfstate)",
    re.IGNORECASE,
)
_ANNEX = re.compile(r"(^|/)\.?(git/)?annex/objects/")


@dataclass
class Tree:
    """The entries below one directory, by paths relative to it: `files` are released, `left_out` are not."""

    files: list[Path] = field(default_factory=list)
    left_out: list[Path] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def is_left_out(name: str) -> bool:
    """Return whether a file or directory with this name is left out of a model."""
    return name not in _KEPT and _LEFT_OUT.fullmatch(name) is not None


def read(repository: Path, directory: Path, *, wanted: Callable[[Path], bool]) -> Tree:
    """Return the entries below `directory` of a `repository`, sorted by name.

    `wanted` gets the path of each directory and file, relative to `directory`, before it is read; if it returns False, the
    entry is ignored.
    """
    tree = Tree()
    _Reader(repository, directory, tree, wanted).read(Path())
    return tree


def link_problem(repository: Path, path: Path) -> Problem | None:
    """Return why a symbolic link is not followed. None for a link to a file of the same repository."""
    written = str(path.readlink())
    if _ANNEX.search(written):
        return Problem(path, "a link of git-annex to content that is not here; `git annex get` and `git annex unlock` it")
    try:
        target = Path(os.path.realpath(path, strict=True))
        is_file, is_directory = target.is_file(), target.is_dir()
    except FileNotFoundError:
        return Problem(path, f"a link to {written}, where nothing is; put the file itself here")
    except OSError as error:
        return Problem(path, f"a link to {written}, which cannot be followed ({error.strerror}); put the file itself here")
    home = Path(os.path.realpath(repository))
    if not target.is_relative_to(home):
        return Problem(path, f"a link to {written}, out of {repository}; put the file itself here")
    if is_directory:
        return Problem(path, f"a link to the directory {written}; only links to files are followed")
    if not is_file:
        return Problem(path, f"a link to {written}, which is neither a file nor a directory")
    for part in target.relative_to(home).parts:
        if _SECRET.fullmatch(part):
            return Problem(path, f"a link to {written}: {_may_be_secret(part)}")
        if is_left_out(part):
            return Problem(path, f"a link to {written}, and nothing of {part} is released; put the file itself here")
    return None


def name_problem(path: Path) -> Problem | None:
    """Return why the name of a file or directory is invalid in a release. None if it is valid."""
    name = path.name
    try:
        name.encode()
    except UnicodeEncodeError:
        return Problem(path, "its name is not UTF-8, and S3 has no other; rename it")
    if any(unicodedata.category(character) in {"Cc", "Zl", "Zp"} for character in name):
        return Problem(path, "its name has a control character; rename it")
    if "\\" in name:
        return Problem(path, "its name has a backslash, which separates directories elsewhere; rename it")
    return None


def alike(paths: list[Path]) -> Iterator[Problem]:
    """Yield entries of one directory with names that many checkouts cannot distinguish. They differ only in case or accents'
    encoding."""
    seen: dict[str, Path] = {}
    for path in paths:
        first = seen.setdefault(unicodedata.normalize("NFC", path.name).casefold(), path)
        if first is not path:
            yield Problem(
                path, f"differs from {first.name} in upper and lower case only, or in how an accent is written; rename it"
            )


@dataclass
class _Reader:
    repository: Path
    directory: Path
    tree: Tree
    wanted: Callable[[Path], bool]

    def read(self, relative: Path) -> None:
        try:
            paths = sorted((self.directory / relative).iterdir())
        except OSError as error:
            self._refuse(self.directory / relative, f"cannot be read: {error.strerror or error}")
            return
        taken = [path for path in paths if self._is_taken(path, relative / path.name)]
        self.tree.problems += alike(taken)
        for path in taken:
            inner = relative / path.name
            key = _PREFIX_BYTES + len(os.fsencode(self.directory.name)) + 1 + len(os.fsencode(inner.as_posix()))
            if key > LONGEST_KEY_BYTES:
                message = f"its key in the bucket would have {key} bytes; S3 takes {LONGEST_KEY_BYTES}, so shorten its path"
                self._refuse(path, message)
            elif path.is_symlink():
                self._link(path, inner)
            else:
                self._entry(path, inner)

    def _is_taken(self, path: Path, relative: Path) -> bool:
        """Return whether the entry belongs to the release. Otherwise record it as left out or refused."""
        if not self.wanted(relative):
            return False
        if _SECRET.fullmatch(path.name):
            self._refuse(path, _may_be_secret(path.name))
        elif is_left_out(path.name):
            self.tree.left_out.append(relative)
        elif problem := name_problem(path):
            self.tree.problems.append(problem)
        else:
            return True
        return False

    def _link(self, path: Path, relative: Path) -> None:
        if problem := link_problem(self.repository, path):
            self.tree.problems.append(problem)
        else:
            self.tree.files.append(relative)

    def _entry(self, path: Path, relative: Path) -> None:
        try:
            mode = path.lstat().st_mode
        except OSError as error:
            self._refuse(path, f"cannot be read: {error.strerror or error}")
            return
        if stat.S_ISDIR(mode):
            self.read(relative)
        elif stat.S_ISREG(mode):
            self.tree.files.append(relative)
        else:
            self._refuse(path, "neither a file nor a directory")

    def _refuse(self, path: Path, message: str) -> None:
        self.tree.problems.append(Problem(path, message))


def _may_be_secret(name: str) -> str:
    return (
        f"{name} may hold a secret, and everybody who reads the bucket would have it; "
        "keep it outside of the models, or rename it if it holds none"
    )
