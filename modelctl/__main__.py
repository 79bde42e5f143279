"""Run `modelctl`."""

import console.early_interrupt  # noqa: F401 - before everything else
from console.program import main


def start() -> None:
    """Run `modelctl` with the arguments of this process."""
    main("modelctl")


if __name__ == "__main__":
    start()
