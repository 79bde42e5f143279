"""Change one value of a user's stack file. Comments, order, quoting, line endings, mode, link and owner stay."""

from __future__ import annotations

import copy
import difflib
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import YAMLError
from ruamel.yaml.util import load_yaml_guess_indent

from spec import files, reading, stack_file, yaml_reader
from spec.failure import NOT_TRIED, Failure
from spec.reading import Unreadable
from spec.stack_file import CONFIG, StackFileError

_BOM = b"\xef\xbb\xbf"


class NotEditable(Failure):
    """A stack file cannot be read or changed. The text begins with its path and gives the reason."""

    exit_code = NOT_TRIED


class StackEditor:
    """An open stack file that can be changed. `config` is its mapping of this key, with comments.

    Raises NotEditable if the file is not a stack file.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        try:
            self._content = reading.file(file)
            self._found = stack_file.read(self._content)
            self._before = yaml_reader.read(self._content).value
        except Unreadable as error:
            raise NotEditable(f"{error}; a stack's file is stacks/Pulumi.<stack>.yaml") from None
        except StackFileError as error:
            raise NotEditable("\n".join(mistake.within(file) for mistake in error.mistakes)) from None
        self._document, self._yaml = self._loaded()
        config = self._document.get(CONFIG) if isinstance(self._document, CommentedMap) else None
        if not isinstance(config, CommentedMap):
            raise NotEditable(f"{file}: has no mapping `config`; is it a Pulumi stack file?")
        self.config = config

    def key(self, name: str) -> str:
        """Return the file's spelling of this full key name (`triton-eks:models`); the full name if the file lacks the
        key."""
        return self._found.spelling.get(name, name)

    def section(self, name: str) -> CommentedMap | None:
        """Return the mapping with this full name; None if it is missing. Raises NotEditable for other values."""
        section = self.config.get(self.key(name))
        if section is not None and not isinstance(section, CommentedMap):
            raise NotEditable(f"{self._file}: config.{name} is not a mapping")
        return section

    def save(self, changes: Mapping[tuple[str, ...], Any], judge: Callable[[bytes], object] | None = None) -> None:
        """Write the file with the given value at each path below `config` and no other change.

        The result is verified by reading the new text. `judge` gets that text too; if it raises, the file stays unchanged.
        Raises NotEditable, or NotWritten, for example if the file has changed since it was opened.
        """
        buffer = io.StringIO()
        self._yaml.dump(self._document, buffer)
        text = _with_line_ends_of(self._text(), buffer.getvalue())
        expected = copy.deepcopy(self._before)
        for path, value in changes.items():
            below = expected[CONFIG]
            for step in path[:-1]:
                if not isinstance(below.get(step), dict):
                    below[step] = {}
                below = below[step]
            below[path[-1]] = value
        if yaml_reader.read(text).value != expected:
            names = " and ".join(".".join((CONFIG, *path)) for path in changes)
            raise NotEditable(
                f"{self._file}: {names} cannot be changed without changing something else in the file: write it without "
                "anchors (&), aliases (*) and merges (<<), then run the same command again"
            )
        bom = _BOM if self._content.startswith(_BOM) else b""
        content = bom + text.encode()
        if judge is not None:
            judge(content)
        files.rewrite(self._file, content, made_from=self._content)

    def _text(self) -> str:
        return self._content.removeprefix(_BOM).decode("utf-8")

    def _loaded(self) -> tuple[Any, YAML]:
        yaml = YAML()
        yaml.preserve_quotes = True
        yaml.width = 4096  # never fold long lines of the file
        text = "".join(line.rstrip("\r\n") + "\n" for line in _lines(self._text()))
        try:
            document, indent, offset = load_yaml_guess_indent(text, yaml=yaml)
        except YAMLError as error:  # valid for our reader, but not for ruamel.yaml
            raise NotEditable(f"{self._file}: not valid YAML: {str(error).splitlines()[0]}") from None
        yaml.indent(mapping=2, sequence=indent or 2, offset=offset or 0)
        return document, yaml


def _with_line_ends_of(before: str, after: str) -> str:
    """Return the text `after` with the line endings of `before`; new lines get the most frequent line ending."""
    old, new = _lines(before), _lines(after)
    usual = "\r\n" if 2 * sum(line.endswith("\r\n") for line in old) > len(old) else "\n"
    kept = {}
    bare_old, bare_new = ([line.rstrip("\r\n") for line in lines] for lines in (old, new))
    matcher = difflib.SequenceMatcher(None, bare_old, bare_new, autojunk=False)
    for block in matcher.get_matching_blocks():
        kept.update({block.b + place: old[block.a + place] for place in range(block.size)})
    lines = [kept.get(number, line.rstrip("\n") + usual) for number, line in enumerate(new)]
    return "".join(line if line.endswith("\n") else line + usual for line in lines[:-1]) + "".join(lines[-1:])


def _lines(text: str) -> list[str]:
    """Return the lines with their endings: only LF and CR LF count, not Unicode's other line separators."""
    return io.StringIO(text, newline="\n").readlines()
