"""The errors that prevent tuning."""

from spec.failure import Failure


class TuneError(Failure):
    """The model cannot be tuned; the text gives the reason and the remedy."""


class SloUnreachable(TuneError):
    """No configuration holds the SLO, however low the rate."""
