"""References in the text of this repository: files, headings of pages, Makefile targets, commands.

Reads whole pages (*.md), and the comments and docstrings of all other files.
"""

from __future__ import annotations

import ast
import fnmatch
import io
import itertools
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath

_URL = re.compile(r"\w+://[^\s)>\"`]+")
_LINK = re.compile(r"\[[^\]\[]*\]\(\s*<?([^()\s>]+)>?\s*\)")
_HEADING = re.compile(r"^#{1,6} +(.+?)(?: +#+)?$")
_FENCE = re.compile(r"^ *(```|~~~)")
_COMMENT_IN_LINE = re.compile(r"(?:^|\s)#(.*)")
_COMMENT_OF_A_TEMPLATE = re.compile(r"/\*(.*?)\*/", re.DOTALL)
_PLACEHOLDER = re.compile(r"<[^<>/]*>|\{[^{}/]*\}|…|\.\.\.|\b[A-Z]+\b")
_SUBSTITUTION = re.compile(r"\$\([^()\n]*\)")
_COMMANDS = re.compile(r"\bpython3? -m ([a-z_][\w.]*)(?![{\w])([^`\n)#|;>]*)")
_WORD = re.compile(r"[a-z][a-z-]*")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
_TARGET = r"make ([a-z][a-z0-9-]*)"

_GO = {".go", ".mod"}
_HASH_COMMENTS = {".yaml", ".yml", ".toml", ".sh", ".in", ".pbtxt", ".txt"}
_HASH_NAMES = {"Makefile", "Dockerfile", "run", "slow", ".gitignore", ".dockerignore", ".helmignore"}


@dataclass(frozen=True)
class Command:
    """`python3 -m <module> <words> … --option …`; `words` follow the module and may name a command."""

    module: str
    words: tuple[str, ...]
    options: tuple[str, ...]


@dataclass(frozen=True)
class Files:
    """The files of a repository, by their paths from its root, and the paths that a text may refer to."""

    root: Path
    paths: tuple[str, ...]
    _known: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        folders = {str(parent) for path in self.paths for parent in PurePosixPath(path).parents}
        # .gitignore names the outputs of commands.
        ignored = self.text(".gitignore").split() if ".gitignore" in self.paths else []
        made = {line.strip("/") for line in ignored if line.startswith("/")}
        object.__setattr__(self, "_known", frozenset(self.paths) | folders | made)

    @property
    def folders(self) -> set[str]:
        """Return the folders in the root."""
        return {path.split("/", 1)[0] for path in self.paths if "/" in path}

    def text(self, path: str) -> str:
        return (self.root / path).read_text(encoding="utf-8")

    def has(self, path: str) -> bool:
        """Return whether the file or folder exists; `<name>`, `{name}`, NAME, `…` and `*` match anything."""
        if path.rstrip("/") in self._known:
            return True
        wanted = _PLACEHOLDER.sub("*", path).rstrip("/")
        return "*" in wanted and any(fnmatch.fnmatchcase(known, wanted) for known in self._known)

    def headings(self, page: str) -> set[str]:
        """Return the anchors that GitHub creates from the headings of a page."""
        return _headings(self.text(page))


@cache
def prose(path: str, text: str) -> str:
    """Return the text that people read in a file: a whole page, or the comments and docstrings of other files."""
    name, suffix = PurePosixPath(path).name, PurePosixPath(path).suffix
    if suffix == ".md":
        return text
    if suffix == ".py":
        return "\n".join(_python(text))
    if suffix in _GO:
        return "\n".join(line.partition("//")[2] for line in text.splitlines())
    if suffix in {*_HASH_COMMENTS, ".tpl"} or name in _HASH_NAMES:
        found = [match[1] for line in text.splitlines() if (match := _COMMENT_IN_LINE.search(line))]
        return "\n".join([*found, *_COMMENT_OF_A_TEMPLATE.findall(text)])
    return ""


def links(page: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield the path from the root and the heading of each relative link. A link within the page has the page's path."""
    for target in _LINK.findall(_without_code(text)):
        if _URL.match(target) or target.startswith("mailto:"):
            continue
        path, _, heading = target.partition("#")
        yield (_resolve(PurePosixPath(page).parent, path) if path else page), heading


def paths(text: str, folders: set[str]) -> Iterator[tuple[str, str]]:
    """Yield each path from the root that a text names, and its heading. Skips parts of URLs."""
    starts = "|".join(sorted(map(re.escape, folders), key=len, reverse=True))
    pattern = re.compile(rf"(?<![\w./$~*>}}@:-])((?:{starts})/[\w./*<>{{}}…-]*[\w*>}}…/])(?:#([\w-]+))?")
    for match in pattern.finditer(_URL.sub("", text)):
        yield match[1], match[2] or ""


def targets(path: str, text: str) -> set[str]:
    """Yield the Makefile targets that a file names: `make …` in backticks, and in a page's code blocks."""
    found = set(re.findall(rf"`{_TARGET}\b", text))
    if path.endswith(".md"):
        found |= {name for line in _code(text) for name in re.findall(rf"^\s*{_TARGET}\b", line)}
    return found


def commands(text: str) -> Iterator[Command]:
    """Yield each `python3 -m …` of a text. Words after `--` belong to another program."""
    for module, line in _COMMANDS.findall(_SUBSTITUTION.sub(_inner_command, text)):
        rest = line.partition(" -- ")[0]
        words = tuple(itertools.takewhile(_WORD.fullmatch, rest.split()))
        yield Command(module.rstrip("."), words, tuple(sorted(set(_OPTION.findall(rest)))))


def makefile_targets(text: str) -> set[str]:
    return set(re.findall(r"^([a-z][a-z0-9-]*):(?!=)", text, re.MULTILINE))


def _inner_command(substitution: re.Match[str]) -> str:
    """Remove `$(…)` from the command around it. A command of ours inside it stays, in backticks."""
    return substitution[0].replace("$(", "`").replace(")", "`") if "python" in substitution[0] else "…"


@cache
def _headings(text: str) -> set[str]:
    found: dict[str, int] = {}
    anchors = set()
    for line in _lines_outside_of_fences(text):
        if match := _HEADING.match(line):
            words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match[1]).replace("`", "")
            anchor = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
            again = found.get(anchor, 0)
            found[anchor] = again + 1
            anchors.add(f"{anchor}-{again}" if again else anchor)
    return anchors


def _python(text: str) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def _resolve(folder: PurePosixPath, path: str) -> str:
    parts: list[str] = []
    for part in (folder / path).parts:
        if part == ".." and parts:
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts) or "."


def _lines_outside_of_fences(text: str) -> Iterator[str]:
    inside = False
    for line in text.splitlines():
        if _FENCE.match(line):
            inside = not inside
        elif not inside:
            yield line


def _without_code(text: str) -> str:
    outside = "\n".join(line for line in _lines_outside_of_fences(text) if not line.startswith(("    ", "\t")))
    return re.sub(r"`[^`\n]*`", "`", outside)


def _code(text: str) -> Iterator[str]:
    """Return the lines of a page's code blocks, fenced or indented."""
    inside = False
    for line in text.splitlines():
        if _FENCE.match(line):
            inside = not inside
        elif inside or line.startswith(("    ", "\t")):
            yield line
