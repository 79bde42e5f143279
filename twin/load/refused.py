"""Why there can be no load."""


class LoadRefused(RuntimeError):
    """A load cannot be sent as it was asked for; the text says why, and what to do."""
