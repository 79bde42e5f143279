"""What keeps a model from being tuned."""


class TuneError(Exception):
    """The model cannot be tuned; the text says why and what would be right."""


class SloUnreachable(TuneError):
    """No configuration holds the SLO, however low the rate."""
