"""Where things lie, whatever directory a test runs in."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The checkout."""
