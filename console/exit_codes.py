"""The exit codes of all commands, as documented in docs/commands.md and every `--help`."""

from __future__ import annotations

from collections.abc import Mapping

from spec.failure import FAILED, NOT_TRIED

DONE = 0
NO_TRAFFIC = 3
PROGRAM_ERROR = 70
"""`EX_SOFTWARE` of sysexits.h."""
INTERRUPTED = 130
CLOSED_PIPE = 141
TERMINATED = 143

MEANINGS: Mapping[int, str] = {
    DONE: "done, or the answer is yes",
    FAILED: "tried and failed, or the answer is no",
    NOT_TRIED: "could not be tried: command line, file, credentials, network or a missing program",
    NO_TRAFFIC: "a new version got too few requests or answers to be judged by: a canary is undone, a watched release stays",
    PROGRAM_ERROR: "an error of the program itself",
    INTERRUPTED: "Ctrl-C",
    CLOSED_PIPE: "nobody reads the output any more",
    TERMINATED: "SIGTERM",
}

EPILOG = "\n\n".join(
    (
        "Exit codes: " + "; ".join(f"{code} {meaning}" for code, meaning in MEANINGS.items()) + ".",
        "--debug, anywhere on the command line, shows the traceback of a failure.",
    )
)
