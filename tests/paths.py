"""Paths that do not depend on a test's working directory."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The checkout."""
