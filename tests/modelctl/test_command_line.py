"""How a command ends."""

import signal
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import atexit, time
from modelctl.command_line import end_orderly_on_sigterm
end_orderly_on_sigterm()
atexit.register(print, "cleaned up", flush=True)
print("ready", flush=True)
time.sleep(60)
"""


def test_a_command_that_is_told_to_end_cleans_up() -> None:
    root = Path(__file__).parents[2]
    with subprocess.Popen([sys.executable, "-c", PROGRAM], cwd=root, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == "cleaned up\n"
        assert process.wait(timeout=30) == 143
