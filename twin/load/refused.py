"""Say why there can be no load."""

from spec.failure import NOT_TRIED, Failure


class LoadRefused(Failure):
    """A load cannot be sent as it was asked for; the text says why, and what to do."""

    exit_code = NOT_TRIED
