"""Run one Pulumi program in a separate process, for the language host.

It is started as a file with ``python -P``, so this folder is not on the program's import path. It removes the twin's
checkout, which `make venv` installs for the commands. It reads its task as JSON from standard input, because command
lines are public and configuration is not.
It imports no module of the twin.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import runpy
import signal
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

EXPLAINED = 32
"""Exit status of a program whose error was already reported to the engine."""

MAX_THREADS = 256
"""Each thread waits for one response of the engine; an unlimited ``--parallel`` must not create unlimited threads."""

_GRACE_SECONDS = 10.0
_LOOK_SECONDS = 1.0

ENGINE_STOPPING = ("resource monitor has terminated", "resource monitor shut down")
"""How the error messages of the SDK and the engine begin if the run stopped because of an already reported error."""


def main() -> None:
    """Run the program described on standard input and exit with its status."""
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, lambda number, _frame: os._exit(128 + number))
    checkout = Path(__file__).resolve().parents[2]
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != checkout]
    run = json.load(sys.stdin)
    sys.stdin = Path(os.devnull).open()  # noqa: SIM115 - stays open for the life of the process
    status = _run(run)
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads that still wait for a stopping engine would block an ordinary exit.
    os._exit(status)


def _run(run: dict[str, Any]) -> int:
    import pulumi

    if not run["debug"]:
        # The SDK sends several debug messages for each resource and waits for each: a tenth of a preview's processor time.
        pulumi.log.debug = lambda *_message, **_options: None
    pulumi.runtime.set_all_config(run["config"], run["secret_keys"])
    pulumi.runtime.configure(
        pulumi.runtime.Settings(
            project=run["project"],
            stack=run["stack"],
            organization=run["organization"],
            root_directory=run["root_directory"],
            monitor=run["monitor"],
            engine=run["engine"],
            parallel=run["parallel"],
            dry_run=run["dry_run"],
        )
    )
    program = str(Path(run["program_directory"], run["entry_point"]).resolve())
    os.chdir(run["pwd"])
    sys.argv = [program, *run["args"]]
    # Futures of resources after a failed one are never awaited; asyncio would log a warning for each.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.set_default_executor(ThreadPoolExecutor(max_workers=min(max(run["parallel"], 1) * 4, MAX_THREADS)))
    try:
        loop.run_until_complete(_until_it_ends(program))
    except pulumi.RunError as error:
        if _is_engine_stopping(error):
            return EXPLAINED
        pulumi.log.error(str(error))
        return 1  # like Pulumi's own launcher: the engine shows a second error
    except SystemExit as leaving:
        return _status_of(leaving)
    except Exception as error:
        if not _is_engine_stopping(error):
            pulumi.log.error(f"the program ended with an exception:\n{_trace_of_program(error, program)}")
        return EXPLAINED
    return 0


async def _until_it_ends(program: str) -> None:
    """Run the program; stop it if a response is unreadable and the code that awaits it never returns.

    The SDK reports an unreadable response, like a text instead of a list, only after all other responses. Code that waits
    for an output of that resource may wait forever.
    """
    import pulumi
    from pulumi.runtime.settings import _get_rpc_manager

    answers = _get_rpc_manager()
    run = asyncio.ensure_future(pulumi.runtime.run_in_stack(lambda: _run_program(program)))
    while not run.done():
        await asyncio.wait({run}, timeout=_LOOK_SECONDS)
        failed = answers.unhandled_exception
        if failed is not None and not _is_engine_stopping(failed):
            await asyncio.wait({run}, timeout=_GRACE_SECONDS)
            if not run.done():
                raise failed
    await run


def _run_program(program: str) -> None:
    if Path(program).is_dir() and not Path(program, "__main__.py").exists():
        import pulumi

        pulumi.log.error(f"there is no __main__.py in {program}")
        sys.exit(EXPLAINED)
    runpy.run_path(program, run_name="__main__")


def _is_engine_stopping(error: Exception) -> bool:
    return str(error).lower().startswith(ENGINE_STOPPING)


def _status_of(leaving: SystemExit) -> int:
    if leaving.code is None or isinstance(leaving.code, int):
        return leaving.code or 0
    print(leaving.code, file=sys.stderr)
    return 1


def _trace_of_program(error: Exception, program: str) -> str:
    """Return the traceback from the program's first own frame on; all of it if the program has no frame in it."""
    root = program if Path(program).is_dir() else str(Path(program).parent)
    trace = error.__traceback__
    while trace is not None and not _is_within(trace.tb_frame.f_code.co_filename, root):
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace or error.__traceback__))


def _is_within(filename: str, root: str) -> bool:
    return not filename.startswith("<") and Path(filename).absolute().is_relative_to(root)


if __name__ == "__main__":
    main()
