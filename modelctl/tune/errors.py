"""Say what keeps a model from being tuned."""

from spec.failure import Failure


class TuneError(Failure):
    """The model cannot be tuned; the text says why and what would be right."""


class SloUnreachable(TuneError):
    """No configuration holds the SLO, however low the rate."""
