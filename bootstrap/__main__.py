"""Entry point of the bootstrap program, run by the Pulumi engine."""

import sys
from pathlib import Path

# The engine starts a program in its own folder; the code shared with the platform is one folder above.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bootstrap.program import main

main()
