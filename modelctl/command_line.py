"""What every command shares: options, output, and expected failures as one sentence with an exit code.

Exit codes: 0 done; 1 the models or the release are wrong; 2 it could not be tried; 130 interrupted.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from modelctl.release.catalog import UnknownRelease
from modelctl.release.pin import PinError
from modelctl.repository.problems import Refusal, ValidationFailed
from modelctl.store.errors import StoreError
from modelctl.store.manifest import ManifestError
from spec.files import NotWritten

Bucket = Annotated[str, typer.Option(help="The stack's models bucket.")]
Endpoint = Annotated[str | None, typer.Option("--endpoint-url", help="URL of an S3-compatible store instead of AWS.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]

_PLAIN_WIDTH = 200
_NUMERIC = frozenset({"size", "objects", "bytes", "version"})


@contextmanager
def failures() -> Iterator[None]:
    """Every expected failure as a sentence on standard error and an exit code, never a traceback."""
    try:
        yield
    except ValidationFailed as failure:
        for problem in failure.problems:
            typer.echo(str(problem), err=True)
        count = len(failure.problems)
        typer.echo(f"not released: {count} problem{'s' if count > 1 else ''}", err=True)
        raise typer.Exit(1) from None
    except (UnknownRelease, ManifestError, Refusal) as failure:
        fail(str(failure), 1)
    except (StoreError, PinError, NotWritten) as failure:
        fail(str(failure), 2)
    except OSError as failure:
        fail(f"{failure.filename or 'a file'}: {failure.strerror or failure}", 2)
    except KeyboardInterrupt:
        fail("interrupted; run the same command again, it continues", 130)


def fail(sentence: str, code: int) -> NoReturn:
    """Ends the command with this sentence on standard error."""
    typer.echo(f"modelctl: {sentence}", err=True)
    raise typer.Exit(code) from None


def stdout() -> Console:
    """For tables: as wide as the terminal, of a fixed width in a pipe or a file."""
    return Console(width=None if sys.stdout.isatty() else _PLAIN_WIDTH, highlight=False, markup=False)


def stderr() -> Console:
    """For progress."""
    return Console(stderr=True, highlight=False)


def table(*columns: str, numeric: frozenset[str] = _NUMERIC) -> Table:
    """A table without lines; the columns named in `numeric` are set to the right."""
    made = Table(box=None, pad_edge=False)
    for column in columns:
        made.add_column(column, justify="right" if column in numeric else "left", no_wrap=True)
    return made


def print_json(value: Any) -> None:
    """`value` on standard output, for programs."""
    typer.echo(json.dumps(value, indent=2))


def end_orderly_on_sigterm() -> None:
    """Makes SIGTERM an exit with code 143: locks are given back and temporary files, keys among them, are removed."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
