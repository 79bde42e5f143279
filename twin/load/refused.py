"""Define the error for a load that cannot be sent."""

from spec.failure import NOT_TRIED, Failure


class LoadRefused(Failure):
    """The requested load cannot be sent; the text gives the reason and the remedy."""

    exit_code = NOT_TRIED
