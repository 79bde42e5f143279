"""The door through which the Pulumi engine enters the bootstrap program."""

import sys
from pathlib import Path

# The engine starts a program in its own folder; what it shares with the platform's is one above.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bootstrap.program import main

main()
