"""`python -m modelctl`."""

from modelctl.cli import app

app(prog_name="modelctl")
